"""Every error that Lockgate raises on purpose. All are kinds of `LockgateError`."""

from __future__ import annotations

from collections.abc import Iterable


class LockgateError(Exception):
    """The base of all errors: a `message`, lowercase and without a full stop, and a `hint` for the next step."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class InvalidBlock(LockgateError):
    """A block that breaks the rules of trust."""


class InvalidCall(LockgateError):
    """A tool call that is not a name and a JSON object."""


class InvalidPattern(LockgateError):
    """A pattern that the scanner's engine cannot take."""


class InvalidTrace(LockgateError):
    """A line of a trace that cannot be read."""


class InvalidPayload(LockgateError):
    """A request to assess that is not of the normalized shape."""


class InvalidRecord(LockgateError):
    """Bytes that are no record of the journal, or not its canonical form."""


class InvalidNote(LockgateError):
    """A signed note, checkpoint, key or proof that is malformed or does not verify."""


class JournalUnavailable(LockgateError):
    """The journal cannot be written; a record that was not acknowledged may have been stored all the same."""


class JournalUncosigned(JournalUnavailable):
    """The record is stored, but no witness has cosigned it yet: it does not count."""


class JournalDamaged(JournalUnavailable):
    """The stored bytes have changed since they were written."""


class SessionsUnavailable(LockgateError):
    """The session store fails; a change that was not acknowledged may have been stored all the same."""


class SessionsBusy(SessionsUnavailable):
    """Too many calls wait, or this one took too long. `by_caller` says that most of them are the caller's own.

    The call must not run. Where it took too long, its ruling may be on record.
    """

    def __init__(self, message: str, *, hint: str = "", by_caller: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.by_caller = by_caller


class InvalidConfig(LockgateError):
    """A configuration that must not start."""


def printable(text: object, limit: int = 60) -> str:
    """Return foreign text for one line of a message: cut short, and without anything that a terminal would obey."""
    plain = str(text)[: limit + 1]
    if not plain.isprintable():
        # The commands show line ends and tabs as these escapes elsewhere too.
        plain = plain.replace("\n", r"\n").replace("\r", r"\r").replace("\t", r"\t")
        plain = "".join([ch if ch.isprintable() else "\N{REPLACEMENT CHARACTER}" for ch in plain])
    return f"{plain[:limit]}…" if len(plain) > limit else plain


def quoted(text: object, limit: int = 60) -> str:
    """Return user input for an error message: printable, in backticks."""
    return f"`{printable(text, limit)}`"


def has_half_pair(text: str) -> bool:
    """Return whether a text holds half of a surrogate pair: it is no character, and no store takes it."""
    return not text.isascii() and text.encode("utf-8", "ignore").decode() != text


def suggest_closest(word: str, known: Iterable[str]) -> str:
    """Return a hint with the known word that was probably meant; empty when none is near."""
    from difflib import get_close_matches

    # Comparing takes time quadratic in the length, and no known word is long.
    near = get_close_matches(word[:60], list(known), n=1)
    return f"did you mean `{near[0]}`?" if near else ""
