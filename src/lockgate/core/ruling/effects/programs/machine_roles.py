"""Roles and whole commands of programs that change the machine itself: services, schedules, keys, networks."""

from __future__ import annotations

import re

from lockgate.core.ruling.effects.paths import Access
from lockgate.core.ruling.effects.program_io import NO_OUTPUT, UNKNOWN_OUTPUT, Output, Source
from lockgate.core.ruling.effects.programs.packages import note_package
from lockgate.core.ruling.effects.programs.roles import Use, ask_host, is_foreign, role_if


def finish_controls(use: Use) -> Output:
    """`service NAME VERB`."""
    name, verb = [*use.operands, "", "status"][:2] if len(use.operands) != 1 else [use.operands[0], "status"]
    if verb in ("stop", "disable"):
        use.detail = "protects"
        role_if(use, name)
    if verb and verb != "status":
        use.walk.add("changes-service", use.walk.plain(name))
    return UNKNOWN_OUTPUT


_MOST_JOBS, _MOST_OF_JOB = 8, 200
# What stands behind the five fields of a time, or behind its name, in a line of a crontab.
_JOB = re.compile(r"(?m)^[ \t]*(?:@\w+|(?:[\d*/,A-Za-z-]+[ \t]+){4}[\d*/,A-Za-z-]+)[ \t]+(.+)$")


def finish_schedules(use: Use) -> Output:
    """Jobs that the input lists, each of which runs later."""
    walk, stream, jobs = use.walk, use.call.stdin, list[str]()
    if stream.source is Source.DOWNLOAD:
        walk.add("runs-download", stream.target)
    elif stream.source is Source.TEXT:
        jobs = _JOB.findall(stream.text) if use.call.name == "crontab" else [stream.text]
        walk.read_text("\n".join(jobs))
    for job in jobs[:_MOST_JOBS] or [use.call.name]:
        walk.add("schedules-job", walk.plain(job).strip()[:_MOST_OF_JOB] or use.call.name)
    return UNKNOWN_OUTPUT


def finish_makes_keys(use: Use) -> Output:
    """A new key is written, unless another is signed or read."""
    if "sign" not in use.values and not use.wants("-D"):
        use.walk.access(use.value("file") or "~/.ssh/id_ed25519", Access.WRITE)
    return UNKNOWN_OUTPUT


def finish_opens_keys(use: Use) -> Output:
    """`gpg`: secret keys that are shown, and texts that are decrypted."""
    walk, stdin = use.walk, use.call.stdin
    if any(option.startswith("--export-s") for option, _ in use.options):
        walk.add("reads-secret", "gpg key")
        return Output(Source.SECRET, target="gpg key")
    if "decode" in use.modes:
        if use.operands and stdin is NO_OUTPUT:
            walk.add("reads-secret", walk.plain(use.operands[-1]))
        return stdin if stdin.source is Source.DOWNLOAD else Output(Source.DECODED)
    return stdin if stdin.source is Source.DOWNLOAD else UNKNOWN_OUTPUT


def finish_shows_secrets(use: Use) -> Output:
    """What a store of passwords gives out."""
    target = use.walk.plain([use.call.name, *use.operands][-1])
    use.walk.add("reads-secret", target)
    return Output(Source.SECRET, target=target)


def role_load(use: Use, value: str) -> None:
    """A program that is asked about, and may be started for it."""
    if is_foreign(use.walk, value):
        use.walk.run_path(value)


def role_assigned(use: Use, value: str) -> None:
    """A setting of the machine, where it is set."""
    name, equals, setting = value.partition("=")
    if equals:
        use.walk.assign(name, setting)
    if equals or value[:1].isdigit():
        use.walk.add("changes-service", use.walk.plain(value))


def role_address(use: Use, value: str) -> None:
    """An address that a browser opens, or a file."""
    if "://" in value:
        ask_host(use.walk, value, sends=False)


_IP_LOOKS = ("show", "list", "lst", "ls", "get", "monitor", "help", "identify", "pids")
_IP_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")
_IP_VALUED = frozenset("-n -netns -f -family -l -loops -rc".split())


def finish_routes(use: Use) -> Output:
    """`ip OBJECT VERB`: the beginning of a verb stands for it, and all but questions change the network."""
    walk, words, before = use.walk, list[str](), ""
    for argument in use.call.arguments:
        if before in ("-b", "-batch"):
            walk.run_path(argument)
        elif words or (argument[:1] != "-" and before not in _IP_VALUED):
            words.append(argument)
        before = argument
    if words[:2] == ["netns", "exec"]:
        return walk.run_program(words[3:] or ["sh"], use.call.stdin)
    if len(words) > 1 and not any(verb.startswith(words[1]) for verb in _IP_LOOKS):
        address = ["ip", *(word for word in words if _IP_ADDRESS.match(word))][-1]
        walk.add("changes-service", address.partition("/")[0])
    return UNKNOWN_OUTPUT


# What can only be the version of a language, or the language: these come from the manager's own source.
_VERSION = re.compile(
    r"(?i)v?\d[\w.+-]*|(?:lts|latest|stable|beta|nightly|system|default)(?:[-/:][\w.*:-]+)?|iojs[\w.-]*"
    r"|[a-z]+-?v?\d[\w.+-]*|\w+-\w+-(?:linux|apple|pc|unknown)[\w-]*"
)
_LANGUAGES = frozenset(
    "node nodejs python ruby go golang java kotlin scala rust erlang elixir deno bun php perl julia zig dart flutter "
    "lua crystal dotnet swift gradle maven sbt groovy npm pnpm yarn clippy rustfmt rust-src rust-analyzer".split()
)
_REGISTRIES = {"npm": "npm", "pipx": "pypi", "pypi": "pypi", "cargo": "cargo", "gem": "gem", "go": "go"}
_REPOSITORIES = frozenset("ubi github gitlab aqua asdf vfox spm".split())


def role_version(use: Use, value: str) -> None:
    """What a manager of versions installs: a version, a package of a registry, a plug-in, or a file."""
    walk, plain = use.walk, use.walk.plain(value)
    prefix, colon, name = plain.partition(":")
    if colon and not name.startswith("//"):
        note_package(walk, name, "" if prefix in _REPOSITORIES and "/" in name else _REGISTRIES.get(prefix, ""))
    elif "/" in plain and "://" not in plain and plain[:1] in "./~":
        walk.run_path(value)
    elif _VERSION.fullmatch(plain) or plain.partition("@")[0] in _LANGUAGES:
        walk.add("installs-known-package")
    else:
        note_package(walk, value, use.detail)


def rest_version_program(use: Use, words: list[str]) -> Output:
    """A program behind the versions that it gets, which `--` may end."""
    # Only `nvm` may leave the version out.
    first = words[0] if words else ""
    end = words.index("--") if "--" in words else int(use.detail != "node" or bool(_VERSION.fullmatch(first)))
    if use.call.arguments[: -len(words) or None][-1:] == ["--"]:
        # No version stands before it: `mise exec -- ls`.
        end = 0
    use.detail = ""
    for word in words[:end]:
        role_version(use, word)
    inner = words[end:]
    return use.walk.run_program(inner[1:] if inner[:1] == ["--"] else inner, use.call.stdin) if inner else NO_OUTPUT


def finish_runs_here(use: Use) -> Output:
    """Settings of the folder, where no other path is named."""
    if not use.operands:
        use.walk.run_path(".envrc" if use.call.name == "direnv" else "mise.toml")
    return UNKNOWN_OUTPUT
