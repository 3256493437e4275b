"""What a call does beyond the border of a scope: the addresses and paths in its arguments, and its effects' targets.

What is spelled as an address is one anywhere. A dotted name is one where its argument, or what a command does by its
effects, makes it likely; and what a command's effects are aimed at is one without any dot: `ssh db`. Arguments are read
in every way a program may read them. What cannot be read is a finding too, since an attacker chooses what cannot be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from functools import lru_cache

from lockgate.core.errors import printable
from lockgate.core.ruling.arguments import Leaf, argument_words, sink_from_argument
from lockgate.core.ruling.effects.effect import Effect, Severity
from lockgate.core.ruling.effects.effects_of_call import effects_of
from lockgate.core.ruling.effects.project import normalize_path
from lockgate.core.ruling.scope.border import MAX_TEXT, Border
from lockgate.core.ruling.scope.machines import (
    COMMON_DOMAINS,
    DOTS,
    FILE_ENDINGS,
    FILE_OR_DOMAIN_ENDINGS,
    TOP_LEVEL_DOMAINS,
    WORDS,
    AddressRange,
    SeenAddress,
    address_from_authority,
    address_from_range,
    decode_percent,
    host_and_port,
    is_host_like,
    machines_from_host,
    network_from_text,
    to_punycode,
)
from lockgate.core.ruling.scope.machines import PATTERNS as _P
from lockgate.core.ruling.tool_risk import canonical_tool, tool_words
from lockgate.core.text.readings import COMPATIBLE
from lockgate.core.vocabulary import Finding, ToolCall

OUTSIDE, UNREADABLE, UNREAD = "scope:outside", "scope:unreadable", "scope:unread"
MAX_FINDINGS = 20
_MAX_EXCERPT, _MAX_TARGETS = 120, 64
# Effects on another machine, which they name.
_ELSEWHERE = frozenset("requests sends-data clones pushes changes-remote uses-package-source runs-download".split())
_UNKNOWN = frozenset({"runs-program", "unknown-act"})
_DEFAULT_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443, "ftp": 21, "ssh": 22, "sftp": 22, "git": 9418}
_NETWORK_PROGRAM = re.compile(
    rf"(?i)(?<![\w.-])(?:{'|'.join(sorted(WORDS['network programs'], reverse=True))}|getent\s+a?hosts"
    r"|git\s+(?:clone|fetch|pull|push|remote|ls-remote|submodule))(?:\.exe)?(?=\s)"
)


class HostLevel(IntEnum):
    """How likely a dotted name is to be a machine's where it stands, and so which of them count."""

    PROSE = 0  # in a sentence: the endings that are hardly ever anything else
    CODE = 1  # in code, or a command that stays here: the same, without what attributes are called
    LISTED = 2  # where it may as well be a module or a key, or a whole text in code: every ending that is registered
    ANY = 3  # where nothing is known: every name that does not end like a file
    CONNECTS = 4  # where something connects: the endings that files have as well


def find_crossings(edge: Border, leaves: Sequence[Leaf], *, tool: str = "") -> list[Finding]:
    """Return one finding for each address or path beyond the border, bounded in number.

    A tool that only writes may mention any address in what it writes: mentioning is not going there.
    """
    name = canonical_tool(tool) if tool else ""
    only_writes = name == "write" or not WORDS["writing tools"].isdisjoint(tool_words(tool) if tool else ())
    findings: dict[tuple[str, str, str], Finding] = {}
    left = MAX_TEXT
    for leaf in leaves if edge else ():
        if only_writes and not WORDS["content arguments"].isdisjoint(_name_words(leaf.argument)):
            continue
        for written, finding in _crossings_in_leaf(edge, leaf._replace(text=leaf.text[:left]), is_shell=name == "bash"):
            findings.setdefault((leaf.argument, written, finding.rule), finding)
            if len(findings) >= MAX_FINDINGS:
                return list(findings.values())
        if len(leaf.text) > left:
            return [*findings.values(), Finding(UNREAD, leaf.argument, 0, len(leaf.text), leaf.how)]
        left -= len(leaf.text)
    return list(findings.values())


def _name_words(argument: str) -> set[str]:
    """Return the words of an argument's own name, and that name itself."""
    return {*argument_words(argument), re.sub(r"\[\d+\]", "", argument).rpartition(".")[2].lower()}


def _crossings_in_leaf(edge: Border, leaf: Leaf, *, is_shell: bool) -> Iterator[tuple[str, Finding]]:
    """Yield the crossings in one value, in each of its readings, with how they are written."""
    argument, text, how = leaf
    is_command = is_shell or sink_from_argument(argument) == "command"
    for reading, read in _readings_of_text(argument, text):
        value = _ReadValue(argument, read, is_command=is_command)
        for rule, written, start in value.find_crossings(edge, has_quotes=reading != "unquoted"):
            # In another reading than the argument's own, offsets point nowhere: the whole value is meant.
            where = (start, start + len(written)) if reading == "exact" else (0, len(text))
            name = how if reading == "exact" else reading
            excerpt = printable(written, _MAX_EXCERPT)
            yield written, Finding(rule, argument, *where, "raw" if name == "exact" else name, excerpt)


def _readings_of_text(argument: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the text as it stands, and as programs that get it may read it, each with the reading's name."""
    yield "exact", text
    plain = text if text.isascii() else text.translate(COMPATIBLE).translate(DOTS)
    if plain != text:
        yield "folded", plain
    if (decoded := decode_percent(plain)) != plain:
        yield "percent", decoded
    # A shell drops quotes and backslashes inside a word: `ev''il.com`.
    may_be_run = sink_from_argument(argument) in ("command", "") or _NETWORK_PROGRAM.search(plain)
    if may_be_run and re.search(r"[\\'\"^]", plain):
        yield "unquoted", _P["quotes"].sub(_drop_inner_quotes, re.sub(r"[\\^]", "", plain))
    # Parsers of URLs drop tabs and line ends wherever they stand; a list of whole URLs is no such case.
    if re.search(r"[\t\r\n]", plain) and " " not in plain.strip():
        pieces = plain.split()
        if _P["scheme"].match("".join(pieces)) and not all(map(_P["scheme"].match, pieces)):
            yield "joined", "".join(pieces)


def _drop_inner_quotes(quotes: re.Match[str]) -> str:
    """Return nothing for quotes inside a word; quotes around a word say where it ends, and stay."""
    text, (start, end) = quotes.string, quotes.span()
    is_inside = start > 0 and end < len(text) and all(ch.isalnum() or ch in "._-" for ch in text[start - 1] + text[end])
    return "" if is_inside else quotes[0]


@lru_cache(maxsize=256)
def _effects_of_command(text: str) -> tuple[Effect, ...]:
    return effects_of(ToolCall("bash", {"command": text}))


class _ReadValue:
    """One reading of a value; `taken` marks what addresses occupy: the path of a URL is no file's.

    `named` says that the argument is named for a host, `single` that the text is one word, `fetches` that it names a
    program that connects, `shell` that a shell reads it.
    """

    def __init__(self, argument: str, text: str, *, is_command: bool) -> None:
        words = _name_words(argument)
        self._argument, self._text, self._is_command = argument, text, is_command
        self._taken = bytearray(len(text))
        self._named = not words.isdisjoint(WORDS["host arguments"])
        self._may_be_host = self._named or not words.isdisjoint(WORDS["maybe host arguments"])
        self._is_header = not words.isdisjoint(WORDS["header arguments"])
        self._single = not re.search(r"\s", text.strip())
        self._fetches = _NETWORK_PROGRAM.search(text) is not None
        is_code = sink_from_argument(argument) == "command" and words.isdisjoint(WORDS["shell arguments"])
        is_shell = is_command and not is_code
        self._effects = _effects_of_command(text) if is_shell or self._fetches else ()
        self._levels = bytearray([self._level_for(words, is_shell=is_shell)]) * len(text)
        if is_shell or self._fetches:
            self._mark_code()

    def _mark_code(self) -> None:
        """Mark what is code of another language: quoted texts that no shell reads."""
        for match in _P["quoted"].finditer(self._text):
            inner, before = match[1] or match[2] or "", self._text[max(0, match.start() - 80) : match.start()]
            is_run = "$(" in inner or "`" in inner or _NETWORK_PROGRAM.search(inner) or _P["shell"].search(before)
            if re.search(r"[\s(=\[]", inner) and not is_run:
                self._levels[match.start() : match.end()] = bytes([HostLevel.CODE]) * len(match[0])

    def _level_for(self, words: set[str], *, is_shell: bool) -> HostLevel:
        if self._named or self._fetches:
            return HostLevel.CONNECTS
        if is_shell and not self._single:
            return _level_of_command(self._effects)
        is_code = self._is_command and re.search(r"[(=\[]", self._text)
        if self._single and words.isdisjoint(WORDS["other arguments"] | WORDS["content arguments"]) and not is_code:
            is_listed = self._is_command or not words.isdisjoint(WORDS["listed arguments"])
            return HostLevel.LISTED if is_listed else HostLevel.ANY
        return HostLevel.CODE if self._is_command else HostLevel.PROSE

    def find_crossings(self, edge: Border, *, has_quotes: bool) -> Iterator[tuple[str, str, int]]:
        """Yield what lies beyond the border: the rule, how it is written, and where."""
        for seen in self._addresses():
            if not edge.contains(seen):
                yield OUTSIDE, seen.written, seen.start
        # Without its quotes a text no longer says where its words end.
        if has_quotes:
            yield from ((UNREADABLE, word[:_MAX_EXCERPT], start) for word, start in self._expansions())
        for path, start in self._paths() if edge.guards_paths else ():
            if not edge.contains_path(path):
                yield OUTSIDE, path, start

    # --- addresses

    def _addresses(self) -> Iterator[SeenAddress]:
        """Yield the addresses, surest spelling first: what one search takes, the next ones pass over."""
        yield from self._urls()
        yield from self._after_at()
        yield from self._relative()
        for match in _P["device"].finditer(self._text):
            self._take(*match.span())
            yield address_from_authority(f"{match[1]}:{match[2] or 0}", "", match[0], match.start())
        for match in _P["quad"].finditer(self._text):
            if not self._taken[match.start()]:
                self._take(*match.span())
                yield address_from_range(match)
        yield from self._ipv6()
        yield from self._names()
        yield from self._targets()
        if self._fetches or self._may_be_host:
            yield from self._whole_words()

    def _take(self, start: int, end: int) -> None:
        self._taken[start:end] = b"\1" * (end - start)

    def _address(self, match: re.Match[str], authority: str, port: int = 0, *, mark: str = "") -> SeenAddress:
        """Take an address with what stands behind its authority, if that begins with the mark."""
        rest = _P["behind host"].match(self._text, match.end())
        end = rest.end() if rest and rest[0].startswith(mark) else match.end()
        self._take(match.start(), end)
        behind, written = self._text[match.end() : end], self._text[match.start() : end]
        return address_from_authority(authority, behind, written, match.start(), port)

    def _urls(self) -> Iterator[SeenAddress]:
        text = self._text
        for match in _P["url"].finditer(text):
            scheme, authority = (match[1] or match[3]).lower(), match[2] if match[1] else match[4]
            # To some a third slash that leans the other way is a part of the name.
            is_plain = "\\" not in match[0][: len(match[0]) - len(authority)].partition("//")[2]
            seen = self._address(match, authority.rstrip(".:!") if is_plain else "", _DEFAULT_PORTS.get(scheme, 0))
            if authority or (scheme != "file" and text[match.end() : match.end() + 1].strip("\"') ")):
                yield seen

    def _after_at(self) -> Iterator[SeenAddress]:
        for match in _P["after at"].finditer(self._text):
            host, before = match[1].rstrip(".!"), self._text[match.start() - 1]
            # `dig @server` asks a server, `curl -d @b.txt` sends a file.
            is_file = before in "= " and host.rpartition(".")[2].lower() in FILE_ENDINGS | FILE_OR_DOMAIN_ENDINGS
            if before.isspace() and not self._fetches:
                continue
            is_sure = (self._fetches and host[:1].isalpha() and not is_file) or host.startswith("[")
            if is_sure or is_host_like(host) or _P["quad"].fullmatch(host):
                yield SeenAddress(machines_from_host(host), 0, "", match[0], match.start())

    def _relative(self) -> Iterator[SeenAddress]:
        text = self._text
        for match in _P["relative"].finditer(text):
            authority = match[1].rstrip(".:!")
            host = host_and_port(authority)[0]
            is_share = match[0].startswith("\\") and text[match.end() : match.end() + 1] == "\\" and len(host) > 1
            is_host = is_share or self._single or is_host_like(host) or _P["quad"].fullmatch(host)
            if is_host and not self._taken[match.start()]:
                yield self._address(match, authority)

    def _ipv6(self) -> Iterator[SeenAddress]:
        for match in _P["bare ipv6"].finditer(self._text):
            written = match[1].rstrip(".")
            network = network_from_text(written + (match[2] or "")) if re.search(r"\d", written) else None
            if network is not None and not self._taken[match.start()]:
                self._take(*match.span())
                machines = machines_from_host(f"[{written}]")
                machines = frozenset({AddressRange(network[0], network[-1])}) if match[2] else machines
                yield SeenAddress(machines, 0, "", match[0], match.start())

    def _names(self) -> Iterator[SeenAddress]:
        for match in _P["undotted"].finditer(self._text):
            has_more = match[2] and (":" in match[2] or self._text.startswith("/", match.end()))
            is_sure = self._fetches or (self._is_header if match[1] else self._single or has_more)
            if is_sure and not self._taken[match.end() - 1]:
                yield self._address(match, match[1] or match[2], mark="/")
        for match in _P["dotted name"].finditer(self._text):
            if not self._taken[match.start()] and self._is_host(match):
                # In a list of hosts the comma ends one.
                yield self._address(match, match[1] + (match[2] or "").lstrip("."), mark="/")

    def _is_host(self, match: re.Match[str]) -> bool:
        """Return whether a dotted name is a machine's rather than a file's or a piece of code's."""
        name, level = match[1], self._level_at(match)
        if not is_host_like(name):
            return False
        last = name.rpartition(".")[2].lower()
        if last in FILE_OR_DOMAIN_ENDINGS:
            before = self._text[max(0, match.start() - 16) : match.start()]
            is_fetched = level is HostLevel.CONNECTS and _P["local use"].search(before) is None
            # With a path behind it the name is a host.
            return is_fetched or (level >= HostLevel.LISTED and self._text.startswith("/", match.end(1)))
        if level >= HostLevel.ANY:
            return True
        if level is HostLevel.LISTED or not last.isascii() or last.startswith("xn--"):
            # A name with an underscore cannot be registered.
            return to_punycode(last) in TOP_LEVEL_DOMAINS and "_" not in name.split(".")[-2]
        return last in COMMON_DOMAINS and not (level is not HostLevel.PROSE and last in WORDS["attributes"])

    def _level_at(self, match: re.Match[str]) -> HostLevel:
        """Return the level of a dotted name where it stands: in code it may be the whole of a text."""
        level = HostLevel(self._levels[match.start()])
        before, after = self._text[max(0, match.start() - 40) : match.start()], self._text[match.end(1) :][:1]
        if after == "=" and level is not HostLevel.CONNECTS:
            return min(level, HostLevel.CODE)
        if level is not HostLevel.CODE:
            return HostLevel.CONNECTS if _P["says host"].search(before) else level
        is_whole = _P["opens text"].search(before) and after in (before[-1], "/", ":", "?")
        return HostLevel.LISTED if is_whole else level

    def _targets(self) -> Iterator[SeenAddress]:
        """Yield what the effects of a command are aimed at, unless every place that names it is judged already."""
        # A remote of the repository has a name of its own.
        targets = [
            effect.target
            for effect in self._effects
            if effect.kind in _ELSEWHERE and not (effect.kind == "pushes" and effect.target.isalnum())
        ]
        for number, target in enumerate([*dict.fromkeys(filter(None, targets))][: _MAX_TARGETS + 1]):
            host = target.rpartition("@")[2].partition(":")[0] if target.count(":") == 1 else target
            places = [match.start() for match in re.finditer(re.escape(host), self._text, re.IGNORECASE)]
            if "$" not in target and not (places and all(self._taken[at] for at in places)):
                # One too many stands for all that are not read.
                machines = machines_from_host(host) if number < _MAX_TARGETS else frozenset()
                yield SeenAddress(machines, 0, "", target[:_MAX_EXCERPT], places[0] if places else 0)

    def _whole_words(self) -> Iterator[SeenAddress]:
        """Yield each word that is a number, or that stands in an argument named for a host: every word there is one."""
        # A list of names, and not a sentence: with a dotted one among them the others are machines' too.
        is_list = "." in self._text and re.fullmatch(r"[\w.:,;|\s-]*", self._text) is not None
        previous = ""
        for match in re.finditer(r"[^\s,;|]+", self._text):
            word, before, previous = match[0].strip("'\"<>"), previous, match[0]
            if not word or self._taken[match.start()] or self._taken[match.end() - 1]:
                continue
            # `ping 127.1`, but not `curl --max-time 2.5`.
            is_number = _P["odd number"].fullmatch(word.partition(":")[0]) and not (self._fetches and before[:1] == "-")
            is_host = bool(is_number) and ("." in word or len(word) > 7)
            if self._named and not is_host:
                is_host = not _P["no authority"].match(word) if self._single else is_list and "." not in word
            if is_host:
                authority = re.split(r"[/\\?#]", word, maxsplit=1)[0]
                yield address_from_authority(authority, word[len(authority) :], word, match.start())

    def _expansions(self) -> Iterator[tuple[str, int]]:
        """Yield what only the running shell knows: targets that it fills in, words of programs that connect, codes."""
        for effect in self._effects:
            if effect.kind == "runs-decoded" or (effect.kind in _ELSEWHERE and "$" in effect.target):
                yield effect.target or effect.kind, 0
        done = 0
        for program in _NETWORK_PROGRAM.finditer(self._text):
            if program.start() >= done:
                ends = _P["ends command"].search(self._text, program.end())
                done = ends.start() if ends else len(self._text)
                for match in _P["filled in"].finditer(self._text, program.end(), done):
                    # `-H "Authorization: Bearer $TOKEN"` says nothing about a host.
                    if self._levels[match.start(1)] != HostLevel.CODE:
                        yield match[1], match.start(1)

    # --- paths

    def _paths(self) -> Iterator[tuple[str, int]]:
        """Yield the paths in a text that may lie elsewhere than in the working folder, with where they stand."""
        sink, whole = sink_from_argument(self._argument), self._text.strip()
        if self._is_command or self._fetches:
            yield from self._paths_in_command()
        elif whole.lower().startswith("file://"):
            yield whole[7:], 0
        elif (sink == "path" or (sink == "" and self._single)) and not any(self._taken) and _may_lie_elsewhere(whole):
            yield whole, 0

    def _paths_in_command(self) -> Iterator[tuple[str, int]]:
        for match in _P["path"].finditer(self._text):
            path, start = match[1], match.start()
            is_first = self._text[max(0, start - 99) : start].rstrip()[-1:] in ("", ";", "&", "|", "(")
            is_run = is_first and _P["program"].fullmatch(path)
            if not (self._taken[start] or is_run or _P["harmless"].fullmatch(path)) and _may_lie_elsewhere(path):
                yield path, start


def _level_of_command(effects: Sequence[Effect]) -> HostLevel:
    """Return how likely the dotted words of a command are machines, by what it does."""
    if any(effect.kind in _UNKNOWN for effect in effects):
        return HostLevel.ANY
    reaches_out = any(effect.severity is Severity.REACHES_OUT and effect.kind != "signs-as" for effect in effects)
    return HostLevel.LISTED if reaches_out else HostLevel.CODE


def _may_lie_elsewhere(path: str) -> bool:
    """Return whether a path is absolute, or climbs above the folder it starts in, which is not known here."""
    return _P["absolute"].match(path) is not None or normalize_path(path.replace("\\", "/")).startswith("..")
