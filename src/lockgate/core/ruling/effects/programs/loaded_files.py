"""What a program does by the files that it runs or loads, as far as the session wrote them.

A script is read as its language. A file of another kind (a Makefile, the scripts of a package, a playbook) is read line
by line: a line counts that is a command of a known program, whatever stands around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import translate
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.activity import NO_ACTIVITY, Content
from lockgate.core.ruling.effects.code import MOST_CHARACTERS, read_code, read_sql
from lockgate.core.ruling.effects.effect import Certainty, Effect, Severity
from lockgate.core.ruling.effects.programs.program_rows import WORDS, find_row
from lockgate.core.ruling.effects.project import Project
from lockgate.core.ruling.effects.shell_syntax import Invocation
from lockgate.core.tables import read_patterns, read_table

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

_TABLE = "loaded_files.tbl"
_P = read_patterns(__package__, _TABLE)
# By program, the files that it loads without being told, and whether their lines are commands of this machine.
LOADS = {
    program: (files.split(), sort)
    for programs, files, sort in read_table(__package__, _TABLE, "loads", ("programs", "files", "lines"))
    for program in programs.split()
}
RUN_NO_FILE = WORDS["run no file"]
_RUNS_CODE = frozenset(("runs-project-task", "computes"))
_MOST_LINE, _MOST_LINES, _MOST_FILES, _MOST_SECTIONS = 2000, 64, 64, 200


def language_of(path: str, text: str) -> str:
    """Return the language of a script by its name or its first line: `code`, `shell`, or nothing."""
    if _P["code name"].search(path) or _P["code line"].match(text):
        return "code"
    return "shell" if _P["shell name"].search(path) or text.startswith("#!") else ""


def run_content(walk: Walk, path: str, content: Content) -> None:
    """Note what a file does that the session wrote, when it is run or loaded."""
    if content.is_whole and language_of(path, content.text or "") == "shell":
        walk.read_text(content.text or "", [path])
    else:
        _add_all(walk, _effects_of(path, content, walk.argument, walk.project))


def acts_when_run(path: str, content: Content, project: Project) -> bool:
    """Return whether a file that may be run or loaded does more than work here."""
    effects = () if content.text is None or _P["prose"].search(path) else _effects_of(path, content, "", project)
    is_code = _P["code name"].search(path) is not None
    return any(_acts_on_machine(effect) if is_code else effect.severity is Severity.OPENS_A_DOOR for effect in effects)


def _effects_of(path: str, content: Content, argument: str, project: Project) -> Iterable[Effect]:
    text = content.text or ""
    language = language_of(path, text)
    if language == "code":
        return read_code(text, argument, project)
    if path.endswith(".sql"):
        return read_sql(text, argument)
    if language == "shell" and content.is_whole:
        from lockgate.core.ruling.effects.shell_walk import read_command  # the shell's readers use this module

        return read_command(text, argument, project.apart(), NO_ACTIVITY)
    return _read_lines(text, argument, project)


def _acts_on_machine(effect: Effect) -> bool:
    return effect.kind in WORDS["acts of loaded code"] and _P["place"].match(effect.target) is not None


@lru_cache(maxsize=128)
def _loaded_by(program: str) -> re.Pattern[str]:
    forms = "|".join(translate(form) for file in LOADS[program][0] for form in (file, f"*/{file}"))
    return re.compile(rf"\A(?:{forms})")


def note_loaded_files(walk: Walk, call: Invocation) -> None:
    """Note what a program does by the files that it loads without being told."""
    if call.name in LOADS and (walk.activity.contents or walk.written):
        for path, text in _known_files(walk, _loaded_by(call.name), loads=True):
            if LOADS[call.name][1] == "lines" and not language_of(path, ""):
                _add_all(walk, _read_lines(_sections_for(text, call.arguments), walk.argument, walk.project))


def read_loaded_code(walk: Walk) -> None:
    """Note what code of the session does to the machine, where the line runs code that may load it."""
    if walk.activity.contents and any(effect.kind in _RUNS_CODE for effect in walk.effects()):
        project = walk.project
        for _, text in _known_files(walk, _P["code name"]):
            _add_all(walk, _acts_of_code(text, project.root, project.folder, project.home))


def _known_files(walk: Walk, names: re.Pattern[str], *, loads: bool = False) -> Iterator[tuple[str, str]]:
    """Yield files of the session with these names, and their texts; one whose text is not known is noted."""
    paths = dict.fromkeys([*walk.written, *reversed([*walk.activity.contents])])
    for path in islice(filter(names.search, paths), _MOST_FILES):
        if loads:
            walk.load(path)
        content = walk.content_of(path)
        if content is not None and content.text is None:
            walk.note_unknown_content(path, content)
        elif content is not None and content.text:
            yield path, content.text


@lru_cache(maxsize=128)
def _acts_of_code(text: str, root: str, folder: str, home: str) -> tuple[Effect, ...]:
    # Each run of the tests asks again.
    project, step = Project(root=root, folder=folder, home=home), MOST_CHARACTERS - _MOST_LINE
    pieces = (text[start : start + MOST_CHARACTERS] for start in range(0, len(text), step))
    return tuple(effect for piece in pieces for effect in read_code(piece, "", project) if _acts_on_machine(effect))


def _add_all(walk: Walk, effects: Iterable[Effect]) -> None:
    for effect in effects:
        if effect.severity > Severity.LOOKS:
            walk.add(effect.kind, effect.target, effect.certainty)


def _read_lines(text: str, argument: str, project: Project) -> Iterator[Effect]:
    """Yield what the commands do that stand in lines, or between quotes, and surely reach out of the project."""
    from lockgate.core.ruling.effects.shell_walk import read_command  # the shell's readers use this module

    for command in islice(_commands_in(text), _MOST_LINES):
        for effect in read_command(command, argument, project.apart(), NO_ACTIVITY):
            is_known = effect.certainty is not Certainty.GUESS and effect.kind != "runs-program"
            if is_known and effect.severity >= Severity.REACHES_OUT:
                yield effect


def _commands_in(text: str) -> Iterator[str]:
    for line in dict.fromkeys(text.replace("\\\n", " ").splitlines()):
        line = line[:_MOST_LINE]
        quoted = (match[match.lastindex or 0] for match in _P["quoted"].finditer(line))
        for piece in (_P["before command"].sub("", line.strip(), count=1), *quoted):
            command = piece.replace('\\"', '"').strip()
            words = command.split()
            if len(words) > 1 and find_row(words[0].rpartition("/")[2], words[1:])[0] is not None:
                yield command


def _sections_for(text: str, arguments: Iterable[str]) -> str:
    """Return the parts of a task file that these arguments name, with those that they name in turn; or all of it."""
    starts = [*islice(_P["section"].finditer(text), _MOST_SECTIONS)]
    ends = [*(start.start() for start in starts), len(text)][1:]
    sections: dict[str, str] = {}
    for start, end in zip(starts, ends, strict=True):
        sections[start[1]] = sections.get(start[1], "") + text[start.start() : end]
    wanted = [word for word in arguments if word in sections]
    for name in wanted:
        words = _P["word"].findall(sections[name])
        wanted += [
            word
            for word in dict.fromkeys((*words, f"pre{name}", f"post{name}"))
            if word in sections and word not in wanted
        ]
    return "\n".join(sections[name] for name in wanted) if wanted else text
