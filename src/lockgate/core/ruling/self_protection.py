"""Calls that touch Lockgate itself, by their words and by their effects.

They count even before anything untrusted was read, and no model clears them. A quick look spares them most calls.
"""

from __future__ import annotations

from collections.abc import Sequence

from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.effects.effect import Effect
from lockgate.core.ruling.effects.own_paths import ASKS_SERVICE, OWN_KINDS, OWN_WORDS
from lockgate.core.ruling.effects.tool_arguments import is_content
from lockgate.core.text.rules import SELF_PROTECTION_RULES, Rule
from lockgate.core.text.scanner import Scanner, encode
from lockgate.core.vocabulary import Finding

# Effects on Lockgate's own files, and the rules that hold them.
_HELD = {kind: f"execution:{kind.partition('-')[2]}" for kind in OWN_KINDS} | {ASKS_SERVICE: "execution:own-approval"}
# A shell drops quotes inside a word (`a''pprove`), and `[g]` is the letter in a pattern.
_DROPPED = str.maketrans("", "", "\\'\"^[]")


def find_tampering(leaves: Sequence[Leaf], scanner: Scanner, *, looks: bool = False) -> list[Finding]:
    """Return the findings of these rules in a call's values; `looks` is whether the tool only looks.

    A program and its words may be values of their own, so that all values are matched together.
    """
    if is_unrelated("\n".join([leaf.text for leaf in leaves])):
        return []
    findings = []
    # A tool that only looks may look at the hooks, but not at what opens the door.
    for rule in SELF_PROTECTION_RULES[-1:] if looks else SELF_PROTECTION_RULES:
        if _matches(rule, leaves, scanner):
            leaf = next((leaf for leaf in leaves if _matches(rule, [leaf], scanner)), Leaf("arguments", ""))
            findings.append(Finding(rule.id, leaf.argument, 0, len(leaf.text), "raw", leaf.text[:160]))
    return findings


def _matches(rule: Rule, leaves: Sequence[Leaf], scanner: Scanner) -> bool:
    # What a file is to hold is no command. The line end is the end of the last name.
    acting = [leaf.text for leaf in leaves if not (rule.on_demand and is_content(leaf))]
    text = "\n".join([*acting, ""] if rule.on_demand else acting)
    if rule.on_demand and any("disableallhooks" in leaf.text.lower() for leaf in leaves):
        text += "disableAllHooks\n"
    return any(scanner.has_match(rule, encode(reading)) for reading in {text, text.translate(_DROPPED)})


def findings_from_effects(effects: Sequence[Effect], argument: str = "") -> list[Finding]:
    """Return what a call would do to Lockgate's own files as findings, one of each rule."""
    findings: dict[str, Finding] = {}
    for effect in effects:
        if rule := _HELD.get(effect.kind):
            where = argument or effect.argument or "arguments"
            findings.setdefault(rule, Finding(rule, where, effect.start, effect.end, "raw", effect.target[:160]))
    return list(findings.values())


def is_unrelated(text: str) -> bool:
    """Return after a quick look at joined values whether none of them concerns Lockgate."""
    low = text.lower()
    bare = low.translate(_DROPPED)
    return not any(word in low or word in bare for word in OWN_WORDS["rules"])
