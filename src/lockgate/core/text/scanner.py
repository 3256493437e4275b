"""Text to findings: every rule and every trigger in one linear pass.

The engine is hyperscan (Vectorscan): no backtracking, so the cost is linear in the text whatever the text says.
It reports where a match ends; the start is looked up afterwards, only for hits. Patterns that cannot match ASCII are
compiled apart. Order cues are more expensive, and looked for only around what a call shares with a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from threading import Lock, local
from typing import NamedTuple, Protocol

import hyperscan

from lockgate.core.errors import InvalidPattern, quoted
from lockgate.core.tables import read_table
from lockgate.core.text import imperatives
from lockgate.core.text.readings import (
    BEYOND_ASCII,
    TRIGGERS,
    find_readings,
    triggers_from_shape,
)
from lockgate.core.text.rules import RULES, SELF_PROTECTION_RULES, Rule, Scope
from lockgate.core.vocabulary import Finding

# A longer text is cut to this many characters, and the cut is a finding.
MAX_TEXT = 16 * 1024 * 1024

_RULE_FLAGS = hyperscan.HS_FLAG_CASELESS | hyperscan.HS_FLAG_SINGLEMATCH
# Without UCP: that mode has no \\b, and word boundaries matter more than the case of exotic letters.
_UTF8 = hyperscan.HS_FLAG_UTF8

# How many rules' examples a database from a cache has to find.
_SAMPLED = 6
# A child forked while another thread loaded has a lock that nothing releases: after this it loads by itself.
_MOST_LOAD_S = 20.0
_HARMLESS = b"the kettle is on the table"
_ORDER = b"You must send it."

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
    capped: tuple[str, ...] = ()


def rules_from_patterns(patterns: Iterable[str]) -> tuple[Rule, ...]:
    """Return an organisation's own patterns as rules; they count wherever the broad rules count."""
    what, why = "a pattern of this installation", "its configuration names it in additional_patterns"
    return tuple(
        Rule(f"custom:{n}", "custom", pattern, Scope.AGENT, what, why, "", "", "LLM01:2026", utf8=not pattern.isascii())
        for n, pattern in enumerate(patterns, 1)
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
        reason = str(error).rstrip(".").lower()
        rows = read_table(__package__, "patterns.tbl", "refusals", ("the engine says", "meaning", "hint"))
        meaning, hint = next((meaning, hint) for said, meaning, hint in rows if said.strip("-") in reason)
        meaning = reason if meaning == "-" else meaning
        raise InvalidPattern(f"pattern {quoted(pattern)} cannot be used: {meaning}", hint=hint) from None


class PatternCache(Protocol):
    """Where compiled patterns are kept, by a name that says what was compiled.

    `read` returns only what this program has written: the engine does not check who wrote the bytes.
    """

    def read(self, name: str) -> bytes | None: ...

    def write(self, name: str, content: bytes) -> None: ...


class PatternDatabase:
    """Patterns, compiled or loaded from a cache when they are first looked for; safe to share between threads.

    `examples` are texts by the number of a pattern that matches them, or by None for a text that none may match. What
    comes from a cache counts only if it finds them.
    """

    def __init__(
        self, listed: NumberedPatterns, cache: PatternCache | None, examples: Iterable[tuple[int | None, bytes]] = ()
    ) -> None:
        self._listed, self._cache, self._examples = listed, cache, tuple(examples)
        self._database: hyperscan.Database | None = None
        self._loading = Lock()
        self._threads = local()

    @property
    def is_ready(self) -> bool:
        return self._database is not None

    def find_in(self, data: bytes) -> list[tuple[int, int]]:
        """Return the number of each pattern that matches, with the byte where the match ends."""
        database = self._database or self.make_ready()
        # Two scans on one scratch fail in the engine, so every thread has its own.
        scratch = self._threads.__dict__.get("scratch")
        if scratch is None:
            scratch = self._threads.__dict__["scratch"] = hyperscan.Scratch(database)
        return _find_in(database, data, scratch)

    def make_ready(self) -> hyperscan.Database:
        """Compile or load now; return the engine's database."""
        held = self._loading.acquire(timeout=_MOST_LOAD_S)
        try:
            if self._database is None:
                self._database = self._load(self._cache)
            if self._database is None:
                self._database = _compile(self._listed)
                if self._cache is not None:
                    self._cache.write(self.cache_name, bytes(hyperscan.dumpb(self._database)))
            return self._database
        finally:
            if held:
                self._loading.release()

    def can_be_read_from(self, cache: PatternCache) -> bool:
        """Return whether a cache has these patterns, in a form that this processor can use."""
        return self._load(cache) is not None

    def _load(self, cache: PatternCache | None) -> hyperscan.Database | None:
        content = None if cache is None else cache.read(self.cache_name)
        if content is None:
            return None
        try:
            database = hyperscan.loadb(content, hyperscan.HS_MODE_BLOCK)
            scratch = hyperscan.Scratch(database)
            ends = [(number, dict(_find_in(database, text, scratch))) for number, text in self._examples]
        except hyperscan.HyperscanError:
            return None  # made on another processor, or damaged before it was kept: compile again
        is_ours = all(number in ended if number is not None else not ended for number, ended in ends)
        return database if is_ours else None

    @property
    def cache_name(self) -> str:
        """The name in a cache: other patterns or another engine have another."""
        parts = str(getattr(hyperscan, "__version__", "")), sorted(self._listed.items())
        return f"rules-{sha256(repr(parts).encode('utf-8', 'backslashreplace')).hexdigest()[:32]}.bin"


# For a shorter text no set of words is compiled: hundreds of searches in it take hardly longer than one pass.
SHORT_TEXT = 512
# Compiling takes as long as all searches in this many characters: a program that looks at one text never compiles.
COMPILE_AFTER = 200_000


class PatternSet:
    """Words and named patterns, found in one pass once enough text has been seen; safe to share between threads."""

    def __init__(self, words: Iterable[str], shapes: Mapping[str, str]) -> None:
        patterns = {**{word: re.escape(word) for word in words}, **shapes}
        self.all_names = frozenset(patterns)
        self._names = [*patterns]
        flags = hyperscan.HS_FLAG_SINGLEMATCH | hyperscan.HS_FLAG_DOTALL
        self._database = PatternDatabase({n: (pattern, flags) for n, pattern in enumerate(patterns.values())}, None)
        # Characters that were searched without the engine; threads may lose an update, it need not be exact.
        self._characters_seen = 0
        self.make_ready = self._database.make_ready

    def find_in(self, text: str) -> frozenset[str]:
        """Return the words and the names of the shapes that are in a text; or all of them, when it was not searched."""
        if not self._database.is_ready:
            if len(text) >= SHORT_TEXT:
                self._characters_seen += len(text)
            if len(text) < SHORT_TEXT or self._characters_seen < COMPILE_AFTER:
                return self.all_names
        # Half a surrogate pair has no UTF-8; its bytes here match no word.
        ends = self._database.find_in(text.encode("utf-8", "surrogatepass"))
        return frozenset([self._names[number] for number, _ in ends])


class Scanner:
    """All rules in one pass; safe to share between threads.

    Compiling them takes CPU; with a cache it is spent once per user. What a text of ASCII alone cannot match, the order
    cues and the rules that protect Lockgate itself are separate, and made ready when they are first needed.
    """

    def __init__(self, rules: Sequence[Rule] = RULES, cache: PatternCache | None = None) -> None:
        self.rules = tuple(rule for rule in rules if not rule.on_demand)
        for rule in self.rules:
            if rule.family == "custom":
                check_pattern(rule.pattern)
        numbered, own = list(enumerate(self.rules, len(TRIGGERS))), list(enumerate(SELF_PROTECTION_RULES))
        beyond = {*BEYOND_ASCII, *(number for number, rule in numbered if rule.beyond_ascii)}
        others = dict(enumerate(rule_expressions(self.rules)))
        ascii_only = {number: others.pop(number) for number in [*others] if number not in beyond}
        self._main, self._beyond = (
            PatternDatabase(part, cache, _examples_for(numbered, part)) for part in (ascii_only, others)
        )
        self._cues = PatternDatabase(dict(enumerate(cue_expressions())), cache, ((2, _ORDER), (None, _HARMLESS)))
        own_patterns = {number: (rule.pattern, _rule_flags(rule)) for number, rule in own}
        self._own = PatternDatabase(own_patterns, cache, ((number, encode(rule.hit)) for number, rule in own))
        # Where each rule is looked for, and its number there.
        self._places = {
            rule.id: (self._beyond if number in beyond else self._main, number) for number, rule in numbered
        }
        self._places |= {rule.id: (self._own, number) for number, rule in own}
        self._locators: dict[str, PatternDatabase] = {}
        # A pattern that the engine refuses is refused here.
        self._main.make_ready()

    def make_ready(self) -> None:
        """Compile or load everything now, for a process that has time at its start and none later."""
        self.make_ready_to_scan()
        for database in (self._cues, self._own):
            database.make_ready()

    def make_ready_to_scan(self) -> None:
        """The same for `scan` alone, which requests are read with."""
        self._beyond.make_ready()

    def can_be_read_from(self, cache: PatternCache) -> bool:
        """Return whether a cache has all of these rules, in a form that this processor can use."""
        return all(database.can_be_read_from(cache) for database in (self._main, self._beyond, self._cues, self._own))

    def scan(self, text: str) -> Scan:
        """Return everything found in a text, in all its readings."""
        capped = ("text",) if len(text) > MAX_TEXT else ()
        text = text[:MAX_TEXT]
        data = encode(text)
        matches = self._find_matches(data)
        triggers = frozenset(TRIGGERS[number][0] for number, _ in matches if number < len(TRIGGERS))
        others = find_readings(text, triggers.union(triggers_from_shape(data)))
        parts = [ScannedPart("raw", data, 0, len(data), False, self._hits_from(matches))]
        for reading in others.items:
            data = encode(reading.text)
            hits = self._hits_from(self._find_matches(data))
            parts.append(ScannedPart(reading.how, data, reading.start, reading.end, reading.encoded, hits))
        return Scan(tuple(parts), (*capped, *(("readings",) if others.capped else ())))

    def find_cues(self, data: bytes, low: int = 0, high: int | None = None) -> list[int]:
        """Return where the order cues in a part of a text end, in order."""
        cues = {low + end for _, end in self._cues.find_in(data[low:high])}
        return sorted(cue for cue in cues if not imperatives.is_push_hint(data, cue))

    def _hits_from(self, matches: list[tuple[int, int]]) -> tuple[RuleHit, ...]:
        first = len(TRIGGERS)
        return tuple(RuleHit(self.rules[number - first], end) for number, end in matches if number >= first)

    def _find_matches(self, data: bytes) -> list[tuple[int, int]]:
        found = self._main.find_in(data)
        if data.isascii():
            return found
        return sorted(found + self._beyond.find_in(data), key=lambda match: match[1])

    def finding_from_hit(self, hit: RuleHit, part: ScannedPart, where: str) -> Finding:
        """Return a hit as a finding, with offsets in characters of the text it was found in."""
        start = self.find_start(hit, part.data)
        excerpt = part.data[start : min(hit.end, start + 160)].decode("utf-8", "replace")
        if part.how != "raw":
            return Finding(hit.rule.id, where, part.start, part.end, part.how, excerpt)
        first, last = character_span(part, start, hit.end)
        return Finding(hit.rule.id, where, first, last, "raw", excerpt)

    def find_start(self, hit: RuleHit, data: bytes) -> int:
        """Return the byte where a hit starts: the shortest text before its end in which its rule still matches there.

        The engine could report starts itself, but that mode has crashed on texts that an attacker can write. All rules
        at once report each its first end, and no match ends before the one we look for.
        """
        return _find_start(*self._places[hit.rule.id], data, hit.end)

    def find_all(self, rule: Rule, data: bytes) -> list[tuple[int, str]]:
        """Return the places where one rule matches, each as its start and text; at most 64."""
        locator = self._locator_for(rule)
        places = ((_find_start(locator, 0, data, end), end) for _, end in locator.find_in(data)[:64])
        return [(start, data[start:end].decode("utf-8", "replace")) for start, end in places]

    def has_match(self, rule: Rule, data: bytes) -> bool:
        """Return whether one rule matches anywhere in a text."""
        if rule.id not in self._places:
            return bool(self._locator_for(rule).find_in(data))
        database, number = self._places[rule.id]
        return number in dict(database.find_in(data))

    def _locator_for(self, rule: Rule) -> PatternDatabase:
        """Return one rule by itself, which reports every place."""
        if rule.id not in self._locators:
            flags = _rule_flags(rule) & ~hyperscan.HS_FLAG_SINGLEMATCH
            self._locators[rule.id] = PatternDatabase({0: (rule.pattern, flags)}, None)
        return self._locators[rule.id]


def _find_start(database: PatternDatabase, number: int, data: bytes, end: int) -> int:
    # The engine requires whole characters of UTF-8.
    stop = end
    while stop < len(data) and 0x80 <= data[stop] < 0xC0:
        stop += 1

    low, high = _character_start(data, max(0, end - 512)), end
    while (middle := _character_start(data, (low + high) // 2)) > low:
        start, matches = middle, database.find_in(data[middle:stop])
        if (number, end - start) not in matches and number in dict(matches):
            # The text begins inside a word, where it has no edge of a word: look with what stands before.
            start = _character_start(data, middle - 1)
            matches = database.find_in(data[start:stop])
        low, high = (middle, high) if (number, end - start) in matches else (low, middle)
    return low


def _examples_for(rules: Iterable[tuple[int, Rule]], listed: NumberedPatterns) -> list[tuple[int | None, bytes]]:
    """Return the examples of a few rules, spread over all of them, and a text in which there is nothing to find."""
    sample = [(number, encode(rule.hit)) for number, rule in rules if number in listed and rule.hit]
    return [*sample[:: max(1, len(sample) // _SAMPLED)], (None, _HARMLESS)]


def _character_start(data: bytes, at: int) -> int:
    """Return the start of the character that holds this byte: the engine requires whole characters of UTF-8."""
    while at > 0 and 0x80 <= data[at] < 0xC0:
        at -= 1
    return at


def character_span(part: ScannedPart, start: int, end: int) -> tuple[int, int]:
    """Return a span of bytes as characters of the text; for a decoded reading, the span it was decoded from."""
    if part.how != "raw":
        return part.start, part.end
    if part.data.isascii():
        return start, end
    before = len(part.data[:start].decode("utf-8", "ignore"))
    return before, before + len(part.data[start:end].decode("utf-8", "ignore"))


def _find_in(database: hyperscan.Database, data: bytes, scratch: hyperscan.Scratch) -> list[tuple[int, int]]:
    ends: list[tuple[int, int]] = []

    def collect(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
        ends.append((number, end))

    database.scan(data, match_event_handler=collect, scratch=scratch)
    return ends


def encode(text: str) -> bytes:
    """Return the bytes that the engine reads; lone surrogates are dropped: they split words but are never shown."""
    return text.encode("utf-8", "ignore")


def rule_expressions(rules: Sequence[Rule]) -> list[tuple[str, int]]:
    """Return the whole pass as (pattern, flags): triggers, then rules; each reports at most once per text."""
    triggers = [(pattern, _RULE_FLAGS | hyperscan.HS_FLAG_DOTALL) for _, pattern in TRIGGERS]
    return triggers + [(rule.pattern, _rule_flags(rule)) for rule in rules]


def cue_expressions() -> list[tuple[str, int]]:
    """Return the order cues as (pattern, flags); these report every place."""
    return [(pattern, _UTF8 if utf8 else 0) for pattern, utf8 in imperatives.cue_patterns()]


def _rule_flags(rule: Rule) -> int:
    return _RULE_FLAGS | (_UTF8 if rule.utf8 else 0)


def _compile(listed: NumberedPatterns) -> hyperscan.Database:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[encode(pattern) for pattern, _ in listed.values()],
        ids=list(listed),
        elements=len(listed),
        flags=[flags for _, flags in listed.values()],
    )
    return database
