"""What would be installed from a folder or a wheel on this machine: whether it takes Lockgate's place.

An installer writes what is called `lockgate` over the package that is there, whatever the folder is called. What the
build scripts of such a folder do besides is not known here.
"""

from __future__ import annotations

import os
import re
from zipfile import BadZipFile, ZipFile

_FOLDERS = ("lockgate", os.path.join("src", "lockgate"))
_MANIFESTS = ("pyproject.toml", "setup.cfg", "setup.py")
_MAX_BYTES = 256 * 1024
_MAX_NAMES = 100_000
# The name of the package, a program of our name, and a package of ours whose code lies elsewhere.
_OUR_NAME = re.compile(
    r"""\bname\s*[=:]\s*["']?lockgate["']?\s*(?:[,)\r\n#]|$)|\blockgate["']?\s*=\s*["']?[\w.]+:[\w.]+|["']lockgate["']\s*:"""
    r"""|packages\s*=\s*\[[^\]]{0,500}["'](?:\w+/)?lockgate["']|\bpackages\s*=\s*lockgate\b""",
    re.IGNORECASE,
)


def brings_lockgate(path: str) -> bool:
    """Return whether a folder or a wheel holds a package or program called `lockgate`, or names itself that."""
    try:
        path = os.path.expanduser(os.path.expandvars(path))
        if not os.path.isdir(path):
            return os.path.isfile(path) and path.endswith((".whl", ".zip")) and _has_package(path)
        return any(os.path.isdir(os.path.join(path, each)) for each in _FOLDERS) or any(
            _OUR_NAME.search(_read_start(os.path.join(path, each))) for each in _MANIFESTS
        )
    except (OSError, ValueError):
        # What cannot be looked at can be anything.
        return True


def _has_package(path: str) -> bool:
    try:
        with ZipFile(path) as packed:
            names = packed.namelist()
    except (BadZipFile, NotImplementedError):
        # The installer cannot open it either.
        return False
    return len(names) > _MAX_NAMES or any("lockgate" in name.casefold().split("/")[:3] for name in names)


def _read_start(path: str) -> str:
    # A pipe would have us wait for ever.
    if not os.path.isfile(path):
        return ""
    with open(path, "rb") as file:
        return file.read(_MAX_BYTES).decode("utf-8", "replace")
