"""What a call does beyond the border of a scope: the addresses and paths in its arguments, and its effects' targets.

What is spelled as an address is one anywhere. A dotted name is one where its argument, or what a command does by its
effects, makes it likely; and what a command's effects are aimed at is one without any dot: `ssh db`. What cannot be
read is a finding too, since an attacker chooses what cannot be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from lockgate.core.errors import printable
from lockgate.core.ruling.arguments import Leaf, argument_words, sink_from_argument
from lockgate.core.ruling.effects.effect import Effect, Severity
from lockgate.core.ruling.effects.effects_of_call import effects_of
from lockgate.core.ruling.effects.project import normalize_path
from lockgate.core.ruling.scope.border import FILES, MAX_TEXT, Border, SeenAddress, decode_percent
from lockgate.core.ruling.scope.machines import (
    COMMON_DOMAINS,
    DOTS,
    FILE_OR_DOMAIN_ENDINGS,
    TOP_LEVEL_DOMAINS,
    WORDS,
    host_and_port,
    is_host_like,
    network_from_text,
    to_punycode,
)
from lockgate.core.ruling.scope.machines import PATTERNS as _P
from lockgate.core.ruling.targets import host_from_value
from lockgate.core.ruling.tool_call import ToolCall
from lockgate.core.ruling.tool_risk import canonical_tool, tool_words
from lockgate.core.text.readings import COMPATIBLE
from lockgate.core.vocabulary import Finding

OUTSIDE, UNREADABLE, UNREAD = "scope:outside", "scope:unreadable", "scope:unread"
MAX_FINDINGS = 20
_MAX_EXCERPT, _MAX_READ = 120, 1000
# Effects on another machine, which they name.
_ELSEWHERE = frozenset("requests sends-data clones pushes changes-remote uses-package-source runs-download".split())
_DEFAULT_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443, "ftp": 21, "ssh": 22, "sftp": 22, "git": 9418}
# How likely a dotted name is to be a machine's where it stands. In prose, in code and in commands that stay here those
# endings count that are hardly ever anything else. Where it may as well be a module or a key, every ending that is
# registered does; where nothing is known, all but those of files; and where something connects, these as well.
_TEXT, _LISTED, _ANY, _CONNECTS = range(4)


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
        for rule, written, start, how in _crossings_in_leaf(edge, leaf.argument, leaf.text[:left], name == "bash"):
            # In another reading than the argument's own, offsets point nowhere: the whole value is meant.
            where = (0, len(leaf.text)) if how else (start, start + len(written))
            reading = how or ("raw" if leaf.how == "exact" else leaf.how)
            finding = Finding(rule, leaf.argument, *where, reading, printable(written, _MAX_EXCERPT))
            findings.setdefault((leaf.argument, written, rule), finding)
            if len(findings) >= MAX_FINDINGS:
                return list(findings.values())
        if len(leaf.text) > left:
            return [*findings.values(), Finding(UNREAD, leaf.argument, 0, len(leaf.text), leaf.how)]
        left -= len(leaf.text)
    return list(findings.values())


def _name_words(argument: str) -> set[str]:
    """Return the words of an argument's own name, and that name itself."""
    return {*argument_words(argument), re.sub(r"\[\d+\]", "", argument).rpartition(".")[2].lower()}


def _crossings_in_leaf(
    edge: Border,
    argument: str,
    text: str,
    is_shell: bool,  # noqa: FBT001 - whether a shell gets it
) -> Iterator[tuple[str, str, int, str]]:
    """Yield what crosses the border in one value, as it stands and as programs read it: the rule, text and place."""
    sink = sink_from_argument(argument)
    is_shell = is_shell or (sink == "command" and not _name_words(argument).isdisjoint(WORDS["shell arguments"]))
    may_connect = is_shell or _connects(text)
    effects = effects_of(ToolCall("bash", {"command": text})) if may_connect else ()
    exact = _Reading(argument, text, effects, is_shell=is_shell)
    yield from ((UNREADABLE, written, start, "") for written, start in exact.find_filled_in())
    readings = [("", exact)]
    plain = _read_as_programs_do(text, may_be_run=may_connect or sink in ("command", ""))
    if plain != text:
        readings.append(("decoded", _Reading(argument, plain, effects, is_shell=is_shell)))
    for how, reading in readings:
        outside = (seen for seen in reading.find_addresses() if not edge.contains(seen))
        yield from ((OUTSIDE, seen.written, seen.start, how) for seen in outside)


@lru_cache(maxsize=64)
def _connects(text: str) -> bool:
    """Return whether a text names a program that connects."""
    return _P["network"].search(text) is not None


def _read_as_programs_do(text: str, *, may_be_run: bool) -> str:
    """Return a text folded and decoded, for a shell without quotes inside words, and as one URL if it is one."""
    plain = decode_percent(text if text.isascii() else text.translate(COMPATIBLE).translate(DOTS))
    if may_be_run:
        # A shell drops quotes and backslashes inside a word: `ev''il.com`. Quotes around a word say where it ends.
        plain = _P["inner quotes"].sub("", re.sub(r"[\\^]", "", plain))
    pieces = plain.split()
    # Parsers of URLs drop tabs and line ends wherever they stand; a list of whole URLs is no such case.
    is_broken = " " not in plain.strip() and not all(map(_P["scheme"].match, pieces))
    return "".join(pieces) if is_broken and _P["scheme"].match("".join(pieces)) else plain


class _Reading:
    """One reading of a value; `levels` says for each place how likely a dotted name is a host there."""

    def __init__(self, argument: str, text: str, effects: Sequence[Effect], *, is_shell: bool) -> None:
        words, self._sink = _name_words(argument), sink_from_argument(argument)
        self._text, self._effects = text, effects
        is_command = is_shell or self._sink == "command"
        self._connects = _connects(text)
        self._has_paths = is_command or self._connects
        self._is_single = not re.search(r"\s", text.strip())
        self._is_named = not words.isdisjoint(WORDS["host arguments"])
        # The words of an argument for a host are hosts, if they are a list of names rather than a sentence.
        is_list = self._is_single or ("." in text and re.fullmatch(r"[\w.:,;|\s-]*", text) is not None)
        self._has_hosts = self._is_named and is_list and _P["no authority"].match(text.strip()) is None
        is_line = is_shell and not self._is_single
        level = self._level_of_command() if is_line else self._level_of_value(words, is_command)
        self._levels = bytearray(
            [_CONNECTS if self._is_named or (self._connects and _P["lookup"].search(text)) else level]
        ) * len(text)
        if is_shell or self._connects:
            self._mark_code()

    def _mark_code(self) -> None:
        """Give quoted texts that no shell reads the level of code in another language."""
        for match in _P["quoted"].finditer(self._text):
            before = self._text[max(0, match.start() - 80) : match.start()]
            if _P["code"].match(match[0]) and not (_P["network"].search(match[0]) or _P["shell"].search(before)):
                self._levels[match.start() : match.end()] = bytes(len(match[0]))

    def _level_of_command(self) -> int:
        if any(effect.kind in ("runs-program", "unknown-act") for effect in self._effects):
            return _ANY
        is_out = any(each.severity is Severity.REACHES_OUT and each.kind != "signs-as" for each in self._effects)
        return _LISTED if is_out or self._connects else _TEXT

    def _level_of_value(self, words: set[str], is_command: bool) -> int:  # noqa: FBT001 - what the argument is
        is_other = not words.isdisjoint(WORDS["other arguments"] | WORDS["content arguments"])
        if not self._is_single or is_other or (is_command and re.search(r"[(=\[]", self._text)):
            return _LISTED if self._connects else _TEXT
        return _LISTED if is_command or not words.isdisjoint(WORDS["listed arguments"]) else _ANY

    def find_filled_in(self) -> Iterator[tuple[str, int]]:
        """Yield what only the running shell knows: targets that it fills in, words of programs that connect, codes."""
        for effect in self._effects:
            if effect.kind == "runs-decoded" or (effect.kind in _ELSEWHERE and "$" in effect.target):
                yield effect.target or effect.kind, 0
        end = 0
        for program in _P["network"].finditer(self._text) if self._connects else ():
            if program.start() >= end:
                ends = _P["ends command"].search(self._text, program.end())
                end = ends.start() if ends else len(self._text)
                words = _P["filled in"].finditer(self._text, program.end(), end)
                # `-H "Authorization: Bearer $TOKEN"` says nothing about a host.
                yield from ((word[1], word.start(1)) for word in words if self._levels[word.start(1)])

    def find_addresses(self) -> Iterator[SeenAddress]:
        """Yield the addresses, and the paths that may lie elsewhere than in the working folder."""
        hosts = set[str]()
        for match in _P["list of hosts" if self._has_hosts else "address"].finditer(self._text):
            seen = self._address_from(match)
            if seen is not None:
                hosts.add(seen.host.lower())
                yield seen
        yield from self._targets(hosts)
        path, is_path = self._text.strip(), self._sink == "path" or (self._sink == "" and self._is_single)
        if is_path and not hosts and not self._has_paths and _may_lie_elsewhere(path):
            yield SeenAddress(FILES, path, 0, path=path)

    def _targets(self, hosts: set[str]) -> Iterator[SeenAddress]:
        """Yield what the effects of a command are aimed at, unless it was judged where it stands."""
        for kind, target in dict.fromkeys((effect.kind, effect.target) for effect in self._effects):
            host = host_from_value(target) or target.rpartition("@")[2]
            is_elsewhere = kind in _ELSEWHERE or (kind == "asks-local" and target in self._text)
            # A remote of the repository has a name of its own.
            is_name = kind == "pushes" and target.isalnum()
            is_judged = any(f"{other}:".startswith(f"{host.lower()}:") for other in hosts)
            if is_elsewhere and target and "$" not in target and not (is_name or is_judged):
                yield SeenAddress(host, target, max(self._text.find(host), 0))

    def _address_from(self, match: re.Match[str]) -> SeenAddress | None:
        """Return the address or path that a match is, unless it is a file, a piece of code or a word."""
        text, start = match[0], match.start()
        _, head, authority, rest, _ = _P["parts"].split(text, maxsplit=1)
        # To some a third slash that leans the other way is a part of the name.
        authority = "" if "\\" in head.partition("//")[2] else authority.rstrip(".:!")
        host, port = host_and_port(authority)
        if not self._is_address(match, host):
            before = self._text[max(0, start - 99) : start].rstrip()[-1:]
            is_run = before in ("", ";", "&", "|", "(") and _P["program"].fullmatch(text)
            is_path = self._has_paths and not is_run and not _P["harmless"].fullmatch(text)
            return SeenAddress(FILES, text, start, path=text) if is_path and _may_lie_elsewhere(text) else None
        if network_from_text(text.rstrip(".")) is not None:
            return SeenAddress(text.rstrip("."), text, start)
        path = "$" if len(text) >= _MAX_READ else re.split("[?#]", rest, maxsplit=1)[0]
        port = port or _DEFAULT_PORTS.get(head.partition(":")[0].lower(), 0)
        # Some programs go on where others see an end: at a backslash, or at a comma with more of a name behind it.
        return SeenAddress("" if _P["goes on"].match(rest) else host, text, start, port, path)

    def _is_address(self, match: re.Match[str], host: str) -> bool:
        level, before = self._levels[match.start()], self._text[max(0, match.start() - 40) : match.start()]
        is_clear = is_host_like(host) or network_from_text(host) is not None
        match match.lastgroup:
            case "six":
                return network_from_text(match[0].rstrip(".")) is not None
            case "at":
                # `dig @server` asks a server, `curl -d @b.txt` sends a file.
                return level == _CONNECTS or (is_clear and before[-1:] not in ("=", " ", "\t", "\n"))
            case "relative":
                return is_clear or self._is_single
            case "local":
                return level >= _LISTED
            case "number":
                return level == _CONNECTS
            case "name":
                return is_clear and self._is_name_of_host(match, host, level, before)
            case "word" | "path":
                return self._has_hosts and not _may_lie_elsewhere(match[0])
        return match.lastgroup == "sure"

    def _is_name_of_host(self, match: re.Match[str], name: str, level: int, before: str) -> bool:
        """Return whether a dotted name is a machine's rather than a file's or a piece of code's."""
        after = self._text[match.start() + len(name) :][:1]
        if after == "=" and level != _CONNECTS:
            level = _TEXT
        elif level == _TEXT and _P["opens text"].search(before) and after in (before[-1], "/", ":", "?"):
            level = _LISTED  # In code it may be the whole of a text.
        last = name.removesuffix(".").rpartition(".")[2].lower()
        if last in FILE_OR_DOMAIN_ENDINGS:
            # With a path behind it the name is a host.
            return level == _CONNECTS or (level >= _LISTED and after == "/")
        if level == _LISTED or not last.isascii() or last.startswith("xn--"):
            # A name with an underscore cannot be registered.
            return to_punycode(last) in TOP_LEVEL_DOMAINS and "_" not in name.split(".")[-2]
        return level >= _ANY or (last in COMMON_DOMAINS and last not in WORDS["attributes"])


def _may_lie_elsewhere(path: str) -> bool:
    """Return whether a path is absolute, or climbs above the folder it starts in, which is not known here."""
    return _P["absolute"].match(path) is not None or normalize_path(path.replace("\\", "/")).startswith("..")
