"""The files that a call runs or loads, each with a digest of its content: a person's yes is bound to them.

A path that the command surely runs is listed even where it cannot be read, with the reason in place of a digest. So is
every file that a word of the command, or of a listed file, names: whether it is run or only read is not asked, because
each program has its own way to run one. Where that does not lead to its end, the list says that there is more.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from fnmatch import filter as filter_names
from hashlib import sha256

from lockgate.core.ruling.effects.programs.loaded_files import LOADS, RUN_NO_FILE
from lockgate.runtime.accounts import UNKNOWN_ACCOUNT, Account, open_as

MAX_FILES = 32
MAX_BYTES = 128 * 1024 * 1024
# How many paths are looked up, and how much of a file is searched.
MAX_LOOKUPS = 20_000
MAX_TEXT = 1024 * 1024
# The longest file whose text is read for what it does.
MAX_SHOWN = 64 * 1024
Files = tuple[tuple[str, str], ...]
_WORD = re.compile(r"[\w.@+~/*-]{1,300}")
_COMMAND = re.compile(r"[\n;&|]|:\s*[\"']")
# A command all of whose words may be files that it runs; elsewhere a bare word must stand at the front to count.
_LOADS = re.compile(
    r"^\W*(?:from|source|-?s?include|require|use)\b|\b(?:import|[bdzk]?a?sh|python3?|node|env|sudo|xargs)\s|<|\s-f"
)
# Compared, but not followed: such a text names much that it does not run.
_PROSE = re.compile(r"(?<!/package)(?<!/composer)\.(?:md|rst|txt|csv|log|lock|html?|svg|toml|json)$")
_QUOTED = re.compile(r"[\"']([\w.@+~/ -]{1,300})[\"']")
_GLOB = re.compile(r"(?:[\w.-]+/)+[\w.-]*\*[\w.*-]*|[\w-]*\*\.\w+")
_PROGRAM_OF_COMMAND = re.compile(
    r"(?:^|[\n;|(`]|(?<!>)&(?!>))\s*(?:(?:sudo|time|nohup|nice|do|then|-\S+)\s+)*([^\s;&|()<>]+)"
)
# What is run is made on the way: its text is in no file that could be compared.
_MADE = re.compile(
    r"\beval\s|\|\s*(?:sudo\s+(?:-\S+\s+)*)?(?:/\S*/)?(?:(?:ba|da|z|k|a)?sh|python3?|perl|ruby|node)\b"
    r"|\b(?:(?:ba|da|z|k|a)?sh|python3?)\s(?:-\S+\s+)*[\"']?(?:\$\(|`|<\(|\$\w+[\"']?\s*(?:;|$))"
)
_PROGRAM = re.compile(
    r"\.(?:(?:ba|z|k)?sh|fish|py|[mc]?[jt]s|rb|pl|php|lua|tcl|R|jl|sql|mk|ps1|bat|cmd|groovy|gradle|ya?ml)$"
)
# The system's own programs are not an agent's to change.
_SYSTEM = re.compile(r"/(?:bin|sbin|lib\w*|usr|etc|dev|proc|sys)/")


def digest_files(paths: list[str], texts: list[str], folder: str, account: Account | None) -> Files:
    """Return the files of a call, sorted by path: what it surely runs is in `paths`, and may be named in `texts`.

    Only what the account may read that the call runs as is read. One that is not known may be on another machine.
    """
    disk = _Disk(folder, account)
    # What is run in a folder is found in it, by its name; and a command may import, as a file in its folder would.
    found = [full for path in paths if not os.path.isdir(full := disk.full_path(path))]
    sure = frozenset(found)
    runs = [text for text in texts if not all(name in RUN_NO_FILE for name in _PROGRAM_OF_COMMAND.findall(text))]
    words = [word for text in runs for word in (*_WORD.findall(text), *_QUOTED.findall(text))]
    found += disk.find_named(words, disk.full_path("command.py"))
    # Grows while it is read.
    for path in found:
        if (text := disk.read(path)) and (path in sure or not _PROSE.search(path)):
            runs.append(text)
            found += disk.find_named(_find_run(text, is_python=path.endswith(".py")), path)
    if disk.is_cut or any(map(_MADE.search, runs)):
        disk.files["further files"] = "too many to compare" if disk.is_cut else "made while the call runs"
    return tuple(sorted(disk.files.items()))


def read_text(path: str, account: Account | None) -> str | None:
    """Return the text of a short file that an account may read; None for any other file, or an unknown account."""
    if account is None or account == UNKNOWN_ACCOUNT:
        return None
    try:
        handle = open_as(account, path)
    except (OSError, ValueError):
        return None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_SHOWN:
            return None
        return os.read(handle, MAX_SHOWN).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(handle)


def _find_run(text: str, *, is_python: bool) -> list[str]:
    """Return the words of a file that may name what it runs: a Makefile names much that one target does not run."""
    words = _QUOTED.findall(text)
    for part in _COMMAND.split(text.replace("\\\n", " ")):
        front = 300 if _LOADS.search(part) else 0 if is_python else 3
        words += [word for at, word in enumerate(_WORD.findall(part)) if at < front or "/" in word or "." in word]
    return words


def _spell_words(words: list[str], ending: str) -> dict[str, dict[str, None]]:
    """Return what words can name, by its first folder: `$HERE/lib.sh` is `lib.sh`, and `-mlib` is `lib.py`."""
    heads: dict[str, dict[str, None]] = {}
    for word in dict.fromkeys(words):
        for name in (word, word.lstrip("@+-"), word.partition("/")[2], word[2:] if word[0] == "-" else ""):
            module = name.strip(".").replace(".", "/") if ending == ".py" else name
            for path in (name, module, module + ending) if name and not _SYSTEM.match(name) else ():
                heads.setdefault(path.partition("/")[0], {})[path] = None
    return heads


class _Disk:
    def __init__(self, folder: str, account: Account | None) -> None:
        self._account = account or UNKNOWN_ACCOUNT
        self._is_here = self._account != UNKNOWN_ACCOUNT and bool(folder)
        self._bytes, self._lookups, self.is_cut = MAX_BYTES, MAX_LOOKUPS, False
        self.folder = os.path.abspath(folder) if self._is_here else ""
        self.files: dict[str, str] = {}
        # The command's places hold for its files: `PYTHONPATH=lib` is where a script finds a module.
        self._places, self._manifests, self._entries = list[str](), dict[str, None](), dict[str, frozenset[str]]()

    def full_path(self, path: str, folder: str = "") -> str:
        if path.startswith("~") and self._account.is_own:
            path = os.path.expanduser(path)
        # Not normalized: `link/../x` is not `x`.
        return os.path.join(folder or self.folder, path.removeprefix("./")).replace("/./", "/")

    def find_named(self, words: list[str], file: str) -> Iterator[str]:
        """Yield the files that these words of a file name, and those that the runners among them load by themselves."""
        runners = (os.path.basename(word.lstrip("@+-")).lower() for word in words)
        manifests = dict.fromkeys(name for runner in runners for name in LOADS.get(runner, ((),))[0])
        if not self._is_here:
            yield from (*filter(_PROGRAM.search, words), *[*manifests][-1:])
            return
        self._manifests |= manifests
        heads = _spell_words(words, os.path.splitext(file)[1])
        places = [*(near := dict.fromkeys([os.path.dirname(file), self.folder, *self._places]))]
        for place in places:
            there = self._list(place) | {"", "~", ".."}
            for path in [self.full_path(name, place) for head in heads if head in there for name in heads[head]]:
                if stat.S_ISREG(mode := self._mode_of(path)):
                    yield path
                elif stat.S_ISDIR(mode) and place in near and path.rstrip("/") not in places:
                    places.append(path.rstrip("/"))
        self._places = self._places or places
        yield from self._find_loaded(places, [*filter(_GLOB.fullmatch, words), *self._manifests])

    def _find_loaded(self, places: list[str], names: list[str]) -> Iterator[str]:
        above = (self.folder.rsplit("/", up)[0] for up in range(1, self.folder.count("/")))
        patterns = [os.path.join(place, name) for place in places for name in names]
        patterns += [os.path.join(place, name) for place in above for name in self._manifests if "*" not in name]
        for pattern in dict.fromkeys(patterns):
            folder, _, name = pattern.rpartition("/")
            names = sorted(filter_names(self._list(folder), name)) if "*" in name else [name]
            yield from (path for name in names if stat.S_ISREG(self._mode_of(path := f"{folder}/{name}")))

    def _list(self, folder: str) -> frozenset[str]:
        if folder not in self._entries and stat.S_ISDIR(self._mode_of(folder)) and os.access(folder, os.R_OK):
            self._entries[folder] = frozenset(os.listdir(folder))
        return self._entries.get(folder, frozenset())

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
