"""Records as JSON-ready values and back: the names of their fields are the JSON keys that other programs read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from lockgate.core.vocabulary import Decision, Trust

# Moves when a key changes its meaning or goes away; a new key alone does not move it.
SCHEMA = "lockgate/1"

_DECISION_KEYS = (
    *("action", "tier", "reason", "risk", "explanation", "findings", "origins", "effects", "correction", "approval"),
    *("width", "tiers", "cost_usd", "latency_us", "receipt"),
)
_DIGITS = {"latency_us": 3, "cost_usd": 9}
_Record = TypeVar("_Record", bound=tuple[object, ...])
_field_types = lru_cache(get_type_hints)


def decision_to_dict(decision: Decision) -> dict[str, object]:
    """Return a decision as a JSON object, with what each tier said, the rules included."""
    return _members_to_dict(decision, _DECISION_KEYS)


def record_to_dict(record: Any) -> dict[str, object]:
    """Return a named tuple or a dataclass as a JSON object. `build_lineage` bounds the one kind that nests."""
    return _members_to_dict(record, getattr(record, "_fields", ()) or [field.name for field in fields(record)])


def _members_to_dict(record: Any, names: Iterable[str]) -> dict[str, object]:
    return {name: _value_to_json(getattr(record, name), _DIGITS.get(name)) for name in names}


def _value_to_json(value: Any, digits: int | None = None) -> object:
    if isinstance(value, Trust):
        return value.word
    if isinstance(value, StrEnum | IntEnum):
        return value.value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and digits is not None:
        return round(value, digits)
    if hasattr(value, "_fields") or is_dataclass(value):
        return record_to_dict(value)
    return [_value_to_json(item) for item in value] if isinstance(value, tuple) else value


def record_from_dict(kind: type[_Record], value: object) -> _Record:
    """Return a stored record with each field of its own type; else raise ValueError, TypeError or KeyError."""
    if not isinstance(value, dict):
        raise TypeError(f"a {kind.__name__} is stored as an object")
    types = _field_types(kind)
    return kind(**{name: _value_from_json(types[name], item) for name, item in value.items()})


def _value_from_json(kind: Any, value: Any) -> object:
    if get_origin(kind) is tuple:
        kinds = get_args(kind)
        if type(value) is not list:
            raise TypeError(f"{type(value).__name__} instead of a list")
        if kinds[-1] is ...:
            kinds = kinds[:1] * len(value)
        return tuple(_value_from_json(item_kind, item) for item_kind, item in zip(kinds, value, strict=True))
    if issubclass(kind, tuple):
        return record_from_dict(kind, value)
    if issubclass(kind, StrEnum):
        return kind(value)
    if type(value) is not kind:
        raise TypeError(f"{type(value).__name__} instead of {kind.__name__}")
    return value
