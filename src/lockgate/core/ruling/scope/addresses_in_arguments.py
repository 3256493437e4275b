"""The addresses in an argument's text, in any spelling that a program could take for one.

What is spelled as an address is one anywhere. A dotted name is one where the argument, or what a command does by its
effects, makes it likely; and what a command's effects are aimed at is one without any dot: `ssh db`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from functools import lru_cache

from lockgate.core.ruling.arguments import argument_words, sink_from_argument
from lockgate.core.ruling.effects.effect import Effect, Severity
from lockgate.core.ruling.effects.effects_of_call import effects_of
from lockgate.core.ruling.scope.domain_names import (
    COMMON_DOMAINS,
    FILE_ENDINGS,
    FILE_OR_DOMAIN_ENDINGS,
    TOP_LEVEL_DOMAINS,
    WORDS,
)
from lockgate.core.ruling.scope.machines import (
    DOTTED_NAME,
    MAX_REST,
    NO_HOST,
    ODD_NUMBER,
    QUAD,
    AddressRange,
    SeenAddress,
    address_from_authority,
    address_from_range,
    host_and_port,
    ipv6_machines,
    is_host_like,
    machines_from_host,
    network_from_text,
    to_punycode,
)
from lockgate.core.ruling.tool_call import ToolCall

_DEFAULT_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443, "ftp": 21, "ssh": 22, "sftp": 22, "git": 9418}
# Browsers and curl take `http:/host`, `http:host` and `http:\\host` for the same thing.
_URL = re.compile(
    rf"(?i)([a-z][a-z0-9+.-]{{0,30}}):[/\\]{{2,}}([^{NO_HOST}]*)|\b(https?|wss?|ftps?):[/\\]?([^{NO_HOST}]+)"
)
_REST = re.compile(rf"[^\s\"'<>|`]{{0,{MAX_REST}}}")
_RELATIVE = re.compile(rf"(?<![^\s\"'=(,<>\[|;&`])(?://|\\\\)([^{NO_HOST}]+)")
_AFTER_AT = re.compile(rf"(?<=[^\"'(\[{{/])@([^{NO_HOST}@]+)")
_DEVICE = re.compile(rf"/dev/(?:tcp|udp)/([^{NO_HOST}]+)(?:/([0-9]{{1,5}}))?")
_BARE_IPV6 = re.compile(r"(?i)(?<![\w:.])(?<![\w)\]]\[)((?:[0-9a-f]{0,4}:){2,7}[0-9a-f.:]{0,15})(/\d{1,3})?(?![\w:])")
_NO_AUTHORITY = re.compile(r"(?i)(?:about|data|javascript|blob|mailto|tel|urn|file|cid):")
_LOCAL_USE = re.compile(r"(?:[<>]|-[oO]|--output|\b(?:bash|sh|python3?|perl|source|chmod \S+|rm|cat))[ =]*$")
_SAYS_HOST = re.compile(
    r"(?i)(?:(?<!\S)-h\s{0,4}|--host(?:name)?[\s=]{1,4}|--server[\s=]{1,4}|\b(?:host|hostaddr|server|address)\s?[=:]\s?)"
    r"['\"]?\Z"
)
_ASKS_ELSEWHERE = re.compile(
    r"(?is)(?:[\w)\]]\[|\b(?:query_?selector(?:_?all)?|locator|closest|matches|getattr|import_module|getlogger)\().\Z"
)
_NETWORK_PROGRAM = re.compile(
    rf"(?i)(?<![\w.-])(?:{'|'.join(sorted(WORDS['network programs'], reverse=True))}|getent\s+a?hosts"
    r"|git\s+(?:clone|fetch|pull|push|remote|ls-remote|submodule))(?:\.exe)?(?=\s)"
)
# Names without a dot, of which a command's effects say nothing: what a program only asks, and the value of an option.
_BARE_NAME = re.compile(
    r"(?i)(?:(?:^|[;&|(\n]|\bsudo)\s{0,9}(?:f?ping6?|traceroute6?|tracepath|mtr|sftp|host|whois|nslookup)"
    r"(?:\s{1,9}-\S{1,40}(?:\s\d{1,9})?){0,9}\s{1,9}"
    r"|(?<!\S)--(?:host(?:name)?|server|endpoint|proxy|registry|connect|address|peer|broker)[\s=]{1,9})"
    r"([a-z][\w-]{0,62})(?![\w.:/@=$-])"
)
_ENDS_COMMAND = re.compile(r"[;&|\n]")
_SHELL_WORD = re.compile(r"(?:[^\s\"'\\]|\\.|\"(?:[^\"\\]|\\.)*\"|'[^']*'|[\"'\\])+")
# A quoted text, the lines of a here-document: code, unless a shell reads it.
_QUOTED = re.compile(r"\\.|\"((?:[^\"\\]|\\.)*)\"|'([^']*)'", re.DOTALL)
_HERE = re.compile(r"<<-?\s{0,9}\\?['\"]?(\w+)[^\n]*\n")
_SHELL = re.compile(
    r"\b(?:(?:ba|z|da|k|fi)?sh|su|eval|watch|xargs|parallel|script|tmux|pwsh|powershell|cmd)\b[^;&|\n]*\Z"
)
_LISTED_ARGUMENTS = frozenset("name names args argv arguments params parameters".split())
_SHELL_ARGUMENTS = frozenset("command commands cmd shell args argv program".split())
# Effects on another machine, which they name.
_ELSEWHERE = frozenset("requests sends-data clones pushes changes-remote uses-package-source runs-download".split())
_UNKNOWN = frozenset({"runs-program", "unknown-act"})
_MAX_TARGETS = 64
_MAX_WRITTEN = 120


class HostLevel(IntEnum):
    """How likely a dotted name is to be a machine's where it stands, and so which of them count."""

    PROSE = 0  # in a sentence: the endings that are hardly ever anything else
    CODE = 1  # in code: the same, without what attributes are called; in quotes, every ending that is registered
    WORDS = 2  # words of a command that stays here: as in code
    LISTED = 3  # where it may as well be a module or a key: every ending that is registered
    ANY = 4  # where nothing is known: every name that does not end like a file
    CONNECTS = 5  # where something connects: the endings that files have as well


def name_words(argument: str) -> tuple[str, ...]:
    """Return the words of an argument's own name, and that name itself."""
    return (*argument_words(argument), re.sub(r"\[\d+\]", "", argument).rpartition(".")[2].lower())


def connects(text: str) -> bool:
    """Return whether a text names a program that connects."""
    return _NETWORK_PROGRAM.search(text) is not None


@lru_cache(maxsize=256)
def _effects_of_command(text: str) -> tuple[Effect, ...]:
    return effects_of(ToolCall("bash", {"command": text}))


class AddressFinder:
    """One text that is searched for addresses; `taken` marks what they occupy: the path of a URL is no file's.

    `named` says that the argument is named for a host, `maybe` that it may be; `single` that the text is one word;
    `fetches` that it names a program that connects; `shell` that a shell reads it.
    """

    def __init__(self, argument: str, text: str, taken: bytearray, *, is_command: bool) -> None:
        words = set(name_words(argument))
        self._text = text
        self._taken = taken
        self._command = is_command
        self._named = not words.isdisjoint(WORDS["host arguments"])
        self._maybe = not words.isdisjoint(WORDS["maybe host arguments"])
        self._single = not re.search(r"\s", text.strip())
        self._fetches = connects(text)
        self._shell = is_command and (
            sink_from_argument(argument) != "command" or not words.isdisjoint(_SHELL_ARGUMENTS)
        )
        self._effects = _effects_of_command(text) if self._shell or self._fetches else ()
        self._levels = bytearray([self._level_for(words)]) * len(text)
        for start, end in _code_spans(text) if self._shell else ():
            self._levels[start:end] = bytes([HostLevel.CODE]) * (end - start)

    def _level_for(self, words: set[str]) -> HostLevel:
        if self._named or self._fetches:
            return HostLevel.CONNECTS
        if self._shell and not self._single:
            return _level_of_command(self._effects)
        is_code = self._command and re.search(r"[(=\[]", self._text)
        if self._single and words.isdisjoint(WORDS["other arguments"] | WORDS["content arguments"]) and not is_code:
            is_listed = self._command or not words.isdisjoint(_LISTED_ARGUMENTS)
            return HostLevel.LISTED if is_listed else HostLevel.ANY
        return HostLevel.CODE if self._command else HostLevel.PROSE

    def find(self) -> Iterator[SeenAddress]:
        """Yield the addresses, surest spelling first: what one search takes, the next ones pass over."""
        yield from self._urls()
        yield from self._after_at()
        yield from self._relative()
        for match in _DEVICE.finditer(self._text):
            self._take(*match.span())
            yield address_from_authority(f"{match[1]}:{match[2] or 0}", "", match[0], match.start())
        for match in QUAD.finditer(self._text):
            if not self._taken[match.start()]:
                self._take(*match.span())
                yield address_from_range(match)
        yield from self._ipv6()
        yield from self._names()
        yield from self._targets()
        for match in _BARE_NAME.finditer(self._text) if self._shell else ():
            yield SeenAddress(machines_from_host(match[1]), 0, "", match[1], match.start(1))
        if self._fetches or self._named or self._maybe:
            yield from self._whole_value()

    def _take(self, start: int, end: int) -> None:
        self._taken[start:end] = b"\1" * (end - start)

    def _end_of_rest(self, at: int) -> int:
        """Return where the text behind an authority ends."""
        match = _REST.match(self._text, at)
        return match.end() if match else at

    def _urls(self) -> Iterator[SeenAddress]:
        text = self._text
        for match in _URL.finditer(text):
            scheme = (match[1] or match[3]).lower()
            authority, at = (match[2], match.start(2)) if match[1] else (match[4], match.start(4))
            end = self._end_of_rest(match.end())
            self._take(match.start(), end)
            if not authority and (scheme == "file" or not text[match.end() : match.end() + 1].strip("\"') ")):
                continue
            port = _DEFAULT_PORTS.get(scheme, 0)
            # To some a third slash that leans the other way is a part of the name.
            plain = "" if "\\" in text[match.start() : at].partition("//")[2] else authority.rstrip(".:!")
            yield address_from_authority(plain, text[match.end() : end], text[match.start() : end], match.start(), port)

    def _after_at(self) -> Iterator[SeenAddress]:
        text = self._text
        for match in _AFTER_AT.finditer(text):
            if match[1].startswith("["):
                host = match[1].partition("]")[0] + "]"
            else:
                host = match[1].partition(":")[0].rstrip(".!")
            before = text[match.start() - 1]
            # `dig @server` asks a server, `curl -d @b.txt` sends a file.
            ending = host.rpartition(".")[2].lower()
            is_sent = before in "= " and (ending in FILE_ENDINGS or ending in FILE_OR_DOMAIN_ENDINGS)
            is_sure = self._fetches and host[:1].isalpha() and not is_sent
            if before.isspace() and not self._fetches:
                continue
            if is_sure or host.startswith("[") or is_host_like(host) or QUAD.fullmatch(host):
                yield SeenAddress(machines_from_host(host), 0, "", match[0], match.start())

    def _relative(self) -> Iterator[SeenAddress]:
        text = self._text
        for match in _RELATIVE.finditer(text):
            authority = match[1].rstrip(".:!")
            host = host_and_port(authority)[0]
            is_share = match[0].startswith("\\") and text[match.end() : match.end() + 1] == "\\" and len(host) > 1
            is_host = is_share or self._single or is_host_like(host) or QUAD.fullmatch(host)
            if is_host and not self._taken[match.start()]:
                end = self._end_of_rest(match.end())
                self._take(match.start(), end)
                yield address_from_authority(authority, text[match.end() : end], match[0], match.start())

    def _ipv6(self) -> Iterator[SeenAddress]:
        for match in _BARE_IPV6.finditer(self._text):
            written = match[1].rstrip(".")
            is_likely = re.search(r"\d", written) and ("::" in written or written.count(":") == 7)
            if not is_likely or self._taken[match.start()]:
                continue
            network = network_from_text(written + (match[2] or ""))
            if network is not None:
                self._take(*match.span())
                network_range = frozenset({AddressRange(network[0], network[-1])})
                machines = network_range if match[2] else ipv6_machines(written)
                yield SeenAddress(machines, 0, "", match[0], match.start())

    def _names(self) -> Iterator[SeenAddress]:
        text = self._text
        begins = len(text) - len(text.lstrip(" \t\r\n\"'<("))
        for match in DOTTED_NAME.finditer(text):
            is_whole = self._single and match.start() == begins
            level = self._level_at(match.start(), match.end(1), has_port=match[3] is not None)
            if text[max(0, match.start() - 1) : match.start()] == "%" and re.match("[0-9A-Fa-f]{2}", match[1]):
                continue  # the reading without percent signs has the whole of it
            if self._taken[match.start()] or not _is_host(match[1], text, match.start(), level, is_whole=is_whole):
                continue
            end = self._end_of_rest(match.end()) if text.startswith("/", match.end()) else match.end()
            self._take(match.start(), end)
            authority = match[1] + (match[2] or "").lstrip(".")
            yield address_from_authority(authority, text[match.end() : end], text[match.start() : end], match.start())

    def _level_at(self, start: int, end: int, *, has_port: bool) -> HostLevel:
        """Return the level of a dotted name between these positions."""
        level = HostLevel(self._levels[start])
        before, after = self._text[max(0, start - 40) : start], self._text[end : end + 12]
        if level is HostLevel.CONNECTS:
            return level
        if _SAYS_HOST.search(before) and (level is not HostLevel.CODE or not before.endswith(("= ", ": ", "=", ":"))):
            return HostLevel.CONNECTS
        if after[:1] == "=":
            return min(level, HostLevel.CODE)
        if level is HostLevel.CODE:
            return _level_in_code(before, after, has_port=has_port)
        return HostLevel.ANY if has_port and level is HostLevel.LISTED else level

    def _targets(self) -> Iterator[SeenAddress]:
        """Yield what the effects of a command are aimed at, unless every place that names it is judged already."""
        for number, target in enumerate(_targets_elsewhere(self._effects)[: _MAX_TARGETS + 1]):
            host = target.rpartition("@")[2].partition(":")[0] if target.count(":") == 1 else target
            places = [match.start() for match in re.finditer(re.escape(host), self._text, re.IGNORECASE)]
            if not places or not all(self._taken[at] for at in places):
                # One too many stands for all that are not read.
                machines = machines_from_host(host) if number < _MAX_TARGETS else frozenset()
                yield SeenAddress(machines, 0, "", target[:_MAX_WRITTEN], places[0] if places else 0)

    def _whole_value(self) -> Iterator[SeenAddress]:
        """Yield each word that is a number, or that stands in an argument named for a host: every word there is one."""
        text = self._text
        is_list = re.search(r"\s", text.strip()) is not None
        # A list of names, and not a sentence: with a dotted one among them the others are machines' too.
        is_name_list = is_list and "." in text and re.fullmatch(r"[\w.:,;|\s-]*", text) is not None
        previous = ""
        for match in re.finditer(r"[^\s,;|]+", text):
            word, before, previous = match[0].strip("'\"<>"), previous, match[0]
            if word and not self._taken[match.start()] and not self._taken[match.end() - 1]:
                is_host = self._named and _is_host_word(word, is_list=is_list, is_name_list=is_name_list)
                if is_host or self._is_host_number(word, before):
                    authority = re.split(r"[/\\?#]", word, maxsplit=1)[0]
                    yield address_from_authority(authority, word[len(authority) :], word, match.start())

    def _is_host_number(self, word: str, before: str) -> bool:
        """Return whether a number is an address: `ping 127.1`, but not `curl --max-time 2.5`."""
        if ODD_NUMBER.fullmatch(word.partition(":")[0]) is None or (self._fetches and before.startswith("-")):
            return False
        return "." in word or len(word) > 7 or (self._named and not self._fetches)


def _level_of_command(effects: Sequence[Effect]) -> HostLevel:
    """Return how likely the dotted words of a command are machines, by what it does."""
    if any(effect.kind in _UNKNOWN for effect in effects):
        return HostLevel.ANY
    reaches_out = any(effect.severity is Severity.REACHES_OUT and effect.kind != "signs-as" for effect in effects)
    return HostLevel.LISTED if reaches_out else HostLevel.WORDS


def _targets_elsewhere(effects: Sequence[Effect]) -> list[str]:
    """Return what effects are aimed at on other machines, without what the shell fills in later."""
    aimed = [effect for effect in effects if effect.kind in _ELSEWHERE and "$" not in effect.target]
    # A remote of the repository has a name of its own.
    named = [effect.target for effect in aimed if effect.kind != "pushes" or not effect.target.isalnum()]
    return list(dict.fromkeys(filter(None, named)))


def _is_host_word(word: str, *, is_list: bool, is_name_list: bool) -> bool:
    if is_list:
        return is_name_list and re.fullmatch(r"[\w-]{2,63}(?::\d{1,5})?", word) is not None
    return word[0] not in "/#?." and not _NO_AUTHORITY.match(word)


def _is_host(name: str, text: str, start: int, level: HostLevel, *, is_whole: bool) -> bool:
    """Return whether a dotted name is a machine's rather than a file's or a piece of code's."""
    if not is_host_like(name):
        return False
    last = name.rpartition(".")[2].lower()
    if last in FILE_OR_DOMAIN_ENDINGS:
        if level is HostLevel.CONNECTS and _LOCAL_USE.search(text[max(0, start - 16) : start]) is None:
            return True
        # With a path behind it the name is a host.
        return level >= HostLevel.LISTED and text.startswith("/", start + len(name))
    if level >= HostLevel.ANY or (is_whole and len(last) == 2 and last.isascii()):
        return True
    if level is HostLevel.LISTED or not last.isascii() or last.startswith("xn--"):
        # A name with an underscore cannot be registered.
        return to_punycode(last) in TOP_LEVEL_DOMAINS and "_" not in name.split(".")[-2]
    return last in COMMON_DOMAINS and not (level is not HostLevel.PROSE and last in WORDS["attributes"])


def _level_in_code(before: str, after: str, *, has_port: bool) -> HostLevel:
    """Return the level of a dotted name in code: higher where it is the whole of a quoted text."""
    quote = before[-1:]
    if not quote or quote not in "\"'`" or not (after[:1] == quote or (after and after[0] in "/:?.")):
        return HostLevel.CODE
    # `rows["a.b"]` asks for a column, `closest("a.b")` for a part of a page.
    if _ASKS_ELSEWHERE.search(before):
        return HostLevel.CODE
    return HostLevel.ANY if has_port or re.match(r".\s{0,3},\s{0,3}\d", after, re.DOTALL) else HostLevel.LISTED


def _code_spans(text: str) -> list[tuple[int, int]]:
    """Return the parts of a command that are code of another language: in quotes, and in here-documents."""
    spans: list[tuple[int, int]] = []
    for match in _QUOTED.finditer(text):
        inner = match[1] or match[2] or ""
        runs = match[1] is not None and ("$(" in inner or "`" in inner)
        is_code = re.search(r"[\s(=\[]", inner) and not runs and not connects(inner)
        if is_code and not _SHELL.search(text[max(0, match.start() - 80) : match.start()]):
            spans.append((match.start() + 1, match.end() - 1))
    lost: set[str] = set()
    for match in _HERE.finditer(text):
        closes = text.find(f"\n{match[1]}", match.end() - 1) if match[1] not in lost else -1
        if closes < 0:
            lost.add(match[1])
        elif not _SHELL.search(text[max(0, match.start() - 80) : match.start()]) and not _NETWORK_PROGRAM.search(
            text, match.end(), closes
        ):
            spans.append((match.end(), closes))
    return spans


def expansions(text: str, *, is_command: bool) -> Iterator[tuple[str, int]]:
    """Yield words of a command that connects which the shell fills in later, so that their target is unknown."""
    for effect in _effects_of_command(text) if is_command and "$" in text else ():
        if effect.kind in _ELSEWHERE and "$" in effect.target:
            yield effect.target[:_MAX_WRITTEN], 0
    done = 0
    for command in _NETWORK_PROGRAM.finditer(text):
        if command.start() < done:
            continue
        ends = _ENDS_COMMAND.search(text, command.end())
        done = ends.start() if ends else len(text)
        is_option = False
        for match in _SHELL_WORD.finditer(text, command.end(), done):
            word = match[0].lstrip("\"'")
            filled = re.search(r"[$`]|%\w+%", word)
            if filled and (filled.start() == 0 or not (is_option or word[0] == "-" or _host_is_fixed(word, filled))):
                yield match[0][:_MAX_WRITTEN], match.start()
            is_option = word.startswith("-")


def _host_is_fixed(word: str, filled: re.Match[str]) -> bool:
    """Return whether a slash ends the host before the part that is filled in."""
    return "/" in re.sub(r"^[\w+.-]+:[/\\]*", "", word[: filled.start()])
