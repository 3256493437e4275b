"""A tool call to its effects: shells and code by what they run, all other tools by name, arguments and annotations."""

from __future__ import annotations

from collections.abc import Sequence

from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.effects.activity import Activity
from lockgate.core.ruling.effects.carried_secrets import find_carried_secrets
from lockgate.core.ruling.effects.code import read_code
from lockgate.core.ruling.effects.effect import Certainty, Effect, Severity, effect
from lockgate.core.ruling.effects.file_tools import read_file_tool, read_patches
from lockgate.core.ruling.effects.formulas import read_formulas
from lockgate.core.ruling.effects.own_arguments import read_own_arguments
from lockgate.core.ruling.effects.own_paths import OWN_KINDS
from lockgate.core.ruling.effects.project import Project
from lockgate.core.ruling.effects.service_tools import read_service_tool
from lockgate.core.ruling.effects.shell import read_command
from lockgate.core.ruling.effects.sql import read_sql
from lockgate.core.ruling.effects.tool_arguments import joined_values, name_parts
from lockgate.core.ruling.effects.tool_names import ToolName, read_tool_name
from lockgate.core.ruling.effects.web_tools import read_web_tool
from lockgate.core.ruling.effects.written_manifests import MAX_PACKAGES
from lockgate.core.ruling.tool_call import ToolCall
from lockgate.core.ruling.tool_risk import canonical_tool, has_common_name, tool_risk
from lockgate.core.vocabulary import Risk

MAX_EFFECTS = 32
MAX_LEAVES_READ = 1000

_SHELL_WORDS = frozenset("shell bash terminal ssh console exec cli zsh command subprocess".split())
_OTHER_SHELLS = frozenset("powershell pwsh batch".split())
_PROGRAMS = frozenset("aws gcloud az kubectl docker git gh npm terraform helm".split())
# A tool that is the command line of one program is given what would stand behind its name.
_COMMAND_LINE_WORDS = frozenset("cli command cmd run execute call tool".split())
_VERB_ARGUMENTS = frozenset("subcommand action verb operation service".split())
_LINE_ARGUMENTS = _VERB_ARGUMENTS | frozenset("command commands cmd args argv arguments".split())
_RUNS = frozenset("run execute exec invoke eval evaluate launch start".split())
_CODE_WORDS = frozenset(
    "python javascript js node jupyter repl code interpreter cell notebook evaluate eval snippet script".split()
)
_DATABASE_WORDS = frozenset(
    "sql database db query postgres postgresql mysql sqlite bigquery snowflake clickhouse duckdb redshift".split()
)


def read_tool(call: ToolCall, leaves: Sequence[Leaf], project: Project, activity: Activity) -> list[Effect]:
    """Return what a tool would do with these arguments; a tool that is not known may do anything."""
    name, seed = read_tool_name(call.tool), canonical_tool(call.tool)
    # What leads to Lockgate's own files and service counts wherever it stands.
    own = list(read_own_arguments(name, seed, leaves, project))
    if len(leaves) > MAX_LEAVES_READ:
        own.insert(0, effect("unreadable", certainty=Certainty.GUESS))
        leaves = leaves[:MAX_LEAVES_READ]
    found = _read_shell(name, seed, leaves, project, activity)
    if found is None:
        found = _read_code_or_query(name, leaves, project)
    is_local = found is not None
    if project.named is not None and (is_local or name.verb in _RUNS):
        project.named.append("")
    if found is None:
        found = read_file_tool(name, seed, leaves, project)
        # A stranger's tool that looks something up gets what it is asked for, wherever the file is.
        is_local = found is not None and (has_common_name(call.tool) or name.kind != "looks")
    if found is None:
        found = read_web_tool(name, seed, call, leaves, project)
    if found is None:
        # A migration tool runs the statement that it is given, whatever it is called.
        found = [*read_service_tool(name, seed, call, leaves, project), *_read_queries(leaves)]
    carried = [] if is_local else list(find_carried_secrets(leaves))
    doors = _read_command_line(name, leaves, project, activity)
    # What is only looked for reaches no sheet.
    formulas = [] if all(each.kind == "looks" for each in found) else list(read_formulas(leaves))
    return limit_effects([*own, *doors, *found, *formulas, *carried, *_raised_by_annotations(call, found)])


def read_own(call: ToolCall, leaves: Sequence[Leaf], project: Project, activity: Activity) -> list[Effect]:
    """Return only what a tool would do to Lockgate's own files."""
    name, seed = read_tool_name(call.tool), canonical_tool(call.tool)
    found = _read_shell(name, seed, leaves, project, activity)
    if found is None:
        found = _read_code_or_query(name, leaves, project)
    if found is None:
        found = list(read_patches(leaves, project)) if seed == "write" else []
    own = read_own_arguments(name, seed, leaves, project)
    return [each for each in (*own, *found) if each.kind in OWN_KINDS]


def limit_effects(found: Sequence[Effect]) -> list[Effect]:
    """Return the effects without repetitions, the gravest first; what is beyond the limit counts as unreadable."""
    distinct = list({(each.kind, each.target): each for each in reversed(found)}.values())[::-1]
    if len(distinct) > 1:
        distinct = [each for each in distinct if each.kind != "looks"] or distinct[:1]
    # A manifest that is written whole names many packages, and a build has many steps.
    light = sum(each.kind == "adds-dependency" or each.severity <= Severity.WORKS_HERE for each in distinct)
    most = MAX_EFFECTS + min(MAX_PACKAGES, light)
    if len(distinct) <= most:
        return distinct or [effect("unknown-act", certainty=Certainty.GUESS)]
    distinct.sort(key=lambda each: -each.severity)
    return [*distinct[: MAX_EFFECTS - 1], effect("unreadable", certainty=Certainty.GUESS)]


def _read_shell(
    name: ToolName, seed: str, leaves: Sequence[Leaf], project: Project, activity: Activity
) -> list[Effect] | None:
    if seed != "bash" and name.verb not in _RUNS and (_SHELL_WORDS | _PROGRAMS).isdisjoint(name.words):
        return None
    if seed in ("read", "write", "glob", "grep", "web_fetch") or not _CODE_WORDS.isdisjoint(name.words):
        return None
    commands = _command_lines(seed, leaves)
    if not commands:
        return [effect("unknown-act", certainty=Certainty.GUESS)] if seed == "bash" else None
    if not _OTHER_SHELLS.isdisjoint(name.words) or {"power", "shell"} <= name.words or name.words == {"cmd"}:
        return [effect("unreadable", argument=each.argument, span=(0, len(each.text))) for each in commands]
    return [each for leaf in commands for each in read_command(leaf.text, leaf.argument, project, activity)]


def _command_lines(seed: str, leaves: Sequence[Leaf]) -> list[Leaf]:
    """Return the commands among the values with the words that go with them; a shell may get such words alone."""
    words = list(joined_values(leaves, "command arguments"))
    commands = list(joined_values(leaves, "command"))
    if not commands:
        return words if seed == "bash" else []
    return [Leaf(leaf.argument, " ".join(each.text for each in (leaf, *words))) for leaf in commands]


def _program_of(name: ToolName) -> str:
    """Return the program whose command line a tool is, or nothing: `kubectl`, `aws_cli`, `run_gh_command`."""
    programs = name.words & _PROGRAMS
    return min(programs) if len(programs) == 1 and name.words - programs <= _COMMAND_LINE_WORDS else ""


def _read_command_line(name: ToolName, leaves: Sequence[Leaf], project: Project, activity: Activity) -> list[Effect]:
    """Return the doors that a tool opens if it is one program's command line, with the program's name left out or not.

    Only those: such a tool may take more than this line shows, so that nothing else of it is made light of.
    """
    program = _program_of(name)
    parts = [leaf for leaf in leaves if program and not _LINE_ARGUMENTS.isdisjoint(name_parts(leaf.argument))]
    if not parts:
        return []
    # The verb may be an argument of its own, in front.
    parts.sort(key=lambda leaf: _VERB_ARGUMENTS.isdisjoint(name_parts(leaf.argument)))
    line = " ".join(leaf.text for leaf in parts)
    text = line if line.split(maxsplit=1)[:1] == [program] else f"{program} {line}"
    argument = parts[0].argument
    return [
        effect(each.kind, each.target, argument=argument)
        for each in read_command(text, argument, project, activity)
        if each.severity is Severity.OPENS_A_DOOR and each.kind != "unreadable"
    ]


def _read_code_or_query(name: ToolName, leaves: Sequence[Leaf], project: Project) -> list[Effect] | None:
    if name.verb in _RUNS or not name.verb:
        if not _CODE_WORDS.isdisjoint(name.words):
            code = list(joined_values(leaves, "code"))
            if code:
                return [each for leaf in code for each in read_code(leaf.text, leaf.argument, project)]
    if _DATABASE_WORDS.isdisjoint(name.words) and not any("sql" in name_parts(leaf.argument) for leaf in leaves):
        return None
    return _read_queries(leaves) or None


def _read_queries(leaves: Sequence[Leaf]) -> list[Effect]:
    queries = [leaf for leaf in joined_values(leaves, "query") if _is_sql(leaf.text)]
    return [each for leaf in queries for each in read_sql(leaf.text, leaf.argument)]


def _is_sql(text: str) -> bool:
    first = text.lstrip(" \t\r\n(;")[:20].replace("/*", " ").split(maxsplit=1)[:1]
    return "".join(first).upper() in _SQL_WORDS or text.lstrip().startswith(("--", "/*"))


_SQL_WORDS = frozenset(
    """SELECT INSERT UPDATE DELETE DROP ALTER CREATE TRUNCATE GRANT REVOKE WITH EXPLAIN SHOW DESCRIBE DESC MERGE REPLACE
    COPY CALL EXEC EXECUTE SET USE BEGIN COMMIT ROLLBACK VACUUM ANALYZE PRAGMA ATTACH LOAD UPSERT RENAME DECLARE DO
    LOCK REINDEX REFRESH KILL FLUSH VALUES TABLE""".split()
)


def _raised_by_annotations(call: ToolCall, found: Sequence[Effect]) -> list[Effect]:
    """Return what the annotations add: they come from the server that is being judged, so they never take away."""
    notes = call.annotations
    if notes is None or any(each.severity >= Severity.REACHES_OUT for each in found):
        return []
    if tool_risk("get_weather", annotations=notes) is Risk.LOW:
        return []
    if any(notes.get(key) is True for key in ("destructiveHint", "destructive_hint")):
        is_file_work = any(each.kind in ("edits-project", "writes-scratch") for each in found)
        return [] if is_file_work else [effect("deletes-record")]
    if any(notes.get(key) is True for key in ("openWorldHint", "open_world_hint")):
        return [effect("requests")]
    # It says that it writes: no news about a tool that we read as one that works here.
    is_news = all(each.severity is Severity.LOOKS for each in found)
    return [effect("unknown-act", certainty=Certainty.GUESS)] if is_news else []
