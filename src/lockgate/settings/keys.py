"""The one table of settings: what a row says, and how a value of TOML or of the environment is read by it.

Three files declare rows: config.py (keys of the configuration files), verifiers.py (environment variables) and
abuse_gate.py (both). Parsing, errors, `lockgate config show` and the reference pages all come from the rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lockgate.core.errors import InvalidConfig, printable, quoted, suggest_closest
from lockgate.core.vocabulary import Trust


class KeyForm(StrEnum):
    """What a key holds, in the words of its error messages and its documentation."""

    WORD = "one of a few words"
    TEXT = "a string"
    TEXTS = "an array of strings"
    FLAG = "true or false"
    COUNT = "a whole number"
    SECONDS = "a number of seconds"


@dataclass(frozen=True, slots=True)
class Row:
    """One setting, declared once.

    `key` is its dotted name in a TOML file, `variable` its environment variable; a setting may have one of them or
    both. `fills` is the field that takes the value. The default of an environment variable is text, as in a shell.
    `tightens` says how a project file may change the setting; empty, and only the operator may set it. `adapters` are
    the verifiers that read it, and those do not start without a `needed` one. A `secret` never stands in a TOML file:
    NAME_FILE names a file that holds it.
    """

    doc: str
    form: KeyForm = KeyForm.TEXT
    key: str = ""
    variable: str = ""
    default: object = ""
    fills: str = ""
    words: Mapping[str, object] = field(default_factory=dict)
    least: float = 0
    most: float = 0
    tightens: str = ""
    adapters: tuple[str, ...] = ()
    needed: bool = False
    secret: bool = False

    @property
    def name(self) -> str:
        """The key without its table."""
        return self.key.rpartition(".")[2]

    @property
    def table(self) -> str:
        return self.key.rpartition(".")[0]

    @property
    def allowed(self) -> str:
        """What a TOML file may say, in words."""
        if self.form is KeyForm.WORD:
            return "one of " + ", ".join(f'"{word}"' for word in self.words)
        if self.form in (KeyForm.COUNT, KeyForm.SECONDS):
            return f"{self.form} from {self.least:,} to {self.most:,}"
        return self.form.value


# --- TOML


def value_from_toml(row: Row, raw: object) -> object:
    """Return a raw TOML value as the row's field wants it; raise InvalidConfig, which goes on after the key's name."""
    # True is an int to Python, and not a number in TOML.
    number = raw if isinstance(raw, int | float) and not isinstance(raw, bool) else None
    in_range = number is not None and row.least <= number <= row.most
    if row.form is KeyForm.WORD and isinstance(raw, str) and raw in row.words:
        return row.words[raw]
    if row.form is KeyForm.TEXT and isinstance(raw, str):
        return raw
    if row.form is KeyForm.FLAG and isinstance(raw, bool):
        return raw
    if row.form is KeyForm.COUNT and isinstance(number, int) and in_range:
        return number
    if row.form is KeyForm.SECONDS and number is not None and in_range:
        return float(number)
    if row.form is KeyForm.TEXTS and isinstance(raw, list):
        odd = [(place, item) for place, item in enumerate(raw, 1) if not isinstance(item, str)]
        if not odd:
            return tuple(raw)
        raise InvalidConfig(f"must be {row.allowed}, but item {odd[0][0]} is {toml_type(odd[0][1])}")
    raise InvalidConfig(f"must be {row.allowed}, not {_shown_value(row, raw)}", hint=_value_hint(row, raw))


def _shown_value(row: Row, raw: object) -> str:
    # A number is not repeated: Python refuses to print those of some thousand digits.
    if (row.form is KeyForm.SECONDS and type(raw) in (int, float)) or (row.form is KeyForm.COUNT and type(raw) is int):
        return "this number"
    return quoted(raw) if isinstance(raw, str) else toml_type(raw)


def _value_hint(row: Row, raw: object) -> str:
    if not isinstance(raw, str):
        return ""
    if row.form is KeyForm.WORD:
        return suggest_closest(raw.lower(), row.words).replace("`", '"')
    return f'write {row.name} = ["…"]' if row.form is KeyForm.TEXTS else "write it without quotes"


def toml_type(value: object) -> str:
    """Return the TOML name of a value's type."""
    names = {bool: "a boolean", int: "an integer", float: "a float", str: "a string", list: "an array", dict: "a table"}
    return names.get(type(value), "a date or time")


def as_toml(value: object) -> str:
    """Return a value as it would be written in a TOML file, with control characters escaped."""
    if isinstance(value, Trust):
        return as_toml(value.word)
    if isinstance(value, str):
        return f'"{"".join(map(_escape_character, value))}"'
    if isinstance(value, tuple):
        return f"[{', '.join(map(as_toml, value))}]"
    return str(value).lower()


def _escape_character(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08X}"


# --- environment


class Environment:
    """The variables of one process, read by rows. A row's variable counts before its key in `table`.

    Each error names the spelling that was used. With `refuse_quotes`, a value in quotation marks is an error: a shell
    removes them, a file of variables does not.
    """

    def __init__(
        self, environ: Mapping[str, str], table: Mapping[str, object] | None = None, *, refuse_quotes: bool = False
    ) -> None:
        self.variables, self._table, self._refuse_quotes = dict(environ), dict(table or {}), refuse_quotes

    def variable(self, name: str) -> str:
        """Return a variable's value; one that is blank, as compose files leave them, counts as not set."""
        text = self.variables.get(name, "").strip()
        if self._refuse_quotes and is_quoted(text):
            # The value is not shown: it may be a key.
            raise InvalidConfig(
                f"{printable(name, 120)} has quotes around its value",
                hint="remove them: a shell takes them away, a file of variables does not",
            )
        return text

    def text(self, row: Row) -> tuple[str, str]:
        """Return the value as text, or the default, and the name of the place where it stands."""
        text = self.variable(row.variable)
        if not text and row.name in self._table:
            return _text_from_toml(row, self._table[row.name]), f"`{row.key}`"
        return text or str(row.default), row.variable

    def value(self, row: Row) -> object:
        """Return the value as the row's field wants it."""
        if row.form is KeyForm.WORD:
            return row.words[self._word(row)]
        if row.form is KeyForm.COUNT:
            return int(self._number(row))
        return self._number(row) if row.form is KeyForm.SECONDS else self.text(row)[0]

    def _word(self, row: Row) -> str:
        text, where = self.text(row)
        if text not in row.words:
            hint = suggest_closest(text.lower(), row.words) or f"unset it for the default, {row.default}"
            raise InvalidConfig(f"{where} must be one of {', '.join(row.words)}, not {quoted(text)}", hint=hint)
        return text

    def _number(self, row: Row) -> float:
        text, where = self.text(row)
        whole = row.form is KeyForm.COUNT
        # Not float() and int() alone: they take `1_500`, `nan`, `1e9` and digits of any script.
        pattern = r"[0-9]{1,9}" if whole else r"[0-9]{1,9}(?:\.[0-9]{1,6})?"
        if not re.fullmatch(pattern, text) or not row.least <= float(text) <= row.most:
            kind = "a whole number" if whole else "a number"
            raise InvalidConfig(
                f"{where} must be {kind} from {row.least:,} to {row.most:,}, not {quoted(text)}",
                hint=f"unset it for the default, {row.default}",
            )
        return float(text)


def is_quoted(text: str) -> bool:
    """Return whether the text begins or ends with a quotation mark."""
    return text.startswith(("'", '"')) or text.endswith(("'", '"'))


def _text_from_toml(row: Row, raw: object) -> str:
    """Return a TOML value as the environment would say it; raise InvalidConfig for shapes it cannot say."""
    if isinstance(raw, bool):
        return str(raw).lower()
    if isinstance(raw, int | float):
        # Python refuses to print whole numbers of some thousand digits.
        return f"{raw:.6f}".rstrip("0").rstrip(".") if abs(raw) < 10**12 else "a number too large"
    if isinstance(raw, str):
        return raw.strip()
    if isinstance(raw, list) and all(isinstance(each, str) for each in raw):
        return ",".join(raw)
    raise InvalidConfig(
        f"`{row.key}` cannot be {printable(type(raw).__name__)}",
        hint=f"the default is {row.default}" if row.default else "leave it out",
    )
