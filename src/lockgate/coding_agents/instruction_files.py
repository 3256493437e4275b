"""Files that Codex, Gemini CLI, Copilot CLI and OpenCode put into their model's context by themselves.

No event holds these texts, so they are read here: those of the working folder and above, those of the user, those that
the folder's own settings name, and those of a folder further down once a tool has worked there. The lists were measured
with the real programs. Of a skill or a subagent the model reads at first only the description; the whole file counts,
so that a person can vouch for it.

A folder comes from strangers: everything is bounded, and what is not read makes the context unknown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from itertools import islice

from lockgate.claude_code.context_files import MAX_FILE_BYTES, UNREAD, file_piece
from lockgate.core.ruling.effects.own_paths import AGENT_PROGRAMS
from lockgate.runtime.accounts import Account, may_read
from lockgate.runtime.project_files import folders_upwards
from lockgate.sessions import Piece

_MAX_NAMES = 200

_FILES: Mapping[str, tuple[str, ...]] = {
    "codex": ("AGENTS.override.md", "AGENTS.md", ".codex/skills/*/SKILL.md", ".agents/skills/*/SKILL.md"),
    "gemini": (
        "GEMINI.md", "AGENTS.md", ".gemini/skills/*/SKILL.md", ".agents/skills/*/SKILL.md", ".gemini/agents/*.md",
    ),
    "copilot": (
        "AGENTS.md", "CLAUDE.md", "GEMINI.md", ".github/copilot-instructions.md",
        ".github/instructions/*.instructions.md", ".claude/rules/*.md", ".claude/commands/*.md",
        ".github/skills/*/SKILL.md", ".agents/skills/*/SKILL.md", ".claude/skills/*/SKILL.md",
        ".github/agents/*.md", ".claude/agents/*.md",
    ),
    "opencode": (
        "AGENTS.md", "CLAUDE.md", "CONTEXT.md", ".opencode/skill/*/SKILL.md", ".opencode/skills/*/SKILL.md",
        ".agents/skills/*/SKILL.md", ".claude/skills/*/SKILL.md", ".opencode/agent/*.md", ".opencode/agents/*.md",
    ),
}  # fmt: skip
# Below the folder of the user's own settings.
_OWN_FILES: Mapping[str, tuple[str, ...]] = {
    "codex": ("AGENTS.override.md", "AGENTS.md", "skills/*/SKILL.md"),
    "gemini": ("GEMINI.md", "skills/*/SKILL.md"),
    "copilot": ("copilot-instructions.md", "instructions/*.instructions.md", "skills/*/SKILL.md"),
    "opencode": ("AGENTS.md", "skill/*/SKILL.md", "skills/*/SKILL.md", "agent/*.md"),
}
# Folders of commands: the host puts the text of one in the place of what the user has typed.
_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "gemini": (".gemini/commands",),
    "opencode": (".opencode/command", ".opencode/commands"),
}
# Settings of the folder that may name further files, or hold instructions themselves.
_FOLDER_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "codex": (".codex/config.toml",),
    "gemini": (".gemini/settings.json",),
    "opencode": ("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"),
}
# A name or a list of them, in JSON and in TOML.
_NAMING = re.compile(
    r"(?:instructions(?:_file)?|file_?names?)[\"']?\s*[:=]\s*(\[[^\]]*\]|\"[^\"\n]*\"|'[^'\n]*')", re.IGNORECASE
)
_TEXT = re.compile(r"\"([^\"\n]+)\"|'([^'\n]+)'")
# What ends a text inside of a command's file, what the host puts the user's words for, and what it puts a program's
# output or a file for.
_ENDS = re.compile(r"[\"'`]+|^---\s*?$", re.MULTILINE)
_GAPS = re.compile(r"\\n|\{\{.*?\}\}|\$\w+|\0")
_INJECTION = re.compile(r"[!@]\{|!`[^`\n]*`")
_MARK = "\0"
_NAMED_FILE = re.compile(r"\{file:([^}\n]+)\}")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|[^uUx\s])")
_JOINED_LINES = re.compile(r"\\[ \t]*\r?\n\s*")
_LONG = 24


def instruction_pieces(agent: str, folder: str, account: Account) -> Iterator[Piece]:
    """Yield what this agent tells its model when it works in this folder; UNREAD for what is not read here."""
    if account.is_own:
        own = os.path.expanduser(AGENT_PROGRAMS[agent].settings_folder(os.environ))
        yield from _pieces_in(own, _OWN_FILES[agent], account)
        yield from _pieces_in(os.path.expanduser("~"), (".agents/skills/*/SKILL.md",), account)
    for each in _folders_upwards(folder):
        yield from _pieces_in(each, _FILES[agent], account)
        yield from _named_pieces(agent, each, account)


def pieces_on_the_way(agent: str, path: str, folder: str, account: Account) -> Iterator[Piece]:
    """Yield the instructions between the working folder and a file below it that a tool was given."""
    folder = os.path.normpath(folder)
    there = os.path.dirname(os.path.normpath(os.path.join(folder, path)))
    for each in _folders_upwards(there if "\0" not in path else ""):
        if not each.startswith(folder.rstrip(os.sep) + os.sep):
            return
        yield from _pieces_in(each, _FILES[agent], account)


def commands_of_prompt(agent: str, prompt: str, folder: str, account: Account) -> Iterator[Piece]:
    """Yield each of the folder's commands that may stand in a prompt, in the place of what the user has typed.

    UNREAD for commands that are not read here. What a command takes from a program or a file is not known: one with
    such a part counts where all its other words are in the prompt.
    """
    said = _in_one_line(prompt)
    for each in _folders_upwards(folder) if agent in _COMMANDS else ():
        paths = [os.path.join(each, name) for name in _FOLDER_SETTINGS[agent]]
        for name in _COMMANDS[agent]:
            found = _files_below(os.path.join(each, name))
            if len(found) > _MAX_NAMES:
                yield UNREAD
            paths += found[:_MAX_NAMES]
        for path in paths:
            for piece in _pieces_of_command(path, account):
                if piece is UNREAD or _stands_in(piece.content, said):
                    yield piece


def _pieces_of_command(path: str, account: Account) -> Iterator[Piece]:
    """Yield the file, and those that stand in it as `{file:PATH}`, the way OpenCode reads its settings."""
    piece = file_piece(path, account)
    if piece is None or piece is UNREAD:
        return
    names = dict.fromkeys(_NAMED_FILE.findall(piece.content))
    found = [os.path.join(os.path.dirname(path), os.path.expanduser(name.strip())) for name in names]
    if len(found) > _MAX_NAMES:
        yield UNREAD
    for each in (piece, *(file_piece(name, account) for name in found[:_MAX_NAMES])):
        if each is not None and each is not UNREAD:
            # Of a larger file only the beginning is read.
            is_whole = len(each.content.encode("utf-8", "surrogatepass")) < MAX_FILE_BYTES
            yield each if is_whole else UNREAD


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


def _stands_in(content: str, said: str) -> bool:
    """Return whether the text of a command's file may stand in a prompt that is in one line."""
    for text in {content, _without_escapes(content)}:
        total = 0
        for part in _ENDS.split(_mark_injections(text)):
            words = [word for each in _GAPS.split(part) if len(word := _in_one_line(each)) >= 4]
            found = [len(word) for word in words if word in said]
            total += sum(found)
            if max(found, default=0) >= _LONG or (_MARK in part and len(found) == len(words)):
                return True
        if total * 2 >= len(said):
            return True
    return False


def _mark_injections(command: str) -> str:
    """Return the text with a mark for each part that the host takes from a program or a file, to its last bracket."""
    done, at = [], 0
    command = command.replace(_MARK, " ")
    for found in _INJECTION.finditer(command):
        if found.start() < at:
            continue
        done += [command[at : found.start()], _MARK]
        at, depth = found.end(), int(found[0].endswith("{"))
        while depth and at < len(command):
            depth += {"{": 1, "}": -1}.get(command[at], 0)
            at += 1
    return "".join([*done, command[at:]])


def _without_escapes(text: str) -> str:
    """Return a text as JSON and TOML read it: `\\u0041` is a letter, and a backslash joins two lines."""
    plain = _ESCAPE.sub(lambda found: _escaped(found[1]), _JOINED_LINES.sub("", text))
    # Two halves of a pair become the one sign that they stand for.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escaped(sign: str) -> str:
    if sign[0] not in "uUx":
        return " " if sign in "btnfre" else sign
    number = int(sign[1:], 16)
    return chr(number) if number < 0x110000 else ""


def _files_below(folder: str) -> list[str]:
    """Return the files of a folder, through links too as the hosts do; more than `_MAX_NAMES` where not all are."""
    found: list[str] = []
    for number, (place, _, names) in enumerate(os.walk(folder, followlinks=True)):
        found += [os.path.join(place, name) for name in names]
        if number > _MAX_NAMES:
            return [*found, *[""] * (_MAX_NAMES + 1)]
        if len(found) > _MAX_NAMES:
            break
    return found


def _folders_upwards(folder: str) -> Iterator[str]:
    return folders_upwards(folder) if os.path.isabs(folder) else iter(())


def _pieces_in(folder: str, names: tuple[str, ...], account: Account) -> Iterator[Piece]:
    for name in names:
        for path in _paths(folder, name, account):
            piece = file_piece(path, account) if path else UNREAD
            # For another account, a file that is not there cannot be told from one that it may not read.
            if piece is not None and (piece is not UNREAD or not path):
                yield piece


def _paths(folder: str, name: str, account: Account) -> Iterator[str]:
    """Yield the files of a name with at most one `*` in it; an empty path where there are more than are looked at."""
    before, star, after = name.partition("*")
    if not star:
        yield os.path.join(folder, name)
        return
    place = os.path.join(folder, os.path.dirname(before))
    if not os.path.isdir(place) or not (account.is_own or may_read(account, place)):
        return
    rest = after if after.startswith("/") else ""
    with os.scandir(place) as listed:
        found = [each.path for each in islice(listed, _MAX_NAMES + 1)]
    yield from (each + rest for each in sorted(found[:_MAX_NAMES]) if rest or each.endswith(after))
    if len(found) > _MAX_NAMES:
        yield ""


def _named_pieces(agent: str, folder: str, account: Account) -> Iterator[Piece]:
    """Yield the settings of a folder, which may hold instructions, and the files that they name."""
    for settings in _pieces_in(folder, _FOLDER_SETTINGS.get(agent, ()), account):
        yield settings
        # A name that is written with escapes is not found below.
        if "\\u" in settings.content:
            yield UNREAD
        for value in _NAMING.findall(settings.content):
            for pair in _TEXT.findall(value):
                name = os.path.expanduser(pair[0] or pair[1])
                if name.count("*") > 1 or "://" in name or any(sign in name for sign in "?[{"):
                    yield UNREAD
                else:
                    yield from _pieces_in(folder, (name,), account)
