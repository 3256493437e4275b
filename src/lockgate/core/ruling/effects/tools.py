"""A tool call to its effects: shells and code by what they run, all other tools by name, arguments and annotations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from lockgate.core.ruling.arguments import Leaf, argument_words, sink_from_argument
from lockgate.core.ruling.effects.activity import Activity
from lockgate.core.ruling.effects.address_shapes import (
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
from lockgate.core.ruling.effects.carried_secrets import find_carried_secrets
from lockgate.core.ruling.effects.code import read_code
from lockgate.core.ruling.effects.effect import KINDS, SPENDS, Certainty, Effect, Severity, effect
from lockgate.core.ruling.effects.own_arguments import read_own_arguments
from lockgate.core.ruling.effects.own_paths import OWN_KINDS
from lockgate.core.ruling.effects.project import Project
from lockgate.core.ruling.effects.shell import read_command
from lockgate.core.ruling.effects.sql import read_sql
from lockgate.core.ruling.effects.tool_arguments import (
    ROLES,
    ArgumentAct,
    acts_by_argument,
    all_parts,
    has_role,
    is_prose,
    joined_values,
    name_parts,
    quote_word,
)
from lockgate.core.ruling.effects.tool_commands import commands_of, rest_name
from lockgate.core.ruling.effects.tool_files import find_secret_files, is_other_host, read_file_tool, read_patches
from lockgate.core.ruling.effects.written import MAX_PACKAGES, read_shown_text
from lockgate.core.ruling.tool_call import ToolCall
from lockgate.core.ruling.tool_risk import (
    WORDS,
    ToolName,
    acting_words,
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
_MAX_TARGETS = 40
_MAX_ACTION = 40
_RUNS = WORDS["runs"]
_OTHER_SEEDS = frozenset("read write glob grep web_fetch".split())
# What of an address is reached or taken by the act itself; other tools only ask the host.
_GOES_TO_HOST = frozenset(
    "sends-data grants-access sends-secret unknown-act embeds-remote-code installs-package clones pushes".split()
)
_SENDS = frozenset("sends-message sends-data shares publishes sends-secret".split())
# A public answer is an answer; a public folder is a door.
_PUBLIC_BY_NATURE = frozenset("sends-message publishes".split())
# An argument says what such a tool does; to what another one does by its name it adds.
_OPEN = frozenset("unknown-act changes-record changes-own-note changes-permissions".split())
# Kinds that say nothing about what a command does.
_NOT_KNOWN = frozenset("runs-program unknown-act unreadable computes".split())
# No tool's name says that its service is on this machine, as a program takes it to be.
_NOT_KNOWN_OF_TOOL = frozenset("runs-program unknown-act computes asks-local".split())
# A value in a URL's query that is a text of several words: it takes something along.
_PRIORITY = re.compile(r"^(?:\d{1,5} ){1,3}")
_CARRIES_TEXT = re.compile(r"[?&][^=&#]{1,40}=[^&#]{0,200}?(?:(?:%20|\+|%0A|%2C)[^&#%+]{1,40}){3}", re.IGNORECASE)


def read_tool(call: ToolCall, leaves: Sequence[Leaf], project: Project, activity: Activity) -> list[Effect]:
    """Return what a tool would do with these arguments; a tool that is not known may do anything."""
    name, seed = read_tool_name(call.tool), canonical_tool(call.tool)
    # What leads to Lockgate's own files and service counts wherever it stands.
    own = list(read_own_arguments(name, seed, leaves, project))
    if len(leaves) > MAX_LEAVES_READ:
        own.insert(0, effect("unreadable", certainty=Certainty.GUESS))
        leaves = leaves[:MAX_LEAVES_READ]
    found = _read_run(name, seed, leaves, project, activity)
    is_local = found is not None
    if project.named is not None and (is_local or name.verb in _RUNS):
        project.named.append("")
    if found is None:
        found = read_file_tool(name, seed, leaves, project)
        # A stranger's tool that looks something up gets what it is asked for, wherever the file is.
        is_local = found is not None and (has_common_name(call.tool) or name.kind != "looks")
    if found is None:
        found = _read_web_tool(name, seed, call, leaves, project)
    if found is None:
        # A migration tool runs the statement that it is given, whatever it is called.
        found = [*_read_service_tool(name, seed, call, leaves, project), *_read_queries(leaves)]
    found = _graver_reading(call, name, leaves, found, project, activity)
    carried = [] if is_local else list(find_carried_secrets(leaves))
    return limit_effects([*own, *found, *carried, *_raised_by_annotations(call, found)])


def read_own(call: ToolCall, leaves: Sequence[Leaf], project: Project, activity: Activity) -> list[Effect]:
    """Return only what a tool would do to Lockgate's own files."""
    name, seed = read_tool_name(call.tool), canonical_tool(call.tool)
    found = _read_run(name, seed, leaves, project, activity)
    if found is None:
        found = list(read_patches(leaves, project)) if seed == "write" else []
    commands = [
        each
        for command in commands_of(call.tool, call.arguments)
        for each in read_command(command.line, "", project, activity)
    ]
    own = read_own_arguments(name, seed, leaves, project)
    return [each for each in (*own, *found, *commands) if each.kind in OWN_KINDS]


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


def _graver_reading(
    call: ToolCall, name: ToolName, leaves: Sequence[Leaf], found: list[Effect], project: Project, activity: Activity
) -> list[Effect]:
    """Return the graver of two readings: of a tool, and of the command line that it is named after."""
    rest = rest_name(call.tool, leaves)
    commands = commands_of(call.tool, call.arguments)
    if rest and not any(command.known for command in commands):
        commands = [*commands, *commands_of(rest[0], {})]
        found = [*found, *_read_method(*rest)]
    for command in commands:
        # `k8s_list_pods` is no command of its program, which says nothing against the name.
        if not command.known and name.kind == "looks":
            continue
        read = read_command(command.line, "", project, activity)
        unknown = _NOT_KNOWN_OF_TOOL if command.known else _NOT_KNOWN
        read = [each._replace(start=0, end=0) for each in read if each.kind not in unknown]
        # What the name says as well has the place of its target among the arguments.
        if not read or (_gravest(read) == _gravest(found) and read[0].kind == found[0].kind):
            continue
        if command.known:
            # What the verb of a name says in general, a row says in particular: `git_clean` deletes no record.
            is_particular = command.known == "whole" or (command.known == "row" and _gravest(read) > Severity.LOOKS)
            general = name.kind if is_particular and KINDS[name.kind].severity < Severity.OPENS_A_DOOR else ""
            found = [each for each in found if each.kind not in ("unknown-act", general)]
        if not found or _gravest(read) >= _gravest(found) + (not command.known):
            found = [*read, *found]
    return found


def _gravest(effects: Sequence[Effect]) -> int:
    return max((each.severity for each in effects), default=-1)


# Shells, code and queries.


def _read_run(
    name: ToolName, seed: str, leaves: Sequence[Leaf], project: Project, activity: Activity
) -> list[Effect] | None:
    found = _read_shell(name, seed, leaves, project, activity)
    return found if found is not None else _read_code_or_query(name, leaves, project)


def _read_shell(
    name: ToolName, seed: str, leaves: Sequence[Leaf], project: Project, activity: Activity
) -> list[Effect] | None:
    commands = _command_lines(seed, leaves) if _is_shell(name, seed) else None
    if commands is None:
        return None
    if not commands and seed == "bash":
        return [effect("unknown-act", certainty=Certainty.GUESS)]
    if not commands or _is_other_shell(name):
        return [effect("unreadable", argument=leaf.argument, span=(0, len(leaf.text))) for leaf in commands] or None
    found = [each for leaf in commands for each in read_command(leaf.text, leaf.argument, project, activity)]
    host = next((leaf.text for leaf in leaves if is_other_host(leaf)), "")
    return _run_elsewhere(host, commands, found, project, activity) if host else found


def _is_shell(name: ToolName, seed: str) -> bool:
    runs = seed == "bash" or name.verb in _RUNS or not WORDS["shell"].isdisjoint(name.words)
    return runs and seed not in _OTHER_SEEDS and WORDS["code"].isdisjoint(name.words)


def _is_other_shell(name: ToolName) -> bool:
    """Return whether a tool runs a shell whose language is not read."""
    return not WORDS["other shell"].isdisjoint(name.words) or {"power", "shell"} <= name.words or name.words == {"cmd"}


def _command_lines(seed: str, leaves: Sequence[Leaf]) -> list[Leaf]:
    """Return the commands among the values with the words that go with them; a shell may get such words alone."""
    words = list(joined_values(leaves, "command arguments"))
    commands = list(joined_values(leaves, "command"))
    if not commands:
        return words if seed == "bash" else []
    return [Leaf(leaf.argument, " ".join(each.text for each in (leaf, *words))) for leaf in commands]


def _run_elsewhere(
    host: str, commands: Sequence[Leaf], found: Sequence[Effect], project: Project, activity: Activity
) -> list[Effect]:
    """Return what commands do on another machine, where a path is not the project's, as a shell reads `ssh`."""
    lines = [Leaf(leaf.argument, f"ssh {quote_word(host)} {quote_word(leaf.text)}") for leaf in commands]
    remote = [each for leaf in lines for each in read_command(leaf.text, leaf.argument, project, activity)]
    remote = [each._replace(start=0, end=0) for each in remote]
    return [*remote, *(each for each in found if each.severity <= _gravest(remote))]


def _read_code_or_query(name: ToolName, leaves: Sequence[Leaf], project: Project) -> list[Effect] | None:
    if (name.verb in _RUNS or not name.verb) and not WORDS["code"].isdisjoint(name.words):
        code = list(joined_values(leaves, "code"))
        if code:
            return [each for leaf in code for each in read_code(leaf.text, leaf.argument, project)]
    if WORDS["database"].isdisjoint(name.words) and not any("sql" in name_parts(leaf.argument) for leaf in leaves):
        return None
    return _read_queries(leaves) or None


def _read_queries(leaves: Sequence[Leaf]) -> list[Effect]:
    queries = [leaf for leaf in joined_values(leaves, "query") if _is_sql(leaf.text)]
    return [each for leaf in queries for each in read_sql(leaf.text, leaf.argument)]


def _is_sql(text: str) -> bool:
    first = text.lstrip(" \t\r\n(;")[:20].replace("/*", " ").split(maxsplit=1)[:1]
    return "".join(first).lower() in WORDS["sql"] or text.lstrip().startswith(("--", "/*"))


# Addresses and pages.


def _read_web_tool(
    name: ToolName, seed: str, call: ToolCall, leaves: Sequence[Leaf], project: Project
) -> list[Effect] | None:
    """Return what a tool asks of an address or does to a page; None for a tool that does neither."""
    # A tool that installs something works on the browser.
    on_page = name.verb != "install" and not WORDS["page"].isdisjoint(name.words)
    hosts = list(_addressed_hosts(leaves))
    if name.kind == "looks":
        return _looked_up(name, call, leaves, hosts)
    if seed == "web_fetch" or name.kind == "requests":
        only_looks = on_page and not WORDS["looks at page"].isdisjoint(name.words)
        return _requests(leaves, hosts) or [effect("looks" if only_looks else "requests")]
    if on_page:
        return _read_page_act(name, leaves, hosts, project)
    # A tool by the name of the protocol goes where its address says, and what it is called is the method.
    is_method = not (WORDS["protocol"].isdisjoint(name.words) or WORDS["sends request"].isdisjoint(name.words))
    return ([_request(host, leaf, sends=True) for host, leaf in hosts] if is_method else []) or None


def _looked_up(
    name: ToolName, call: ToolCall, leaves: Sequence[Leaf], hosts: Sequence[tuple[str, Leaf]]
) -> list[Effect]:
    # An address can carry data out, unless we know by name where the tool goes; a bare host carries little.
    if not WORDS["names hosts"].isdisjoint(name.words):
        hosts = [(host, leaf) for host, leaf in hosts if "/" in leaf.text]
    return _requests(leaves, hosts) if hosts and may_reach_any_address(call.tool) else [effect("looks")]


def _addressed_hosts(leaves: Sequence[Leaf]) -> Iterator[tuple[str, Leaf]]:
    for leaf in leaves:
        if "://" in leaf.text and not is_prose(leaf):
            yield from ((seen.target, leaf) for seen in find_hosts(leaf.text))
        elif sink_from_argument(leaf.argument) == "url" and "." in leaf.text:
            host = host_from_value(leaf.text)
            if host:
                yield host, leaf


def _requests(leaves: Sequence[Leaf], hosts: Sequence[tuple[str, Leaf]]) -> list[Effect]:
    method = next((leaf.text.upper() for leaf in leaves if leaf.argument == "method"), "GET")
    sends = method not in ("GET", "HEAD", "OPTIONS") or any(
        not name_parts(leaf.argument).isdisjoint(ROLES["request body"]) for leaf in leaves
    )
    return [_request(host, leaf, sends=sends) for host, leaf in hosts]


def _request(host: str, leaf: Leaf, *, sends: bool) -> Effect:
    """Return the effect of a request to a host, or of data that is sent there."""
    sends = sends or _CARRIES_TEXT.search(leaf.text) is not None
    kind = "asks-local" if is_local_host(host) else "sends-data" if sends else "requests"
    at = max(leaf.text.lower().find(host), 0)
    return effect(kind, host, argument=leaf.argument, span=(at, at + len(host)))


def _read_page_act(
    name: ToolName, leaves: Sequence[Leaf], hosts: Sequence[tuple[str, Leaf]], project: Project
) -> list[Effect] | None:
    words = name.words | {leaf.text.lower() for leaf in leaves if has_role(leaf.argument, "action")}
    code = list(joined_values(leaves, "code"))
    if name.verb in ("evaluate", "eval", "run", "execute") and code:
        return [each for leaf in code for each in read_code(leaf.text, leaf.argument, project)]
    if not WORDS["types into page"].isdisjoint(words):
        sent = [_request(host, leaf, sends=True) for host, leaf in hosts] or [effect("sends-data")]
        return [*sent, *find_secret_files(leaves, project, sends=True)]
    if hosts:
        return [_request(host, leaf, sends=False) for host, leaf in hosts]
    acts = not WORDS["acts on page"].isdisjoint(words)
    if not acts and not WORDS["looks at page"].isdisjoint(words):
        return [effect("looks")]
    return [effect("unknown-act")] if acts else None


def _read_method(text: str, address: Leaf) -> list[Effect]:
    """Return what a REST request does by its method and path, where it is more than sending data."""
    kind = read_tool_name(text).kind
    if KINDS[kind].severity < Severity.OPENS_A_DOOR and kind not in SPENDS:
        return []
    return [effect(kind, address.text[:_MAX_TARGET], argument=address.argument, span=(0, len(address.text)))]


# All other tools, by their name and their arguments.


def _read_service_tool(
    name: ToolName, seed: str, call: ToolCall, leaves: Sequence[Leaf], project: Project
) -> list[Effect]:
    """Return what a tool does by its name and its arguments, one effect for each target among them."""
    by_name = [("instructs-agent", "shape")] if seed == "spawn_agent" else _acts_by_name(name, leaves)
    by_argument = [] if name.kind == "looks" else _acts_by_argument(name, call, by_name[0][0])
    if any(act.kind == "looks" for act in by_argument):
        return [effect("looks")]
    found = [effect(act.kind, act.target, argument=act.setting.argument) for act in by_argument if act.target]
    others = [(act.kind, act.role) for act in by_argument if not act.target]
    gravest = max((KINDS[act.kind].severity for act in by_argument), default=-1)
    if by_name[0][0] in _OPEN and gravest >= KINDS[by_name[0][0]].severity:
        by_name = by_name[1:]
    acts = dict.fromkeys([*by_name, *others])
    found += [each for kind, role in acts for each in _aimed(kind, role, leaves, name)]
    kinds = frozenset(kind for kind, _ in acts)
    found += find_secret_files(leaves, project, sends=not _SENDS.isdisjoint(kinds))
    return [*found, *_read_prose(kinds, leaves)]


def _acts_by_argument(name: ToolName, call: ToolCall, kind: str) -> list[ArgumentAct]:
    acts = list(acts_by_argument(name, call.arguments))
    if kind in _PUBLIC_BY_NATURE:
        acts = [act for act in acts if act.kind != "changes-permissions"]
    # A new password changes a login where a record is changed; where a page or an account is asked, it is used.
    return acts if kind in _OPEN else [act for act in acts if act.kind not in ("changes-login", "looks")]


def _read_prose(kinds: frozenset[str], leaves: Sequence[Leaf]) -> list[Effect]:
    found = list[Effect]()
    for leaf in leaves:
        if "instructs-agent" in kinds or ("changes-agent-file" in kinds and is_prose(leaf)):
            found += [effect("requests", seen.target, argument=leaf.argument) for seen in find_hosts(leaf.text)]
        elif is_prose(leaf) and "/" in leaf.text:
            found += read_shown_text(leaf.text, leaf.argument)
    return found


def _acts_by_name(name: ToolName, leaves: Sequence[Leaf]) -> list[tuple[str, str]]:
    """Return the kind and aim of a tool by its name, and by the action or state that an argument names."""
    kind, acts = name.kind, [(name.kind, name.role)]
    if kind == "looks":
        return acts
    verbs = _action_verbs(name, leaves)
    act = gravest_act(verbs, name.words - {name.verb})[1] if verbs else None
    if act is not None and act.kind != "unknown-act" and KINDS[act.kind].severity >= KINDS[kind].severity:
        acts = [(act.kind, act.role), *([] if kind in _OPEN else acts)]
    return _acts_by_shape(name, acts, leaves) if kind in _OPEN or kind == "approves-payment" else acts


def _action_verbs(name: ToolName, leaves: Sequence[Leaf]) -> list[str]:
    # Some hosts call a device's action a service: `lock.unlock`.
    roles = ("action", "service") if name.verb in ("call", "") else ("action",)
    actions = [leaf.text for leaf in leaves if any(has_role(leaf.argument, role) for role in roles)]
    actions = [text for text in actions[:4] if len(text) <= _MAX_ACTION and text.isascii()]
    return [word for text in actions for word in (*acting_words(text), read_tool_name(text).verb) if word]


def _acts_by_shape(name: ToolName, acts: list[tuple[str, str]], leaves: Sequence[Leaf]) -> list[tuple[str, str]]:
    """Return the acts once the values are seen: an account and an amount make a payment, an address makes a record."""
    shapes = {seen.shape for leaf in leaves if not is_prose(leaf) for seen in find_addresses_by_shape(leaf.text)}
    if Shape.ACCOUNT in shapes and any(not all_parts(leaf.argument).isdisjoint(ROLES["amount"]) for leaf in leaves):
        return [("pays", "account"), *(acts if name.kind == "approves-payment" else [])]
    if acts[0][0] == "changes-own-note" and shapes and "draft" not in name.words:
        return [("changes-record", "thing")]
    return acts


def _aimed(kind: str, role: str, leaves: Sequence[Leaf], name: ToolName) -> Iterator[Effect]:
    """Yield an effect of this kind for each target among the values that have the role, or one without a target."""
    certainty = Certainty.GUESS if kind == "unknown-act" else Certainty.LIKELY
    count = 0
    if KINDS[kind].severity >= Severity.REACHES_OUT and role != "none":
        for leaf, seen in _targets(kind, role, leaves, name):
            goes_there = kind in _GOES_TO_HOST or role in ("host", "links")
            aimed = kind if goes_there else _kind_for_shape(kind, leaf, seen, name)
            count += aimed == kind
            yield effect(aimed, seen.target, certainty=certainty, argument=leaf.argument, span=(seen.start, seen.end))
            if count > _MAX_TARGETS:
                return
    if not count and role not in ("host", "links"):
        # Who names a repository has not approved its changes: such an effect has no target that a goal could excuse.
        yield effect(kind, "" if role == "none" else _repository(leaves), certainty=certainty)


def _kind_for_shape(kind: str, leaf: Leaf, seen: Seen, name: ToolName) -> str:
    # Some tools name a host and do not go there.
    is_named_only = "/" not in leaf.text and not WORDS["names hosts"].isdisjoint(name.words)
    if seen.shape is not Shape.HOST or is_named_only:
        return kind
    return "asks-local" if is_local_host(seen.target) else "requests"


def _repository(leaves: Sequence[Leaf]) -> str:
    named = {leaf.argument: leaf.text for leaf in leaves if leaf.argument in ("owner", "repo")}
    return f"{named['owner']}/{named['repo']}"[:_MAX_TARGET] if len(named) == 2 else ""


def _targets(kind: str, role: str, leaves: Sequence[Leaf], name: ToolName) -> Iterator[tuple[Leaf, Seen]]:
    if role == "links":
        return _links(leaves)
    boxes = _receivers(leaves) if role == "forwarded" else []
    if boxes:
        return iter(boxes)
    role = "principal" if role == "forwarded" else role
    # The payer of a payment or the group that a member is added to is no target where another value is one.
    goes_back = kind == "pays" and not WORDS["goes back"].isdisjoint(name.words)
    aside = frozenset[str]() if goes_back else ROLES.get(f"aside {kind}", frozenset())
    pairs = [(leaf, seen) for leaf in leaves for seen in _targets_of(leaf, kind, role)]
    others = [pair for pair in pairs if _is_apart(pair[0], aside)]
    return iter(others if others or role == "host" else pairs)


def _links(leaves: Sequence[Leaf]) -> Iterator[tuple[Leaf, Seen]]:
    for leaf in leaves:
        if is_prose(leaf):
            yield from ((leaf, seen) for seen in chain(find_hosts(leaf.text), find_bare_hosts(leaf.text)))


def _receivers(leaves: Sequence[Leaf]) -> list[tuple[Leaf, Seen]]:
    """Return who gets the mail that a rule sends on; what says which mail it is for, `from=…`, gets none."""
    acting = [leaf for leaf in leaves if _forwards(leaf) or not _is_condition(leaf)]
    return [(leaf, seen) for leaf in acting for seen in find_mailboxes(leaf.text)]


def _forwards(leaf: Leaf) -> bool:
    return not all_parts(leaf.argument).isdisjoint(ROLES["forwards"])


def _is_condition(leaf: Leaf) -> bool:
    """Return whether a value, or one that holds it, is called a condition: `from_address`, but not `copy_sender_to`."""
    names = (frozenset(argument_words(name.partition("[")[0])) for name in leaf.argument.split("."))
    return any(
        words & ROLES["condition"] and words <= ROLES["condition"] | ROLES["beside condition"] for words in names
    )


def _is_apart(leaf: Leaf, aside: frozenset[str]) -> bool:
    parts = all_parts(leaf.argument)
    return parts.isdisjoint(aside) or not parts.isdisjoint(ROLES["creditor"])


def _targets_of(leaf: Leaf, kind: str, role: str) -> list[Seen]:
    text = leaf.text.strip()
    if role == "host":
        return _host_target(leaf)
    shaped = find_addresses_by_shape(leaf.text)
    if shaped and not is_prose(leaf):
        return shaped
    if not text or len(text) > _MAX_TARGET or "\n" in text:
        return []
    host = host_from_value(text) if sink_from_argument(leaf.argument) == "url" else ""
    if host:
        return [Seen(Shape.HOST, host, 0, len(leaf.text))]
    if role == "every" and not is_prose(leaf) and not has_role(leaf.argument, "action"):
        return [Seen(Shape.NAME, text, 0, len(leaf.text))]
    return shaped or _named_target(leaf, kind, text) if role in ROLES and has_role(leaf.argument, role) else []


def _host_target(leaf: Leaf) -> list[Seen]:
    # `10 mx.a.example.`: numbers stand before the host of a mail server.
    host = host_from_value(_PRIORITY.sub("", leaf.text.strip()[:_MAX_TARGET]).removesuffix("."))
    return [Seen(Shape.HOST, host, 0, len(leaf.text))] if host and not is_local_host(host) else []


def _named_target(leaf: Leaf, kind: str, text: str) -> list[Seen]:
    """Return a target that is given by its name; an account may stand behind its kind, as in `wallet:0x5f…`."""
    if kind != "pays":
        return [Seen(Shape.NAME, text, 0, len(leaf.text))]
    at = leaf.text.find(text)
    account = text[account_start(text) :]
    # Where a payment goes may be said in words (`original payment method`): those are no account.
    is_vague = not name_parts(leaf.argument).isdisjoint(("destination", "dest", "target", "payout", "method"))
    if is_vague and not any(sign.isdigit() or sign == "@" for sign in account):
        return []
    return [Seen(Shape.NAME, account, at + len(text) - len(account), at + len(text))]


def _raised_by_annotations(call: ToolCall, found: Sequence[Effect]) -> list[Effect]:
    """Return what the annotations add: they come from the server that is being judged, so they never take away."""
    kind, gravest = kind_by_annotations(call.annotations), _gravest(found)
    if not kind or gravest >= Severity.REACHES_OUT:
        return []
    # That it deletes or writes is no news of a tool that we read as one that writes files, or works here.
    is_file_work = any(each.kind in ("edits-project", "writes-scratch") for each in found)
    if is_file_work if kind == "deletes-record" else kind == "unknown-act" and gravest > Severity.LOOKS:
        return []
    return [effect(kind, certainty=Certainty.GUESS if kind == "unknown-act" else Certainty.SURE)]
