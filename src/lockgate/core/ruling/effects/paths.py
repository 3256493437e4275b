"""What it means to read, write, delete or run a path: project files, secrets, and files that open a door."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache

from lockgate.core.ruling.effects.effect import KINDS, Certainty, Effect, effect
from lockgate.core.ruling.effects.own_paths import Access as Access
from lockgate.core.ruling.effects.own_paths import own_access
from lockgate.core.ruling.effects.project import Place, Project, normalize_path
from lockgate.core.tables import read_sections

# The end of a path says what it is; readings of paths are kept, so that a long one is not.
MOST_PATH = 300
_SECTIONS = read_sections("lockgate.core.ruling.effects", "paths.txt")


def _any_of(section: str) -> re.Pattern[str]:
    """Return a pattern for the end of a path: a line that begins with `/` is a path from the root, any other a name."""
    names = "|".join(line for line in _SECTIONS[section] if line[0] != "/")
    whole = "|".join(line for line in _SECTIONS[section] if line[0] == "/")
    return re.compile("|".join(filter(None, (names and f"(?:^|/)(?:{names})/?$", whole and f"^(?:{whole})/?$"))), re.I)


def _one_of(section: str) -> str:
    return "(?:" + "|".join(_SECTIONS[section]) + ")"


# Files whose content is a secret; public halves, examples and templates are none. Then the kinds of doors, and what
# programs keep to be faster, and fetch or make again when it is gone.
_SECRET, _NO_SECRET = _any_of("secret"), re.compile(f"{_one_of('no-secret')}$", re.IGNORECASE)
_DOORS = [(kind, _any_of(kind)) for kind in _SECTIONS if kind in KINDS]
_SOURCES, _CACHE = _any_of("sources"), re.compile(f"^{_one_of('cache')}/?$", re.IGNORECASE)
_SECRET_VARIABLE = re.compile(_one_of("secret-variable"), re.IGNORECASE)
_HARMLESS_VARIABLE = re.compile(f"^{_one_of('harmless-variable')}$", re.IGNORECASE)
_SECRET_EXAMPLES = [example.split("/") for line in _SECTIONS["secret-examples"] for example in line.split()]
_GLOB, _HOME = re.compile(r"[*?\[]"), re.compile(r"^(?:~|\$HOME|/root|/(?:home|Users)/[^/]+)(?=/|$)")
# So near to the root a path is a project, or a place where others keep data, rather than a part of one.
_SHALLOW = re.compile(r"/[^/]+(?:/[^/]+){0,2}/?\Z")
# The whole of a folder: `.`, `*`, `./*`, `/`.
_WHOLE = re.compile(r"^(?:\./?)?(?:\*|\.\*|\.)?/?$|^/$")


def read_access(path: str, access: Access, project: Project, *, folder: str = "") -> Effect:
    """Return what this access to a path would do; the caller fills argument and span in."""
    own = own_access(path, access, project, folder=folder)
    if own is not None:
        return own
    if access is Access.READ:
        return effect("reads-secret", path) if is_secret(path, folder) else effect("looks")
    place = place_of(path, project, folder)
    if access is Access.RUN:
        is_inside = place is Place.INSIDE
        return (
            effect("runs-project-task", path) if is_inside else effect("runs-program", path, certainty=Certainty.GUESS)
        )
    if kind := _door(path, place, project, folder):
        return effect(kind, path)
    if place is Place.INSIDE:
        return _delete_inside(path, project) if access is Access.DELETE else effect("edits-project", path)
    if place is Place.SCRATCH or (access is Access.DELETE and _CACHE.search(_full_path(path, folder))):
        return effect("writes-scratch", path)
    return effect("writes-outside" if access is Access.WRITE else "deletes-outside", path)


def _delete_inside(path: str, project: Project) -> Effect:
    if _WHOLE.search(path):
        return effect("deletes-data", path)
    if not project.root and _SHALLOW.match(path):
        return effect("deletes-outside", path, certainty=Certainty.LIKELY)
    return effect("discards-work" if _SOURCES.search(path) else "edits-project", path)


def place_of(path: str, project: Project, folder: str = "") -> Place:
    """Return where a path lies; a folder may begin with `~`, as `cd` alone leaves it."""
    return project.locate(f"{folder}/{path}" if folder[:1] == "~" and path[:1] not in ("/", "~") else path, folder)


def is_secret(path: str, folder: str = "") -> bool:
    """Return whether a path names a file whose content is a secret."""
    return _is_secret(path[-MOST_PATH:], folder[-MOST_PATH:])


@lru_cache(maxsize=4096)
def _is_secret(path: str, folder: str) -> bool:
    full = _full_path(path, folder)
    if _GLOB.search(full) and _can_be_secret(full):
        return True
    return _SECRET.search(full) is not None and _NO_SECRET.search(full) is None


def _can_be_secret(pattern: str) -> bool:
    """Return whether a pattern of the shell fits one of the files that are known to be secrets."""
    parts = _HOME.sub("~", pattern).split("/")
    is_from_top = parts[0] in ("~", "")
    for example in _SECRET_EXAMPLES:
        tail = parts if is_from_top else parts[-len(example) :]
        # Below the root or the home an example is whole; elsewhere it is the end, if its name says enough: `.e*` and
        # `cred*.js*` do, `*.json` and `*.y*ml` do not.
        if (example[0] in ("~", "")) == is_from_top and len(tail) == len(example) and all(map(_fits, tail, example)):
            least = 2 if tail[-1][:1].isalpha() else 3
            name = re.sub(r"\.[^.]*$|\[[^\]]*\]|[*?]", "", tail[-1])
            if is_from_top or tail[-1][:1] == "." or len(name) >= least:
                return True
    return False


def _fits(pattern: str, name: str) -> bool:
    """Return whether a pattern fits a name as the shell has it: a leading dot must be written."""
    if pattern == name or not _GLOB.search(pattern) or (name[:1] == "." and pattern[:1] != "."):
        return pattern == name
    return len(pattern) <= 64 and pattern.count("*") <= 4 and fnmatchcase(name, pattern)


def _full_path(path: str, folder: str) -> str:
    return normalize_path(f"{folder}/{path}" if folder and path[:1] not in ("/", "~", "$") else path)


def is_secret_variable(name: str) -> bool:
    """Return whether a variable is named as those are that hold a secret."""
    return _SECRET_VARIABLE.search(name) is not None and _HARMLESS_VARIABLE.match(name) is None


def _door(path: str, place: Place, project: Project, folder: str) -> str:
    """Return the kind of a file that is more than a file of its place."""
    kind = "" if place is Place.SCRATCH else _door_of(path[-MOST_PATH:], folder[-MOST_PATH:])
    # A repository of settings may hold start-up files that no shell reads from there.
    is_no_home = place is Place.INSIDE and project.root and project.root != project.home
    return "" if is_no_home and kind in ("writes-startup-file", "changes-login") else kind


@lru_cache(maxsize=4096)
def _door_of(path: str, folder: str) -> str:
    full = _full_path(path, folder)
    return next((kind for kind, pattern in _DOORS if pattern.search(full)), "")
