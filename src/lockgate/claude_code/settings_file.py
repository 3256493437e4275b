"""Lockgate in Claude Code's settings: which hooks stand there, how they are put in, and how they are taken out again.

Two forms. `command` starts a program, which finds the token by itself and believes only an answer that the token has
signed. `http` has Claude Code ask the service itself, with the agent's token in the settings: it starts no process, and
believes any program that has taken the port. In that form too SessionStart is a command, since it is never asked over
HTTP; without it a session that begins is not known from one that was forked. UserPromptSubmit is one: it sees the
variables that Claude Code goes by, and stops a prompt while a proxy would answer in our place. SessionEnd is one, since
only a command's last words reach the terminal of an unattended run.

A folder's settings can set variables for whatever Claude Code starts. So where a file is one person's own, the command
is Python itself, told to heed none (`-I -S`), with the one file that it needs. Such a command also starts the service
where it is not running, with the variables that stand after `--start`; a shared file's command starts nothing.

`onFailure: block` turns our own failure into a no. It is left out where a no would do harm: an agent that is not
allowed to stop goes on for ever.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import NamedTuple, Protocol

from lockgate.claude_code.hook_command import DEFAULT_URL, PATH, PLAIN_HOSTS
from lockgate.core.errors import LockgateError, quoted
from lockgate.runtime import json_edit as json_text
from lockgate.runtime.private_files import replace_file

# The first version in which a hook's failure can block.
LEAST_VERSION = (2, 1, 295)
ENTRYPOINT = "CLAUDE_CODE_ENTRYPOINT"
# The hook's own deadline is shorter: what it says is better than what the host says of a hook that it gave up on.
_SLOW_S, _FAST_S = 45, 10
_MAX_SETTINGS_BYTES = 4 * 1024 * 1024
_SECRET = re.compile(r"Bearer [^\s\"$]+")


class EventWiring(NamedTuple):
    """How one event is hooked."""

    matched: bool = False
    blocks: bool = True
    seconds: int = _FAST_S


EVENTS: Mapping[str, EventWiring] = {
    # The first two may have to wait until the service has started, and has compiled its rules.
    "SessionStart": EventWiring(blocks=False, seconds=_SLOW_S),
    "UserPromptSubmit": EventWiring(seconds=_SLOW_S),
    "UserPromptExpansion": EventWiring(),
    "InstructionsLoaded": EventWiring(blocks=False),
    "PreToolUse": EventWiring(matched=True, seconds=_SLOW_S),
    "PostToolUse": EventWiring(matched=True),
    "PostToolUseFailure": EventWiring(matched=True),
    "PostToolBatch": EventWiring(),
    "SubagentStart": EventWiring(blocks=False),
    "SubagentStop": EventWiring(blocks=False),
    "SessionEnd": EventWiring(blocks=False),
}


# Always a command: the first is never asked over HTTP, the second finds out whether anything else would be, and the
# last says on stderr that a run was stopped.
_COMMANDS = ("SessionStart", "UserPromptSubmit", "SessionEnd")


@dataclass(frozen=True, slots=True)
class HookForm:
    """What is to stand in a file: `token` empty is the command form. `words` come after the command.

    `start` are the variables of a service that the command starts, as `NAME=VALUE`; empty, and it starts none.
    """

    command: str
    url: str = DEFAULT_URL
    token: str = ""
    words: tuple[str, ...] = ("hook",)
    start: tuple[str, ...] = ()

    @property
    def events(self) -> Sequence[str]:
        return tuple(EVENTS)

    def hook(self, event: str) -> dict[str, object]:
        wire = EVENTS[event]
        ends: dict[str, object] = {"timeout": wire.seconds}
        if event == "PreToolUse":
            ends["statusMessage"] = "Lockgate looks at the call; a judge may take up to 20 seconds"
        if wire.blocks:
            ends["onFailure"] = "block"
        if not self.token or event in _COMMANDS:
            # A shared file leaves the address to each machine; in one's own a folder's variables are not to change it.
            shared = self.words == ("hook",) and self.url == DEFAULT_URL and not self.token
            where = [] if shared else ["--url", self.url, *(["--http"] if self.token else [])]
            words = [*self.words, "claude-code", *where, *(["--start", *self.start] if self.start else [])]
            return {"type": "command", "command": self.command, "args": words, **ends}
        forwarded = {"X-Lockgate-Entrypoint": ENTRYPOINT, "X-Lockgate-Judge": "LOCKGATE_JUDGE"}
        headers = {"Authorization": f"Bearer {self.token}", **{name: f"${each}" for name, each in forwarded.items()}}
        own = {"headers": headers, "allowedEnvVars": list(forwarded.values())}
        return {"type": "http", "url": self.url + PATH, **ends, **own}

    def group(self, event: str) -> dict[str, object]:
        group: dict[str, object] = {"matcher": "*"} if EVENTS[event].matched else {}
        return {**group, "hooks": [self.hook(event)]}


class PlannedHooks(Protocol):
    """What is to stand in a file of hooks: a group for each of these events."""

    @property
    def events(self) -> Sequence[str]: ...

    @property
    def token(self) -> str: ...

    def group(self, event: str) -> dict[str, object]: ...


# The whole command line as one string, as Codex and Gemini CLI take it.
_PLAIN_COMMAND = re.compile(
    r"(?:.{1,500} -I -S .{0,500}[\\/]lockgate[\\/]claude_code[\\/]hook_command\.py'?|lockgate hook)"
    rf" (?:{'|'.join(PLAIN_HOSTS)})\b.*",
    re.DOTALL,
)


def is_lockgate_hook(hook: object) -> bool:
    """Whether this hook asks Lockgate."""
    if not isinstance(hook, dict):
        return False
    if hook.get("type") == "http":
        return str(hook.get("url", "")).endswith(PATH)
    args, command = hook.get("args"), hook.get("command")
    if args is None and isinstance(command, str) and _PLAIN_COMMAND.fullmatch(command):
        return True
    if hook.get("type") != "command" or not isinstance(args, list) or not isinstance(command, str):
        return False
    if args[:2] == ["-I", "-S"] and args[3:4] == ["claude-code"]:
        return bool(re.search(r"[\\/]lockgate[\\/](claude_code[\\/]hook_command|hook)\.py$", str(args[2])))
    return args[:2] == ["hook", "claude-code"] and re.split(r"[\\/]", command)[-1] in ("lockgate", "lockgate.exe")


def hook_groups(settings: Mapping[str, object]) -> Iterator[tuple[str, Mapping[str, object], Sequence[object]]]:
    """Each event's groups with their hooks; a shape that Claude Code would not take is an error."""
    hooks = settings.get("hooks", {})
    if not isinstance(hooks, dict):
        raise LockgateError("`hooks` is not an object", hint="mend it, or take it out")
    for event, listed in hooks.items():
        if not isinstance(listed, list):
            raise LockgateError(f"`hooks.{event}` is not a list", hint="mend it, or take it out")
        for group in listed:
            inner = group.get("hooks", []) if isinstance(group, dict) else None
            if not isinstance(inner, list):
                raise LockgateError(f"a group of `hooks.{event}` has no list of hooks", hint="mend it, or take it out")
            yield event, group, inner


def lockgate_hooks(settings: Mapping[str, object]) -> list[tuple[str, Mapping[str, object], Mapping[str, object]]]:
    """Event, group and hook, for every hook of ours."""
    return [
        (event, group, hook)
        for event, group, inner in hook_groups(settings)
        for hook in inner
        if isinstance(hook, dict) and is_lockgate_hook(hook)
    ]


def add_hooks(text: str, form: PlannedHooks) -> str:
    """The settings with all of our hooks, each once; what is as it should be stays as it is."""
    text = text if text.strip() else "{}\n"
    there = sorted(
        ((event, group) for event, group, _ in lockgate_hooks(json_text.parse_json_object(text))),
        key=lambda pair: pair[0],
    )
    if there == [(event, form.group(event)) for event in sorted(form.events)]:
        return text
    text = remove_hooks(text)
    top = json_text.value_start(text)
    for event in form.events:
        hooks = json_text.find_member(text, top, "hooks")
        if hooks is None:
            text = json_text.insert_item(text, top, {}, "hooks")
            hooks = json_text.find_member(text, top, "hooks")
        assert hooks is not None  # noqa: S101  # put there above
        listed = json_text.find_member(text, hooks.value, event)
        if listed is None:
            text = json_text.insert_item(text, hooks.value, [form.group(event)], event)
        else:
            text = json_text.insert_item(text, listed.value, form.group(event))
    return text


def remove_hooks(text: str) -> str:
    """The settings without any of our hooks, and without what then is empty."""
    if not text.strip():
        return text
    while found := _first_hook_places(text, json_text.parse_json_object(text)):
        *above, (place, at) = found
        text = json_text.remove_item(text, place, at)
        # From the inside out: what held nothing else goes too.
        for place, at in reversed(above):
            if next(json_text.iterate_items(text, list(json_text.iterate_items(text, place))[at].value), None) is None:
                text = json_text.remove_item(text, place, at)
            else:
                break
    return text


def _first_hook_places(text: str, settings: Mapping[str, object]) -> list[tuple[int, int]]:
    """Where the first hook of ours is, as places and numbers from the outermost inwards; nothing if there is none."""
    if not lockgate_hooks(settings):
        return []
    top = json_text.value_start(text)
    for a, hooks in enumerate(json_text.iterate_items(text, top)):
        if hooks.key != "hooks":
            continue
        for b, event in enumerate(json_text.iterate_items(text, hooks.value)):
            for c, group in enumerate(json_text.iterate_items(text, event.value)):
                inner = json_text.find_member(text, group.value, "hooks")
                for d, hook in enumerate(json_text.iterate_items(text, inner.value) if inner else ()):
                    said = text[hook.value : hook.end]
                    if said.startswith("{") and is_lockgate_hook(json_text.parse_json_object(said)):
                        path = [(top, a), (hooks.value, b), (event.value, c)]
                        alone = inner is not None and len(list(json_text.iterate_items(text, inner.value))) == 1
                        # A group is ours if nothing else is in it: then it goes as a whole, with its matcher.
                        return path if alone else [*path, (inner.value if inner else 0, d)]
    return []


# What else stands there

# Variables that decide whom Claude Code asks, or what runs in the place of what it starts.
_STEERING = re.compile(
    r"(?:https?|all|no)_proxy|python.+|ld_.+|dyld_.+|node_.+|bun_.+|lockgate_.+|xdg_.+|claude_config_dir|home|path"
    r"|claude_code_(?:entrypoint|session_attended)|ssl_cert_.+|bash_env|env|shell|userprofile",
    re.IGNORECASE,
)


def steering_settings(settings: Mapping[str, object]) -> list[str]:
    """Variables in these settings' `env` that can lead a hook elsewhere, or put another program in its place."""
    variables = settings.get("env")
    return [name for name in variables if _STEERING.fullmatch(name)] if isinstance(variables, dict) else []


# Files


def settings_path(scope: str, *, cwd: Path, environ: Mapping[str, str]) -> Path:
    """The file of this scope: `user`, `project` or `local`."""
    if scope == "user":
        return config_folder(environ) / "settings.json"
    return cwd / ".claude" / ("settings.json" if scope == "project" else "settings.local.json")


def config_folder(environ: Mapping[str, str]) -> Path:
    named = environ.get("CLAUDE_CONFIG_DIR", "")
    return Path(named) if named else Path(os.path.expanduser("~")) / ".claude"


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """A change to one settings file, to be looked at before it is made."""

    path: Path
    before: str
    after: str
    secret: bool

    @property
    def is_empty(self) -> bool:
        return self.before == self.after

    @property
    def had_http(self) -> bool:
        """Whether hooks of ours asked over HTTP before this change."""
        return any(hook.get("type") == "http" for *_, hook in _lockgate_hooks_in(self.before))

    @property
    def diff(self) -> str:
        """The change as a unified diff. The user's own lines are shown as they are; our token is not."""
        before, after = (_SECRET.sub("Bearer …", side).splitlines() for side in (self.before, self.after))
        return "\n".join(unified_diff(before, after, "before", "after", lineterm="", n=1))


def _lockgate_hooks_in(text: str) -> list[tuple[str, Mapping[str, object], Mapping[str, object]]]:
    return lockgate_hooks(json_text.parse_json_object(text)) if text.strip() else []


def plan_change(path: Path, form: PlannedHooks | None, *, within: Path) -> SettingsChange:
    """What putting this form in (or taking all of ours out) would change in the file. `within` is where it may lie."""
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(os.path.realpath(within)):
        raise LockgateError(
            f"{quoted(path, 200)} is a link to {quoted(real, 200)}", hint=f"that is outside {within}: change that file"
        )
    secret = form is not None and bool(form.token)
    if secret and path.is_symlink():
        raise LockgateError(
            f"{quoted(path, 200)} is a link to {quoted(real, 200)}, and would hold a token",
            hint="leave --http out: then no token stands in it",
        )
    before = read_settings(real)
    try:
        after = remove_hooks(before) if form is None else add_hooks(before, form)
    except LockgateError as error:
        raise LockgateError(f"{quoted(path, 200)}: {error.message}", hint=error.hint) from None
    return SettingsChange(real, before, after, secret)


def read_settings(path: Path) -> str:
    """The text of a settings file; empty where there is none."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return ""
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise LockgateError(f"{quoted(path, 200)} is not a file")
        data = file.read(_MAX_SETTINGS_BYTES + 1)
    if len(data) > _MAX_SETTINGS_BYTES:
        raise LockgateError(f"{quoted(path, 200)} is too large to be settings")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise LockgateError(f"{quoted(path, 200)} is not UTF-8") from None


def apply_change(change: SettingsChange) -> Path | None:
    """Make the change, whole or not at all; where the file was kept as it was, or None where there was none."""
    if read_settings(change.path) != change.before:
        raise LockgateError(f"{quoted(change.path, 200)} was changed meanwhile", hint="run this again")
    change.path.parent.mkdir(parents=True, exist_ok=True)
    mode = 0o600
    kept = None
    if change.before:
        mode = stat.S_IMODE(os.stat(change.path).st_mode) & (0o600 if change.secret else 0o777)
        kept = _keep_backup(change.path, _without_our_token(change.before), mode)
    replace_file(change.path, change.after.encode("utf-8"), exact_mode=mode)
    return kept


def _without_our_token(text: str) -> str:
    """The settings without the token in our own hooks: no program looks after a copy, and a repository may take it."""
    for *_, hook in _lockgate_hooks_in(text):
        headers = hook.get("headers")
        given = headers.get("Authorization") if isinstance(headers, dict) else None
        if isinstance(given, str) and _SECRET.fullmatch(given):
            text = text.replace(given, "Bearer …")
    return text


def _keep_backup(path: Path, text: str, mode: int) -> Path:
    """Where the file as it was is kept: beside it, and never in the place of another one that was kept before."""
    for number in range(1_000):
        place = path.with_name(f"{path.name}.before-lockgate{f'-{number}' if number else ''}")
        if not os.path.lexists(place):
            replace_file(place, text.encode("utf-8"), exact_mode=mode)
            return place
        if not place.is_symlink() and place.is_file() and place.read_bytes() == text.encode("utf-8"):
            return place
    raise LockgateError(f"{quoted(path, 200)} has been kept a thousand times", hint="move its copies away")


# The program itself


def parse_version(said: str) -> tuple[int, ...]:
    """The version in what `claude --version` prints; empty where there is none."""
    found = re.match(r"\s*(\d{1,6})\.(\d{1,6})\.(\d{1,6})\b", said)
    return tuple(map(int, found.groups())) if found else ()
