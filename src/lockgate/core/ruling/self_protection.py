"""Calls that touch Lockgate itself: an answer to the gate's own question, its files, its hooks.

These rules count even before anything untrusted was read, and no model clears them. Almost no call comes near them, so
a quick look for a few words decides whether there is anything to match.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.effects.effect import Effect
from lockgate.core.ruling.effects.own_address import ASKS_SERVICE
from lockgate.core.ruling.effects.own_paths import OWN_KINDS
from lockgate.core.ruling.effects.tool_arguments import is_content
from lockgate.core.text.rules import RULES_BY_ID, SELF_PROTECTION_RULES, Rule
from lockgate.core.text.scanner import Scanner, encode
from lockgate.core.vocabulary import Finding

# A tool that only looks may look at the hooks, but not at what opens the door.
_SECRET = (RULES_BY_ID["execution:own-token"],)
# Effects on Lockgate's own files, and the rules that hold them.
_HELD = {kind: f"execution:{kind.partition('-')[2]}" for kind in OWN_KINDS} | {ASKS_SERVICE: "execution:own-approval"}
# Signs that leave a name what it is: a shell drops quotes, and `[g]` is the letter in a pattern.
_DROPPED = str.maketrans("", "", "\\'\"^[]")
_LONG = 4096
_WORDS = tuple(
    "lockgate claude approvals local/state disableallhooks 7717 v1/bans v1/grants links/show links/answer "
    "#/answer/".split()
)


class TamperingReadings(NamedTuple):
    """The texts of a call that the rules are matched against: all its values, and those that act."""

    all_text: tuple[str, ...] = ()
    acting_text: tuple[str, ...] = ()


_NOTHING = TamperingReadings()


def find_tampering(leaves: Sequence[Leaf], scanner: Scanner, *, looks: bool = False) -> list[Finding]:
    """Return the findings of these rules in a call's values; `looks` is whether the tool only looks."""
    if looks and not any("lockgate" in leaf.text.lower() for leaf in leaves):
        return []
    texts = readings_from_leaves(leaves)
    if not texts.all_text:
        return []
    return [
        _locate_hit(rule, leaves, scanner)
        for rule in (_SECRET if looks else SELF_PROTECTION_RULES)
        if _matches(rule, texts, scanner)
    ]


def _matches(rule: Rule, texts: TamperingReadings, scanner: Scanner) -> bool:
    return any(
        scanner.has_match(rule, encode(text)) for text in (texts.acting_text if rule.on_demand else texts.all_text)
    )


def _locate_hit(rule: Rule, leaves: Sequence[Leaf], scanner: Scanner) -> Finding:
    """Return the finding, placed in the one value that the rule matches alone, if there is one."""
    for leaf in leaves:
        if _matches(rule, readings_from_leaves([leaf]), scanner):
            return Finding(rule.id, leaf.argument, 0, len(leaf.text), "raw", leaf.text[:160])
    return Finding(rule.id, "arguments", 0, 0)


def readings_from_leaves(leaves: Sequence[Leaf]) -> TamperingReadings:
    """Return the texts that the rules have to be matched against; nothing for most calls.

    A program and its words may be values of their own, and a shell drops quotes inside a word: `a''pprove`.
    """
    said = leaves[0].text if len(leaves) == 1 else "\n".join([leaf.text for leaf in leaves])
    low = said.lower()
    if len(said) <= _LONG:
        near = _may_concern_lockgate(low)
    else:
        # A long text is what a file is to hold: no shell reads it.
        near = "lockgate" in low or "approvals" in low or "disableallhooks" in low
        near = near or _may_concern_lockgate("\n".join([leaf.text for leaf in leaves if not is_content(leaf)]).lower())
    if not near:
        return _NOTHING
    acting = [leaf.text for leaf in leaves if not is_content(leaf)]
    if "disableallhooks" in low:
        acting.append("disableAllHooks")
    # The line end is the end of the last name.
    return TamperingReadings(_as_shells_read(said), _as_shells_read("\n".join([*acting, ""])))


def findings_from_effects(effects: Sequence[Effect], argument: str = "") -> list[Finding]:
    """Return what a call would do to Lockgate's own files as findings, one of each rule."""
    found: dict[str, Finding] = {}
    for each in effects:
        if each.kind in _HELD:
            where = argument or each.argument or "arguments"
            rule = _HELD[each.kind]
            found.setdefault(rule, Finding(rule, where, each.start, each.end, "raw", each.target[:160]))
    return list(found.values())


def is_unrelated(said: str) -> bool:
    """Return whether a quick look at joined values is enough to know that none of them concerns Lockgate."""
    return len(said) <= _LONG and not _may_concern_lockgate(said.lower())


def _may_concern_lockgate(low: str) -> bool:
    if _has_protected_word(low):
        return True
    marked = "'" in low or '"' in low or "\\" in low or "^" in low or "[" in low
    return marked and _has_protected_word(low.translate(_DROPPED))


def _has_protected_word(low: str) -> bool:
    return any(word in low for word in _WORDS)


def _as_shells_read(text: str) -> tuple[str, ...]:
    bare = text.translate(_DROPPED)
    return (text, bare) if bare != text else (text,)
