"""Secrets that stand in a call's arguments: by their shape, and by where the session has read them.

A tool that another machine answers hears all its arguments, even one that only looks: a forecast needs no private key.
Values from files of keys, from variables and from calls that make a key are remembered by digests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import islice

from lockgate.core.redaction.secrets import MARKS, find_credentials, lowercase_same_length
from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.effects.effect import Effect, effect
from lockgate.core.ruling.effects.paths import is_secret, is_secret_variable
from lockgate.core.ruling.tool_risk import read_tool_name

_LEAST = 12
# Headers and cookies log their own request in, and codes are for the form that asks for them: ordinary use.
_MARKS = MARKS - {"authorization", "bearer", "basic", "cookie"}
_NAMES = {"private-key": "private key", "api-key": "API key", "jwt": "token"}
_LABEL = re.compile(
    r"(?:pass(?:word|wd|phrase|code)|passwort|kennwort|contrase|senha|mot de passe|wachtwoord|parola"
    r"|has[lł]o|парол|密码|secret|(?:api|access|private)[ _-]?key)[^\n]{0,32}$"
)
# A secret is long, or stands behind a label: most texts have neither.
_LONG = re.compile(r"[\w+/=-]{16}")
_STEMS = "pass parol kennwort contrase senha wachtwoord haslo hasło парол 密码 secret key".split()
# The argument that a login or a request has for its own secret.
_OWN = re.compile(r"(?i)pass|token|secret|key|auth|credential|cookie|header")


def find_carried_secrets(leaves: Sequence[Leaf]) -> Iterator[Effect]:
    """Yield an effect for each kind of secret in the arguments; its target says which kind it is."""
    leaves = [leaf for leaf in leaves if len(leaf.text) >= _LEAST]
    everything = lowercase_same_length("\n".join([leaf.text for leaf in leaves]))
    marks = _marks_in(everything)
    done = set()
    for leaf in leaves if marks else ():
        low = lowercase_same_length(leaf.text)
        is_own = _OWN.search(leaf.argument) is not None
        for span in find_credentials(leaf.text, low, marks):
            is_labelled = span.kind == "secret" and _LABEL.search(low, max(0, span.start - 64), span.start)
            name = "password" if is_labelled else _NAMES.get(span.kind, "")
            if name and name not in done and (not is_own or name == "private key"):
                done.add(name)
                yield effect("sends-secret", name, argument=leaf.argument, span=(span.start, span.end))


def _marks_in(text: str) -> frozenset[str]:
    words = [word for word in text.split() if len(word) > _LEAST]
    may_hold = any(map(text.__contains__, _STEMS)) or any(map(_LONG.search, words))
    return frozenset([mark for mark in _MARKS if mark in text] if may_hold else ())


# Programs that print secrets whose words name no file of keys.
_PRINTS_SECRETS = re.compile(
    r"(?:^|[\s;&|(`])(?:env|printenv|ssh-keygen|gpg\s+--export-secret|pass\s+show|op\s+read|vault\s+(?:kv\s+get|read)"
    r"|security\s+find-|gh\s+auth\s+token|kubectl\s+get\s+secret|aws\s+iam\s+create-access-key)\b|autofill"
)
_WORD = re.compile(r"[^\s'\"=;|&<>()]+")
_NAMED = re.compile(r"(?<![\w-])([A-Za-z_][\w-]{1,80})[\"']?[ \t]{0,4}[=:][ \t]{0,4}[\"']?([^\s\"',;]{12,512})")
_PASSWORD_IN_URL = re.compile(r"://[^:@/\s]{0,80}:([^@/\s]{12,200})@")
_MIXED = re.compile(
    r"(?<![\w+/=-])(?=[\w+/=-]{0,200}?\d)(?=[\w+/=-]{0,200}?[A-Z])(?=[\w+/=-]{0,200}?[a-z])[\w+/=-]{20,512}"
)
_VALUE = re.compile(r"[\w+/=.~%!$*-]{12,512}")
_MOST_VALUES, _MOST_LOOKED_AT, _MOST_TEXT = 256, 4_000, 64 * 1024


def shows_secrets(tool: str, asked: Iterable[str]) -> bool:
    """Return whether the result of a call holds secrets, by its tool or file and by what it was given."""
    if is_secret(tool) or read_tool_name(tool).kind in ("reads-secret", "makes-key") or _PRINTS_SECRETS.search(tool):
        return True
    return any(_PRINTS_SECRETS.search(text) or any(map(is_secret, _WORD.findall(text))) for text in asked)


def digests_of_secrets(content: str) -> frozenset[bytes]:
    """Return digests of the secrets in a text that holds some: values by their names, and long mixed ones."""
    text = content[:_MOST_TEXT]
    values = [value for name, value in _NAMED.findall(text) if "://" not in value and is_secret_variable(name)]
    values += _PASSWORD_IN_URL.findall(text) + _MIXED.findall(text)
    return frozenset(map(_digest, values[:_MOST_VALUES]))


def find_known_secrets(leaves: Sequence[Leaf], secrets: frozenset[bytes]) -> Iterator[Effect]:
    """Yield an effect for the first value in the arguments that was read as a secret."""
    for leaf in leaves if secrets else ():
        for match in islice(_VALUE.finditer(leaf.text), _MOST_LOOKED_AT):
            value = match[0]
            pieces = (value, value.strip("=/."), *value.split("="), *value.split("/"))
            if not _OWN.search(leaf.argument) and any(
                _digest(piece) in secrets for piece in pieces if len(piece) >= _LEAST
            ):
                yield effect("sends-secret", "a value that was read", argument=leaf.argument, span=match.span())
                return


def _digest(value: str) -> bytes:
    return blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).digest()
