"""Secrets that stand in a tool's arguments: private keys, the keys of well-known services, labelled passwords.

A tool that another machine answers hears all its arguments, even one that only looks: a forecast needs no private key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lockgate.core.redaction.credentials import MARKS, find_credentials
from lockgate.core.redaction.secret_table import lowercase_same_length
from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.effects.effect import Effect, effect

_LEAST = 12
# Headers and cookies log their own request in, and codes are for the form that asks for them: ordinary use.
_MARKS = MARKS - {"authorization", "bearer", "basic", "cookie"}
_NAMES = {"private-key": "private key", "api-key": "API key", "jwt": "token"}
_LABEL = re.compile(
    r"(?:pass(?:word|wd|phrase|code)|passwort|kennwort|contrase|senha|mot de passe|wachtwoord|parola"
    r"|has[lł]o|парол|密码|secret|(?:api|access|private)[ _-]?key)[^\n]{0,32}$"
)
# The argument that a login or a request has for its own secret.
_OWN = re.compile(r"(?i)pass|token|secret|key|auth|credential|cookie|header")


def find_carried_secrets(leaves: Sequence[Leaf]) -> Iterator[Effect]:
    """Yield an effect for each kind of secret in the arguments; its target says which kind it is."""
    leaves = [leaf for leaf in leaves if len(leaf.text) >= _LEAST]
    everything = lowercase_same_length("\n".join([leaf.text for leaf in leaves]))
    marks = frozenset([mark for mark in _MARKS if mark in everything])
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
