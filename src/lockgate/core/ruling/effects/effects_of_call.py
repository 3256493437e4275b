"""A tool call to its effects, the one door of this folder: shells and code by what they run, all other tools by name.

1. A command line is read as a shell runs it, wherever it comes from, and the tool's name adds nothing.
2. A tool that works on files, addresses or pages is read by these.
3. Any other tool does what the rows of `tools.tbl` say of its name and its arguments.
4. A name that stands for a command or a request is read as that too; annotations can only raise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from lockgate.core.ruling.arguments import Leaf, flatten_arguments, sink_from_argument
from lockgate.core.ruling.effects.activity import NO_ACTIVITY, Activity, Change
from lockgate.core.ruling.effects.carried_secrets import find_carried_secrets, find_known_secrets
from lockgate.core.ruling.effects.code import read_code, read_sql
from lockgate.core.ruling.effects.effect import KINDS, SPENDS, Certainty, Effect, Severity, effect
from lockgate.core.ruling.effects.operator_rows import kinds_of_tool
from lockgate.core.ruling.effects.own_acts import read_own_arguments
from lockgate.core.ruling.effects.own_paths import OWN_KINDS, may_lead_to_own
from lockgate.core.ruling.effects.project import NO_PROJECT, Project
from lockgate.core.ruling.effects.shell_walk import read_command
from lockgate.core.ruling.effects.tool_arguments import (
    OPEN_KINDS,
    ROLES,
    acts_by_argument,
    all_parts,
    has_role,
    is_content,
    is_prose,
    joined_values,
    leaf_name,
    name_parts,
    quote_word,
    roles_of,
    roles_of_all,
    stated_name,
)
from lockgate.core.ruling.effects.tool_commands import (
    ToolCommand,
    command_of,
    kinds_of_request,
    may_run,
    rest_request,
)
from lockgate.core.ruling.effects.tool_files import find_secret_files, is_other_host, read_file_tool
from lockgate.core.ruling.effects.written import MAX_PACKAGES, read_shown_text
from lockgate.core.ruling.targets import (
    Seen,
    Shape,
    account_start,
    find_addresses_by_shape,
    find_bare_hosts,
    find_hosts,
    find_mailboxes,
    host_from_value,
    is_local_host,
)
from lockgate.core.ruling.tool_risk import WORDS, ToolName, kind_by_annotations, read_tool_name, read_words
from lockgate.core.vocabulary import ToolCall

MAX_EFFECTS = 32
MAX_LEAVES_READ = 1000
_MAX_TARGET = 200
_MAX_TARGETS = 40
_RUNS = WORDS["runs"]
# Sets of kinds that are treated alike, by what is alike in them.
_KINDS = read_words("sets of kinds", "set")
_OTHER_SEEDS = frozenset("read write glob grep web_fetch".split())
_PLAIN_SHELL = frozenset("command description timeout run_in_background".split())
_IN_ACCOUNT = re.compile(r"[\d@]")
_PRIORITY = re.compile(r"^(?:\d{1,5} ){1,3}")
# A value in a URL's query that is a text of several words: it takes something along.
_CARRIES_TEXT = re.compile(r"[?&][^=&#]{1,40}=[^&#]{0,200}?(?:(?:%20|\+|%0A|%2C)[^&#%+]{1,40}){3}", re.IGNORECASE)


def effects_of(
    call: ToolCall,
    project: Project = NO_PROJECT,
    activity: Activity = NO_ACTIVITY,
    *,
    leaves: Sequence[Leaf] | None = None,
) -> tuple[Effect, ...]:
    """Return what a call would do, the gravest effect first; never empty. What breaks a reader is unreadable.

    `leaves` are the call's flattened arguments, where the caller has them already.
    """
    project = project.at(call.folder) if call.folder else project
    effects = _read_safely(lambda: limit_effects(_read_call(call, leaves, project, activity)), "unreadable")
    if project.effect_rows:
        effects += [effect(kind, call.tool) for kind in kinds_of_tool(project.effect_rows, call.tool)]
    return tuple(sorted(effects, key=lambda entry: -entry.severity) if len(effects) > 1 else effects)


def files_of(call: ToolCall, project: Project, activity: Activity) -> tuple[list[str], list[str]]:
    """Return the files that a call surely runs or loads, and the texts that it runs; nothing is looked up."""
    leaves, named = flatten_arguments(call.arguments)[0], list[str]()
    effects_of(call, replace(project, named=named), activity, leaves=leaves)
    # No shell reads what the agent says of its own command.
    run = [leaf.text for leaf in leaves if "" in named and leaf_name(leaf) not in ("content", "description")]
    return [path for path in named if path], run


def changes_of(call: ToolCall, project: Project, activity: Activity) -> list[Change]:
    """Return what a call writes to files."""
    changes = list[Change]()
    effects_of(call, replace(project, changes=changes), activity)
    return changes


def own_effects_of(
    call: ToolCall,
    project: Project = NO_PROJECT,
    activity: Activity = NO_ACTIVITY,
    leaves: Sequence[Leaf] | None = None,
    read: Callable[[], Sequence[Effect]] | None = None,
) -> list[Effect]:
    """Return only what a call would do to Lockgate's own files; nothing for most calls, after a glance at its words.

    `read` gives all effects of the call, for a caller that needs them anyway and keeps them.
    """
    project = project.at(call.folder)
    leaves = flatten_arguments(call.arguments)[0] if leaves is None else leaves
    acting = list(filter(_may_lead, leaves))
    is_near = project.follow is not None or activity.is_near_own
    if not is_near and not may_lead_to_own("\n".join([leaf.text for leaf in acting]), project):
        return []
    effects = read() if read is not None and len(acting) == len(leaves) else ()
    # What was cut or broken is read again, with nothing else beside it.
    if not effects or any(entry.kind == "unreadable" for entry in effects):
        effects = _read_safely(lambda: _read_call(call, acting, project, activity), "changes-own-state")
    return [entry for entry in effects if entry.kind in OWN_KINDS]


def _may_lead(leaf: Leaf) -> bool:
    # What a file is to hold is long, and leads nowhere.
    return not is_content(leaf) or leaf_name(leaf) in ("patch", "diff")


def _read_safely(read: Callable[[], list[Effect]], kind_if_broken: str) -> list[Effect]:
    """Return what a reader finds; one effect of this kind where it breaks: the arguments may be written to do that."""
    try:
        return read()
    except Exception:  # noqa: BLE001  # whatever a stranger's text makes our readers raise is a finding, not a pass
        return [effect(kind_if_broken, certainty=Certainty.GUESS)]


def _read_call(call: ToolCall, leaves: Sequence[Leaf] | None, project: Project, activity: Activity) -> list[Effect]:
    name, command = read_tool_name(call.tool), call.arguments.get("command")
    is_plain = name.common == "bash" and call.annotations is None and call.arguments.keys() <= _PLAIN_SHELL
    # A single word may be a path of Lockgate's.
    if is_plain and isinstance(command, str) and len(command.split(None, 1)) > 1 and not _is_other_shell(name):
        if project.named is not None:
            project.named.append("")
        effects = read_command(command, "command", project, activity)
        return effects + _known_secrets([Leaf("command", command)], effects, activity)
    leaves = flatten_arguments(call.arguments)[0] if leaves is None else leaves
    return _read_tool(_Use(call, name, leaves, roles_of_all(leaves[:MAX_LEAVES_READ]), project, activity))


def _known_secrets(
    leaves: Sequence[Leaf], effects: Sequence[Effect], activity: Activity, *, is_local: bool = True
) -> list[Effect]:
    """Return that a secret which was read leaves, where another machine hears the arguments."""
    is_heard = activity.secrets and (not is_local or any(entry.kind in _KINDS["hear all"] for entry in effects))
    return [*find_known_secrets(leaves, activity.secrets)] if is_heard else []


def _is_other_shell(name: ToolName) -> bool:
    # The language of other shells is not read.
    return name.has("other shell") or name.words == {"cmd"}


class _Use(NamedTuple):
    """A call of a tool with its name as it is read, its flattened arguments, and all that these may be for."""

    call: ToolCall
    name: ToolName
    leaves: Sequence[Leaf]
    roles: frozenset[str]
    project: Project
    activity: Activity


def _read_tool(use: _Use) -> list[Effect]:
    # What leads to Lockgate's own files and service counts wherever it stands.
    own = list(read_own_arguments(use.name, use.name.common, use.leaves, use.project))
    if len(use.leaves) > MAX_LEAVES_READ:
        own.insert(0, effect("unreadable", certainty=Certainty.GUESS))
        use = use._replace(leaves=use.leaves[:MAX_LEAVES_READ])
    command = command_of(use.call.tool, use.call.arguments)
    is_given = use.name.common not in _OTHER_SEEDS and not use.roles.isdisjoint(("command", "command arguments"))
    lines = _command_lines(use, is_command=command is not None) if is_given else []
    effects = _read_run(use, lines)
    is_local = effects is not None
    if use.project.named is not None and (is_local or lines or use.name.verb in _RUNS):
        use.project.named.append("")
    if effects is None:
        effects, is_local = _read_other(use)
        effects += (
            [entry for entry in _read_commands(use, lines) if entry.kind not in _KINDS["nothing known"]]
            if lines
            else []
        )
    effects = _read_request(use, effects)
    effects = _read_as_command(use, command, effects) if command is not None else effects
    carried = _known_secrets(use.leaves, effects, use.activity, is_local=is_local)
    carried += [] if is_local else find_carried_secrets(use.leaves)
    return [*own, *effects, *carried, *_raised_by_annotations(use.call, effects)]


def _read_other(use: _Use) -> tuple[list[Effect], bool]:
    """Return what a tool does to files or pages, or else by its name, and whether that stays on this machine."""
    effects = read_file_tool(use.name, use.leaves, use.project)
    if effects is not None:
        # A stranger's tool that looks something up gets what it is asked for, wherever the file is.
        return effects, bool(use.name.common) or use.name.kind != "looks"
    # A migration tool runs the statement that it is given.
    return _read_web_tool(use) or [*_read_service_tool(use), *_read_values(use, "query")], False


def limit_effects(effects: Sequence[Effect]) -> list[Effect]:
    """Return the effects without repetitions, the gravest first; what is beyond the limit counts as unreadable."""
    if len(effects) == 1:
        return [*effects]
    distinct = list({(entry.kind, entry.target): entry for entry in reversed(effects)}.values())[::-1]
    if len(distinct) > 1:
        distinct = [entry for entry in distinct if entry.kind != "looks"] or distinct[:1]
    # A manifest that is written whole names many packages, and a build has many steps.
    light = sum(entry.kind == "adds-dependency" or entry.severity <= Severity.WORKS_HERE for entry in distinct)
    if len(distinct) <= MAX_EFFECTS + min(MAX_PACKAGES, light):
        return distinct or [effect("unknown-act", certainty=Certainty.GUESS)]
    distinct.sort(key=lambda entry: -entry.severity)
    return [*distinct[: MAX_EFFECTS - 1], effect("unreadable", certainty=Certainty.GUESS)]


def _gravest(effects: Sequence[Effect]) -> int:
    return max((entry.severity for entry in effects), default=-1)


# Tools that stand for a command line or a request.


def _read_request(use: _Use, effects: list[Effect]) -> list[Effect]:
    """Return the effects with those of the REST request that the arguments make, if they make one."""
    match = rest_request(use.call.tool, use.leaves)
    if match is None:
        return effects
    request, address = match
    kinds, kind = kinds_of_request(request, use.call.arguments), use.name.kind
    looks = request.split("_")[0] in ("get", "list")
    if address.text.startswith("/") and KINDS[kind].severity < Severity.OPENS_A_DOOR and kind not in SPENDS:
        # Without a host the request is the whole call.
        said = ("unknown-act", "requests", "" if looks else kind)
        effects = [entry for entry in effects if entry.kind not in said or (looks and entry.target)]
        kinds = kinds or ["looks" if looks else read_tool_name(request).kind]
    return [*effects, *(effect(kind, address.text[:_MAX_TARGET], argument=address.argument) for kind in kinds)]


def _read_as_command(use: _Use, command: ToolCommand, effects: list[Effect]) -> list[Effect]:
    """Return the effects with those of the command line that a tool is named after: these say the name's act better."""
    name, lines = use.name, read_command(command.line, "", use.project, use.activity)
    unknown = _KINDS["nothing known"] if command.is_known else _KINDS["nothing known by name"]
    read = [entry._replace(start=0, end=0) for entry in lines if entry.kind not in unknown]
    if not read or (name.kind == "looks" and not command.is_whole):
        return effects
    if not _says_more(command, name, _gravest(read), _gravest(effects)):
        return effects
    stays = name.kind in _KINDS["particular"] or KINDS[name.kind].severity is Severity.OPENS_A_DOOR
    covered = {"unknown-act", read[0].kind if stays else name.kind}
    # Whom the name's act names by an address stays.
    effects = [entry for entry in effects if "@" in entry.target or entry.kind not in covered]
    return [*read, *effects] if _gravest(read) >= _gravest(effects) else effects


def _says_more(command: ToolCommand, name: ToolName, gravest: int, by_name: int) -> bool:
    """Return whether a command may say more than the name; one that has not been told what to work on says nothing."""
    is_whole = command.is_known or len(name.words) < 2 or command.line.split(" ")[0] in WORDS["cloud"]
    if gravest is Severity.LOOKS and not is_whole:
        # A program that looks where no row has the tool's other words: `mysql admin`. A cloud's say it by their verb.
        return False
    if gravest < Severity.REACHES_OUT and name.has("works here" if gravest else "acts on something"):
        return False
    return command.is_known or name.kind == "unknown-act" or gravest > by_name


# Shells, code and queries.


def _read_run(use: _Use, lines: Sequence[Leaf]) -> list[Effect] | None:
    """Return what a shell, an interpreter or a database runs; None for a tool that is none of these."""
    name, leaves = use.name, use.leaves
    if name.common == "bash":
        return _read_commands(use, lines)
    if lines and (name.kind in _KINDS["only run"] or name.has("shell")):
        effects = _read_commands(use, lines)
        # What looks may be a word of an argument (`Cmd: ["sleep"]`); the name says more.
        if name.verb in _RUNS or _gravest(effects) > Severity.LOOKS:
            return effects
    if name.has("code") and (name.verb in _RUNS or not name.verb) and (code := _read_values(use, "code")):
        return code
    is_database = name.has("database") or any("sql" in name_parts(leaf.argument) for leaf in leaves)
    return (_read_values(use, "query") if is_database else []) or None


def _command_lines(use: _Use, *, is_command: bool) -> list[Leaf]:
    """Return the commands among the values with the words that go with them; a list may be one by itself."""
    name, is_bash = use.name, use.name.common == "bash"
    words = list(joined_values(use.leaves, "command arguments"))
    commands = list(joined_values(use.leaves, "command"))
    is_shell = is_bash or ((name.verb in _RUNS or name.has("shell")) and not name.has("code"))
    if commands and (is_shell or words):
        return [Leaf(leaf.argument, " ".join(part.text for part in (leaf, *words))) for leaf in commands]
    # `git` with its own words as arguments is read as a command of git.
    if is_bash or is_command:
        return words if is_bash else []
    return [leaf for leaf in (*commands, *words) if leaf.how == "words" and may_run(leaf.text.split(" ")[0])]


def _read_commands(use: _Use, lines: Sequence[Leaf]) -> list[Effect]:
    if not lines:
        return [effect("unknown-act", certainty=Certainty.GUESS)]
    if _is_other_shell(use.name):
        return [effect("unreadable", argument=leaf.argument, span=(0, len(leaf.text))) for leaf in lines]
    effects, remote = list[Effect](), list[Effect]()
    host = next((leaf.text for leaf in use.leaves if is_other_host(leaf)), "")
    for leaf in lines:
        effects += read_command(leaf.text, leaf.argument, use.project, use.activity)
        if host:
            # On another machine a path is not the project's, as a shell reads `ssh`.
            line = f"ssh {quote_word(host)} {quote_word(leaf.text)}"
            remote += read_command(line, leaf.argument, use.project, use.activity)
    here = [entry for entry in effects if not host or entry.severity <= _gravest(remote)]
    return [*(entry._replace(start=0, end=0) for entry in remote), *here]


def _read_values(use: _Use, role: str) -> list[Effect]:
    """Return what the source code or the statements among the values do; a search for words is no statement."""
    values = joined_values(use.leaves, role) if role in use.roles else ()
    if role == "code":
        return [entry for leaf in values for entry in read_code(leaf.text, leaf.argument, use.project)]
    return [entry for leaf in values if _is_sql(leaf.text) for entry in read_sql(leaf.text, leaf.argument)]


def _is_sql(text: str) -> bool:
    first = text.lstrip(" \t\r\n(;")[:20].replace("/*", " ").split(maxsplit=1)[:1]
    return "".join(first).lower() in WORDS["sql"] or text.lstrip().startswith(("--", "/*"))


# Addresses and pages.


def _read_web_tool(use: _Use) -> list[Effect] | None:
    """Return what a tool asks of an address or does to a page; None for a tool that does neither."""
    name, hosts = use.name, list(_addressed_hosts(use.leaves))
    if name.kind == "looks":
        # A tool that only names hosts carries no data to a bare one.
        asked = [(host, leaf) for host, leaf in hosts if "/" in leaf.text or not name.has("names hosts")]
        return (_requests(use.leaves, asked) if not name.known else []) or [effect("looks")]
    if name.common == "web_fetch" or name.kind == "requests":
        return _requests(use.leaves, hosts) or [effect("requests")]
    # A tool that installs something works on the browser.
    if name.verb != "install" and name.has("page"):
        return _read_page_act(use, hosts)
    # A tool by the name of the protocol goes where its address says, and what it is called is the method.
    return _requests(use.leaves, hosts, sends=True) if name.has("protocol") and name.has("sends request") else None


def _addressed_hosts(leaves: Sequence[Leaf]) -> Iterator[tuple[str, Leaf]]:
    for leaf in leaves:
        if "://" in leaf.text and not is_prose(leaf):
            yield from ((seen.target, leaf) for seen in find_hosts(leaf.text))
        elif "." in leaf.text and sink_from_argument(leaf.argument) == "url" and (host := host_from_value(leaf.text)):
            yield host, leaf


def _requests(leaves: Sequence[Leaf], hosts: Sequence[tuple[str, Leaf]], *, sends: bool = False) -> list[Effect]:
    if not sends and hosts:
        method = next((leaf.text.upper() for leaf in leaves if leaf.argument == "method"), "GET")
        has_body = any("request body" in roles_of(leaf.argument) for leaf in leaves)
        sends = has_body or method not in ("GET", "HEAD", "OPTIONS")
    effects = list[Effect]()
    for host, leaf in hosts:
        kind = "sends-data" if sends or _CARRIES_TEXT.search(leaf.text) else "requests"
        at = max(leaf.text.lower().find(host), 0)
        kind = "asks-local" if is_local_host(host) else kind
        effects.append(effect(kind, host, argument=leaf.argument, span=(at, at + len(host))))
    return effects


def _read_page_act(use: _Use, hosts: Sequence[tuple[str, Leaf]]) -> list[Effect] | None:
    actions = frozenset(leaf.text.lower() for leaf in use.leaves if has_role(leaf.argument, "action"))
    act = use.name._replace(words=use.name.words | actions)
    if (act.verb == "evaluate" or act.verb in _RUNS) and (code := _read_values(use, "code")):
        return code
    if act.has("types into page"):
        sent = _requests(use.leaves, hosts, sends=True) or [effect("sends-data")]
        return [*sent, *find_secret_files(use.leaves, use.project, sends=True)]
    if hosts:
        return _requests((), hosts)
    if act.has("acts on page"):
        return [effect("unknown-act")]
    return [effect("looks")] if act.has("looks at page") else None


# All other tools, by their name and their arguments.


def _read_service_tool(use: _Use) -> list[Effect]:
    """Return what a tool does by its name, or by its name with what its arguments state where that is as grave."""
    name, is_open = use.name, use.name.kind in OPEN_KINDS
    # A verb that is a thing says little: `backup_manager`.
    is_stated = name.kind in _KINDS["leave open"] or name.verb in WORDS["acting noun"]
    stated = stated_name(name, use.call.tool, use.leaves) if is_stated else None
    if stated is None or stated.kind in ("looks", "unknown-act"):
        return _read_acts(use, name, name)
    is_main = is_open and KINDS[stated.kind].severity >= KINDS[name.kind].severity
    effects = _read_acts(use, name, stated if is_main else name)
    acts = _read_acts(use, stated, stated)
    return [*acts, *effects] if _gravest(acts) > _gravest(effects) else effects


def _read_acts(use: _Use, name: ToolName, main_name: ToolName) -> list[Effect]:
    """Return what a tool does with its arguments, and by its main name, one effect for each target among them."""
    leaves = use.leaves
    by_name = [("instructs-agent", "shape")] if name.common == "spawn_agent" else _main_acts(name, main_name, leaves)
    main = by_name[0][0]
    by_argument = list(acts_by_argument(name, use.call.arguments, main))
    if any(act.kind == "looks" for act in by_argument):
        return [effect("looks")]
    gravest = max((KINDS[act.kind].severity for act in by_argument), default=-1)
    if main in OPEN_KINDS and gravest >= KINDS[main].severity:
        by_name = by_name[1:]
    effects = [effect(act.kind, act.target, argument=act.argument) for act in by_argument if act.target]
    acts = dict.fromkeys([*by_name, *((act.kind, act.role) for act in by_argument if not act.target)])
    effects += [entry for kind, role in acts for entry in _aimed(kind, role, leaves, name)]
    kinds = frozenset(kind for kind, _ in acts)
    if "path" in use.roles:
        effects += find_secret_files(leaves, use.project, sends=not _KINDS["send"].isdisjoint(kinds))
    return [*effects, *_read_texts(kinds, leaves)]


def _read_texts(kinds: frozenset[str], leaves: Sequence[Leaf]) -> Iterator[Effect]:
    """Yield what an agent or a reader is led to by the texts that a tool gets."""
    for leaf in leaves:
        if "/" not in leaf.text and "." not in leaf.text:
            continue
        if "instructs-agent" in kinds or ("changes-agent-file" in kinds and is_prose(leaf)):
            yield from (effect("requests", seen.target, argument=leaf.argument) for seen in find_hosts(leaf.text))
        elif "/" in leaf.text and is_prose(leaf):
            yield from read_shown_text(leaf.text, leaf.argument)


def _main_acts(name: ToolName, main_name: ToolName, leaves: Sequence[Leaf]) -> list[tuple[str, str]]:
    # An account and an amount stay a payment, whatever act is stated.
    paid = _acts_by_name(name, leaves) if main_name is not name else []
    return [*(act for act in paid if act[0] == "pays"), *_acts_by_name(main_name, leaves)]


def _acts_by_name(name: ToolName, leaves: Sequence[Leaf]) -> list[tuple[str, str]]:
    """Return the kind and aim of a tool by its name; an account and an amount make a payment, an address a record."""
    acts, approves = [(name.kind, name.role)], name.kind == "approves-payment"
    if name.kind not in OPEN_KINDS and not approves:
        return acts
    shapes = {seen.shape for leaf in leaves if not is_prose(leaf) for seen in find_addresses_by_shape(leaf.text)}
    if Shape.ACCOUNT in shapes and any(_is_in(leaf, "amount") for leaf in leaves):
        return [("pays", "account"), *(acts if approves else [])]
    is_record = shapes and name.kind == "changes-own-note" and "draft" not in name.words
    return [("changes-record", "thing")] if is_record else acts


def _is_in(leaf: Leaf, role: str) -> bool:
    return not all_parts(leaf.argument).isdisjoint(ROLES.get(role, ()))


def _aimed(kind: str, role: str, leaves: Sequence[Leaf], name: ToolName) -> Iterator[Effect]:
    """Yield an effect of this kind for each target among the values that have the role, or one without a target."""
    certainty = Certainty.GUESS if kind == "unknown-act" else Certainty.LIKELY
    has_targets = KINDS[kind].severity >= Severity.REACHES_OUT and role != "none"
    count = 0
    for leaf, seen in _targets(kind, role, leaves, name) if has_targets else ():
        aimed = _kind_at(kind, role, leaf, seen, name)
        count += aimed == kind
        yield effect(aimed, seen.target, certainty=certainty, argument=leaf.argument, span=(seen.start, seen.end))
        if count > _MAX_TARGETS:
            return
    if not count and role not in ("host", "links"):
        # Who names a repository has not approved its changes: such an effect has no target that a goal could excuse.
        named = {leaf.argument: leaf.text for leaf in leaves if leaf.argument in ("owner", "repo")}
        repository = f"{named['owner']}/{named['repo']}" if len(named) == 2 and role != "none" else ""
        yield effect(kind, repository[:_MAX_TARGET], certainty=certainty)


def _kind_at(kind: str, role: str, leaf: Leaf, seen: Seen, name: ToolName) -> str:
    """Return what is done to one target: some tools name a host and do not go there, others only ask it."""
    is_asked = seen.shape is Shape.HOST and kind not in _KINDS["go to a host"] and role not in ("host", "links")
    if not is_asked or ("/" not in leaf.text and name.has("names hosts")):
        return kind
    return "asks-local" if is_local_host(seen.target) else "requests"


def _targets(kind: str, role: str, leaves: Sequence[Leaf], name: ToolName) -> Sequence[tuple[Leaf, Seen]]:
    if role == "links":
        return _seen_in(filter(is_prose, leaves), find_hosts, find_bare_hosts)
    if role == "forwarded":
        # Who gets the mail that a rule sends on; what says which mail it is for, `from=…`, gets none.
        boxes = _seen_in((leaf for leaf in leaves if not _is_aside(leaf, "aside forwarded")), find_mailboxes)
        return boxes or _targets(kind, "principal", leaves, name)
    pairs = [(leaf, seen) for leaf in leaves for seen in _targets_of(leaf, role)]
    # The payer of a payment or the group that a member is added to is no target where another value is one.
    aside = "" if kind == "pays" and name.has("goes back") else f"aside {kind}"
    receivers = [pair for pair in pairs if not _is_aside(pair[0], aside)] if aside in ROLES else pairs
    return receivers if receivers or role == "host" else pairs


def _is_aside(leaf: Leaf, aside: str) -> bool:
    return _is_in(leaf, aside) and not _is_in(leaf, "creditor")


def _seen_in(leaves: Iterable[Leaf], *finders: Callable[[str], Iterable[Seen]]) -> list[tuple[Leaf, Seen]]:
    return [(leaf, seen) for leaf in leaves for find in finders for seen in find(leaf.text)]


def _host_in(leaf: Leaf) -> Sequence[Seen]:
    # `10 mx.a.example.`: numbers stand before the host of a mail server.
    host = host_from_value(_PRIORITY.sub("", leaf.text.strip()[:_MAX_TARGET]).removesuffix("."))
    return [Seen(Shape.HOST, host, 0, len(leaf.text))] if host and not is_local_host(host) else []


def _is_meant(role: str, roles: frozenset[str], *, is_text: bool) -> bool:
    return role in roles if role != "every" else not is_text and "action" not in roles


def _is_vague(role: str, roles: frozenset[str], text: str) -> bool:
    # Where a payment goes may be said in words (`original payment method`): those are no account.
    return role == "account" and "vague account" in roles and not _IN_ACCOUNT.search(text)


def _targets_of(leaf: Leaf, role: str) -> Sequence[Seen]:
    if role == "host":
        return _host_in(leaf)
    text, is_text = leaf.text.strip(), is_prose(leaf)
    roles = roles_of(leaf.argument)
    is_meant = _is_meant(role, roles, is_text=is_text)
    shaped = find_addresses_by_shape(leaf.text) if is_meant or not is_text else []
    if shaped and not is_text:
        return shaped
    if not 0 < len(text) <= _MAX_TARGET or "\n" in text:
        return []
    if sink_from_argument(leaf.argument) == "url" and (host := host_from_value(text)):
        return [Seen(Shape.HOST, host, 0, len(leaf.text))]
    if not is_meant or shaped or _is_vague(role, roles, text):
        return shaped
    # An account may stand behind its kind, as in `wallet:0x5f…`.
    start, end = account_start(text), leaf.text.find(text) + len(text)
    return [Seen(Shape.NAME, text[start:], end - len(text) + start, end)]


def _raised_by_annotations(call: ToolCall, effects: Sequence[Effect]) -> list[Effect]:
    """Return what the annotations add: they come from the server that is being judged, so they never take away."""
    if call.annotations is None:
        return []
    kind, gravest = kind_by_annotations(call.annotations), _gravest(effects)
    if not kind or gravest >= Severity.REACHES_OUT:
        return []
    # That it deletes or writes is no news of a tool that we read as one that writes files, or works here.
    is_file_work = any(entry.kind in ("edits-project", "writes-scratch") for entry in effects)
    if is_file_work if kind == "deletes-record" else kind == "unknown-act" and gravest > Severity.LOOKS:
        return []
    return [effect(kind, certainty=Certainty.GUESS if kind == "unknown-act" else Certainty.SURE)]
