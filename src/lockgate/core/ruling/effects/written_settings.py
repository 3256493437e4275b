"""Lines of written text that set something which protects to off, or open something to all."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lockgate.core.ruling.effects.effect import Effect, effect
from lockgate.core.ruling.effects.tool_arguments import PAIRS, ROLES, name_parts

_MAX_SETTINGS = 20
_MAX_VALUES = 2000
_NAME_SPACE = 90
_PROGRAM = re.compile(r"(?i)\.(?:py|pyi|jsx?|tsx?|mjs|cjs|go|rs|java|kt|scala|rb|php|cs|cc?|cpp|hpp?|swift|dart|vue)$")
# The value is looked for first: few lines have one, and the name before it is bounded.
_VALUE = re.compile(
    r"(?:=>|[:=])[ \t]{0,20}[\"'\[]{0,2}"
    r"((?i:false|off|no|disabled?|never|true|on|yes|enabled?|public(?:-read(?:-write)?)?|write-all|allusers|allow_any)"
    r"|none|0)(?![\w.-])"
)
_NAME = re.compile(r"([\w.-]{2,64})[\"'\])]{0,2}[ \t]{0,20}$")
# Words that weaken wherever they stand.
_OPEN = re.compile(
    r"(?<![\w.:/-])(0\.0\.0\.0/0|::/0|--no-verify|--no-check-certificate|--insecure|--privileged"
    r"|--no-gpg-check|--allow-unauthenticated|--disable-(?:auth|tls|ssl|web-security|sandbox|audit)[\w-]{0,40})(?![\w/-])"
)
_COMMENT = re.compile(r"\s*(?:#|//|\*|--\s|<!--|;)")
_OFF = ROLES["off"] | {"0"}
_PROTECTS = ROLES["protects"] | ROLES["protects when written"]
# The name of such a setting says nothing: what it is about stands in the line above.
_STATE_NAMES = frozenset("enabled enable active on".split())
_ABOVE = re.compile(r"([\w.-]{2,64})[\"']?[ \t]{0,4}[:=]?[ \t]{0,4}\{?[ \t]{0,4}\r?\n[ \t]*(?:-[ \t]*)?[\"']?$")


def read_written_settings(path: str, text: str, replaced: str, argument: str) -> Iterator[Effect]:
    """Yield an effect for each setting that protects less once this text stands where the replaced one stood."""
    before = set(_weak_settings(path, replaced)) if replaced else set()
    known = {(name, value) for name, value, _, _ in before}
    for name, value, start, end in _weak_settings(path, text):
        if (name, value) not in known:
            known.add((name, value))
            yield effect("weakens-setting", name, argument=argument, span=(start, end))
            if len(known) > _MAX_SETTINGS + len(before):
                return


def _weak_settings(path: str, text: str) -> Iterator[tuple[str, str, int, int]]:
    is_program = _PROGRAM.search(path) is not None
    for count, match in enumerate(_VALUE.finditer(text)):
        if count > _MAX_VALUES:
            break
        begin = max(text.rfind("\n", 0, match.start()) + 1, match.start() - _NAME_SPACE)
        line = text[begin : match.start()]
        named = _NAME.search(line)
        if named is None or _COMMENT.match(line):
            continue
        name, value = named[1].strip(".-"), match[1].lower()
        if name.lower() in _STATE_NAMES and (
            above := _ABOVE.search(text, max(0, begin - _NAME_SPACE), begin + named.start(1))
        ):
            name = above[1]
        if is_program and not _is_setting_of_program(line, named[1], match[0]):
            continue
        if _weakens(name_parts(name.replace(".", "_")), value):
            yield name, value, begin + named.start(1), match.end(1)
    for match in _OPEN.finditer(text):
        line = text[max(text.rfind("\n", 0, match.start()) + 1, match.start() - _NAME_SPACE) : match.start()]
        if not _COMMENT.match(line) and "egress" not in line:
            yield match[1], match[1], *match.span(1)


def _is_setting_of_program(line: str, name: str, value: str) -> bool:
    """Return whether a program sets an option here; its own variables (`encrypted = false`) are no settings."""
    if value.startswith("=") and not value.startswith("=>") and (line.endswith(" ") or value[1:2] == " "):
        return name.isupper() or "." in name
    return not re.match(r"\s*(?:async\s+)?(?:def|function|func|fn)\s", line)


def _weakens(words: frozenset[str], value: str) -> bool:
    if value in _OFF:
        return not words.isdisjoint(_PROTECTS) or any(pair <= words for pair in PAIRS) or "private" in words
    if value in ROLES["on"]:
        if not words.isdisjoint(ROLES["skips"]) and not words.isdisjoint(_PROTECTS):
            return True
        return not words.isdisjoint(ROLES["unprotected"] | ROLES["open when written"])
    return not words.isdisjoint(ROLES["visibility"] | {"permissions", "principal", "member", "members"})
