"""Command lines of clouds and clusters: what a verb does, whichever service it is for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.program_io import NO_OUTPUT, UNKNOWN_OUTPUT, Output, Source
from lockgate.core.ruling.effects.programs.options import long_values
from lockgate.core.ruling.effects.programs.program_rows import PACKAGE, TABLE
from lockgate.core.ruling.effects.programs.roles import Use, last_word, note_sent
from lockgate.core.ruling.effects.programs.service_settings import note_container_images, note_settings
from lockgate.core.ruling.effects.programs.url_hosts import host_of, is_local
from lockgate.core.tables import read_table

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

VERBS, VERB_COLUMNS = "verbs", ("effect", "pattern")
_VERBS = {effect: re.compile(pattern) for effect, pattern in read_table(PACKAGE, TABLE, VERBS, VERB_COLUMNS)}
# In this order: the gravest reading of a verb counts.
_KINDS = ("disables-check", "grants-access", "makes-key", "deletes-data")


def _has(effect: str, words: list[str]) -> bool:
    return any(_VERBS[effect].fullmatch(word.lower()) for word in words)


def _note_verbs(use: Use, words: list[str], target: str) -> Output:
    """Note what the words of a cloud's command do, and the settings that it changes; the gravest word counts."""
    walk, looks = use.walk, _has("looks", words)
    if not looks:
        note_settings(walk, use.call.arguments)
    if _has("reads-secret", words):
        walk.add("reads-secret", target)
        return Output(Source.SECRET, target=target)
    kind = next((kind for kind in _KINDS if _has(kind, words)), "" if looks else "changes-service")
    if kind:
        walk.add(kind, target)
    return UNKNOWN_OUTPUT


_NAMING = re.compile(r"name|id|bucket|user|role|group|arn|cluster|table|queue|function|stack|key")


def finish_asks_aws(use: Use) -> Output:
    """Ask a service of AWS by its verb."""
    service, verb = [*use.operands, "", ""][:2]
    if service != "iam":
        return _note_verbs(use, [verb], _named_target(use, f"{service} {verb}"))
    if not (_has("looks", [verb]) or verb.startswith(("get", "list", "generate", "simulate"))):
        kinds = (kind for kind in ("deletes-data", "makes-key") if _has(kind, [verb]))
        kind = _kind_of_key_removal(use.walk, verb, use.call.arguments) or next(kinds, "grants-access")
        use.walk.add(kind, _named_target(use, f"{service} {verb}"))
    return UNKNOWN_OUTPUT


def _named_target(use: Use, other: str) -> str:
    """Return the value of the first option that names something."""
    pairs = long_values(use.call.arguments)
    return use.walk.plain(next((value for name, value in pairs if _NAMING.search(name)), other))


_KEY = re.compile(r"(delete|update)-(?:access-key|ssh-public-key|service-specific-credential|signing-certificate)")


def _kind_of_key_removal(walk: Walk, verb: str, arguments: list[str]) -> str:
    """Return the kind of a command that only takes a key away or switches it off; nothing for any other."""
    match = _KEY.fullmatch(verb)
    # Behind an option, the word may be the option's value.
    if match is None or arguments[arguments.index("iam") + 1] != verb:
        return ""
    if match.group(1) == "delete":
        return "deletes-record"
    # An option may be shortened; where it is given twice, the last one counts.
    states = [walk.plain(value) for name, value in long_values(arguments) if name.startswith("--st")]
    return "changes-record" if states and all(state == "Inactive" for state in states) else ""


_BUCKET = re.compile(r"(?:s3|gs|az)://([^/]*)")


def role_bucket(use: Use, value: str) -> None:
    """A bucket, or an object in one; what happens to it stands behind the dot."""
    match = _BUCKET.match(use.walk.plain(value))
    use.walk.add(use.detail, match.group(1) if match else use.call.name)


def finish_copies_objects(use: Use) -> Output:
    """Copy objects to, from or between buckets."""
    walk, paths = use.walk, use.operands
    buckets = [match.group(1) for path in paths if (match := _BUCKET.match(walk.plain(path)))]
    if any("public-read" in argument for argument in use.call.arguments):
        walk.add("grants-access", [*buckets, use.call.name][0])
    if not paths or not _BUCKET.match(walk.plain(paths[-1])):
        stream = Output(Source.DOWNLOAD, target=[*buckets, ""][0])
        walk.add("requests" if buckets else "changes-service", stream.target or use.call.name)
        if not paths or paths[-1] == "-":
            return stream
        walk.write_file(paths[-1], stream)
        return NO_OUTPUT
    for path in paths[:-1]:
        note_sent(walk, use.call.stdin if path == "-" else walk.read_file(path))
    walk.add("sends-data", buckets[-1])
    if "delete" in use.modes:
        walk.add("deletes-data", buckets[-1])
    return NO_OUTPUT


_GRANTING_NOUNS = (["role", "assignment"], ["ad", "user"], ["ad", "sp"], ["ad", "app"])
_SECRET_NOUNS = re.compile(
    r"\b(?:secrets versions access|keyvault secret (?:show|download)|keys list|connection-string|print-access)"
)
_KEY_REMOVALS = {
    "iam service-accounts keys delete": "deletes-record",
    "iam service-accounts keys disable": "changes-record",
}


def finish_asks_cloud(use: Use) -> Output:
    """Ask a cloud whose commands are nouns first, and the verb behind them."""
    walk = use.walk
    words = [argument for argument in use.call.arguments if argument[:1] != "-"]
    if _SECRET_NOUNS.search(" ".join(words)):
        walk.add("reads-secret", walk.plain(words[-1]))
        return Output(Source.SECRET, target=walk.plain(words[-1]))
    at = next((at for at, word in enumerate(words) if at and any(_has(effect, [word]) for effect in _VERBS)), -1)
    target = walk.plain(words[at + 1]) if 0 <= at < len(words) - 1 else " ".join(words[:3])
    if words[:2] in _GRANTING_NOUNS or words[:1] == ["iam"]:
        _note_grant(use, words, target)
        return UNKNOWN_OUTPUT
    return _note_verbs(use, words[at : at + 1] if at >= 0 else words, target)


def _note_grant(use: Use, words: list[str], target: str) -> None:
    """Note a change of who may do what in a cloud."""
    if not _has("looks", words[1:]):
        kind = "makes-key" if {"keys", "create"} <= set(words) else "grants-access"
        # With an option among them, one of these words may be the option's value.
        if not any(argument.startswith("--member") for argument in use.call.arguments):
            kind = _KEY_REMOVALS.get(" ".join(use.call.arguments[:4]), kind)
        use.walk.add(kind, target)


def role_to_host(use: Use, value: str) -> None:
    """An address on another machine; what it is used for stands behind the dot."""
    host = host_of(use.walk.plain(value))
    if host and not is_local(host) and not value.startswith("unix:"):
        use.walk.add(use.detail, host)


def role_manifest(use: Use, value: str) -> None:
    """A description of what a cluster shall run."""
    stream = use.call.stdin if value == "-" else use.walk.read_file(value)
    if "://" in value:
        use.walk.add("runs-download", host_of(use.walk.plain(value)))
    elif stream.source is Source.DOWNLOAD:
        use.walk.add("runs-download", stream.target)


def role_link(use: Use, value: str) -> None:
    """What may be an address: the chart that `helm` installs, a source of packages."""
    if "://" in value:
        role_to_host(use, value)


def finish_changes_running(use: Use) -> Output:
    """Change a running service, and the settings that the command hands to it."""
    note_settings(use.walk, use.call.arguments)
    use.walk.add("changes-service", use.walk.plain(last_word(use.call.arguments, use.operands) or use.call.name))
    return UNKNOWN_OUTPUT


def finish_sets_image(use: Use) -> Output:
    """Change the images that containers run."""
    note_container_images(use.walk, use.operands)
    use.walk.add("changes-service", last_word(use.call.arguments, use.operands) or use.call.name)
    return UNKNOWN_OUTPUT


def rest_container_program(use: Use, words: list[str]) -> Output:
    """Run a program in a container; looking around in one changes nothing, unless the container is new."""
    arguments = use.call.arguments
    note_settings(use.walk, arguments[: arguments.index("--")] if "--" in arguments else arguments)
    changes, printed = use.walk.changes_container(words, use.call.stdin) if words else (True, UNKNOWN_OUTPUT)
    if changes or use.detail == "new":
        use.walk.add("changes-service", use.first())
    return printed


_SECRETS = re.compile(r"(?:^|[\s,/])secrets?(?:/|$|,|\s)")


def finish_asks_cluster(use: Use) -> Output:
    """Show objects of a cluster; secrets are shown by some formats."""
    is_whole = use.value("format").startswith(("yaml", "json", "go-template", "template"))
    asked = " ".join([use.value("raw"), *(use.operands[:2] if is_whole else ())])
    if not _SECRETS.search(asked):
        return UNKNOWN_OUTPUT
    target = use.walk.plain([asked, *use.operands][-1])
    use.walk.add("reads-secret", target)
    return Output(Source.SECRET, target=target)


def role_vault_path(use: Use, value: str) -> None:
    """A path in a vault: some of them say who may do what; what happens to others stands behind the dot."""
    path = use.walk.plain(value)
    # Values stand behind the path: `x=1`, `@file` and `-`.
    if path != "-" and not path.startswith("@") and ("=" not in path or "/" in path.partition("=")[0]):
        is_access = path.startswith(("auth/", "sys/policy", "sys/policies", "identity/"))
        use.walk.add("grants-access" if is_access else use.detail, path)
