"""The addresses in an argument's text, in any spelling that a program could take for one."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from lockgate.core.ruling.arguments import argument_words, sink_from_argument
from lockgate.core.ruling.scope.domain_names import (
    COMMON_DOMAINS,
    FILE_ENDINGS,
    FILE_OR_DOMAIN_ENDINGS,
    TOP_LEVEL_DOMAINS,
)
from lockgate.core.ruling.scope.hosts_in_commands import (
    HostLevel,
    asked_servers,
    bare_hosts,
    connects,
    odd_numbers,
    option_hosts,
    shell_levels,
)
from lockgate.core.ruling.scope.machines import (
    DOTTED_NAME,
    MAX_REST,
    NO_HOST,
    ODD_NUMBER,
    QUAD,
    SeenAddress,
    address_from_authority,
    address_from_range,
    host_and_port,
    ipv6_machines,
    is_host_like,
    machines_from_host,
    network_from_text,
    network_machines,
    to_punycode,
)

_DEFAULT_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443, "ftp": 21, "ssh": 22, "sftp": 22, "git": 9418}
# Browsers and curl take `http:/host`, `http:host` and `http:\\host` for the same thing.
_URL = re.compile(
    rf"(?i)([a-z][a-z0-9+.-]{{0,30}}):[/\\]{{2,}}([^{NO_HOST}]*)|\b(https?|wss?|ftps?):[/\\]?([^{NO_HOST}]+)"
)
_REST = re.compile(rf"[^\s\"'<>|`]{{0,{MAX_REST}}}")
_RELATIVE = re.compile(rf"(?<![^\s\"'=(,<>\[|;&`])(?://|\\\\)([^{NO_HOST}]+)")
_AFTER_AT = re.compile(rf"(?<=[^\s\"'(\[{{/])@([^{NO_HOST}@]+)")
_DEVICE = re.compile(rf"/dev/(?:tcp|udp)/([^{NO_HOST}]+)(?:/([0-9]{{1,5}}))?")
_BARE_IPV6 = re.compile(r"(?i)(?<![\w:.])(?<![\w)\]]\[)((?:[0-9a-f]{0,4}:){2,7}[0-9a-f.:]{0,15})(/\d{1,3})?(?![\w:])")
_HOST_ARGUMENTS = frozenset(
    "url urls uri uris host hosts hostname hostnames domain domains endpoint webhook proxy href website".split()
)
# In these arguments a dotted value is hardly ever an address. The tool's author names them, not the attacker.
_OTHER_ARGUMENTS = frozenset(
    """
    path paths file files filename filenames filepath dir directory folder glob pattern regex extension module modules
    package packages dependency import class classes function method symbol attribute property field fields column
    columns table tables schema database index key keys setting option flag variable var env metric metrics event
    events topic topics queue stack entity entities device sensor service resource resources permission permissions
    role roles scope scopes policy type kind format mime namespace branch tag ref commit label labels selector locator
    xpath css element version versions model license id ids uuid sku product item reference title subject headline
    user username users author assignee owner handle login password token secret currency amount price date time
    status state language locale timezone unit
    """.split()
)
_LISTED_ARGUMENTS = frozenset("name names args argv arguments params parameters".split())
_SHELL_ARGUMENTS = frozenset("command commands cmd shell args argv program".split())
_MAYBE_HOSTS = frozenset("ip ips addr address server target remote peer origin upstream site link destination".split())
_NO_AUTHORITY = re.compile(r"(?i)(?:about|data|javascript|blob|mailto|tel|urn|file|cid):")
CONTENT_ARGUMENTS = frozenset(
    "content contents body text note notes report summary markdown string file_text message description".split()
)
# In code these come after a dot for other reasons: `self.host`, `c.email`.
_ATTRIBUTES = frozenset(
    """
    live store pro link click space host press work zone world today network systems digital email services solutions
    company site online test local home internal top it at no is be us se in co to me
    """.split()
)
_LOCAL_USE = re.compile(r"(?:[<>]|-[oO]|--output|\b(?:bash|sh|python3?|perl|source|chmod \S+|rm|cat))[ =]*$")
_SAYS_HOST = re.compile(
    r"(?i)(?:(?<!\S)-h\s{1,4}|--host(?:name)?[\s=]{1,4}|--server[\s=]{1,4}|\b(?:host|hostaddr|server|address)\s?[=:]\s?)"
    r"['\"]?\Z"
)
_ASKS_ELSEWHERE = re.compile(
    r"(?is)(?:[\w)\]]\[|\b(?:query_?selector(?:_?all)?|locator|closest|matches|getattr|import_module|getlogger)\().\Z"
)


def name_words(argument: str) -> tuple[str, ...]:
    """Return the words of an argument's own name, and that name itself."""
    return (*argument_words(argument), re.sub(r"\[\d+\]", "", argument).rpartition(".")[2].lower())


def find_addresses(argument: str, text: str, taken: bytearray, *, is_command: bool) -> Iterator[SeenAddress]:
    """Yield every address in the text, in any spelling.

    `taken` marks what an address occupies: the path of a URL is no file's, and its query no second command.
    """
    yield from _AddressFinder(argument, text, taken, is_command=is_command).find()


class _AddressFinder:
    """One text that is searched for addresses.

    `named` says that the argument is named for a host, `maybe` that it may be; `single` that the text is one word;
    `fetches` that it names a program that connects; `shell` that a shell reads it.
    """

    def __init__(self, argument: str, text: str, taken: bytearray, *, is_command: bool) -> None:
        words = set(name_words(argument))
        self._text = text
        self._taken = taken
        # The authorities of URLs: some programs take an `@` in one for the end of a user's name.
        self._authorities = bytearray(len(text))
        self._command = is_command
        self._named, self._maybe = not words.isdisjoint(_HOST_ARGUMENTS), not words.isdisjoint(_MAYBE_HOSTS)
        self._single = not re.search(r"\s", text.strip())
        self._fetches = connects(text)
        self._shell = is_command and (
            sink_from_argument(argument) != "command" or not words.isdisjoint(_SHELL_ARGUMENTS)
        )
        self._levels = self._levels_for(words)

    def _levels_for(self, words: set[str]) -> _HostLevels:
        text = self._text
        if self._named or (self._fetches and not self._shell):
            return _HostLevels(text, HostLevel.CONNECTS)
        if self._shell:
            base = HostLevel.CONNECTS if self._fetches else HostLevel.LISTED
            return _HostLevels(text, base, list(shell_levels(text, fetches=self._fetches)))
        is_code = self._command and re.search(r"[(=\[]", text)
        if self._single and words.isdisjoint(_OTHER_ARGUMENTS | CONTENT_ARGUMENTS) and not is_code:
            is_listed = self._command or not words.isdisjoint(_LISTED_ARGUMENTS)
            return _HostLevels(text, HostLevel.LISTED if is_listed else HostLevel.ANY)
        return _HostLevels(text, HostLevel.CODE if self._command else HostLevel.PROSE)

    def find(self) -> Iterator[SeenAddress]:
        """Yield the addresses, surest spelling first: what one search takes, the next ones pass over."""
        yield from self._urls()
        yield from self._after_at()
        if self._fetches:
            yield from asked_servers(self._text)
        yield from self._relative()
        yield from self._devices()
        yield from self._quads()
        yield from self._ipv6()
        yield from self._names()
        if self._shell:
            yield from option_hosts(self._text, self._taken)
        if self._fetches:
            yield from odd_numbers(self._text)
            if self._command:
                yield from bare_hosts(self._text, self._taken)
        elif self._named or self._maybe:
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
            slash = text.find("/", at, end)
            until = end if slash < 0 else slash
            self._authorities[at:until] = b"\1" * (until - at)
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
            # `curl -F a=@b.txt` sends a file.
            ending = host.rpartition(".")[2].lower()
            is_sent = text[match.start() - 1] == "=" and (ending in FILE_ENDINGS or ending in FILE_OR_DOMAIN_ENDINGS)
            is_sure = self._authorities[match.start()] or (self._fetches and host[:1].isalpha() and not is_sent)
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

    def _devices(self) -> Iterator[SeenAddress]:
        for match in _DEVICE.finditer(self._text):
            self._take(*match.span())
            yield address_from_authority(f"{match[1]}:{match[2] or 0}", "", match[0], match.start())

    def _quads(self) -> Iterator[SeenAddress]:
        for match in QUAD.finditer(self._text):
            if not self._taken[match.start()]:
                self._take(*match.span())
                yield address_from_range(match)

    def _ipv6(self) -> Iterator[SeenAddress]:
        for match in _BARE_IPV6.finditer(self._text):
            written = match[1].rstrip(".")
            is_likely = re.search(r"\d", written) and ("::" in written or written.count(":") == 7)
            if not is_likely or self._taken[match.start()]:
                continue
            network = network_from_text(written + (match[2] or ""))
            if network is not None:
                self._take(*match.span())
                machines = network_machines(network) if match[2] else ipv6_machines(written)
                yield SeenAddress(machines, 0, "", match[0], match.start())

    def _names(self) -> Iterator[SeenAddress]:
        text = self._text
        begins = len(text) - len(text.lstrip(" \t\r\n\"'<("))
        for match in DOTTED_NAME.finditer(text):
            is_whole = self._single and match.start() == begins
            level = self._levels.at(match.start(), match.end(1), has_port=match[3] is not None)
            if text[max(0, match.start() - 1) : match.start()] == "%" and re.match("[0-9A-Fa-f]{2}", match[1]):
                continue  # the reading without percent signs has the whole of it
            if self._taken[match.start()] or not _is_host(match[1], text, match.start(), level, is_whole=is_whole):
                continue
            end = self._end_of_rest(match.end()) if text.startswith("/", match.end()) else match.end()
            self._take(match.start(), end)
            authority = match[1] + (match[2] or "").lstrip(".")
            yield address_from_authority(authority, text[match.end() : end], text[match.start() : end], match.start())

    def _whole_value(self) -> Iterator[SeenAddress]:
        """Yield each word of an argument that is named for a host: every word there is one."""
        text = self._text
        is_list = re.search(r"\s", text.strip()) is not None
        # A list of names, and not a sentence: with a dotted one among them the others are machines' too.
        is_name_list = is_list and "." in text and re.fullmatch(r"[\w.:,;|\s-]*", text) is not None
        for match in re.finditer(r"[^\s,;|]+", text):
            word = match[0].strip("'\"<>")
            if not word or self._taken[match.start()] or self._taken[match.end() - 1]:
                continue
            if self._is_host_word(word, is_list=is_list, is_name_list=is_name_list):
                authority = re.split(r"[/\\?#]", word, maxsplit=1)[0]
                yield address_from_authority(authority, word[len(authority) :], word, match.start())

    def _is_host_word(self, word: str, *, is_list: bool, is_name_list: bool) -> bool:
        is_number = ODD_NUMBER.fullmatch(word.partition(":")[0]) is not None
        if is_number and (self._named or "." in word or len(word) > 7):
            return True
        if not self._named:
            return False
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
    return last in COMMON_DOMAINS and not (level is not HostLevel.PROSE and last in _ATTRIBUTES)


class _HostLevels:
    """The levels of a text, looked up by position."""

    def __init__(self, text: str, base: HostLevel, found: list[tuple[int, HostLevel]] | None = None) -> None:
        self._text = text
        self._base = base
        self._starts = [start for start, _ in found or ()]
        self._kinds = [level for _, level in found or ()]

    def at(self, start: int, end: int, *, has_port: bool) -> HostLevel:
        """Return the level of a dotted name between these positions."""
        found = bisect_right(self._starts, start) - 1
        level = self._kinds[found] if found >= 0 else self._base
        if level is HostLevel.CONNECTS:
            return level
        before, after = self._text[max(0, start - 40) : start], self._text[end : end + 12]
        if _SAYS_HOST.search(before) and (level is not HostLevel.CODE or not before.endswith(("= ", ": ", "=", ":"))):
            return HostLevel.CONNECTS
        if level is HostLevel.ANY:
            return level
        if after[:1] == "=":
            return min(level, HostLevel.CODE)
        if level is HostLevel.CODE:
            return _level_in_code(before, after, has_port=has_port)
        return HostLevel.ANY if has_port and level is HostLevel.LISTED else level


def _level_in_code(before: str, after: str, *, has_port: bool) -> HostLevel:
    """Return the level of a dotted name in code: higher where it is the whole of a quoted text."""
    quote = before[-1:]
    if not quote or quote not in "\"'`" or not (after[:1] == quote or (after and after[0] in "/:?.")):
        return HostLevel.CODE
    # `rows["a.b"]` asks for a column, `closest("a.b")` for a part of a page.
    if _ASKS_ELSEWHERE.search(before):
        return HostLevel.CODE
    return HostLevel.ANY if has_port or re.match(r".\s{0,3},\s{0,3}\d", after, re.DOTALL) else HostLevel.LISTED
