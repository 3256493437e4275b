"""What a person sees of the abuse gates, and what an agent does not: requests, incidents, bans, and lifting one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asking import Asking

from lockgate.abuse_gate.ban_stores import BanStores, ban_stores_from_settings
from lockgate.abuse_gate.stores.bans_sqlite import SqliteBans
from lockgate.core.errors import InvalidConfig, JournalUnavailable
from lockgate.core.requests.strikes import PRINCIPAL, LadderSettings, SharedRecord, Subject, incident_id
from lockgate.journal.record import sha256_hex
from lockgate.journal.recorder import record_assessment
from lockgate.service.http import Caller
from lockgate.service.routes import ROUTES
from lockgate.service.schemas import find_misfit
from lockgate.settings.abuse_gate import AbuseSettings

BY_NAME = {f"{route.method} {route.path}": route for route in ROUTES}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
KIM, LEE = "0123456789ab" + "c" * 20, "fedcba987654" + "3" * 20
Make = Callable[..., Asking]


def fits(name: str, reply: Any) -> Any:
    route = BY_NAME[name]
    assert reply.status == 200, reply.body
    assert not isinstance(route.answers, str)
    assert find_misfit(reply.json, route.answers) == ""
    return reply.json


def judged(ask: Asking, acted: str, verdict: str = "unsafe", **more: object) -> None:
    """A request that a gate, perhaps of another process, has recorded in the journal that the service reads."""
    journal = ask.host.gate.journal
    rules = ["request:override"] if verdict == "unsafe" else []
    record_assessment(journal, "ab" * 32, verdict, acted, reason="rules", by="rules", rules=rules, more=more)


def an_incident(number: int = 0) -> str:
    return incident_id(int(time.time() * 1000), bytes([number]) * 10)


@pytest.fixture
def banned(make: Make, tmp_path: Path) -> Asking:
    """A service beside a gate whose bans are in a file: Kim is quarantined, and Lee has lost the tools."""
    settings = AbuseSettings(secret=b"x" * 32, bans_file=str(tmp_path / "state" / "bans.db"))
    bans = SqliteBans(Path(settings.bans_file), LadderSettings())
    kim, lee = SharedRecord((), 0.0, 3000.0), SharedRecord((), 600.0, 0.0)
    bans.keep([(Subject(PRINCIPAL, KIM), kim), (Subject(PRINCIPAL, LEE), lee)], time.time())
    return make(ban_stores=lambda: ban_stores_from_settings(settings))


# --- requests


def test_requests_are_listed_by_page_and_by_what_became_of_them(ask: Asking) -> None:
    incident = an_incident()
    judged(ask, "allow", "safe", trace=TRACE)
    judged(ask, "unclear", "unclear", subject=KIM[:12], standing="normal", strikes=0)
    judged(ask, f"unsafe:{incident}", subject=KIM[:12], standing="execute_locked", strikes=3)
    ask("POST", "/v1/sessions", {"id": "s1", "goal": "g"})
    ask("POST", "/v1/sessions/s1/checks", {"tool": "read", "arguments": {}})
    judged(ask, f"ban-lifted:{KIM[:12]}", "unclear", subject=KIM[:12])
    name = "GET /v1/requests"
    every = fits(name, ask("GET", "/v1/requests"))["requests"]
    assert [each["action"] for each in every] == ["ban-lifted", "unsafe", "unclear", "allow"]
    refused = every[1]
    assert (refused["id"], refused["incident"], refused["subject"]) == (incident, incident, KIM[:12])
    assert (refused["standing"], refused["strikes"], refused["rules"]) == ("execute_locked", 3, ["request:override"])
    assert abs(refused["at"] - time.time()) < 60
    first = fits(name, ask("GET", "/v1/requests?limit=3"))
    rest = fits(name, ask("GET", f"/v1/requests?limit=3&before={first['next']}"))
    assert [*first["requests"], *rest["requests"]] == every
    assert rest["next"] is None
    for query, actions in (
        ("outcome=refused", ["unsafe"]),
        ("outcome=passed", ["unclear", "allow"]),
        ("outcome=lifted", ["ban-lifted"]),
        ("verdict=safe", ["allow"]),
        (f"subject={KIM[:12]}", ["ban-lifted", "unsafe", "unclear"]),
        (f"trace={TRACE}", ["allow"]),
        ("trace=0", []),
        ("session=s1", []),
    ):
        found = fits(name, ask("GET", f"/v1/requests?{query}"))["requests"]
        assert [each["action"] for each in found] == actions, query


def test_a_request_and_a_ruling_lead_to_each_other(ask: Asking) -> None:
    incident = an_incident()
    judged(ask, f"unsafe:{incident}", conversation_sha256=sha256_hex("s1"), subject=KIM[:12])
    judged(ask, "allow", "safe", trace=TRACE)
    judged(ask, "allow", "safe", conversation_sha256=sha256_hex("s2"))
    for session in ("s1", "other"):
        ask("POST", "/v1/sessions", {"id": session, "goal": "g"})
    call = {"tool": "read", "arguments": {}}
    talked = ask("POST", "/v1/sessions/s1/checks", call).json
    parent = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
    traced = ask("POST", "/v1/sessions/other/checks", call, headers=parent).json
    name = "GET /v1/requests/{request}"
    one = fits(name, ask("GET", f"/v1/requests/{incident}"))
    assert [(each["session"], each["tool"], each["shared"]) for each in one["joined"]] == [
        ("s1", "read", ["conversation"])
    ]
    passed = ask("GET", f"/v1/requests?trace={TRACE}").json["requests"][0]
    two = fits(name, ask("GET", f"/v1/requests/{passed['id']}"))
    assert [(each["session"], each["shared"]) for each in two["joined"]] == [("other", ["trace"])]
    for ruled, expected in ((talked, incident), (traced, passed["id"])):
        found = fits("GET /v1/decisions/{decision}/requests", ask("GET", f"/v1/decisions/{ruled['id']}/requests"))
        assert [each["id"] for each in found["requests"]] == [expected]
    assert [each["id"] for each in ask("GET", "/v1/requests?session=s1").json["requests"]] == [incident]


@pytest.mark.parametrize("name", ["0", "9" * 16, "9" * 17, "x", "<b>", "-1", "٣", "7" + "Z" * 25])
def test_a_request_that_is_not_there_is_no_request(ask: Asking, name: str) -> None:
    ask("POST", "/v1/sessions", {"id": "s1", "goal": "g"})
    ask("POST", "/v1/sessions/s1/checks", {"tool": "read", "arguments": {}})
    reply = ask("GET", f"/v1/requests/{name}")
    assert (reply.status, reply.code) == (404, "no-such-request")


def test_without_a_journal_it_says_so(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask.host.gate, "journal", None)
    for path in ("/v1/requests", "/v1/requests/1"):
        reply = ask("GET", path)
        assert (reply.status, reply.code) == (404, "no-journal")


def test_a_page_that_finds_nothing_reads_no_more_than_its_share(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lockgate.journal.record_search.MAX_READ", 4)
    for _ in range(9):
        judged(ask, "allow", "safe")
    said = fits("GET /v1/requests", ask("GET", "/v1/requests?verdict=unsafe"))
    assert said["requests"] == []
    total, pages = said["next"] + 4, 1
    while said["next"] is not None:
        said, pages = ask("GET", f"/v1/requests?verdict=unsafe&before={said['next']}").json, pages + 1
    assert pages == -(-total // 4)


# --- bans


def test_bans_are_listed_by_page_the_longest_first(banned: Asking) -> None:
    said = fits("GET /v1/bans", banned("GET", "/v1/bans"))
    assert (said["state"], said["total"]) == ("read", 2)
    assert [(each["subject"], each["standing"]) for each in said["bans"]] == [
        (KIM, "full_quarantine"),
        (LEE, "execute_locked"),
    ]
    assert 2900 < said["bans"][0]["left_s"] <= 3000
    second = fits("GET /v1/bans", banned("GET", "/v1/bans?limit=1&offset=1"))
    assert ([each["subject"] for each in second["bans"]], second["total"]) == ([LEE], 2)


def test_a_service_that_can_read_no_bans_says_why(make: Make, tmp_path: Path) -> None:
    said = fits("GET /v1/bans", make()("GET", "/v1/bans"))
    assert (said["state"], said["bans"]) == ("none", [])
    assert "ABUSE_STORE and ABUSE_BANS_FILE are not set" in said["said"]
    missing = AbuseSettings(secret=b"x" * 32, bans_file=str(tmp_path / "nowhere" / "bans.db"))
    down = AbuseSettings(secret=b"x" * 32, store="valkey://127.0.0.1:1/0", store_password="hush-hush")

    def misspelt() -> BanStores | None:
        raise InvalidConfig("ABUSE_SECRET is missing", hint="set it")

    for stores, words in (
        (lambda: ban_stores_from_settings(missing), "is not there"),
        (lambda: ban_stores_from_settings(down), "the shared store does not answer"),
        (misspelt, "ABUSE_SECRET is missing. set it"),
    ):
        asked = make(ban_stores=stores)
        said = fits("GET /v1/bans", asked("GET", "/v1/bans"))
        assert said["state"] == "unavailable"
        assert words in said["said"]
        assert "hush" not in json.dumps(said)
        assert asked("POST", f"/v1/bans/{KIM}/lift", {}).status == 503
    assert make()("POST", f"/v1/bans/{KIM}/lift", {}).code == "no-bans"


def test_a_person_lifts_a_ban_and_the_journal_says_who(banned: Asking) -> None:
    name = "POST /v1/bans/{subject}/lift"
    assert fits(name, banned("POST", f"/v1/bans/{KIM}/lift", {"who": "Ana"})) == {"subject": KIM, "lifted": True}
    (record,) = banned("GET", "/v1/requests?outcome=lifted").json["requests"]
    assert (record["subject"], record["by"]) == (KIM[:12], "lockgate-serve:Ana")
    assert [each["subject"] for each in banned("GET", "/v1/bans").json["bans"]] == [LEE]
    again = banned("POST", f"/v1/bans/{KIM}/lift", {})
    assert (again.status, again.code) == (404, "not-banned")
    fits(name, banned("POST", f"/v1/bans/{LEE}/lift", {"who": "<img src=x> Лена"}))
    hostile = banned("GET", "/v1/requests?outcome=lifted").json["requests"][0]
    assert hostile["by"].startswith("sha256:")


@pytest.mark.parametrize("key", [KIM[:12], KIM.upper(), KIM[:-1] + "%00", "..", "%2e%2e", KIM + "0"])
def test_only_a_whole_hash_lifts(banned: Asking, key: str) -> None:
    assert banned("POST", f"/v1/bans/{key}/lift", {}).status == 404
    assert banned("GET", "/v1/bans").json["total"] == 2


def test_a_ban_whose_lifting_cannot_be_recorded_stays(banned: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def enqueue(self, records: Any, *, durable: bool) -> Any:
            raise JournalUnavailable("the disk is full")

    monkeypatch.setattr(banned.host.gate, "journal", Full())
    reply = banned("POST", f"/v1/bans/{KIM}/lift", {})
    assert (reply.status, reply.code) == (503, "journal-unavailable")
    assert banned("GET", "/v1/bans").json["total"] == 2


# --- rights


MINE = ["/v1/requests", "/v1/requests/1", "/v1/bans", "/v1/decisions/x/requests"]


def test_an_agent_neither_reads_nor_lifts(banned: Asking) -> None:
    for path in MINE:
        assert banned("GET", path, who=Caller.AGENT).code == "needs-a-person"
        assert banned("GET", path, who=None).code == "no-token"
    for who, code in ((Caller.AGENT, "needs-a-person"), (None, "no-token")):
        assert banned("POST", f"/v1/bans/{KIM}/lift", {}, who=who).code == code
    assert banned("GET", "/v1/bans").json["total"] == 2
    assert banned("GET", "/v1/requests?outcome=lifted").json["requests"] == []


def test_a_foreign_page_lifts_nothing_even_with_the_token(banned: Asking) -> None:
    for headers in (
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "text/plain"},
    ):
        assert banned("POST", f"/v1/bans/{KIM}/lift", {}, headers=headers).status in (403, 415)
    assert banned("GET", f"/v1/bans/{KIM}/lift").status == 405
    assert banned("GET", "/v1/bans").json["total"] == 2
