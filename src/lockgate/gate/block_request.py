"""Parses what a caller asks a block to be: its content, source, trust, kind and parents."""

from __future__ import annotations

from collections.abc import Sequence

from lockgate.core.errors import InvalidBlock, quoted
from lockgate.core.vocabulary import Block, Kind, Trust


def parse_block_request(
    content: object,
    source: object,
    trust: str | Trust | None,
    kind: str | Kind | None,
    mutable: object,
    tainted_by: Sequence[str | Block],
    id: object,
) -> tuple[Trust | None, Kind | None, list[str]]:
    """Return the trust, the kind and the ids of the parents; raise InvalidBlock for what no block can be."""
    if not isinstance(content, str):
        is_binary = isinstance(content, bytes | bytearray | memoryview)
        hint = "decode bytes first" if is_binary else "give the text that the model reads, such as json.dumps(content)"
        raise InvalidBlock(f"content must be text, not {type(content).__name__}", hint=hint)
    if not source or not isinstance(source, str):
        raise InvalidBlock("a block needs a source", hint='say where it came from, e.g. source="tool:read_inbox"')
    if id is not None and not isinstance(id, str):
        raise InvalidBlock(f"a block's id must be text, not {type(id).__name__}")
    if mutable is not None and not isinstance(mutable, bool):
        raise InvalidBlock(f"mutable must be true or false, not {type(mutable).__name__}")
    if isinstance(tainted_by, str) or not isinstance(tainted_by, Sequence):
        raise InvalidBlock("tainted_by must be a list of block ids", hint="tainted_by=[block] or [block.id]")
    parents = [parent.id if isinstance(parent, Block) else parent for parent in tainted_by]
    return _parse_trust(trust), None if kind is None else _parse_kind(kind), parents


def _parse_trust(value: str | Trust | None) -> Trust | None:
    if value is None or isinstance(value, Trust):
        return value
    try:
        return Trust[value.upper()]
    except (KeyError, AttributeError):
        raise InvalidBlock(f"unknown trust {quoted(value)}", hint="use trusted, vetted or untrusted") from None


def _parse_kind(value: str | Kind) -> Kind:
    try:
        return Kind(value)
    except ValueError:
        raise InvalidBlock(f"unknown kind {quoted(value)}", hint="use instruction or data") from None
