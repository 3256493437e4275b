"""Text to findings: every rule and every trigger in one linear pass.

The engine is hyperscan (Vectorscan): no backtracking, so the cost is linear in the text whatever the text says.
It reports where a match ends; the start is looked up afterwards, in a window, only for hits.
Patterns that cannot match ASCII are compiled apart: most texts are ASCII and skip them.
Order cues are a second, more expensive set of patterns, looked for only around what a call shares with a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock, local
from typing import Any, NamedTuple

import hyperscan

from lockgate.core.errors import InvalidPattern, quoted
from lockgate.core.text import imperatives
from lockgate.core.text.readings import (
    BEYOND_ASCII,
    TRIGGERS,
    EncodedSegment,
    Reading,
    find_readings,
    triggers_from_shape,
)
from lockgate.core.text.rules import RULES, Rule, Scope
from lockgate.core.vocabulary import Finding

# A longer text is cut to this many characters, and the cut is a finding.
MAX_TEXT = 16 * 1024 * 1024

_RULE_FLAGS = hyperscan.HS_FLAG_CASELESS | hyperscan.HS_FLAG_SINGLEMATCH
# Without UCP: that mode has no \\b, and word boundaries matter more than the case of exotic letters.
_UTF8 = hyperscan.HS_FLAG_UTF8

# Patterns with their flags, by the number under which the engine reports each.
NumberedPatterns = Mapping[int, tuple[str, int]]


class RuleHit(NamedTuple):
    """One rule that matched in one reading of a text, and the byte of that reading where the match ends."""

    rule: Rule
    end: int


class ScannedPart(NamedTuple):
    """One reading of a text with its hits: the text itself, or a decoded or folded form of it."""

    how: str
    data: bytes
    start: int
    end: int
    encoded: bool
    hits: tuple[RuleHit, ...]


class Scan(NamedTuple):
    """Everything Tier 1 knows about a text; `capped` names the limits that were hit."""

    parts: tuple[ScannedPart, ...]
    segments: tuple[EncodedSegment, ...] = ()
    capped: tuple[str, ...] = ()


def rules_from_patterns(patterns: Iterable[str]) -> tuple[Rule, ...]:
    """Return an organisation's own patterns as rules; they count wherever the broad rules count."""
    return tuple(
        Rule(
            id=f"custom:{number}",
            family="custom",
            pattern=pattern,
            scope=Scope.AGENT,
            what="a pattern of this installation",
            why="its configuration names it in additional_patterns",
            hit="",
            miss="",
            owasp="LLM01:2026",
            utf8=not pattern.isascii(),
        )
        for number, pattern in enumerate(patterns, 1)
    )


def check_pattern(pattern: str) -> None:
    """Raise InvalidPattern, with the reason, for a pattern that the engine cannot compile."""
    if not pattern.isascii() and re.search(r"(?<!\\)(?:\\\\)*\\[bBwWdD]", pattern):
        raise InvalidPattern(
            f"pattern {quoted(pattern)} mixes letters beyond ASCII with \\b, \\w or \\d, which know only ASCII",
            hint="write what may stand around the word instead, e.g. a space or [^a-z]",
        )
    try:
        _compile({0: (pattern, _rule_flags(rules_from_patterns([pattern])[0]))})
    except hyperscan.error as error:
        said, hint = _explain_engine_error(str(error).rstrip("."))
        raise InvalidPattern(f"pattern {quoted(pattern)} cannot be used: {said}", hint=hint) from None


def _explain_engine_error(said: str) -> tuple[str, str]:
    """Return why the engine refuses a pattern, in words that do not assume knowledge of the engine, and a hint."""
    plain = said.lower()
    if "allowempty" in plain:
        return "it matches the empty text", "make it need at least one character, e.g. `+` in the place of `*`"
    if "support" in plain or "reference" in plain or "after (?" in plain:
        return plain, (
            "patterns are matched in linear time: look-around, back-references and atomic groups are not supported"
        )
    if "too large" in plain or "too big" in plain:
        return plain, "let it repeat less often"
    if "never match" in plain:
        return plain, "look for what contradicts itself, e.g. a `\\b` between two letters"
    return plain, "a sign that stands for itself needs a backslash: `\\(`, `\\[`, `\\*`"


class Scanner:
    """All rules compiled once; safe to share between threads.

    `compiled` is the result of `dump()` for the same rules and engine. Load it only from a file that no other user
    could have written: the engine checks the shape of the bytes, not who wrote them.
    """

    def __init__(self, rules: Sequence[Rule] = RULES, *, compiled: bytes | None = None) -> None:
        self.rules = tuple(rule for rule in rules if not rule.on_demand)
        self._cues: hyperscan.Database | None = None
        if compiled is None:
            for rule in self.rules:
                if rule.family == "custom":
                    check_pattern(rule.pattern)
            listed = dict(enumerate(rule_expressions(self.rules)))
            beyond = {*BEYOND_ASCII, *(at for at, rule in enumerate(self.rules, len(TRIGGERS)) if rule.beyond_ascii)}
            self._database = _compile({number: listed[number] for number in listed if number not in beyond})
            self._beyond = _compile({number: listed[number] for number in listed if number in beyond})
        else:
            first = 16 + int.from_bytes(compiled[:8], "big")
            second = first + int.from_bytes(compiled[8:16], "big")
            self._database = hyperscan.loadb(compiled[16:first], hyperscan.HS_MODE_BLOCK)
            self._beyond = hyperscan.loadb(compiled[first:second], hyperscan.HS_MODE_BLOCK)
            if compiled[second:]:
                self._cues = hyperscan.loadb(compiled[second:], hyperscan.HS_MODE_BLOCK)
        self._compiling = Lock()
        self._threads = local()
        self._locators: dict[str, hyperscan.Database] = {}

    def dump(self) -> bytes:
        """Return the compiled patterns as bytes for `compiled`."""
        plain, beyond = bytes(hyperscan.dumpb(self._database)), bytes(hyperscan.dumpb(self._beyond))
        sizes = len(plain).to_bytes(8, "big") + len(beyond).to_bytes(8, "big")
        # Without rules for agents there is no session that asks for cues.
        for_agents = any(rule.family != "custom" for rule in self.rules)
        return sizes + plain + beyond + (bytes(hyperscan.dumpb(self._cue_database())) if for_agents else b"")

    def scan(self, text: str) -> Scan:
        """Return everything found in a text, in all its readings."""
        return self.scan_or_none(text) or Scan((_raw_part(encode(text), ()),))

    def scan_or_none(self, text: str) -> Scan | None:
        """Return the same, or None for a text with no hit, no other reading and no limit reached."""
        capped: list[str] = []
        if len(text) > MAX_TEXT:
            text = text[:MAX_TEXT]
            capped.append("text")
        data = encode(text)
        matches, shaped = self._find_matches(data), triggers_from_shape(data)
        if not matches and not shaped and not capped:
            return None
        hits, triggers = self._split_hits_and_triggers(matches)
        triggers = triggers.union(shaped)
        parts = [_raw_part(data, hits)]
        segments: tuple[EncodedSegment, ...] = ()
        if triggers:
            others = find_readings(text, triggers)
            if others.capped:
                capped.append("readings")
            segments = others.signals
            parts.extend(self._scan_reading(reading) for reading in others.items)
        return Scan(tuple(parts), segments, tuple(dict.fromkeys(capped)))

    def find_cues(self, data: bytes) -> list[int]:
        """Return where the order cues of a text end, in order."""
        found: list[tuple[int, int]] = []
        database = self._cue_database()
        database.scan(data, match_event_handler=_collect, context=found, scratch=self._scratch_for("cues", database))
        return sorted({end for _, end in found if not imperatives.is_false_cue(data, end)})

    def _scan_reading(self, reading: Reading) -> ScannedPart:
        data = encode(reading.text)
        hits, _ = self._split_hits_and_triggers(self._find_matches(data))
        return ScannedPart(reading.how, data, reading.start, reading.end, reading.encoded, hits)

    def _split_hits_and_triggers(self, matches: list[tuple[int, int]]) -> tuple[tuple[RuleHit, ...], frozenset[str]]:
        hits: list[RuleHit] = []
        triggers: list[str] = []
        for number, at in matches:
            if number < len(TRIGGERS):
                triggers.append(TRIGGERS[number][0])
            else:
                hits.append(RuleHit(self.rules[number - len(TRIGGERS)], at))
        return tuple(hits), frozenset(triggers)

    def _find_matches(self, data: bytes) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        database = self._database
        scratch = self._threads.__dict__.get("rules") or self._scratch_for("rules", database)
        database.scan(data, match_event_handler=_collect, context=found, scratch=scratch)
        if data.isascii():
            return found
        database = self._beyond
        database.scan(data, match_event_handler=_collect, context=found, scratch=self._scratch_for("beyond", database))
        return sorted(found, key=lambda match: match[1])

    def _scratch_for(self, name: str, database: hyperscan.Database) -> hyperscan.Scratch:
        # Two scans on one scratch fail in the engine, so every thread has its own.
        scratch = self._threads.__dict__.get(name)
        if scratch is None:
            scratch = self._threads.__dict__[name] = hyperscan.Scratch(database)
        return scratch

    def _cue_database(self) -> hyperscan.Database:
        # Compiling takes a second, which a session without a doubtful call never spends.
        if self._cues is None:
            with self._compiling:
                if self._cues is None:
                    self._cues = _compile(dict(enumerate(cue_expressions())))
        return self._cues

    def finding_from_hit(self, hit: RuleHit, part: ScannedPart, where: str) -> Finding:
        """Return a hit as a finding, with offsets in characters of the text it was found in."""
        start = self._find_start(hit, part.data)
        excerpt = part.data[start : min(hit.end, start + 160)].decode("utf-8", "replace")
        if part.how != "raw":
            return Finding(hit.rule.id, where, part.start, part.end, part.how, excerpt)
        first, last = character_span(part, start, hit.end)
        return Finding(hit.rule.id, where, first, last, "raw", excerpt)

    def find_all(self, rule: Rule, data: bytes) -> list[tuple[int, str]]:
        """Return the places where one rule matches, each as its start and text; at most 64."""
        locator = self._locator_for(rule)
        found: list[tuple[int, int]] = []
        locator.scan(data, match_event_handler=_collect, context=found, scratch=hyperscan.Scratch(locator))
        places = []
        for _, end in found[:64]:
            start = self._find_start(RuleHit(rule, end), data)
            places.append((start, data[start:end].decode("utf-8", "replace")))
        return places

    def has_match(self, rule: Rule, data: bytes) -> bool:
        """Return whether one rule matches anywhere in a text."""
        locator = self._locator_for(rule)
        found: list[tuple[int, int]] = []
        locator.scan(data, match_event_handler=_collect, context=found, scratch=self._scratch_for(rule.id, locator))
        return bool(found)

    def _locator_for(self, rule: Rule) -> hyperscan.Database:
        locator = self._locators.get(rule.id)
        if locator is None:
            flags = _rule_flags(rule) & ~hyperscan.HS_FLAG_SINGLEMATCH
            locator = self._locators[rule.id] = _compile({0: (rule.pattern, flags)})
        return locator

    def _find_start(self, hit: RuleHit, data: bytes) -> int:
        """Return where a hit starts: the shortest text before its end in which its rule still matches there.

        The engine could report starts itself, but that mode has crashed on texts that an attacker can write.
        """
        locator = self._locator_for(hit.rule)
        scratch = hyperscan.Scratch(locator)

        def matches_from(start: int) -> bool:
            found: list[tuple[int, int]] = []
            locator.scan(data[start : hit.end], match_event_handler=_collect, context=found, scratch=scratch)
            return any(end == hit.end - start for _, end in found)

        low, high = _character_start(data, max(0, hit.end - 512)), hit.end
        while high - low > 1:
            middle = _character_start(data, (low + high) // 2)
            if middle == low:
                break
            if matches_from(middle):
                low = middle
            else:
                high = middle
        return low


def _character_start(data: bytes, at: int) -> int:
    """Return the start of the character that holds this byte: the engine requires whole characters of UTF-8."""
    while at > 0 and 0x80 <= data[at] < 0xC0:
        at -= 1
    return at


def _raw_part(data: bytes, hits: tuple[RuleHit, ...]) -> ScannedPart:
    return ScannedPart("raw", data, 0, len(data), False, hits)


def character_span(part: ScannedPart, start: int, end: int) -> tuple[int, int]:
    """Return a span of bytes as characters of the text; for a decoded reading, the span it was decoded from."""
    if part.how != "raw":
        return part.start, part.end
    if part.data.isascii():
        return start, end
    before = len(part.data[:start].decode("utf-8", "ignore"))
    return before, before + len(part.data[start:end].decode("utf-8", "ignore"))


def _collect(number: int, _start: int, end: int, _flags: int, found: Any) -> None:
    found.append((number, end))


def encode(text: str) -> bytes:
    """Return the bytes that the engine reads; lone surrogates are dropped: they split words but are never shown."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "ignore")


def rule_expressions(rules: Sequence[Rule]) -> list[tuple[str, int]]:
    """Return the whole pass as (pattern, flags): triggers, then rules; each reports at most once per text."""
    listed = [(pattern, _RULE_FLAGS | hyperscan.HS_FLAG_DOTALL) for _, pattern in TRIGGERS]
    listed += [(rule.pattern, _rule_flags(rule)) for rule in rules]
    return listed


def cue_expressions() -> list[tuple[str, int]]:
    """Return the order cues as (pattern, flags); these report every place."""
    return [(pattern, _UTF8 if utf8 else 0) for pattern, utf8 in imperatives.cue_patterns()]


def _rule_flags(rule: Rule) -> int:
    return _RULE_FLAGS | (_UTF8 if rule.utf8 else 0) | (hyperscan.HS_FLAG_DOTALL if rule.dotall else 0)


def _compile(listed: NumberedPatterns) -> hyperscan.Database:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[encode(pattern) for pattern, _ in listed.values()],
        ids=list(listed),
        elements=len(listed),
        flags=[flags for _, flags in listed.values()],
    )
    return database
