"""The folder of a bulk audit: a Parquet file for each finished piece, and the manifest that names them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from lockgate.bulk.pieces import InputPiece
from lockgate.core.errors import LockgateError, quoted
from lockgate.runtime.arrow import require_pyarrow
from lockgate.runtime.private_files import replace_file

MANIFEST = "manifest.jsonl"
_SCHEMA = "lockgate-bulk/1"
_MOST_BYTES = 1 << 30


class ResultsFolder:
    """The results so far: a piece is done when its line is in the manifest, which is written after its file.

    `about` is what the results depend on beside the inputs; a folder made with another one is refused.
    """

    def __init__(self, folder: str, about: Mapping[str, object]) -> None:
        require_pyarrow()
        self.folder = Path(folder)
        self._manifest = self.folder / MANIFEST
        self._done: dict[str, dict[str, Any]] = {}
        head = {"schema": _SCHEMA, **about}
        if self._manifest.exists():
            self._read(head)
        else:
            if self.folder.exists() and any(self.folder.iterdir()):
                raise LockgateError(f"{quoted(folder, 200)} holds other files", hint="name a new folder")
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self._manifest, (json.dumps(head) + "\n").encode(), mode=0o600)

    def _read(self, head: Mapping[str, object]) -> None:
        *lines, cut = self._manifest.read_bytes().split(b"\n")
        if cut:
            # The machine stopped in the middle of a line: its piece is done again.
            replace_file(self._manifest, b"\n".join([*lines, b""]), mode=0o600)
        try:
            first, *rest = [json.loads(line) for line in lines]
            done = {line["piece"]: dict(line["counts"]) for line in rest}
            first = dict(first)
        except (ValueError, KeyError, TypeError):
            raise LockgateError(
                f"{quoted(str(self._manifest), 200)} is no manifest of an audit", hint="name a new folder"
            ) from None
        if first != head:
            changed = sorted(key for key in {*first, *head} if first.get(key) != head.get(key))
            raise LockgateError(
                f"{quoted(str(self.folder), 200)} was made with another {' and '.join(changed)}",
                hint="name a new folder, or use the same policy and version",
            )
        self._done = done

    def unfinished(self, pieces: Sequence[InputPiece]) -> list[InputPiece]:
        """Return the pieces that are not done; raise if the folder has results of other inputs."""
        foreign = self._done.keys() - {piece.name for piece in pieces}
        if foreign:
            raise LockgateError(
                f"{quoted(str(self.folder), 200)} holds results of an input that is not there, or has changed: "
                f"{quoted(min(foreign).rpartition(':')[0], 200)}",
                hint="name a new folder, or the same inputs",
            )
        return [piece for piece in pieces if piece.name not in self._done]

    def counts(self) -> list[dict[str, Any]]:
        """Return the counts of every finished piece."""
        return list(self._done.values())

    def add(self, piece: InputPiece, table: bytes, counts: Mapping[str, Any]) -> None:
        """Keep the rows of one piece as its worker has packed them, for good, then name it in the manifest."""
        if piece.name in self._done:
            raise LockgateError(f"the piece {quoted(piece.name, 200)} was done twice")
        name = f"part-{sha256(piece.name.encode('utf-8', 'surrogateescape')).hexdigest()[:24]}.parquet"
        replace_file(self.folder / name, table, mode=0o600)
        line = json.dumps({"piece": piece.name, "file": name, "counts": counts}) + "\n"
        with open(self._manifest, "ab") as stream:
            stream.write(line.encode())
            stream.flush()
            os.fsync(stream.fileno())
        self._done[piece.name] = dict(counts)
