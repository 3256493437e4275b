"""What in a call's arguments lies beyond the border of a scope.

The arguments are read in every way a program may read them: with quotes dropped, percent codes and base64 decoded. What
cannot be read is a finding too, since an attacker chooses what cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from lockgate.core.errors import printable
from lockgate.core.ruling.arguments import Leaf, sink_from_argument
from lockgate.core.ruling.effects.project import normalize_path
from lockgate.core.ruling.scope.addresses_in_arguments import AddressFinder, connects, expansions, name_words
from lockgate.core.ruling.scope.border import MAX_TEXT, Border
from lockgate.core.ruling.scope.domain_names import WORDS
from lockgate.core.ruling.scope.machines import DOTS, SCHEME
from lockgate.core.ruling.tool_risk import canonical_tool, tool_words
from lockgate.core.text.confusables import COMPATIBLE
from lockgate.core.text.decode import decode_run
from lockgate.core.vocabulary import Finding

OUTSIDE, UNREADABLE, UNREAD = "scope:outside", "scope:unreadable", "scope:unread"
MAX_FINDINGS = 20
_MAX_EXCERPT = 120
_WRITERS = frozenset("note notes draft memo report journal".split())
_CUT = ("", "", UNREAD)


def find_crossings(edge: Border, leaves: Sequence[Leaf], *, tool: str = "") -> list[Finding]:
    """Return one finding for each address or path beyond the border, bounded in number.

    A tool that only writes may mention any address in what it writes: mentioning is not going there.
    """
    if not edge:
        return []
    only_writes = bool(tool) and (canonical_tool(tool) == "write" or not _WRITERS.isdisjoint(tool_words(tool)))
    is_shell = bool(tool) and canonical_tool(tool) == "bash"
    found: dict[tuple[str, str, str], Finding] = {}
    left = MAX_TEXT
    for leaf in leaves:
        argument, text, how = leaf
        if only_writes and not WORDS["content arguments"].isdisjoint(name_words(argument)):
            continue
        if len(text) > left:
            found[_CUT] = Finding(UNREAD, argument, 0, len(text), how)
            text = text[:left]
        left -= len(text)
        for written, finding in _crossings_in_leaf(edge, Leaf(argument, text, how), is_shell=is_shell):
            found.setdefault((argument, written, finding.rule), finding)
            if len(found) >= MAX_FINDINGS:
                return list(found.values())
        if _CUT in found:
            break
    return list(found.values())


def _crossings_in_leaf(edge: Border, leaf: Leaf, *, is_shell: bool) -> Iterator[tuple[str, Finding]]:
    """Yield the crossings in one value, in each of its readings, with how they are written."""
    argument, text, how = leaf
    is_command = is_shell or sink_from_argument(argument) == "command"
    for reading, read in _readings_of_text(argument, text):
        crossings = _crossings_in_text(edge, argument, read, is_command=is_command, has_quotes=reading != "unquoted")
        for rule, written, start in crossings:
            # In another reading than the argument's own, offsets point nowhere: the whole value is meant.
            where = (start, start + len(written)) if reading == "exact" else (0, len(text))
            name = how if reading == "exact" else reading
            yield (
                written,
                Finding(rule, argument, *where, "raw" if name == "exact" else name, printable(written, _MAX_EXCERPT)),
            )


def _crossings_in_text(
    edge: Border, argument: str, text: str, *, is_command: bool, has_quotes: bool
) -> Iterator[tuple[str, str, int]]:
    taken = bytearray(len(text))
    for seen in AddressFinder(argument, text, taken, is_command=is_command).find():
        if not edge.contains(seen):
            yield OUTSIDE, seen.written, seen.start
    # Without its quotes a text no longer says where its words end.
    if has_quotes:
        yield from ((UNREADABLE, word, start) for word, start in expansions(text, is_command=is_command))
    if edge.guards_paths:
        for written, start in _find_paths(argument, text, taken, is_command=is_command):
            if not edge.contains_path(written):
                yield OUTSIDE, written, start


# ---------------------------------------------------------------------------------------------------------------
# How a program may read a text

_QUOTES = re.compile(r"['\"]+")
_DECODES = re.compile(r"(?i)base64|b64|atob")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}")


def _readings_of_text(argument: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the text as it stands, and as programs that get it may read it, each with the reading's name."""
    yield "exact", text
    plain = text if text.isascii() else text.translate(COMPATIBLE).translate(DOTS)
    if plain != text:
        yield "folded", plain
    yield from (("percent", decoded) for decoded in _decode_percent_codes(plain))
    # A shell drops quotes and backslashes inside a word: `ev''il.com`.
    if re.search(r"[\\'\"^]", plain) and (sink_from_argument(argument) in ("command", "") or connects(plain)):
        yield "unquoted", _QUOTES.sub(_drop_inner_quotes, re.sub(r"[\\^]", "", plain))
    # Where something is told to decode it, a short text is code as well.
    if _DECODES.search(plain):
        found = (decode_run(run.encode()).said for run in _BASE64.findall(plain))
        if said := "\n".join(filter(None, found)):
            yield "base64", said
    # Parsers of URLs drop tabs and line ends wherever they stand; a list of whole URLs is no such case.
    if re.search(r"[\t\r\n]", plain) and " " not in plain.strip():
        pieces = plain.split()
        if SCHEME.match("".join(pieces)) and not all(map(SCHEME.match, pieces)):
            yield "joined", "".join(pieces)


def _decode_percent_codes(text: str) -> Iterator[str]:
    """Yield the text with its percent codes decoded once, twice and three times, as long as that changes it."""
    for _ in range(3):
        again = unquote(text) if "%" in text else text
        if again == text:
            break
        text = again
        yield text


def _drop_inner_quotes(quotes: re.Match[str]) -> str:
    """Return nothing for quotes inside a word; quotes around a word say where it ends, and stay."""
    text, (start, end) = quotes.string, quotes.span()
    if start == 0 or end == len(text):
        return quotes[0]
    is_inside = all(ch.isalnum() or ch in "._-" for ch in (text[start - 1], text[end]))
    return "" if is_inside else quotes[0]


# ---------------------------------------------------------------------------------------------------------------
# Which paths an argument holds

_PATH = re.compile(
    r"(?<![^\s\"'=:(<>|;&,@`])(~[\w.-]*(?:/[^\s\"'<>|;&()`,]*)?|/[^\s\"'<>|;&()`,]+|[A-Za-z]:[\\/][^\s\"'<>|;&()`,]*|\.\.(?:[\\/][^\s\"'<>|;&()`,]*)?|[\w.-]{1,255}/[^\s\"'<>|;&()`,]*)"
)
_ABSOLUTE = re.compile(r"[~/\\]|[A-Za-z]:[\\/]")
_HARMLESS = re.compile(r"/dev/(?:null|zero|stdin|stdout|stderr|tty|fd/\d+|(?:tcp|udp)/.*)")
_PROGRAM = re.compile(r"/(?:usr/)?(?:local/)?s?bin/[\w.+-]+")


def _find_paths(argument: str, text: str, taken: bytearray, *, is_command: bool) -> Iterator[tuple[str, int]]:
    """Yield the paths in a text that may lie elsewhere than in the working folder, with where they stand."""
    if is_command or connects(text):
        yield from _paths_in_command(text, taken)
        return
    sink, whole = sink_from_argument(argument), text.strip()
    if whole.lower().startswith("file://"):
        yield whole[7:], 0
    elif sink == "path" or (sink == "" and not re.search(r"\s", whole)):
        if whole and not any(taken) and _may_lie_elsewhere(whole):
            yield whole, 0


def _paths_in_command(text: str, taken: bytearray) -> Iterator[tuple[str, int]]:
    for match in _PATH.finditer(text):
        path, start = match[1], match.start()
        is_first = text[max(0, start - 99) : start].rstrip()[-1:] in ("", ";", "&", "|", "(")
        is_run = is_first and _PROGRAM.fullmatch(path)
        if not (taken[start] or is_run or _HARMLESS.fullmatch(path)) and _may_lie_elsewhere(path):
            yield path, start


def _may_lie_elsewhere(path: str) -> bool:
    """Return whether a path is absolute, or climbs above the folder it starts in, which is not known here."""
    return _ABSOLUTE.match(path) is not None or normalize_path(path.replace("\\", "/")).startswith("..")
