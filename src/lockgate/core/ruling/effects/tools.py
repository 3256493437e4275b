"""A tool call to its effects: shells and code by what they run, all other tools by name, arguments and annotations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import filterfalse

from lockgate.core.ruling.arguments import Leaf, argument_words, sink_from_argument
from lockgate.core.ruling.effects.activity import Activity
from lockgate.core.ruling.effects.carried_secrets import find_carried_secrets, find_known_secrets
from lockgate.core.ruling.effects.code import read_code
from lockgate.core.ruling.effects.effect import KINDS, SPENDS, Certainty, Effect, Severity, effect
from lockgate.core.ruling.effects.own_acts import read_own_arguments
from lockgate.core.ruling.effects.own_paths import OWN_KINDS
from lockgate.core.ruling.effects.project import Project
from lockgate.core.ruling.effects.shell import read_command
from lockgate.core.ruling.effects.sql import read_sql
from lockgate.core.ruling.effects.tool_arguments import (
    OPEN_KINDS,
    ROLES,
    acts_by_argument,
    all_parts,
    has_role,
    is_prose,
    joined_values,
    name_parts,
    quote_word,
)
from lockgate.core.ruling.effects.tool_commands import commands_of, kinds_of_request, rest_request
from lockgate.core.ruling.effects.tool_files import find_secret_files, is_other_host, may_be_no_path, read_file_tool
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
from lockgate.core.ruling.tool_call import ToolCall
from lockgate.core.ruling.tool_risk import (
    WORDS,
    ToolName,
    canonical_tool,
    gravest_act,
    has_common_name,
    kind_by_annotations,
    may_reach_any_address,
    read_tool_name,
)

MAX_EFFECTS = 32
MAX_LEAVES_READ = 1000
_MAX_TARGET = 200
_LENGTHS = range(1, _MAX_TARGET + 1)
_MAX_TARGETS = 40
_MAX_ACTION = 40
_RUNS = WORDS["runs"]
_OTHER_SEEDS = frozenset("read write glob grep web_fetch".split())
# What of an address is reached or taken by the act itself; other tools only ask the host.
_GOES_TO_HOST = frozenset(
    "sends-data grants-access sends-secret unknown-act embeds-remote-code installs-package clones pushes".split()
)
# What a command does to other machines that hears its whole text.
_TAKES_ALONG = frozenset("requests sends-data sends-message publishes shares pushes".split())
_SENDS = frozenset("sends-message sends-data shares publishes sends-secret".split())
# Kinds that say nothing about what a command does, of which no tool's name says that its service is on this machine.
_NOT_KNOWN = frozenset("runs-program unknown-act computes asks-local".split())
_NOT_KNOWN_BY_NAME = _NOT_KNOWN | {"unreadable", "runs-project-task"}
# What a name says by a row of its own, where the words of a command may be too few to say it.
_PARTICULAR = frozenset(("changes-remote", "clones", *SPENDS))
_IN_ACCOUNT = re.compile(r"[\d@]")
_PRIORITY = re.compile(r"^(?:\d{1,5} ){1,3}")
# A value in a URL's query that is a text of several words: it takes something along.
_CARRIES_TEXT = re.compile(r"[?&][^=&#]{1,40}=[^&#]{0,200}?(?:(?:%20|\+|%0A|%2C)[^&#%+]{1,40}){3}", re.IGNORECASE)


def read_tool(call: ToolCall, leaves: Sequence[Leaf], project: Project, activity: Activity) -> list[Effect]:
    """Return what a tool would do with these arguments; a tool that is not known may do anything."""
    return limit_effects(_read_all(call, leaves, project, activity))


def read_own(call: ToolCall, leaves: Sequence[Leaf], project: Project, activity: Activity) -> list[Effect]:
    """Return only what a tool would do to Lockgate's own files."""
    return [found for found in _read_all(call, leaves, project, activity) if found.kind in OWN_KINDS]


def _read_all(call: ToolCall, leaves: Sequence[Leaf], project: Project, activity: Activity) -> list[Effect]:
    name, seed = read_tool_name(call.tool), canonical_tool(call.tool)
    # What leads to Lockgate's own files and service counts wherever it stands.
    own = list(read_own_arguments(name, seed, leaves, project))
    if len(leaves) > MAX_LEAVES_READ:
        own.insert(0, effect("unreadable", certainty=Certainty.GUESS))
        leaves = leaves[:MAX_LEAVES_READ]
    effects = _read_run(name, seed, leaves, project, activity)
    is_local = effects is not None
    if project.named is not None and (is_local or name.verb in _RUNS):
        project.named.append("")
    if effects is None:
        effects, is_local = _read_file(name, seed, call, leaves, project)
    if effects is None:
        effects = _read_web_tool(name, seed, call, leaves, project)
    if effects is None:
        # A migration tool runs the statement that it is given; what is set up to be started runs from now on.
        effects = [*_read_service_tool(name, seed, call, leaves, project), *_read_queries(leaves)]
        launches = name.kind != "looks" and _has(name.words, "launches")
        started = _command_lines(seed, leaves) if launches else []
        effects += _read_commands(name, started, leaves, project, activity) if started else []
    effects = _graver_reading(call, name, leaves, effects, project, activity)
    carried = [] if is_local else list(find_carried_secrets(leaves))
    if not is_local or any(found.kind in _TAKES_ALONG for found in effects):
        carried += find_known_secrets(leaves, activity.secrets)
    return [*own, *effects, *carried, *_raised_by_annotations(call, effects)]


def _read_file(
    name: ToolName, seed: str, call: ToolCall, leaves: Sequence[Leaf], project: Project
) -> tuple[list[Effect] | None, bool]:
    """Return what a tool does to files, and whether that stays here; by its name if that is graver."""
    effects, is_common = read_file_tool(name, seed, leaves, project), has_common_name(call.tool)
    if effects and not is_common and any(map(may_be_no_path, leaves)):
        by_name = _read_service_tool(name, seed, call, leaves, project)
        if _gravest(by_name) > _gravest(effects):
            return [*by_name, *effects], False
    # A stranger's tool that looks something up gets what it is asked for, wherever the file is.
    return effects, effects is not None and (is_common or name.kind != "looks")


def limit_effects(effects: Sequence[Effect]) -> list[Effect]:
    """Return the effects without repetitions, the gravest first; what is beyond the limit counts as unreadable."""
    distinct = list({(found.kind, found.target): found for found in reversed(effects)}.values())[::-1]
    if len(distinct) > 1:
        distinct = [found for found in distinct if found.kind != "looks"] or distinct[:1]
    # A manifest that is written whole names many packages, and a build has many steps.
    light = sum(found.kind == "adds-dependency" or found.severity <= Severity.WORKS_HERE for found in distinct)
    if len(distinct) <= MAX_EFFECTS + min(MAX_PACKAGES, light):
        return distinct or [effect("unknown-act", certainty=Certainty.GUESS)]
    distinct.sort(key=lambda found: -found.severity)
    return [*distinct[: MAX_EFFECTS - 1], effect("unreadable", certainty=Certainty.GUESS)]


def _gravest(effects: Sequence[Effect]) -> int:
    return max((found.severity for found in effects), default=-1)


def _has(words: frozenset[str], sort: str) -> bool:
    return not WORDS.get(sort, frozenset()).isdisjoint(words)


def _graver_reading(
    call: ToolCall, name: ToolName, leaves: Sequence[Leaf], effects: list[Effect], project: Project, activity: Activity
) -> list[Effect]:
    """Return the graver of two readings: of a tool, and of the command line that it is named after."""
    commands = commands_of(call.tool, call.arguments)
    if not any(command.known for command in commands) and (rest := rest_request(call.tool, leaves)) is not None:
        name_of_request, address = rest
        commands = [*commands, *commands_of(name_of_request, {})]
        kinds = kinds_of_request(name_of_request, call.arguments)
        effects = [*effects, *(effect(kind, address.text[:_MAX_TARGET], argument=address.argument) for kind in kinds)]
    for command in commands:
        # `k8s_list_pods` is no command of its program, which says nothing against the name.
        if command.known or name.kind != "looks":
            unknown = _NOT_KNOWN if command.known else _NOT_KNOWN_BY_NAME
            lines = read_command(command.line, "", project, activity)
            read = [found._replace(start=0, end=0) for found in lines if found.kind not in unknown]
            effects = _graver_of(effects, read, command.known, name)
    return effects


def _graver_of(effects: list[Effect], read: list[Effect], known: str, name: ToolName) -> list[Effect]:
    gravest = _gravest(read)
    # A command that has not been told what to work on says less than the name.
    if not read or _has(name.words, {0: "acts on something", 1: "copies"}.get(gravest, "nothing")):
        return effects
    is_same = gravest == _gravest(effects) and read[0].kind == effects[0].kind
    # What the name says as well has the place of its target among the arguments.
    if is_same and (effects[0].target or not read[0].target):
        return effects
    is_sure = known not in ("", "list")
    if is_sure:
        effects = _without(read[0].kind if is_same else _general_kind(read, known, name), effects)
    is_weaker = not is_sure or (name.kind in SPENDS and not is_same)
    return effects if effects and gravest < _gravest(effects) + is_weaker else [*read, *effects]


def _without(kind: str, effects: list[Effect]) -> list[Effect]:
    # Whom the name's act names by an address stays.
    return [found for found in effects if "@" in found.target or found.kind not in ("unknown-act", kind)]


def _general_kind(read: list[Effect], known: str, name: ToolName) -> str:
    """Return the kind of a name's verb where a row says it in particular: `git_clean` deletes no record."""
    is_row = known == "whole" or (known == "row" and _gravest(read) > Severity.LOOKS)
    is_task = read[0].kind == "runs-project-task" and _has(name.words, "no task")
    stays = is_task or name.kind in _PARTICULAR or KINDS[name.kind].severity is Severity.OPENS_A_DOOR
    return name.kind if is_row and not stays else ""


# Shells, code and queries.


def _read_run(
    name: ToolName, seed: str, leaves: Sequence[Leaf], project: Project, activity: Activity
) -> list[Effect] | None:
    """Return what a shell, an interpreter or a database runs; None for a tool that is none of these."""
    is_code = _has(name.words, "code")
    if seed == "bash" or (not is_code and _may_be_shell(name, seed)):
        commands = _command_lines(seed, leaves)
        if commands or seed == "bash":
            return _read_commands(name, commands, leaves, project, activity)
    if is_code and (name.verb in _RUNS or not name.verb) and (code := _read_sources(leaves, project)):
        return code
    is_database = _has(name.words, "database") or any("sql" in name_parts(leaf.argument) for leaf in leaves)
    return (_read_queries(leaves) if is_database else []) or None


def _may_be_shell(name: ToolName, seed: str) -> bool:
    return seed not in _OTHER_SEEDS and (name.verb in _RUNS or _has(name.words, "shell"))


def _read_sources(leaves: Sequence[Leaf], project: Project) -> list[Effect]:
    code = joined_values(leaves, "code")
    return [found for leaf in code for found in read_code(leaf.text, leaf.argument, project)]


def _command_lines(seed: str, leaves: Sequence[Leaf]) -> list[Leaf]:
    """Return the commands among the values with the words that go with them; a shell may get such words alone."""
    words = list(joined_values(leaves, "command arguments"))
    commands = list(joined_values(leaves, "command"))
    if not commands:
        return words if seed == "bash" else []
    return [Leaf(leaf.argument, " ".join(part.text for part in (leaf, *words))) for leaf in commands]


def _read_commands(
    name: ToolName, commands: Sequence[Leaf], leaves: Sequence[Leaf], project: Project, activity: Activity
) -> list[Effect]:
    if not commands:
        return [effect("unknown-act", certainty=Certainty.GUESS)]
    # The language of other shells is not read.
    if _has(name.words, "other shell") or name.words == {"cmd"}:
        return [effect("unreadable", argument=leaf.argument, span=(0, len(leaf.text))) for leaf in commands]
    effects, remote = list[Effect](), list[Effect]()
    host = next((leaf.text for leaf in leaves if is_other_host(leaf)), "")
    for leaf in commands:
        effects += read_command(leaf.text, leaf.argument, project, activity)
        if host:
            # On another machine a path is not the project's, as a shell reads `ssh`.
            line = f"ssh {quote_word(host)} {quote_word(leaf.text)}"
            remote += read_command(line, leaf.argument, project, activity)
    here = [found for found in effects if not host or found.severity <= _gravest(remote)]
    return [*(found._replace(start=0, end=0) for found in remote), *here]


def _read_queries(leaves: Sequence[Leaf]) -> list[Effect]:
    queries = [leaf for leaf in joined_values(leaves, "query") if _is_sql(leaf.text)]
    return [found for leaf in queries for found in read_sql(leaf.text, leaf.argument)]


def _is_sql(text: str) -> bool:
    first = text.lstrip(" \t\r\n(;")[:20].replace("/*", " ").split(maxsplit=1)[:1]
    return "".join(first).lower() in WORDS["sql"] or text.lstrip().startswith(("--", "/*"))


# Addresses and pages.


def _read_web_tool(
    name: ToolName, seed: str, call: ToolCall, leaves: Sequence[Leaf], project: Project
) -> list[Effect] | None:
    """Return what a tool asks of an address or does to a page; None for a tool that does neither."""
    hosts, looks = list(_addressed_hosts(leaves)), [effect("looks")]
    if name.kind == "looks":
        return (_requests(leaves, _asked_hosts(name, hosts)) if may_reach_any_address(call.tool) else []) or looks
    # A tool that installs something works on the browser.
    page = name.words if name.verb != "install" and _has(name.words, "page") else frozenset[str]()
    if seed == "web_fetch" or name.kind == "requests":
        return _requests(leaves, hosts) or (looks if _has(page, "looks at page") else [effect("requests")])
    if page:
        return _read_page_act(name, leaves, hosts, project)
    # A tool by the name of the protocol goes where its address says, and what it is called is the method.
    is_method = _has(name.words, "protocol") and _has(name.words, "sends request")
    return (_requests(leaves, hosts, sends=True) if is_method else []) or None


def _asked_hosts(name: ToolName, hosts: Sequence[tuple[str, Leaf]]) -> Sequence[tuple[str, Leaf]]:
    """Return the hosts that a tool which looks may carry data to; where it only names hosts, a bare one is none."""
    return [(host, leaf) for host, leaf in hosts if "/" in leaf.text or not _has(name.words, "names hosts")]


def _addressed_hosts(leaves: Sequence[Leaf]) -> Iterator[tuple[str, Leaf]]:
    for leaf in leaves:
        if "://" in leaf.text and not is_prose(leaf):
            yield from ((seen.target, leaf) for seen in find_hosts(leaf.text))
        elif sink_from_argument(leaf.argument) == "url" and "." in leaf.text and (host := host_from_value(leaf.text)):
            yield host, leaf


def _requests(leaves: Sequence[Leaf], hosts: Sequence[tuple[str, Leaf]], *, sends: bool = False) -> list[Effect]:
    method = next((leaf.text.upper() for leaf in leaves if leaf.argument == "method"), "GET")
    has_body = any(not name_parts(leaf.argument).isdisjoint(ROLES["request body"]) for leaf in leaves)
    sends = sends or has_body or method not in ("GET", "HEAD", "OPTIONS")
    effects = list[Effect]()
    for host, leaf in hosts:
        kind = "sends-data" if sends or _CARRIES_TEXT.search(leaf.text) else "requests"
        at = max(leaf.text.lower().find(host), 0)
        kind = "asks-local" if is_local_host(host) else kind
        effects.append(effect(kind, host, argument=leaf.argument, span=(at, at + len(host))))
    return effects


def _read_page_act(
    name: ToolName, leaves: Sequence[Leaf], hosts: Sequence[tuple[str, Leaf]], project: Project
) -> list[Effect] | None:
    words = name.words | {leaf.text.lower() for leaf in leaves if has_role(leaf.argument, "action")}
    if name.verb in ("evaluate", "eval", "run", "execute") and (code := _read_sources(leaves, project)):
        return code
    if _has(words, "types into page"):
        sent = _requests(leaves, hosts, sends=True) or [effect("sends-data")]
        return [*sent, *find_secret_files(leaves, project, sends=True)]
    if hosts:
        return _requests((), hosts)
    if _has(words, "acts on page"):
        return [effect("unknown-act")]
    return [effect("looks")] if _has(words, "looks at page") else None


# All other tools, by their name and their arguments.


def _read_service_tool(
    name: ToolName, seed: str, call: ToolCall, leaves: Sequence[Leaf], project: Project
) -> list[Effect]:
    """Return what a tool does by its name and its arguments, one effect for each target among them."""
    by_name = [("instructs-agent", "shape")] if seed == "spawn_agent" else _acts_by_name(name, leaves)
    main = by_name[0][0]
    by_argument = [] if name.kind == "looks" else list(acts_by_argument(name, call.arguments, main))
    if any(act.kind == "looks" for act in by_argument):
        return [effect("looks")]
    gravest = max((KINDS[act.kind].severity for act in by_argument), default=-1)
    if main in OPEN_KINDS and gravest >= KINDS[main].severity:
        by_name = by_name[1:]
    effects = [effect(act.kind, act.target, argument=act.setting.argument) for act in by_argument if act.target]
    acts = dict.fromkeys([*by_name, *((act.kind, act.role) for act in by_argument if not act.target)])
    effects += [found for kind, role in acts for found in _aimed(kind, role, leaves, name)]
    kinds = frozenset(kind for kind, _ in acts)
    effects += find_secret_files(leaves, project, sends=not _SENDS.isdisjoint(kinds))
    return [*effects, *_read_texts(kinds, leaves)]


def _read_texts(kinds: frozenset[str], leaves: Sequence[Leaf]) -> Iterator[Effect]:
    """Yield what an agent or a reader is led to by the texts that a tool gets."""
    for leaf in leaves:
        if "instructs-agent" in kinds or ("changes-agent-file" in kinds and is_prose(leaf)):
            yield from (effect("requests", seen.target, argument=leaf.argument) for seen in find_hosts(leaf.text))
        elif is_prose(leaf) and "/" in leaf.text:
            yield from read_shown_text(leaf.text, leaf.argument)


def _acts_by_name(name: ToolName, leaves: Sequence[Leaf]) -> list[tuple[str, str]]:
    """Return the kind and aim of a tool by its name, and by the action or state that an argument names."""
    kind, acts = name.kind, [(name.kind, name.role)]
    if kind == "looks":
        return acts
    verbs = _stated_verbs(name, leaves)
    act = gravest_act(verbs, name.words - {name.verb})[1] if verbs else None
    if act is not None and act.kind != "unknown-act" and KINDS[act.kind].severity >= KINDS[kind].severity:
        acts = [(act.kind, act.role), *([] if kind in OPEN_KINDS else acts)]
    return _acts_by_shape(name, acts, leaves) if kind in OPEN_KINDS or kind == "approves-payment" else acts


def _acts_by_shape(name: ToolName, acts: list[tuple[str, str]], leaves: Sequence[Leaf]) -> list[tuple[str, str]]:
    """Return the acts, or what they come to: an account and an amount make a payment, an address makes a record."""
    shapes = {seen.shape for leaf in leaves if not is_prose(leaf) for seen in find_addresses_by_shape(leaf.text)}
    if Shape.ACCOUNT in shapes and any(_is_in(leaf, "amount") for leaf in leaves):
        return [("pays", "account"), *(acts if name.kind == "approves-payment" else [])]
    is_record = shapes and acts[0][0] == "changes-own-note" and "draft" not in name.words
    return [("changes-record", "thing")] if is_record else acts


def _stated_verbs(name: ToolName, leaves: Sequence[Leaf]) -> list[str]:
    """Return the verbs of the actions that arguments name; some hosts call one a service: `lock.unlock`."""
    roles = ("action", "service") if name.verb in ("call", "") else ("action",)
    actions = [leaf.text for leaf in leaves if any(has_role(leaf.argument, role) for role in roles)][:4]
    stated = [read_tool_name(text) for text in actions if len(text) <= _MAX_ACTION and text.isascii()]
    return [verb for action in stated for verb in (*action.acting, action.verb) if verb]


def _is_in(leaf: Leaf, role: str) -> bool:
    return not all_parts(leaf.argument).isdisjoint(ROLES.get(role, ()))


def _aimed(kind: str, role: str, leaves: Sequence[Leaf], name: ToolName) -> Iterator[Effect]:
    """Yield an effect of this kind for each target among the values that have the role, or one without a target."""
    certainty = Certainty.GUESS if kind == "unknown-act" else Certainty.LIKELY
    count = 0
    if KINDS[kind].severity >= Severity.REACHES_OUT and role != "none":
        for leaf, seen in _targets(kind, role, leaves, name):
            # Some tools name a host and do not go there, others only ask it.
            is_named = "/" not in leaf.text and _has(name.words, "names hosts")
            asks = seen.shape is Shape.HOST and not is_named and kind not in _GOES_TO_HOST
            asks = asks and role not in ("host", "links")
            aimed = kind if not asks else "asks-local" if is_local_host(seen.target) else "requests"
            count += aimed == kind
            yield effect(aimed, seen.target, certainty=certainty, argument=leaf.argument, span=(seen.start, seen.end))
            if count > _MAX_TARGETS:
                return
    if not count and role not in ("host", "links"):
        # Who names a repository has not approved its changes: such an effect has no target that a goal could excuse.
        yield effect(kind, "" if role == "none" else _repository(leaves), certainty=certainty)


def _repository(leaves: Sequence[Leaf]) -> str:
    named = {leaf.argument: leaf.text for leaf in leaves if leaf.argument in ("owner", "repo")}
    return f"{named['owner']}/{named['repo']}"[:_MAX_TARGET] if len(named) == 2 else ""


def _targets(kind: str, role: str, leaves: Sequence[Leaf], name: ToolName) -> Sequence[tuple[Leaf, Seen]]:
    if role == "links":
        return _seen_in(filter(is_prose, leaves), find_hosts, find_bare_hosts)
    if role == "forwarded":
        # Who gets the mail that a rule sends on; what says which mail it is for, `from=…`, gets none.
        boxes = _seen_in(filterfalse(_is_condition, leaves), find_mailboxes)
        return boxes or _targets(kind, "principal", leaves, name)
    pairs = [(leaf, seen) for leaf in leaves for seen in _targets_of(leaf, role)]
    # The payer of a payment or the group that a member is added to is no target where another value is one.
    aside = "" if kind == "pays" and _has(name.words, "goes back") else f"aside {kind}"
    others = [(leaf, seen) for leaf, seen in pairs if _is_in(leaf, "creditor") or not _is_in(leaf, aside)]
    return others if others or role == "host" else pairs


def _seen_in(leaves: Iterable[Leaf], *finders: Callable[[str], Iterable[Seen]]) -> list[tuple[Leaf, Seen]]:
    return [(leaf, seen) for leaf in leaves for find in finders for seen in find(leaf.text)]


def _is_condition(leaf: Leaf) -> bool:
    """Return whether a value, or one that holds it, is called a condition: `from_address`, but not `copy_sender_to`."""
    names = (frozenset(argument_words(part.partition("[")[0])) for part in leaf.argument.split("."))
    known = ROLES["condition"] | ROLES["beside condition"]
    return not _is_in(leaf, "forwards") and any(words & ROLES["condition"] and words <= known for words in names)


def _targets_of(leaf: Leaf, role: str) -> list[Seen]:
    text, whole = leaf.text.strip(), (0, len(leaf.text))
    if role == "host":
        # `10 mx.a.example.`: numbers stand before the host of a mail server.
        host = host_from_value(_PRIORITY.sub("", text[:_MAX_TARGET]).removesuffix("."))
        return [] if not host or is_local_host(host) else [Seen(Shape.HOST, host, *whole)]
    shaped = find_addresses_by_shape(leaf.text)
    if shaped and not is_prose(leaf):
        return shaped
    if len(text) not in _LENGTHS or "\n" in text:
        return []
    if sink_from_argument(leaf.argument) == "url" and (host := host_from_value(text)):
        return [Seen(Shape.HOST, host, *whole)]
    if not _is_for(leaf, role):
        return []
    # An account may stand behind its kind, as in `wallet:0x5f…`. Where a payment goes may be said in words (`original
    # payment method`): those are no account.
    is_vague = role == "account" and has_role(leaf.argument, "vague account")
    start, end = account_start(text), leaf.text.find(text) + len(text)
    if shaped or (is_vague and not _IN_ACCOUNT.search(text)):
        return shaped
    return [Seen(Shape.NAME, text[start:], end - len(text) + start, end)]


def _is_for(leaf: Leaf, role: str) -> bool:
    if role == "every":
        return not is_prose(leaf) and not has_role(leaf.argument, "action")
    return has_role(leaf.argument, role)


def _raised_by_annotations(call: ToolCall, effects: Sequence[Effect]) -> list[Effect]:
    """Return what the annotations add: they come from the server that is being judged, so they never take away."""
    kind, gravest = kind_by_annotations(call.annotations), _gravest(effects)
    if not kind or gravest >= Severity.REACHES_OUT:
        return []
    # That it deletes or writes is no news of a tool that we read as one that writes files, or works here.
    is_file_work = any(found.kind in ("edits-project", "writes-scratch") for found in effects)
    if is_file_work if kind == "deletes-record" else kind == "unknown-act" and gravest > Severity.LOOKS:
        return []
    return [effect(kind, certainty=Certainty.GUESS if kind == "unknown-act" else Certainty.SURE)]
