"""The JSON shapes that other programs read: these keys are promised."""

from __future__ import annotations

import json

from lockgate.core import vocabulary as wire
from lockgate.core.vocabulary import (
    Action,
    Block,
    Certainty,
    Decision,
    Effect,
    Finding,
    Kind,
    Lineage,
    Origin,
    Ran,
    Reason,
    Receipt,
    Risk,
    Severity,
    Trust,
)

FINDING = Finding("seed:new-task", "b0001", 3, 11, "raw", "new task")
ORIGIN = Origin("to", "x@evil.example", "b0001", "tool:mail", 5, 19, "exact", "send it to x@evil.example", "recipient")
EFFECT = Effect("sends-message", Severity.REACHES_OUT, "x@evil.example", Certainty.LIKELY, "to", 0, 14)
DECISION = Decision(
    Action.PAUSE,
    3,
    Reason.UNTRUSTED_ORIGIN,
    Risk.HIGH,
    "because",
    (FINDING,),
    (ORIGIN,),
    latency_us=12.34567,
    effects=(EFFECT,),
)


def test_a_decision_says_everything_it_holds() -> None:
    value = wire.decision_to_dict(DECISION)
    assert set(value) == {*Decision._fields, "tiers", "cost_usd"} - {"judged"}
    assert [list(tier) for tier in value["tiers"]] == [list(Ran._fields)]
    assert value["action"] == "PAUSE"
    assert value["reason"] == "untrusted-origin"
    assert value["risk"] == "high"
    assert value["latency_us"] == 12.346
    assert value["effects"] == [
        {
            "kind": "sends-message",
            "severity": 2,
            "target": "x@evil.example",
            "certainty": "likely",
            "argument": "to",
            "start": 0,
            "end": 14,
        }
    ]


def test_findings_and_origins_keep_every_field() -> None:
    assert list(wire.record_to_dict(FINDING)) == list(Finding._fields)
    assert list(wire.record_to_dict(ORIGIN)) == list(Origin._fields)
    assert list(wire.record_to_dict(EFFECT)) == list(Effect._fields)


def test_a_block_is_written_in_the_words_of_a_trace() -> None:
    block = Block("b1", "text", Trust.UNTRUSTED, Kind.DATA, True, "tool:mail", "00", ("b0",))
    assert wire.record_to_dict(block) == {
        "id": "b1",
        "content": "text",
        "trust": "untrusted",
        "kind": "data",
        "mutable": True,
        "source": "tool:mail",
        "digest": "00",
        "tainted_by": ["b0"],
    }


def test_a_lineage_is_a_tree() -> None:
    tree = Lineage("b2", (Lineage("b1", (Lineage("b2", cut="cycle"),)),))
    written = wire.record_to_dict(tree)
    assert written["parents"] == [
        {"block": "b1", "parents": [{"block": "b2", "parents": [], "cut": "cycle"}], "cut": ""}
    ]


def test_everything_survives_json() -> None:
    value = wire.decision_to_dict(DECISION)
    assert json.loads(json.dumps(value, allow_nan=False)) == value


def test_a_receipt_is_its_place_and_its_hash() -> None:
    decision = DECISION._replace(receipt=Receipt("lockgate/01234567", 7, bytes(range(32))))
    assert wire.decision_to_dict(decision)["receipt"] == {
        "origin": "lockgate/01234567",
        "index": 7,
        "leaf_hash": bytes(range(32)).hex(),
    }
    assert wire.decision_to_dict(DECISION)["receipt"] is None
