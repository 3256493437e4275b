"""How telling a finding of `lockgate scan` is, by its rule and by what stands beside it.

Attacks rarely stop at one phrase. A phrase that ordinary software also uses ("starts a new task") is low while it is
alone, and high where another rule hits in the same file.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from lockgate.core.text.imperatives import NOUN_VERBS, PLAIN_VERBS, prepare, split_words
from lockgate.core.vocabulary import Finding

# Hits of these alone were found in the source and documentation of ordinary packages.
ORDINARY_ALONE = frozenset(
    (
        "concealment:keep-quiet",
        "exfiltration:conversation",
        "override:before-you-answer",
        "override:ignore-instructions",
        "override:ignore-what-came-before",
        "seed:new-task",
        "tool:remember-this",
    )
)
# Hidden text that orders nothing is test data, mostly. A rule that hits in it is a second finding.
_ORDINARY_FAMILIES = ("cap:", "encoded:")
_VERBS = frozenset(word.encode() for word in (*PLAIN_VERBS, *NOUN_VERBS))


class ScanSeverity(StrEnum):
    """From what is merely counted to what hardly any ordinary file has."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"

    @property
    def rank(self) -> int:
        return list(ScanSeverity).index(self)


def weigh_findings(findings: Sequence[Finding]) -> list[ScanSeverity]:
    """Return the severity of each telling finding of one file."""
    # Wherever in the file: a far earlier, harmless use of the same words must not keep two findings apart.
    if len({_kind(found.rule) for found in findings}) > 1:
        return [ScanSeverity.HIGH] * len(findings)
    return [_weigh_alone(found) for found in findings]


def _weigh_alone(found: Finding) -> ScanSeverity:
    ordinary = found.rule in ORDINARY_ALONE
    if _kind(found.rule) in _ORDINARY_FAMILIES:
        ordinary = not _may_order(found.excerpt)
    return ScanSeverity.LOW if ordinary else ScanSeverity.MEDIUM


def _may_order(hidden: str) -> bool:
    """Return whether a hidden text has an address, or a verb that opens orders with something behind it."""
    words = split_words(prepare(hidden.encode("utf-8", "replace")))
    return "://" in hidden or not _VERBS.isdisjoint(words[:-1])


def _kind(rule: str) -> str:
    """Two readings of one hidden text are no second opinion; two rules are."""
    return next((family for family in _ORDINARY_FAMILIES if rule.startswith(family)), rule)
