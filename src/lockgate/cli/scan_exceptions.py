"""Findings that a person has looked at: `lockgate: ignore` comments, and the baseline file.

The scanner reports the first hit of each rule in a file. An exception for that hit must not hide a later one: ignored
lines are blanked and the file is read again, and a baseline counts only for the very bytes that it was made from.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from lockgate.core.errors import LockgateError, quoted
from lockgate.runtime.private_files import replace_file

# In a comment of any language; rules in brackets, or all of them.
_IGNORE = re.compile(r"(?:#|//|/\*|<!--|--|;|%)[ \t]*lockgate: ignore(?:\[([\w:>, -]+)\])?(?![\w-])")
_LARGEST = 16 * 1024 * 1024
_VERSION = 1


def ignored_lines(text: str) -> dict[int, frozenset[str]]:
    """Return the lines, from 1, whose findings a comment on them or on the line above ignores: which rules, or all."""
    found: dict[int, frozenset[str]] = {}
    if "lockgate: ignore" not in text:
        return found
    for number, line in enumerate(text.split("\n"), 1):
        if comment := _IGNORE.search(line):
            rules = frozenset(rule.strip() for rule in (comment[1] or "").split(",") if rule.strip())
            # A comment with nothing before it is about the next line.
            found[number if line[: comment.start()].strip() else number + 1] = rules
    return found


def blank_lines(text: str, lines: Iterable[int]) -> str:
    """Return the text with these lines as blanks: places of all others stay as they are."""
    blank = set(lines)
    return "\n".join(" " * len(line) if number in blank else line for number, line in enumerate(text.split("\n"), 1))


@dataclass(slots=True)
class Baseline:
    """Findings that were there before, for each file by the hash of its text."""

    folder: Path
    files: dict[str, tuple[str, frozenset[str]]] = field(default_factory=dict)

    def has(self, path: str, text: str, rule: str) -> bool:
        """Return whether this file, unchanged, had a finding of this rule."""
        digest, rules = self.files.get(self._name(path), ("", frozenset()))
        return rule in rules and digest == _digest(text)

    def add(self, path: str, text: str, rules: Iterable[str]) -> None:
        self.files[self._name(path)] = (_digest(text), frozenset(rules))

    def write(self, file: str) -> None:
        rows = {name: {"sha256": digest, "rules": sorted(rules)} for name, (digest, rules) in self.files.items()}
        said = {"lockgate_baseline": _VERSION, "files": dict(sorted(rows.items()))}
        # In the place of a link, and not through it: a repository may have one to a file of the user's.
        replace_file(Path(file), (json.dumps(said, indent=2) + "\n").encode("ascii"), durable=False, mode=0o644)

    def _name(self, path: str) -> str:
        return Path(os.path.relpath(path, self.folder)).as_posix()


def read_baseline(file: str) -> Baseline:
    """Read a baseline whole, or raise: half of one would hide findings, or bring back those that were settled."""
    try:
        with open(file, "rb") as stream:
            data = stream.read(_LARGEST + 1)
        said = json.loads(data) if len(data) <= _LARGEST else {}
        if said["lockgate_baseline"] != _VERSION:
            raise ValueError
        files = {
            str(name): (str(row["sha256"]), frozenset(map(str, row["rules"]))) for name, row in said["files"].items()
        }
    except OSError as error:
        raise LockgateError(f"cannot read {quoted(file)}: {(error.strerror or 'unknown error').lower()}") from None
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise LockgateError(
            f"{quoted(file)} is no baseline", hint="lockgate scan PATH --write-baseline makes one"
        ) from None
    return Baseline(Path(file).absolute().parent, files)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
