"""What travels, as JSON Schema: said once, for the document that is handed out and for the bodies that come in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from lockgate.core.errors import printable, quoted, suggest_closest
from lockgate.core.requests.strikes import Standing
from lockgate.core.ruling.grants import GrantSpan
from lockgate.core.vocabulary import OBSERVE, Action, Certainty, Kind, Mode, Reason, Risk, Trust
from lockgate.service.http import is_text

Schema = Mapping[str, Any]

MAX_ID = 200
MAX_NAME = 1_000
MAX_CONTENT = 8 << 20
MAX_PARENTS = 256
MAX_LIMIT = 200
# Text without control characters, so that it can stand in a line of a log or of a list.
LINE: Final = r"^[^\x00-\x1f\x7f]*$"


# What a page says is taken in whatever it holds, also half of a surrogate pair: who writes the page must not be able to
# choose that it is refused.
HALVES: Final = "x-halves"


def text(doc: str, *, least: int = 0, most: int = MAX_NAME, line: bool = True) -> Schema:
    made: dict[str, Any] = {"type": "string", "description": doc, "maxLength": most}
    if least:
        made["minLength"] = least
    if line:
        made["pattern"] = LINE
    return made


def word(doc: str, *words: str) -> Schema:
    return {"type": "string", "description": doc, "enum": list(words)}


def whole(doc: str, *, least: int = 0, most: int = (1 << 53) - 1) -> Schema:
    return {"type": "integer", "description": doc, "minimum": least, "maximum": most}


def number(doc: str, *, least: float | None = None, most: float | None = None) -> Schema:
    bounds = {name: value for name, value in (("minimum", least), ("maximum", most)) if value is not None}
    return {"type": "number", "description": doc, **bounds}


def array(doc: str, item: Schema, *, most: int | None = None) -> Schema:
    return {"type": "array", "description": doc, "items": item, **({} if most is None else {"maxItems": most})}


def record(doc: str, required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """An object with these keys and no others: one that is misspelt must not become one that is missing."""
    return {
        "type": "object",
        "description": doc,
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def anything(doc: str) -> Schema:
    return {"type": "object", "description": doc}


def maybe(schema: Schema) -> Schema:
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    return {**schema, "type": [schema["type"], "null"]}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def properties_of(schema: Schema, **more: Schema) -> dict[str, Schema]:
    """The keys of an object that another one has as well, and some more."""
    return {**schema["properties"], **more}


# What comes in

ID = text("letters, digits, anything on one line", least=1, most=MAX_ID)
KEY = text("the host's own name for this: the same one again is the same thing", most=MAX_ID)
TRUSTS = tuple(trust.word for trust in Trust)
MODES = (*(mode.value for mode in Mode), OBSERVE)
ANNOTATIONS = anything("what the tool's author says of it, as MCP has it; it can raise a risk and never lower one")
ARGUMENTS = anything("what the tool would be called with")

OPEN_SESSION = record(
    "A session to open, or to go on with.",
    {},
    {
        "id": text("the host's own id; without one, an id is made", most=MAX_ID),
        "goal": text(
            "what the person wants; for a session that has a goal, one more thing they said",
            most=MAX_CONTENT,
            line=False,
        ),
        "host": text("which program the agent runs in", most=MAX_ID),
        "mode": word(
            "a stricter mode than the policy's; a looser one is refused, but a person's token may say `observe`", *MODES
        ),
        "scope": text(
            "what the research is about, in mode `research`; from a person's token only", most=4_000, line=False
        ),
        "parent": text("the session that this is a subagent of", most=MAX_ID),
        "known": {"type": "boolean", "description": "false: a new session has read what is not known here"},
    },
)
ADD_BLOCK = record(
    "Something that entered the agent's context.",
    {
        "content": {**text("the text itself", most=MAX_CONTENT, line=False), HALVES: True},
        "source": text("where it came from: `tool:…`, `file:…`, `web:…`, `user`, `agent`, …", least=1),
    },
    {
        "trust": word("how far it is believed; without it, what its source deserves", *TRUSTS),
        "kind": word("whether it may give orders", *(kind.value for kind in Kind)),
        "tainted_by": array("ids of the blocks that it was made from", ID, most=MAX_PARENTS),
        "key": KEY,
    },
)
CHECK = record(
    "A call that the agent wants to make.",
    {"tool": text("the tool's name", least=1), "arguments": ARGUMENTS},
    {
        "annotations": ANNOTATIONS,
        "key": KEY,
        "suspect": {"type": "boolean", "description": "true: the host could not keep all that the agent has read"},
    },
)
RAN = ("ran", "failed", "not-run")
OUTCOME = record(
    "What became of a checked call.",
    {"key": text("the key that its check had", least=1, most=MAX_ID), "ran": word("what the host saw", *RAN)},
)
NOTHING = record("Nothing.", {})
COMMITMENT = anything("what the agent declares before its first call: `lockgate help supervision`")
OPEN_STEP = record(
    "A supervised step.",
    {"goal": text("what it is to do, in a sentence", least=1, most=4_000, line=False)},
    {
        "supervision": word("how strictly", "unsupervised", "supervised", "supervised-human"),
        "parent": text("the name of the step that this one is inside", most=MAX_ID),
        "commitment": COMMITMENT,
    },
)
FINISH_STEP = record("The end of a step.", {"assessment": anything("what the agent says of its own work")})
ANSWER = record(
    "A person's answer.",
    {
        "answer": word("whether the call may run, once", "approve", "deny"),
        "digest": text(
            "the digest that was on the screen: of another call the answer does not count", least=1, most=100
        ),
    },
    {
        "for": word("how far a yes reaches; `once` without it", "once", *(span.value for span in GrantSpan)),
        "reason": text("why, for the record", most=1_000, line=False),
        "who": text("who answers", most=200),
    },
)
LINK_ANSWER = record(
    "An answer through a link.",
    {
        **{name: ANSWER["properties"][name] for name in ("answer", "digest")},
        "ticket": text("what came with the call", least=1, most=1_000),
    },
    {"reason": ANSWER["properties"]["reason"]},
)
REVOKE = record("The end of a grant.", {}, {"who": text("who ends it", most=200)})
ASSESS = {**anything("a request in the normalized shape: `lockgate help verifiers`"), "required": ["prompt_text"]}

# What goes out

NUMBER = number("")
ERROR = record(
    "What went wrong.",
    {"error": record("", {"code": text("one of a few"), "message": text(""), "hint": text("what to do, if we know")})},
)
FINDING = record(
    "A hit of one rule.",
    {
        "rule": {"type": "string"},
        "where": {"type": "string", "description": "a block's id, or an argument's path"},
        "start": {"type": "integer"},
        "end": {"type": "integer"},
        "reading": {"type": "string"},
        "excerpt": {"type": "string"},
    },
)
ORIGIN = record(
    "Which span of which block a piece of an argument came from.",
    {
        **{name: {"type": "string"} for name in ("argument", "value", "block", "source", "how", "order", "sink")},
        "start": {"type": "integer"},
        "end": {"type": "integer"},
        "known": {"type": "boolean"},
    },
)
EFFECT = record(
    "One thing that the call would do: `lockgate help effects`.",
    {
        "kind": {"type": "string"},
        "severity": whole("0 looks, 1 works here, 2 reaches out, 3 opens a door", least=0, most=3),
        "target": {"type": "string", "description": "what it is aimed at; empty for nothing"},
        "certainty": word("", *(certainty.value for certainty in Certainty)),
        "argument": {"type": "string"},
        "start": {"type": "integer"},
        "end": {"type": "integer"},
    },
)
TIER = record(
    "What one tier said, and what that took.",
    {
        "tier": {"type": "integer"},
        "said": {"type": "string"},
        "by": {"type": "string"},
        "latency_us": NUMBER,
        "tokens_in": {"type": "integer"},
        "tokens_out": {"type": "integer"},
        "cost_usd": maybe(NUMBER),
        "cached": {"type": "boolean"},
        "exam": {"type": "string", "description": "the exam behind a judge's word; empty for none"},
    },
)
RECEIPT = record(
    "Where a ruling stands in the journal.",
    {"origin": {"type": "string"}, "index": {"type": "integer"}, "leaf_hash": {"type": "string"}},
)
_RULED = {
    "action": word("only CONTINUE lets the call run", *(action.value for action in Action)),
    "tier": whole("the highest tier it reached", least=1, most=3),
    "reason": word("which step of the pipeline decided", *(reason.value for reason in Reason)),
    "risk": word("the tool's risk", *(risk.value for risk in Risk)),
    "explanation": {"type": "string"},
    "approval": {"type": "string", "description": "the id under which a person can answer; empty for none"},
    "cost_usd": NUMBER,
    "latency_us": NUMBER,
    "receipt": maybe(ref("Receipt")),
}
_KEPT = {
    "id": {"type": "string"},
    "seq": {"type": "integer", "description": "rises over all sessions: the cursor of lists and of the event stream"},
    "session": {"type": "string"},
    "at": number("seconds since 1970"),
}
DECISION = record(
    "A ruling, whole.",
    {
        **_RULED,
        "findings": array("", ref("Finding")),
        "origins": array("", ref("Origin")),
        "effects": array("the gravest first", ref("Effect")),
        "correction": {"type": "string", "description": "what a REORIENT tells the agent"},
        "width": word("which calls were asked about", "", "narrow", "wide"),
        "tiers": array("", ref("Tier")),
    },
)
RULED = record("A ruling, and where it is kept.", properties_of(DECISION, **_KEPT, number={"type": "integer"}))
SUMMARY = record(
    "A ruling in short.",
    {
        **_KEPT,
        **_RULED,
        "host": {"type": "string"},
        "tool": {"type": "string"},
        "rules": array("ids of the rules that hit", {"type": "string"}),
        "would_do": {"type": "string", "description": "the call in one line, cut"},
        "ran": {"type": "string", "description": "what the host told afterwards: empty, ran, failed or not-run"},
        "context": {"type": "integer", "description": "how many blocks of the session it saw"},
        "damaged": {"type": "boolean", "description": "true: what was kept of it cannot be read any more"},
    },
)
BLOCK = record(
    "A piece of context.",
    {
        **{name: {"type": "string"} for name in ("id", "content", "source", "digest")},
        "trust": word("", *TRUSTS),
        "kind": word("", *(kind.value for kind in Kind)),
        "mutable": {"type": "boolean"},
        "tainted_by": array("", {"type": "string"}),
    },
)
SHOWN_BLOCK = record(
    "A block as a ruling saw it; a long one is cut around what was marked in it.",
    {
        **{name: {"type": "string"} for name in ("content", "trust", "kind", "source")},
        "offset": {"type": "integer", "description": "where the content begins in the whole"},
        "length": {"type": "integer", "description": "of the whole, in characters"},
        "tainted_by": array("", {"type": "string"}),
    },
)
LINEAGE = record(
    "A block with what it was made from.",
    {"block": {"type": "string"}, "parents": array("", ref("Lineage")), "cut": {"type": "string"}},
)
SESSION = record(
    "An agent's run.",
    {
        **{name: {"type": "string"} for name in ("id", "host", "mode", "parent")},
        "number": {"type": "integer", "description": "rises with every session: the cursor of the list"},
        "opened_at": NUMBER,
        "seen_at": NUMBER,
        "ended_at": maybe(NUMBER),
        "blocks": {"type": "integer"},
        "decisions": {"type": "integer"},
        "context_known": {"type": "boolean", "description": "false: what it read before is not known here"},
    },
    {
        name: {"type": "string", "description": "not told to an agent's token that did not open the session"}
        for name in ("goal", "scope")
    }
    | {"pauses": whole("how often it was paused; in the list only")},
)
STEP = record(
    "A supervised step.",
    {
        "session": {"type": "string"},
        "step": {"type": "string"},
        "goal": {"type": "string"},
        "supervision": {"type": "string"},
        "state": {"type": "string"},
        "commitment": maybe(anything("as it was taken")),
        "triggers": array("what the last end found that does not fit together", {"type": "string"}),
    },
)
_FILES = "each file that the call runs or loads: its path, and its digest or why it was not read"
APPROVAL = record(
    "A call that waits for a person, or has.",
    {
        **{name: {"type": "string"} for name in ("id", "state", "session", "tool", "would_do", "digest", "policy")},
        "arguments": anything("the frozen arguments: what would run"),
        "context": {"type": "string"},
        "files": array(_FILES, array("", {"type": "string"})),
        "asked_at": NUMBER,
        "expires_at": NUMBER,
        "ended_at": maybe(NUMBER),
        "why": {"type": "string", "description": "why it was voided; else empty"},
        "replaces": {"type": "string", "description": "the question that it was asked instead of; else empty"},
        "answered": maybe(anything("who said what, when and why")),
        "shown": anything("what a person is shown besides the call"),
        "offers": array("the rules that a yes may make, the narrowest first", ref("Offer")),
        "barred": {"type": "string", "description": "why no rule may be made; empty where one may"},
    },
)
GRANT_RULE = record(
    "What a grant covers; every field narrows it.",
    {
        **{name: {"type": "string"} for name in ("tool", "like", "span", "session", "project", "policy_hash")},
        "arguments": {"type": "string", "description": "the hash of the only arguments; empty: any, under `names`"},
        "effects": array("kind and target of each", array("", {"type": "string"})),
        **{name: array("", {"type": "string"}) for name in ("sources", "rules", "names")},
        "expires_s": {"type": "integer"},
    },
    {"files": array(_FILES, array("", {"type": "string"}))},
)
OFFER = record(
    "A rule that a yes may make.",
    {
        "digest": {"type": "string", "description": "binds the rule and the call: the answer gives it back"},
        "rule": ref("GrantRule"),
        "text": anything("the rule in words"),
    },
)
GRANT = record(
    "A rule that a person made.",
    {
        **{name: {"type": "string"} for name in ("id", "digest", "made_by")},
        "made_at": NUMBER,
        "expires_at": NUMBER,
        "uses": {"type": "integer"},
        "used_at": maybe(NUMBER),
        "outdated": {"type": "boolean", "description": "made under another policy: it covers no call under this one"},
        "rule": ref("GrantRule"),
        "text": anything("the rule in words"),
    },
)
RULE = record(
    "One thing that Tier 1 can name.",
    {name: {"type": "string"} for name in ("id", "family", "scope", "what", "why", "hit", "miss", "pattern", "owasp")},
)
DETAIL = record(
    "A ruling with everything that it was made from.",
    properties_of(
        SUMMARY,
        number={"type": "integer"},
        arguments=ARGUMENTS,
        whole={"type": "boolean", "description": "false: the arguments were too large to be kept, and are cut"},
        annotations=maybe(ANNOTATIONS),
        decision=ref("Decision"),
        blocks={"type": "object", "additionalProperties": ref("ShownBlock")},
        lineage={"type": "object", "additionalProperties": ref("Lineage")},
        goal={"type": "string"},
        rules={"type": "object", "description": "the rules that hit, by id", "additionalProperties": ref("Rule")},
        approval=maybe(ref("Approval")),
    ),
)
PROOF = record(
    "That a record is in the journal.",
    {
        "verified": {"type": "boolean"},
        "checked": array("each thing that was looked at, in words", {"type": "string"}),
        "origin": {"type": "string"},
        "index": {"type": "integer"},
        "size": {"type": "integer"},
        **{name: {"type": "string"} for name in ("leaf_hash", "root", "checkpoint", "key", "record")},
        "proof": array("hashes, hexadecimal", {"type": "string"}),
    },
)
_STANDING = word(
    "`refused`: the newest configuration cannot be used, and the old policy stays",
    "current",
    "refused",
    "needs-restart",
)
POLICY = record(
    "The policy in force, and how it stands with the configuration files.",
    {
        "policy": {"type": "string", "description": "its hash, as records carry it"},
        "triage": {"type": "string", "description": "the judge of tier 2; empty where there is none"},
        "supervisor": {"type": "string", "description": "the judge of tier 3; empty: such calls wait for a person"},
        "state": _STANDING,
        "since": maybe(NUMBER),
        "error": {"type": "string", "description": "why the newest files are not in force, if they are not"},
        "needs_restart": array("what has changed in the files and waits for a restart", {"type": "string"}),
    },
)
JOURNAL = record(
    "How it stands with the journal.",
    {
        "state": word("`off` where nothing is recorded", "sound", "damaged", "unavailable", "off"),
        "said": {"type": "string", "description": "what is wrong, if anything is"},
        "size": {"type": "integer"},
        **{name: {"type": "string"} for name in ("origin", "root", "checkpoint", "key")},
        "witnesses": array("who has cosigned the newest head", {"type": "string"}),
    },
)
CONSISTENCY = record(
    "That the journal still begins with what it began with.",
    {
        "from": {"type": "integer"},
        "size": {"type": "integer"},
        **{name: {"type": "string"} for name in ("origin", "root", "checkpoint")},
        "proof": array("hashes, hexadecimal", {"type": "string"}),
    },
)
ASSESSMENT = record(
    "What the verifier says.",
    {
        "verdict": word("only `safe` clears", "safe", "unsafe", "unclear"),
        "provider": {"type": "string"},
        "reason": {"type": "string"},
        "latency_ms": NUMBER,
        "rules": array("", {"type": "string"}),
        "digest": {"type": "string"},
        "read": {"type": "boolean"},
    },
)
STANDINGS = tuple(standing.value for standing in Standing)
GATE_REQUEST = record(
    "A request at an abuse gate, or a ban that a person lifted, as the journal records it.",
    {
        "id": {"type": "string", "description": "the incident's id, else the record's position"},
        "origin": {"type": "string"},
        "index": {"type": "integer", "description": "of the record, in the journal of that name"},
        "leaf_hash": {"type": "string"},
        "at": NUMBER,
        "verdict": {"type": "string"},
        "reason": {"type": "string"},
        "by": {"type": "string", "description": "the verifier that said so, or what lifted the ban"},
        "rules": array("", {"type": "string"}),
        "action": {"type": "string", "description": "what was done: `allow`, `unclear`, `unsafe`, `ban-lifted`, …"},
        "incident": {"type": "string", "description": "the incident's id, if the request was refused"},
        "subject": {"type": "string", "description": "the client as a keyed hash; not for requests that were safe"},
        "standing": {"type": "string", "description": "how the client stood afterwards"},
        "strikes": maybe({"type": "integer", "description": "how many counted against it then"}),
        "trace": {"type": "string", "description": "a trace id; the client chooses it"},
        "conversation_sha256": {"type": "string", "description": "the hash of a conversation id of its choice"},
        "wrong": {"type": "string", "description": "why the record cannot be shown; empty if it can"},
    },
)
JOINED_RULING = record(
    "A ruling that shares an id with a request. Clients choose these ids: it is a hint, and no proof.",
    {
        "origin": {"type": "string"},
        "index": {"type": "integer"},
        "at": NUMBER,
        **{name: {"type": "string"} for name in ("session", "tool", "action", "reason")},
        "tier": {"type": "integer"},
        "shared": array("which ids", word("", "conversation", "trace")),
    },
)
BANS = record(
    "The clients that are banned now, as far as this service can read it.",
    {
        "state": word("`none`: this service knows no store of bans", "read", "none", "unavailable"),
        "said": {"type": "string", "description": "why nothing can be read, if that is so"},
        "total": {"type": "integer"},
        "bans": array(
            "the longest first",
            record(
                "",
                {
                    "subject": {"type": "string", "description": "the client as a keyed hash"},
                    "standing": word("", *STANDINGS),
                    "left_s": NUMBER,
                },
            ),
        ),
    },
)
LIFT = record("A ban to lift.", {}, {"who": text("who lifts it, for the record", most=60)})
_TIMES = {"type": "object", "additionalProperties": maybe(NUMBER)}
_RANKED = record(
    "",
    {"name": {"type": "string"}, "calls": {"type": "integer"}, "held": {"type": "integer"}},
)
_COUNTS = "tier answers cached cleared held unclear tokens_in tokens_out unpriced".split()
_TIMED = {"by": {"type": "string"}, "cost_usd": NUMBER, "p50_us": maybe(NUMBER), "p95_us": maybe(NUMBER)}
_JUDGE = record("", {**_TIMED, **{name: {"type": "integer"} for name in _COUNTS}})
STATS = record(
    "Rulings added up.",
    {
        "since": NUMBER,
        "until": NUMBER,
        "bucket_s": NUMBER,
        "calls": {"type": "integer"},
        "cost_usd": NUMBER,
        "buckets": array(
            "oldest first",
            record(
                "",
                {
                    "at": NUMBER,
                    "tiers": array("calls settled at tier 1, 2 and 3", {"type": "integer"}),
                    "actions": {"type": "object", "additionalProperties": {"type": "integer"}},
                    "latency_us": {"type": "object", "additionalProperties": _TIMES},
                    "cost_usd": NUMBER,
                },
            ),
        ),
        "rules": array(
            "what became of the calls that each rule sent up",
            record(
                "",
                {
                    "rule": {"type": "string"},
                    **{name: {"type": "integer"} for name in ("escalations", "cleared", "upheld", "undecided")},
                },
            ),
        ),
        "tools": array("tools by held calls, the most first", _RANKED),
        "hosts": array("the programs that agents ran in, likewise", _RANKED),
        "sources": array("where values of the newest held calls came from, likewise", _RANKED),
        "judges": array("what each judge said of the newest calls that were asked about", _JUDGE),
    },
)
HEALTH = record("That it runs.", {"status": word("", "ok")})
READY = record(
    "Whether it can rule.",
    {**{name: {"type": "boolean"} for name in ("ready", "sessions", "journal")}, "policy": _STANDING},
)

COMPONENTS: Mapping[str, Schema] = {
    "Error": ERROR,
    "Finding": FINDING,
    "Origin": ORIGIN,
    "Effect": EFFECT,
    "Tier": TIER,
    "Receipt": RECEIPT,
    "Decision": DECISION,
    "Ruled": RULED,
    "Summary": SUMMARY,
    "Detail": DETAIL,
    "Block": BLOCK,
    "ShownBlock": SHOWN_BLOCK,
    "Lineage": LINEAGE,
    "Session": SESSION,
    "Step": STEP,
    "Approval": APPROVAL,
    "Offer": OFFER,
    "GrantRule": GRANT_RULE,
    "Grant": GRANT,
    "Rule": RULE,
    "Proof": PROOF,
    "PolicyInForce": POLICY,
    "Journal": JOURNAL,
    "Consistency": CONSISTENCY,
    "Assessment": ASSESSMENT,
    "GateRequest": GATE_REQUEST,
    "JoinedRuling": JOINED_RULING,
    "Bans": BANS,
    "Stats": STATS,
    "Health": HEALTH,
    "Ready": READY,
}

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def find_misfit(value: object, schema: Schema, path: str = "the body") -> str:
    """What is wrong with a value; empty for one that fits. Of other people's text only names of keys are in it."""
    if "$ref" in schema:
        return find_misfit(value, COMPONENTS[schema["$ref"].rpartition("/")[2]], path)
    if "anyOf" in schema:
        said = [find_misfit(value, each, path) for each in schema["anyOf"]]
        return said[0] if all(said) else ""
    types = schema.get("type", ())
    types = (types,) if isinstance(types, str) else types
    if types and not _is(value, types):
        return f"{path} must be {' or '.join(map(_article, types))}"
    if "enum" in schema and value is not None and value not in schema["enum"]:
        return f"{path} must be one of {', '.join(schema['enum'])}"
    if isinstance(value, str):
        return _text_misfit(value, schema, path)
    if isinstance(value, dict):
        return _object_misfit(value, schema, path)
    if isinstance(value, list):
        if len(value) > schema.get("maxItems", len(value)):
            return f"{path} has more than {schema['maxItems']:,} entries"
        item = schema.get("items")
        return next(
            (bad for at, each in enumerate(value) if item and (bad := find_misfit(each, item, f"{path}[{at}]"))), ""
        )
    if isinstance(value, int | float) and not isinstance(value, bool):
        least, most = schema.get("minimum", value), schema.get("maximum", value)
        if not least <= value <= most:
            return (
                f"{path} must be from {least} to {most}" if "maximum" in schema else f"{path} must be {least} or more"
            )
    return ""


def _is(value: object, types: Sequence[str]) -> bool:
    if isinstance(value, bool):
        return "boolean" in types
    return any(isinstance(value, _TYPES[each]) for each in types)


def _article(type_name: str) -> str:
    return {"null": "null", "string": "text"}.get(type_name, f"a{'n' if type_name[0] in 'aeiou' else ''} {type_name}")


def _text_misfit(value: str, schema: Schema, path: str) -> str:
    if len(value) > schema.get("maxLength", len(value)):
        return f"{path} has more than {schema['maxLength']:,} characters"
    if len(value) < schema.get("minLength", 0):
        return f"{path} must not be empty"
    if HALVES not in schema and not is_text(value):
        return f"{path} holds half of a surrogate pair, which is no character"
    if "pattern" in schema and not _compiled(schema["pattern"]).search(value):
        return f"{path} must be one line, without control characters" if schema["pattern"] == LINE else f"{path} is odd"
    return ""


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # In Python `$` also stands before a last line feed.
    return re.compile(pattern.removesuffix("$") + r"\Z")


def _object_misfit(value: Mapping[str, object], schema: Schema, path: str) -> str:
    # A path is quoted already, as in "`blocks`[0]": within one pair of quotes it has none.
    inside = "" if path == "the body" else f"{path.replace('`', '')}."
    for name in schema.get("required", ()):
        if name not in value:
            return f"`{inside}{name}` is missing"
    known: Mapping[str, Schema] = schema.get("properties", {})
    other = schema.get("additionalProperties", True)
    for name, item in value.items():
        if name in known:
            bad = find_misfit(item, known[name], f"`{inside}{name}`")
        elif other is False:
            bad = f"there is no key {quoted(name)} in {path}; {suggest_closest(name, known) or 'leave it out'}"
        else:
            bad = "" if other is True else find_misfit(item, other, f"`{inside}{printable(name)}`")
        if bad:
            return bad
    return ""
