"""Every error Lockgate raises on purpose.

LockgateError
├── InvalidBlock        a block that breaks the rules of trust
├── InvalidCall         a tool call that is not a name and a JSON object
├── InvalidPattern      a pattern the scanner's engine cannot take
├── InvalidTrace        a line of a trace that cannot be read
├── InvalidPayload      a request to assess that is not of the normalized shape
├── InvalidRecord       what is not a record of the journal, or not the one spelling of it
├── InvalidNote         what is not a signed note, checkpoint, key or proof, or does not hold
├── JournalUnavailable  nothing can be recorded now
│   ├── JournalUncosigned  it is recorded, and no witness has cosigned it yet
│   └── JournalDamaged  what is stored is not what was stored
├── SessionsUnavailable sessions can be neither read nor kept now
└── InvalidConfig       a configuration that must not start
"""

from __future__ import annotations

from collections.abc import Iterable


class LockgateError(Exception):
    """What was wrong, lowercase and without a full stop, and what to do about it when we know."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class InvalidBlock(LockgateError):
    pass


class InvalidCall(LockgateError):
    pass


class InvalidPattern(LockgateError):
    pass


class InvalidTrace(LockgateError):
    pass


class InvalidPayload(LockgateError):
    pass


class InvalidRecord(LockgateError):
    pass


class InvalidNote(LockgateError):
    pass


class JournalUnavailable(LockgateError):
    """What was not acknowledged may have been stored all the same."""


class JournalUncosigned(JournalUnavailable):
    """What was recorded is stored, and no witness has cosigned it in time: it does not count yet."""


class JournalDamaged(JournalUnavailable):
    """A person has to look."""


class SessionsUnavailable(LockgateError):
    """What was not acknowledged may have been kept all the same."""


class InvalidConfig(LockgateError):
    pass


def printable(text: object, limit: int = 60) -> str:
    """Somebody's text on one line of ours: cut short, and with nothing in it that a terminal would obey."""
    plain = str(text)[: limit + 1]
    if not plain.isprintable():
        # Line ends are most of what there is, and what the command shows as these signs elsewhere.
        plain = plain.replace("\n", r"\n").replace("\r", r"\r").replace("\t", r"\t")
        if not plain.isprintable():
            plain = "".join([ch if ch.isprintable() else "\N{REPLACEMENT CHARACTER}" for ch in plain])
    return f"{plain[:limit]}…" if len(plain) > limit else plain


def quoted(text: object, limit: int = 60) -> str:
    """User input for an error message: printable, in backticks."""
    return f"`{printable(text, limit)}`"


def suggest_closest(word: str, known: Iterable[str]) -> str:
    """Return a hint with the known word that was probably meant; empty when none is near."""
    from difflib import get_close_matches

    # Comparing takes time quadratic in the length, and no known word is long.
    near = get_close_matches(word[:60], list(known), n=1)
    return f"did you mean `{near[0]}`?" if near else ""
