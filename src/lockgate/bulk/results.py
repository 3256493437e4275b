"""The folder of a bulk audit: a Parquet file for each finished piece, and the manifest that names them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

from lockgate.bulk.pieces import InputPiece
from lockgate.core.errors import LockgateError, quoted
from lockgate.runtime.arrow import require_pyarrow
from lockgate.runtime.private_files import open_locked, replace_file

MANIFEST = "manifest.jsonl"
# Held while an audit works in the folder: another one would remove the files that it has just written.
LOCK = "audit.lock"
_SCHEMA = "lockgate-bulk/1"


class ResultsFolder:
    """The results so far: a piece is done when its line is in the manifest, and its file is the one that line names.

    `about` is what the results depend on beside the inputs; a folder made with another one is refused, and so is one in
    which another audit is at work. `close` lets the next one in.
    """

    def __init__(self, folder: str, about: Mapping[str, object]) -> None:
        require_pyarrow()
        self.folder = Path(folder)
        self._manifest = self.folder / MANIFEST
        # The lines of the manifest, by piece.
        self._done: dict[str, dict[str, Any]] = {}
        self._head = {"schema": _SCHEMA, **about}
        is_known = self._manifest.exists() or (self.folder / LOCK).exists()
        if not is_known and self.folder.exists() and any(self.folder.iterdir()):
            raise LockgateError(f"{quoted(folder, 200)} holds other files", hint="name a new folder")
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = open_locked(self.folder / LOCK)
        if lock is None:
            raise LockgateError(
                f"another audit writes into {quoted(folder, 200)}", hint="wait for its end, or name a new folder"
            )
        self.close = lock.close
        with ExitStack() as on_failure:
            on_failure.callback(lock.close)
            (self._read if self._manifest.exists() else self._write)()
            on_failure.pop_all()

    def _read(self) -> None:
        first, *lines = self._manifest.read_bytes().split(b"\n")
        try:
            head = dict(json.loads(first))
        except (ValueError, TypeError, RecursionError):
            raise LockgateError(
                f"{quoted(str(self._manifest), 200)} is no manifest of an audit", hint="name a new folder"
            ) from None
        if head != self._head:
            changed = sorted(key for key in {*head, *self._head} if head.get(key) != self._head.get(key))
            raise LockgateError(
                f"{quoted(str(self.folder), 200)} was made with another {' and '.join(changed)}",
                hint="name a new folder, or use the same policy and version",
            )
        self._done = {line["piece"]: line for data in lines if (line := self._line_from(data)) is not None}

    def _line_from(self, data: bytes) -> dict[str, Any] | None:
        """Return a line of the manifest; None if it or its file is damaged or gone: then its piece is done again."""
        try:
            line = dict(json.loads(data))
            with open(self.folder / _part_name(line["piece"]), "rb") as stream:
                is_whole = line["sha256"] == file_digest(stream, "sha256").hexdigest()
            return line if is_whole and line == _sealed(line) else None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError):
            return None

    def _write(self) -> None:
        lines = "".join(json.dumps(line) + "\n" for line in (self._head, *self._done.values()))
        replace_file(self._manifest, lines.encode(), mode=0o600)

    def unfinished(self, pieces: Sequence[InputPiece]) -> list[InputPiece]:
        """Return the pieces that are not done; what is kept of inputs that have changed since is removed.

        Raise if the folder has results of other inputs.
        """
        names, paths = {piece.name for piece in pieces}, {piece.path for piece in pieces}
        changed = self._done.keys() - names
        foreign = {name.rsplit(":", 2)[0] for name in changed} - paths
        if foreign:
            raise LockgateError(
                f"{quoted(str(self.folder), 200)} holds results of an input that is not there: "
                f"{quoted(min(foreign), 200)}",
                hint="name a new folder, or the same inputs",
            )
        self._done = {name: line for name, line in self._done.items() if name in names}
        self._write()
        named = {line["file"] for line in self._done.values()}
        for part in self.folder.glob("part-*.parquet"):
            # Also one whose line was never written: its piece is done again.
            if part.name not in named:
                part.unlink()
        return [piece for piece in pieces if piece.name not in self._done]

    def counts(self) -> list[dict[str, Any]]:
        """Return the counts of every finished piece."""
        return [line["counts"] for line in self._done.values()]

    def add(self, piece: InputPiece, table: bytes, counts: Mapping[str, Any]) -> None:
        """Keep the rows of one piece as its worker has packed them, for good, then name it in the manifest."""
        if piece.name in self._done:
            raise LockgateError(f"the piece {quoted(piece.name, 200)} was done twice")
        file = _part_name(piece.name)
        replace_file(self.folder / file, table, mode=0o600)
        given = {"piece": piece.name, "file": file, "sha256": sha256(table).hexdigest(), "counts": counts}
        line = _sealed(given)
        with open(self._manifest, "ab") as stream:
            stream.write((json.dumps(line) + "\n").encode())
            stream.flush()
            os.fsync(stream.fileno())
        self._done[piece.name] = line


def _part_name(piece: str) -> str:
    return f"part-{_digest(piece)[:24]}.parquet"


def _sealed(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return a line of the manifest with the digest of the rest of it, by which a damaged one is known."""
    rest = {key: value for key, value in line.items() if key != "seal"}
    return {**rest, "seal": _digest(json.dumps(rest, sort_keys=True))}


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
