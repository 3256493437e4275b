"""Everything Tier 1 can name in a finding, as one table: rules, encoded content, origin signals, reached limits."""

from __future__ import annotations

from dataclasses import dataclass

from lockgate.core.ruling.effects.effect import KINDS, EffectKind, Severity
from lockgate.core.ruling.explanations import EFFECT
from lockgate.core.tables import read_examples, read_table
from lockgate.core.text.rules import RULES
from lockgate.core.vocabulary import WOULD_BE

_OWASP = "LLM01:2026, ASI01"


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One id with its explanation. `scope` is a rule's, or `call` for what is a property of a whole call."""

    id: str
    family: str
    scope: str
    what: str
    why: str
    hit: str = ""
    miss: str = ""
    pattern: str = ""
    owasp: str = _OWASP


def _read_entries() -> dict[str, CatalogueEntry]:
    """Return the entries of the table by their ids; one that has a hit has a miss behind it."""
    columns = ("id", "family", "scope", "owasp", "what", "why")
    texts: dict[tuple[str, ...], list[str]] = {}
    for example in read_examples(__package__, "findings.tbl", "findings", columns):
        texts.setdefault(example.row, []).append(example.text)
    entries: dict[str, CatalogueEntry] = {}
    for row in read_table(__package__, "findings.tbl", "findings", columns):
        id, family, scope, owasp, what, why = row
        hit, miss = texts.get(row, ("", ""))
        entries[id] = CatalogueEntry(id, family, scope, what, why, hit, miss, owasp=owasp)
    return entries


_FIXED = _read_entries()
LOST_TEXT = _FIXED["plug:lost-text"]
SIGNALS = {entry.id: (entry.what, entry.why) for entry in _FIXED.values() if entry.family == "origin"}

_WHY_EFFECTS = {
    Severity.REACHES_OUT: "untrusted text names or orders its target, and neither the user nor the project names it",
    Severity.OPENS_A_DOOR: "it opens a door, the goal does not ask for it, and the agent has read untrusted text",
}


def _entry_from_kind(name: str, kind: EffectKind) -> CatalogueEntry:
    what = f"the call {kind.does.replace('`{target}`', 'TARGET')}"
    return CatalogueEntry(f"{EFFECT}{name}", "effect", "call", what, _WHY_EFFECTS[kind.severity])


ENTRIES: tuple[CatalogueEntry, ...] = (
    *(CatalogueEntry(r.id, r.family, r.scope.value, r.what, r.why, r.hit, r.miss, r.pattern, r.owasp) for r in RULES),
    *_FIXED.values(),
    *(_entry_from_kind(name, kind) for name, kind in KINDS.items() if kind.severity >= Severity.REACHES_OUT),
)
_BY_ID = {entry.id: entry for entry in ENTRIES}

# By the beginning of an id that differs, its entry in the table.
_BY_PREFIX = {
    "encoded:": "encoded:READING",
    "cap:": "cap:LIMIT",
    "scope:": "scope:CROSSING",
    "step:": "step:CAUSE",
    WOULD_BE: f"{WOULD_BE}ACTION",
    "flow:": "flow:NAME",
    "slot:": "slot:NAME",
}


def find_entry(rule: str) -> CatalogueEntry | None:
    """The entry of an id as it stands in a finding (`encoded:base64>hex`) or in the table (`encoded:READING`)."""
    prefixed = (_FIXED[name] for prefix, name in _BY_PREFIX.items() if rule.startswith(prefix))
    return _BY_ID.get(rule) or next(prefixed, None)


def entry_for(rule: str) -> CatalogueEntry:
    """The entry of any id that a finding can carry; patterns of this installation have none of their own."""
    why, family = "its configuration names it in additional_patterns", rule.partition(":")[0]
    return find_entry(rule) or CatalogueEntry(rule, family, "agent", "a pattern of this installation", why)
