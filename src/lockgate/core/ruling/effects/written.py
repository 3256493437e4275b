"""What written text makes a project, or a reader's program, do: what it loads, connects to, depends on or unprotects.

Prose carries links as content: they do nothing. In code, settings and markup a line counts that loads or connects, and
only for hosts that the replaced text does not name. An edit gives a piece of a manifest, which no reader of whole files
takes: its lines are read one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from string import ascii_lowercase, ascii_uppercase

from lockgate.core.ruling.effects.code import MOST_CHARACTERS, read_code
from lockgate.core.ruling.effects.effect import Certainty, Effect, effect
from lockgate.core.ruling.effects.programs.roles import COMMON_TOOLS, PUBLIC_SOURCES
from lockgate.core.ruling.effects.project import (
    NO_PROJECT,
    Project,
    is_lock_file,
    is_manifest,
    may_name_images,
    package_name,
    read_manifest,
)
from lockgate.core.ruling.effects.tool_arguments import weakens
from lockgate.core.ruling.targets import URL, find_hosts, host_from_value, is_local_host
from lockgate.core.tables import read_patterns, read_table

_P = read_patterns(__package__, "written.tbl")
# A call has no more effects than this, so further hosts are not listed.
_MAX_HOSTS = 40
# How much is read before a URL, and how many are looked at so closely; all further ones count as loaded.
_CONTEXT = 120
_MAX_LOOKS = 60


def read_written_file(
    path: str, text: str, replaced: str, argument: str, project: Project = NO_PROJECT
) -> Iterator[Effect]:
    """Yield what this text makes of a file: packages and hosts that it brings in, and settings that protect less."""
    added = list(read_written_manifest(path, text, replaced, argument, project))
    yield from added
    sources = frozenset(each.target for each in added)
    if _is_code_like(path):
        known_hosts = sources.union(seen.target for seen in find_hosts(replaced))
        yield from _only_new(_read_hosts(text, replaced, argument), known_hosts)
        yield from read_written_settings(path, text, replaced, argument)
        yield from _only_new(_read_members(text, argument), {match[0] for match in _P["member"].finditer(replaced)})
        # One key in a request is how a service is asked; a thief takes the whole environment, or a file of keys.
        if _P["takes much"].search(text):
            yield from (
                each
                for each in read_code(_without_child_environments(text[:MOST_CHARACTERS]), argument, project)
                if each.kind == "sends-secret" and (each.target == "environment" or "/" in each.target)
            )


def _without_child_environments(text: str) -> str:
    """Return a text without the copies of the environment that it gives to a process which it starts."""
    given = set(_P["given"].findall(text))
    return _P["copied"].sub(lambda copy: "" if copy[2] in given or (copy[1] and copy[2] == "env") else copy[0], text)


def _only_new(effects: Iterable[Effect], known: Collection[str]) -> Iterator[Effect]:
    """Yield the effects whose target is not known yet, each target once; a call has no more effects than are listed."""
    seen = set(known)
    for found in effects:
        if found.target not in seen:
            seen.add(found.target)
            yield found
        if len(seen) > len(known) + _MAX_HOSTS:
            return


def _read_members(text: str, argument: str) -> Iterator[Effect]:
    """Yield an effect for each account, role or public key that this text lets in, and for all who send a change."""
    for match in _P["member"].finditer(text):
        if not _P["own role"].search(text[max(0, match.start() - _CONTEXT) : match.start()]):
            kind = "grants-access" if match["strangers"] else "shares"
            yield effect(kind, match[0], argument=argument, span=match.span())


def _read_hosts(text: str, replaced: str, argument: str) -> Iterator[Effect]:
    """Yield an effect for each host that a text loads from or connects to, and that the replaced one does not name."""
    for kind, host, span in _embedded_hosts(text):
        if _P["variable"].search(host):
            # What a whole host in a variable is stands where that is set.
            parts = [part.strip(".:") for part in _P["variable"].sub(r" \1 ", host).split()]
            host = next((part for part in reversed(parts) if "." in part), "")
        if host and not is_local_host(host) and host not in replaced:
            yield effect(kind, host, argument=argument, span=span)


def _embedded_hosts(text: str) -> Iterator[tuple[str, str, tuple[int, int]]]:
    done = set[str]()
    looks = 0
    for match in URL.finditer(text):
        if match[1] in done:
            continue
        looks += 1
        line = _line_before(text, match.start(1), _CONTEXT)
        loads = looks > _MAX_LOOKS or _P["loads"].search(line) is not None
        if looks > _MAX_LOOKS or ((loads or _P["connects"].search(line)) and not _P["comment line"].match(line)):
            done.add(match[1])
            yield "embeds-remote-code" if loads else "embeds-address", host_from_value(match[0]), match.span(1)
    for match in _P["image"].finditer(text):
        yield "embeds-remote-code", match[1].lower(), match.span(1)
    for match in _P["setting"].finditer(text):
        if "." in match[2] and match[2] not in done and _P["host name"].search(match[1]):
            yield "embeds-address", host_from_value(match[2]), match.span(2)


def read_shown_text(text: str, argument: str) -> Iterator[Effect]:
    """Yield an effect for each host that a program would ask when it shows this text, as for a picture."""
    shown = (
        effect("shows-remote-content", host, argument=argument, span=match.span())
        for count, match in enumerate(_P["shown url"].finditer(text))
        # Further ones are not looked at so closely.
        if count >= _MAX_LOOKS * 10 or _is_shown(text[max(0, match.start() - 4 * _CONTEXT) : match.start()])
        if (host := host_from_value(match[0])) and not is_local_host(host)
    )
    return _only_new(shown, ())


def _is_shown(before: str) -> bool:
    """Return whether a URL behind this text is loaded when the text is shown, instead of being a link."""
    if before.endswith(("(", "<", " ")) and _P["picture"].search(before[max(0, before.rfind("![")) :]):
        return True
    tag = before[before.rfind("<") :] if "<" in before else ""
    if tag and ">" not in tag:
        return _P["tag"].match(tag) is not None and _P["shows"].search(tag[-30:]) is not None
    return before[-12:].lower().rstrip("\"' ").endswith("url(")


def _is_code_like(path: str) -> bool:
    if _P["prose"].search(path) or _P["lock file"].search(path):
        return False
    return not _P["data"].search(path) or _P["manifest"].search(path) is not None


# Manifests.

# So many packages of one text are told; more of them cannot be read.
MAX_PACKAGES = 256
_MAX_LINE = 400
# The signs of a text as `package_name` writes them, one for one.
_FOLDED = str.maketrans(ascii_uppercase + "_.", ascii_lowercase + "--")
# The names of manifests, the registry and the pattern of lines that name a package.
_LINES = [
    (names.split(), registry, line)
    for names, registry, line in read_table(__package__, "written.tbl", "lines", ("names", "registry", "line"))
]


def read_written_manifest(
    path: str, text: str, replaced: str, argument: str, project: Project = NO_PROJECT
) -> Iterator[Effect]:
    """Yield an effect for each package and each source of packages that a manifest gets by this text."""
    *_, folder, name = f"//{path}".replace("\\", "/").split("/")
    is_settings, names_images = _P["settings file"].fullmatch(name), may_name_images(name)
    is_list = names_images or (is_manifest(name, folder) and not is_lock_file(name))
    if is_settings or (is_list and not names_images):
        known = {seen.target for seen in find_hosts(replaced)} | {*PUBLIC_SOURCES}
        yield from _only_new(_package_sources(text, argument), known)
    if is_list and not is_settings:
        yield from _added_packages(name, folder, text, replaced, argument, project)


def _added_packages(
    name: str, folder: str, text: str, replaced: str, argument: str, project: Project
) -> Iterator[Effect]:
    before = {entry.partition(":")[2] for entry in _packages(name, folder, replaced)} | {*COMMON_TOOLS}
    entries = (entry.partition(":")[::2] for entry in _packages(name, folder, text))
    added = [entry for registry, entry in entries if entry not in before and not project.has_package(entry, registry)]
    folded = text.translate(_FOLDED)
    for package in added[:MAX_PACKAGES]:
        at = max(folded.find(package), 0)
        end = at + len(package) if folded.startswith(package, at) else at
        yield effect("adds-dependency", text[at:end] or package, argument=argument, span=(at, end))
    if len(added) > MAX_PACKAGES:
        yield effect("unreadable", argument=argument, certainty=Certainty.GUESS)


def _packages(name: str, folder: str, text: str) -> dict[str, None]:
    """Return the packages that a manifest names, or, where it is a piece of one, the lines of it."""
    names = dict.fromkeys(read_manifest(name, text, folder).packages)
    patterns = (
        [] if names or not text.strip() else [(registry, _P[line]) for all_, registry, line in _LINES if name in all_]
    )
    for registry, pattern in patterns:
        for line in text.splitlines():
            for match in pattern.finditer(line[:_MAX_LINE]):
                package = match[match.lastindex or 1]
                if not _P["no package"].fullmatch(package):
                    names[f"{registry}:{package_name(package)}"] = None
    return names


def _package_sources(text: str, argument: str) -> Iterator[Effect]:
    at = 0
    for line in text.splitlines(keepends=True):
        short, begin = line[:_MAX_LINE], at
        at += len(line)
        source, is_direct = _P["source"].search(short), _P["direct"].search(short) is not None
        if not (source or is_direct) or _P["own home"].match(short) or short.lstrip().startswith(("#", "//")):
            continue
        first = source.end() if source and not is_direct else 0
        hosts = [(seen.target, seen.start) for seen in find_hosts(short) if seen.start >= first]
        hosts += [(host_from_value(match[1]), match.start(1)) for match in _P["bare host"].finditer(short)]
        for host, start in hosts:
            if not is_local_host(host):
                span = (begin + start, begin + start + len(host))
                yield effect("uses-package-source", host, argument=argument, span=span)


# Settings.

_MAX_SETTINGS = 20
_MAX_VALUES = 2000
_NAME_SPACE = 90


def read_written_settings(path: str, text: str, replaced: str, argument: str) -> Iterator[Effect]:
    """Yield an effect for each setting that protects less once this text stands where the replaced one stood."""
    known = {setting[:2] for setting in _weak_settings(path, replaced)} if replaced else set()
    weak = {setting[:2]: setting for setting in reversed([*_weak_settings(path, text)]) if setting[:2] not in known}
    for name, _, start, end in sorted(weak.values(), key=lambda setting: setting[2])[: _MAX_SETTINGS + 1]:
        yield effect("weakens-setting", name, argument=argument, span=(start, end))


def _weak_settings(path: str, text: str) -> Iterator[tuple[str, str, int, int]]:
    is_program = _P["program"].search(path) is not None
    for count, match in enumerate(_P["value"].finditer(text)):
        if count > _MAX_VALUES:
            break
        line = _line_before(text, match.start(), _NAME_SPACE)
        named = _P["name"].search(line)
        if named is None or _P["comment line"].match(line):
            continue
        name, value = named[1].strip(".-"), match[1].lower()
        begin = match.start() - len(line) + named.start(1)
        # What a setting is about whose name says nothing stands in the line above.
        above = _P["state"].fullmatch(name) and _P["above"].search(text, max(0, begin - 2 * _NAME_SPACE), begin)
        name = above[1] if above else name
        is_own = is_program and _P["own variable"].search(line + match[0]) is not None
        if not is_own and weakens(name, value):
            yield name, value, begin, match.end(1)
    for match in _P["open"].finditer(text):
        line = _line_before(text, match.start(), _NAME_SPACE)
        if not _P["comment line"].match(line) and "egress" not in line:
            yield match[1], match[1], *match.span(1)


def _line_before(text: str, at: int, most: int) -> str:
    """Return what stands before a place on its line, as far as it is read."""
    begin = max(0, at - most)
    return text[max(text.rfind("\n", begin, at) + 1, begin) : at]
