"""Steps 3 and 4 for a call's own arguments: one scan over all of them, and where each hit stands."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from typing import NamedTuple

from lockgate.core.ruling.arguments import Leaf, argument_words
from lockgate.core.ruling.goal import Goal
from lockgate.core.ruling.policy import Policy
from lockgate.core.ruling.targets import BYTE_PATTERNS as _B
from lockgate.core.text.rules import Rule, Scope
from lockgate.core.text.scanner import RuleHit, ScannedPart, Scanner
from lockgate.core.vocabulary import Finding

_SEPARATOR = "\n\n"
_MAX_EXCERPT = 120
_CREDENTIAL_ARGUMENTS = frozenset("otp pin passcode password secret token passphrase".split())


class ArgumentScan(NamedTuple):
    """What a scan of the arguments found: rule hits, encoded content, and the text that decoding it gave."""

    patterns: list[Finding]
    encoded: list[Finding]
    decoded: list[Leaf]


def join_leaves(leaves: list[Leaf]) -> str:
    """Return all values as the one text that `scan_arguments` scans."""
    return leaves[0].text if len(leaves) == 1 else _SEPARATOR.join([leaf.text for leaf in leaves])


def scan_arguments(
    leaves: list[Leaf],
    text: str,
    scanner: Scanner,
    policy: Policy,
    goal: Goal,
    *,
    stays_here: bool = False,
) -> ArgumentScan:
    """Scan the values of a call; `text` is what `join_leaves` gave for them.

    With `stays_here` the call writes them into records or files and hands them to no other party: there the bare word
    "password" is what a text is about.
    """
    found = ArgumentScan([], [], [])
    if not leaves:
        return found
    starts = [0, *accumulate(len(leaf.text) + len(_SEPARATOR) for leaf in leaves)]

    def place(offset: int) -> tuple[str, int]:
        """Return the argument that a character of the joined text belongs to, and where that argument starts."""
        number = min(bisect_right(starts, offset), len(leaves)) - 1
        return leaves[number].argument, starts[number]

    scan = scanner.scan(text)
    for part in scan.parts:
        expected = _Expected(part, place, goal, stays_here)
        for hit in part.hits:
            if _counts(hit, expected, scanner, policy):
                finding = scanner.finding_from_hit(hit, part, "")
                argument, base = place(finding.start)
                own = finding._replace(where=argument, start=finding.start - base, end=finding.end - base)
                found.patterns.append(own)
        if part.how != "raw":
            argument, base = place(part.start)
            plain = part.data.decode("utf-8", "replace")
            found.decoded.append(Leaf(argument, plain, part.how))
            if part.encoded:
                span = part.start - base, part.end - base
                found.encoded.append(Finding(f"encoded:{part.how}", argument, *span, part.how, plain[:_MAX_EXCERPT]))
    found.patterns.extend(Finding(f"cap:{limit}", "arguments", 0, 0) for limit in scan.capped)
    return found


class _Expected(NamedTuple):
    """Says of a broad rule's hits in one reading of the arguments whether they are no news."""

    part: ScannedPart
    place: Callable[[int], tuple[str, int]]
    goal: Goal
    stays_here: bool

    def covers(self, rule: Rule, start: int, excerpt: str) -> bool:
        """Return whether a hit is no news: the user said it first, it is part of another word, or it only mentions.

        A user who asks to change a password gets calls with `password` in them, and a field called `token` holds one.
        """
        if self.goal.contains_request(excerpt):
            return True
        if rule.id != "seed:credential-word":
            return False
        data, end = self.part.data, start + len(excerpt.encode("utf-8", "ignore"))
        reference = _B["reference"].match(data, data.rfind(b"\n", max(0, start - 160), start) + 1)
        is_reference = reference is not None and end <= reference.end()
        is_mention = self.stays_here and not _B["has value"].match(data, end)
        if is_reference or is_mention or _B["other word"].match(data, end):
            return True
        argument, _ = self.place(len(data[:start].decode("utf-8", "ignore")))
        is_named_for_it = excerpt.lower().replace("-", "_") in argument.lower().replace("-", "_")
        return is_named_for_it or not _CREDENTIAL_ARGUMENTS.isdisjoint(argument_words(argument)[-1:])


def _counts(hit: RuleHit, expected: _Expected, scanner: Scanner, policy: Policy) -> bool:
    """Return whether a rule's hit in the arguments is a finding under this policy."""
    if hit.rule.phrase and policy.unsafe_disable_phrase_rules:
        return False
    if hit.rule.scope is not Scope.RELATED or policy.strict_patterns:
        return True
    # A rule reports its first hit; when that one is expected, a later one may not be.
    start = scanner.find_start(hit, expected.part.data)
    first = expected.part.data[start : hit.end].decode("utf-8", "replace")
    return not expected.covers(hit.rule, start, first) or not all(
        expected.covers(hit.rule, *place) for place in scanner.find_all(hit.rule, expected.part.data)
    )
