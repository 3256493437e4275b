"""The files that a call runs or loads, each with a digest of its content: a person's yes is bound to them.

A path that the command surely runs is listed even where it cannot be read, with the reason in place of a digest. Any
other word of the command, and the first words of the commands in a listed file, count if they name a program that is
there: by its ending, or because it may be executed. So a Makefile leads to the script that it starts.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator
from hashlib import sha256

from lockgate.core.word_lists import read_words
from lockgate.runtime.accounts import UNKNOWN_ACCOUNT, Account, open_as

MAX_FILES = 32
MAX_BYTES = 128 * 1024 * 1024
# How many paths are looked up, and how much of a file is searched.
MAX_LOOKUPS = 20_000
MAX_TEXT = 1024 * 1024
Files = tuple[tuple[str, str], ...]
_WORD = re.compile(r"[\w.@+~/-]{2,300}")
_COMMAND = re.compile(r"[\n;&|]|:\s*[\"']")
_PROGRAM = re.compile(
    r"\.(?:(?:ba|z|k)?sh|fish|py|[mc]?[jt]s|rb|pl|php|lua|tcl|R|jl|sql|mk|ps1|bat|cmd|groovy|gradle|ya?ml)$"
)
# The system's own programs are not an agent's to change.
_SYSTEM = re.compile(r"/(?:bin|sbin|lib\w*|usr|etc|dev|proc|sys)/")
_ROWS = [line.partition(": ") for line in read_words(__package__, "manifests.txt")]
_MANIFESTS = {runner: files.split() for runners, _, files in _ROWS for runner in runners.split()}


def digest_files(paths: list[str], texts: list[str], folder: str, account: Account | None) -> Files:
    """Return the files of a call, sorted by path: what it surely runs is in `paths`, and may be named in `texts`.

    Only what the account may read that the call runs as is read. One that is not known may be on another machine.
    """
    disk = _Disk(folder, account)
    # What is run in a folder is found in it, by its name; and a command may import, as a file in its folder would.
    found = [full for path in paths if not os.path.isdir(full := disk.full_path(path))]
    runs = [(text, disk.full_path("command.py")) for text in texts]
    for find_words in (_WORD.findall, _find_run, _find_run):
        found += [path for text, file in runs for path in disk.find_named(dict.fromkeys(find_words(text)), file)]
        runs = [(text, path) for path in found if (text := disk.read(path))]
        found = []
    if disk.is_cut:
        disk.files["further files"] = "too many to compare"
    return tuple(sorted(disk.files.items()))


def _find_run(text: str) -> list[str]:
    """Return the first words of each command, and local paths: a Makefile names much that one target does not run."""
    parts = [_WORD.findall(part) for part in _COMMAND.split(text.replace("\\\n", " "))]
    words = [word.lstrip("@+-") for part in parts for at, word in enumerate(part) if at < 3 or word[:2] in ("./", "..")]
    return [word for word in words if word not in _MANIFESTS]


class _Disk:
    def __init__(self, folder: str, account: Account | None) -> None:
        self._account = account or UNKNOWN_ACCOUNT
        self._is_here = self._account != UNKNOWN_ACCOUNT and bool(folder)
        self._bytes, self._lookups, self.is_cut = MAX_BYTES, MAX_LOOKUPS, False
        self.folder = os.path.abspath(folder) if self._is_here else ""
        self.files: dict[str, str] = {}

    def full_path(self, path: str, folder: str = "") -> str:
        if path.startswith("~") and self._account.is_own:
            path = os.path.expanduser(path)
        # Not normalized: `link/../x` is not `x`.
        return os.path.join(folder or self.folder, path.removeprefix("./")).replace("/./", "/")

    def find_named(self, words: Collection[str], file: str) -> Iterator[str]:
        """Yield the programs that these words of a file name."""
        manifests = dict.fromkeys(name for word in words for name in _MANIFESTS.get(os.path.basename(word), ()))
        if not self._is_here:
            yield from (*filter(_PROGRAM.search, words), *[*manifests][-1:])
            return
        places = [os.path.dirname(file), *(self.folder.rsplit("/", up)[0] for up in range(self.folder.count("/")))]
        for path in self._spell_paths(words, file):
            mode = self._mode_of(path)
            if stat.S_ISREG(mode) and (mode & 0o111 or _PROGRAM.search(path)):
                yield path
            elif stat.S_ISDIR(mode):
                places.append(path)
        for path in dict.fromkeys(os.path.join(place, name) for name in manifests for place in places):
            if stat.S_ISREG(self._mode_of(path)):
                yield path

    def _spell_paths(self, words: Collection[str], file: str) -> Iterator[str]:
        """Yield where the words can lead: `$HERE/lib.sh` to `lib.sh`, and `import lib` to `lib.py`."""
        ending = os.path.splitext(file)[1]
        for word in words:
            module = (word.replace(".", "/") if ending == ".py" else word) + ending
            for name in () if _SYSTEM.match(word) else dict.fromkeys((word, word.partition("/")[2] or word, module)):
                yield from dict.fromkeys((self.full_path(name, os.path.dirname(file)), self.full_path(name)))

    def _mode_of(self, path: str) -> int:
        self._lookups -= 1
        self.is_cut |= self._lookups < 0
        return 0 if self.is_cut or not os.path.exists(path) else os.stat(path).st_mode

    def read(self, path: str) -> str:
        """List a file with its digest; return the start of its text, if it has one and was not listed before."""
        if path in self.files or len(self.files) >= MAX_FILES:
            self.is_cut |= path not in self.files
            return ""
        content, start = "the agent may be on another machine", b""
        try:
            content, start = self._digest(path) if self._is_here else (content, start)
        except (OSError, ValueError) as error:
            content = "not found" if isinstance(error, FileNotFoundError) else "cannot be read"
        self.files[path] = content
        return "" if b"\0" in start else start.decode("utf-8", "replace")

    def _digest(self, path: str) -> tuple[str, bytes]:
        handle = open_as(self._account, path)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return "not a plain file", b""
            digest, start = sha256(), b""
            while self._bytes >= 0 and (chunk := os.read(handle, MAX_TEXT)):
                digest.update(chunk)
                self._bytes -= len(chunk)
                start = start or chunk
            return (f"sha256:{digest.hexdigest()}", start) if self._bytes >= 0 else ("too large", b"")
        finally:
            os.close(handle)
