"""Tools of mail, chat, calendars, tickets, money, clouds and homes to their effects, by name and arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from lockgate.core.ruling.arguments import Leaf, argument_words, sink_from_argument
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
from lockgate.core.ruling.effects.effect import KINDS, Certainty, Effect, Severity, effect
from lockgate.core.ruling.effects.file_tools import find_secret_files
from lockgate.core.ruling.effects.project import Project
from lockgate.core.ruling.effects.tool_arguments import (
    ROLES,
    all_parts,
    find_settings,
    find_switches,
    has_role,
    is_prose,
    leaf_name,
    name_parts,
)
from lockgate.core.ruling.effects.tool_names import ToolName, gravest_kind, read_tool_name
from lockgate.core.ruling.effects.web_tools import NAMES_HOSTS
from lockgate.core.ruling.effects.written_content import read_shown_text
from lockgate.core.ruling.tool_call import ToolCall
from lockgate.core.ruling.tool_risk import acting_words

_MAX_TARGET = 200
_MAX_TARGETS = 40
_MAX_ACTION = 40
# By which arguments an effect finds its target.
_ROLE_OF_KIND = {
    "sends-message": "recipient",
    "shares": "recipient",
    "pays": "account",
    "orders": "thing",
    "changes-record": "thing",
    "grants-access": "principal",
    "makes-key": "principal",
    "changes-permissions": "principal",
    "changes-login": "principal",
    "disables-check": "principal",
    "logs-in": "principal",
}
# What of an address is reached or taken by the act itself; other tools only ask the host.
_GOES_TO_HOST = frozenset(
    "sends-data grants-access sends-secret unknown-act embeds-remote-code installs-package clones pushes".split()
)
_NAMES_EVERYTHING = frozenset("deletes-record deletes-data".split())
_SENDS = frozenset("sends-message sends-data shares publishes sends-secret".split())
# A public answer is an answer; a public folder is a door.
_PUBLIC_BY_NATURE = frozenset("sends-message publishes".split())
_INVITES = frozenset("attendee attendees participant participants guest guests invitee invitees invites".split())
_ASSIGNS = frozenset("assignee assignees assigned owner".split())
# Arguments by which a change of an account changes how it logs in.
_LOGIN = frozenset("recovery password passcode passphrase passwd totp passkey mfa".split())
# A switch that is called by a verb does what the verb says: `create_draft` with `send` sends. One that is off undoes
# what its name says: `set_lock` with `locked=False` unlocks.
_WHEN_ON = {
    verb: verb
    for verb in "send publish delete purge pay share submit execute deploy push merge forward post unlock open disarm "
    "disable bypass".split()
} | {"unlocked": "unlock", "opened": "open", "disarmed": "disarm", "disabled": "disable", "bypassed": "bypass"}
_WHEN_OFF = dict.fromkeys(("enable", "enabled", "active", "activated", "on"), "disable") | {
    "lock": "unlock",
    "locked": "unlock",
    "arm": "disarm",
    "armed": "disarm",
}
_FILLERS = frozenset(
    "now immediately auto automatically and after it directly really also too is be set settings config options "
    "state".split()
)
# What is new was neither locked nor armed.
_CREATES = frozenset("create add new insert make".split())
_DECIDES = frozenset("event state status decision verdict vote".split())
_APPROVALS = frozenset("approve approved accept accepted merge merged authorize authorise release".split())
# Who approves one of these pays; who approves a bill need not.
_PAYMENTS = frozenset("payment payout refund payroll".split())
_APPROVING = frozenset({"approves-change", "approves-payment"})
_NUMBERS_OF_CHANGES = frozenset("pull pr mr pullrequest".split())
_OPEN = frozenset("unknown-act changes-record changes-own-note".split())
# An argument says what such a tool does; to what another one does by its name it adds.
_LEFT_TO_ARGUMENTS = _OPEN | {"changes-permissions"}
# Where a payment goes may be said in words (`original payment method`): those are no account.
_VAGUE = frozenset("destination dest target payout method".split())
# Whose account an argument of a payment is, by the words of its name.
_PAYER = frozenset("debtor payer debit debited originator funding".split())
# Only as `from_account` and the like: a request has a sender, to whom the money goes.
_FROM, _ACCOUNTS = frozenset({"from", "source"}), frozenset({"account", "iban", "pay"})
# Money that goes back goes to whom it came from.
_GOES_BACK = frozenset("refund request reverse reversal return collect chargeback".split())
_PAYEE = frozenset("to payee beneficiary creditor credit recipient receiver".split())
# A group that a member is added to is no recipient.
_ADDS_MEMBERS = frozenset("shares grants-access changes-permissions".split())
_CONTAINERS = frozenset("group groups team teams channel channels chat room role folder project".split())
# A rule of a mailbox that sends its mail on, and the arguments that say which mail it is for.
_RULES, _RULES_OF_NETWORKS = frozenset("rule filter".split()), frozenset("firewall network ingress nat port".split())
_FORWARDS = frozenset("forward forwards forwarding redirect redirects fwd weiterleiten weiterleitung".split())
_FORWARDS_IN_TEXT = re.compile(r"(?i)\W{0,4}(?:auto[ _-]?)?(?:forward|redirect|fwd|weiterleit)")
_ACTION_NAMES = ROLES["action"] | frozenset("actions type kind do then".split())
_CONDITIONS = frozenset(
    "condition conditions criteria criterion match matches when if query subject from sender name contains".split()
)
_BESIDE_CONDITIONS = frozenset("address email emails domain line rule is header".split())
_FOR_MANY = frozenset("newsletter mailing campaign broadcast blast mailinglist subscribers".split())
_PUBLIC_PAGES = frozenset("page site website blog article landing".split())
_CHANGES = frozenset("changes-service changes-record unknown-act changes-permissions grants-access".split())
_ROUTING = frozenset(
    "dns record mx cname redirect redirects route routing proxy upstream endpoint nameserver gateway".split()
)
# What is changed, and not where it leads.
_OWN_NAMES = frozenset("zone domain name hostname source from subdomain id".split())
_IP = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}")
# The numbers before the host of a mail server or a service: `10 mx.a.example`.
_PRIORITY = re.compile(r"^(?:\d{1,5} ){1,3}")
# Verbs that take something away: `revoke` with `role=admin` makes no administrator.
_TAKES_AWAY = frozenset("revoke remove delete unassign detach deny withdraw unshare uninvite kick expire".split())
# To track one of these is to look where it is; to track an event or an hour is to record it.
_SHIPPED = frozenset("parcel package shipment delivery consignment cargo courier tracking flight".split())
# In such a time no alert is sent; over one service that is plain upkeep.
_QUIET_TIMES = frozenset("maintenance downtime blackout".split())
_EVERYTHING = re.compile(r"(?i)(?:[\w. -]{0,60}[=:~]{1,2}[ ]?)?[\"']?(?:\*|\.[*+]|all|everything|any)[\"']?")
_AMOUNTS = frozenset("amount sum total value valor betrag montant importe importo tutar bedrag price".split())


def read_service_tool(
    name: ToolName, seed: str, call: ToolCall, leaves: Sequence[Leaf], project: Project
) -> list[Effect]:
    """Return what a tool does by its name, one effect for each target in its arguments."""
    kind = "instructs-agent" if seed == "spawn_agent" else name.kind
    stated, *by_name = _kinds_with_action(kind, name, leaves, call.arguments)
    kind, *others = _kinds_with_approval(_kind_with_arguments(stated, name, leaves), name, leaves)
    found = [*_main_effects(kind, leaves, name), *_routes(kind, name, leaves)]
    found += [each for other in by_name + others for each in _aimed_effects(other, leaves, name)]
    found += find_secret_files(leaves, project, sends=kind in _SENDS)
    for leaf in leaves:
        if kind == "instructs-agent" or (kind == "changes-agent-file" and is_prose(leaf)):
            found += [effect("requests", seen.target, argument=leaf.argument) for seen in find_hosts(leaf.text)]
        elif is_prose(leaf) and "/" in leaf.text:
            found += read_shown_text(leaf.text, leaf.argument)
            if _is_for_many(kind, name):
                found += _published_links(leaf)
    if kind != "looks":
        found += _switched_effects(kind, call, leaves, name)
    return found


def _main_effects(kind: str, leaves: Sequence[Leaf], name: ToolName) -> Iterator[Effect]:
    """Return what a tool mainly does: that of an invitation or of a mail rule is aimed at some of its values only."""
    if kind == "changes-permissions" and _is_forwarding_rule(name, leaves):
        return _forwarding_effects(leaves, name)
    is_invitation = name.kind == "changes-own-note" and kind == "sends-message"
    return _aimed_effects(kind, _without_rooms(leaves) if is_invitation else leaves, name)


def _routes(kind: str, name: ToolName, leaves: Sequence[Leaf]) -> Iterator[Effect]:
    """Yield an effect for each host or address that a record, route or redirect would lead to."""
    if kind not in _CHANGES or name.words.isdisjoint(_ROUTING):
        return
    for leaf in leaves:
        text = _PRIORITY.sub("", leaf.text).removesuffix(".")
        if " " in text or not name_parts(leaf.argument).isdisjoint(_OWN_NAMES):
            continue
        host = text if _IP.fullmatch(text) else host_from_value(text)
        if host and not is_local_host(host):
            yield effect("routes-to", host, argument=leaf.argument, span=(0, len(leaf.text)))


def _is_for_many(kind: str, name: ToolName) -> bool:
    if kind not in _SENDS or "draft" in name.words:
        return False
    return not name.words.isdisjoint(_FOR_MANY if kind != "publishes" else _FOR_MANY | _PUBLIC_PAGES)


def _published_links(leaf: Leaf) -> Iterator[Effect]:
    """Yield the hosts of links that many will read: an answer cites its sources, a mailing leads its readers."""
    for count, seen in enumerate(chain(find_hosts(leaf.text), find_bare_hosts(leaf.text))):
        if count > _MAX_TARGETS:
            return
        yield effect("publishes-link", seen.target, argument=leaf.argument, span=(seen.start, seen.end))


def _switched_effects(kind: str, call: ToolCall, leaves: Sequence[Leaf], name: ToolName) -> Iterator[Effect]:
    for switch in find_switches(call.arguments):
        if switch.kind == "grants-access":
            if name.verb not in _TAKES_AWAY:
                yield from _aimed_effects("grants-access", leaves, name)
        elif switch.kind != "changes-permissions" or kind not in _PUBLIC_BY_NATURE:
            yield effect(switch.kind, switch.target, argument=switch.argument)


def _switched_verbs(name: ToolName, arguments: Mapping[str, object]) -> list[str]:
    """Return what switches do that are called by a verb: `send=True`, `publish_now="yes"`, `locked=False`."""
    verbs = []
    for argument, setting, value in find_settings(arguments):
        stated = value.strip().lower()
        # `post=True` is a switch, a post that says `locked=false` is none.
        if has_role(argument, "prose") and not argument.endswith(setting):
            continue
        if stated in ROLES["on"] or stated == "1":
            meanings = _WHEN_ON
        elif (stated in ROLES["off"] or stated == "0") and name.verb not in _CREATES:
            meanings = _WHEN_OFF
        else:
            continue
        words = frozenset(argument_words(setting[:_MAX_ACTION])) - _FILLERS
        if words <= meanings.keys():
            verbs += [meanings[word] for word in sorted(words)]
    return verbs


def _kinds_with_action(kind: str, name: ToolName, leaves: Sequence[Leaf], arguments: Mapping[str, object]) -> list[str]:
    """Return the kind of the action that an argument names, unless the tool's name is graver, and that of the name.

    Not that of a name that leaves it to the arguments what is done.
    """
    # Some hosts call a device's action a service: `lock.unlock`.
    is_call = name.verb in ("call", "")
    actions = [
        leaf.text
        for leaf in leaves
        if leaf.text.isascii() and (has_role(leaf.argument, "action") or (is_call and leaf.argument == "service"))
    ]
    actions = [text for text in actions[:4] if len(text) <= _MAX_ACTION]
    verbs = [word for text in actions for word in acting_words(text)] + _switched_verbs(name, arguments)
    # A state says what is done as well: a lock that is to be `unlocked`, an alarm that is to be `off`.
    verbs += filter(None, (read_tool_name(text).verb for text in actions))
    stated = gravest_kind(verbs, name.words - {name.verb})[1] if verbs else "unknown-act"
    if stated == "unknown-act" or KINDS[stated].severity < KINDS[kind].severity:
        return [kind]
    return [stated] if kind in _LEFT_TO_ARGUMENTS else [stated, kind]


def _kinds_with_approval(kind: str, name: ToolName, leaves: Sequence[Leaf]) -> list[str]:
    """Return the kind of a call, and that of what its name or an argument approves: a review with `event="APPROVE"`."""
    is_said = any(leaf_name(leaf) in _DECIDES and leaf.text.strip().lower() in _APPROVALS for leaf in leaves)
    if name.kind == "looks" or not (is_said or name.verb in _APPROVALS):
        return [kind]
    # What is approved may be told by the name of its number only: `approve` with `pull_number`.
    is_change = any(not name_parts(leaf.argument).isdisjoint(_NUMBERS_OF_CHANGES) for leaf in leaves)
    approved = gravest_kind(["approve"], name.words | {"pr"} if is_change else name.words)[1]
    if approved not in _APPROVING:
        return [kind]
    is_review = kind == "sends-message" and "review" in name.words
    is_paid = approved == "approves-payment" and not name.words.isdisjoint(_PAYMENTS)
    return [*([] if kind in _OPEN or is_review else [kind]), approved, *(["pays"] if is_paid else [])]


def _kind_with_arguments(kind: str, name: ToolName, leaves: Sequence[Leaf]) -> str:
    """Return the kind once the arguments are seen: guests make an event an invitation, an account makes a payment."""
    if kind not in _OPEN and kind != "approves-payment":
        return kind
    parts = frozenset().union(*(all_parts(leaf.argument) for leaf in leaves))
    shapes = {seen.shape for leaf in leaves if not is_prose(leaf) for seen in find_addresses_by_shape(leaf.text)}
    if Shape.ACCOUNT in shapes and not parts.isdisjoint(_AMOUNTS):
        return "pays"
    if kind == "changes-own-note":
        return _kind_of_note(name, parts, has_addresses=bool(shapes))
    return kind if kind == "approves-payment" else _kind_of_change(kind, name, leaves, parts)


def _kind_of_change(kind: str, name: ToolName, leaves: Sequence[Leaf], parts: frozenset[str]) -> str:
    if _silences_everything(name, leaves):
        return "disables-check"
    if _tracks_parcel(name, parts):
        return "looks"
    if kind == "changes-record" and not parts.isdisjoint(_LOGIN):
        return "changes-login"
    return "sends-message" if _asks_person(name, leaves) else kind


def _tracks_parcel(name: ToolName, parts: frozenset[str]) -> bool:
    is_tracking = "track" in name.words and name.verb in ("", "track")
    return is_tracking and not (parts | name.words).isdisjoint(_SHIPPED)


def _silences_everything(name: ToolName, leaves: Sequence[Leaf]) -> bool:
    return not name.words.isdisjoint(_QUIET_TIMES) and any(_EVERYTHING.fullmatch(leaf.text) for leaf in leaves)


def _asks_person(name: ToolName, leaves: Sequence[Leaf]) -> bool:
    """Return whether something is asked of a person: money, a review, a signature."""
    return name.verb == "request" and any(has_role(leaf.argument, "recipient") for leaf in leaves)


def _kind_of_note(name: ToolName, parts: frozenset[str], *, has_addresses: bool) -> str:
    if "draft" in name.words:
        return "changes-own-note"
    if not parts.isdisjoint(_INVITES):
        return "sends-message"
    return "changes-record" if has_addresses or not parts.isdisjoint(_ASSIGNS) else "changes-own-note"


def _aimed_effects(kind: str, leaves: Sequence[Leaf], name: ToolName) -> Iterator[Effect]:
    if kind in _ADDS_MEMBERS:
        leaves = _without_containers(leaves, _ROLE_OF_KIND[kind])
    elif kind == "pays":
        leaves = _without_payer(leaves) if name.words.isdisjoint(_GOES_BACK) else leaves
    certainty = Certainty.GUESS if kind == "unknown-act" else Certainty.LIKELY
    role = _ROLE_OF_KIND.get(kind, "")
    count = 0
    if KINDS[kind].severity >= Severity.REACHES_OUT:
        for leaf in leaves:
            if count > _MAX_TARGETS:
                break
            for seen in _targets_of(leaf, kind, role):
                aimed = _kind_for_shape(kind, seen)
                if aimed == "requests" and "/" not in leaf.text and not name.words.isdisjoint(NAMES_HOSTS):
                    aimed = kind
                count += aimed == kind
                yield effect(
                    aimed, seen.target, certainty=certainty, argument=leaf.argument, span=(seen.start, seen.end)
                )
    # Who names a repository has not approved its changes: such an effect has no target that a goal could excuse.
    repository = _repository(leaves) if kind not in _APPROVING else ""
    if not count:
        yield effect(kind, repository, certainty=certainty)


def _without_containers(leaves: Sequence[Leaf], role: str) -> Sequence[Leaf]:
    """Return the arguments without the group that a member is added to, where another argument names the member."""
    people = [leaf for leaf in leaves if name_parts(leaf.argument).isdisjoint(_CONTAINERS)]
    return (
        people
        if any(has_role(leaf.argument, role) or find_addresses_by_shape(leaf.text) for leaf in people)
        else leaves
    )


def _without_rooms(leaves: Sequence[Leaf]) -> Sequence[Leaf]:
    """Return the arguments of an invitation without the room that it is for; a room with an address gets the mail."""
    rooms = [leaf for leaf in leaves if name_parts(leaf.argument) & ROLES["recipient"] == {"room"}]
    plain = {leaf for leaf in rooms if "@" not in leaf.text and not find_addresses_by_shape(leaf.text)}
    return [leaf for leaf in leaves if leaf not in plain]


def _is_forwarding_rule(name: ToolName, leaves: Sequence[Leaf]) -> bool:
    """Return whether a rule for mail sends it on: by an argument of that name, or by an action that says so."""
    if name.words.isdisjoint(_RULES) or not name.words.isdisjoint(_RULES_OF_NETWORKS):
        return False
    actions = [leaf.text for leaf in leaves if not all_parts(leaf.argument).isdisjoint(_ACTION_NAMES)]
    return any(map(_forwards, leaves)) or any(_FORWARDS_IN_TEXT.match(text) for text in actions)


def _forwards(leaf: Leaf) -> bool:
    return not all_parts(leaf.argument).isdisjoint(_FORWARDS)


def _forwarding_effects(leaves: Sequence[Leaf], name: ToolName) -> Iterator[Effect]:
    """Yield who gets the mail that a rule sends on; what says which mail it is for, `from=…`, gets none."""
    acting = [leaf for leaf in leaves if _forwards(leaf) or not _is_condition(leaf)]
    boxes = [(leaf, seen) for leaf in acting for seen in find_mailboxes(leaf.text)][:_MAX_TARGETS]
    for leaf, seen in boxes:
        yield effect("grants-access", seen.target, argument=leaf.argument, span=(seen.start, seen.end))
    # Without a receiver the rule may send mail to any of its values.
    for each in _aimed_effects("grants-access", acting if boxes else leaves, name):
        if each.target or not boxes:
            yield each


def _is_condition(leaf: Leaf) -> bool:
    """Return whether a value, or one that holds it, is called a condition: `from_address`, but not `copy_sender_to`."""
    names = (frozenset(argument_words(name.partition("[")[0])) for name in leaf.argument.split("."))
    return any(words & _CONDITIONS and words <= _CONDITIONS | _BESIDE_CONDITIONS for words in names)


def _without_payer(leaves: Sequence[Leaf]) -> Sequence[Leaf]:
    """Return the arguments without the account that the money comes from, where another argument names one."""
    receiving = [leaf for leaf in leaves if not _is_payers(leaf)]
    has_account = any(
        has_role(leaf.argument, "account") or find_addresses_by_shape(leaf.text)
        for leaf in receiving
        if leaf.text.strip() and not is_prose(leaf)
    )
    return receiving if has_account else leaves


def _is_payers(leaf: Leaf) -> bool:
    parts = all_parts(leaf.argument)
    is_source = not parts.isdisjoint(_FROM) and not parts.isdisjoint(_ACCOUNTS)
    return (is_source or not parts.isdisjoint(_PAYER)) and parts.isdisjoint(_PAYEE)


def _kind_for_shape(kind: str, seen: Seen) -> str:
    if seen.shape is not Shape.HOST or kind in _GOES_TO_HOST:
        return kind
    return "asks-local" if is_local_host(seen.target) else "requests"


def _targets_of(leaf: Leaf, kind: str, role: str) -> list[Seen]:
    shaped = find_addresses_by_shape(leaf.text)
    if shaped and not is_prose(leaf):
        return shaped
    text = leaf.text.strip()
    if not text or len(text) > _MAX_TARGET or "\n" in text:
        return []
    if sink_from_argument(leaf.argument) == "url" and host_from_value(text):
        return [Seen(Shape.HOST, host_from_value(text), 0, len(leaf.text))]
    if role and has_role(leaf.argument, role):
        return shaped or _named_target(leaf, kind, text)
    if kind in _NAMES_EVERYTHING and not is_prose(leaf) and not has_role(leaf.argument, "action"):
        return [Seen(Shape.NAME, text, 0, len(leaf.text))]
    return []


def _named_target(leaf: Leaf, kind: str, text: str) -> list[Seen]:
    """Return a target that is given by its name; an account may stand behind its kind, as in `wallet:0x5f…`."""
    if kind != "pays":
        return [Seen(Shape.NAME, text, 0, len(leaf.text))]
    at = leaf.text.find(text)
    account = text[account_start(text) :]
    if not name_parts(leaf.argument).isdisjoint(_VAGUE) and not any(sign.isdigit() or sign == "@" for sign in account):
        return []
    return [Seen(Shape.NAME, account, at + len(text) - len(account), at + len(text))]


def _repository(leaves: Sequence[Leaf]) -> str:
    named = {leaf.argument: leaf.text for leaf in leaves if leaf.argument in ("owner", "repo")}
    return f"{named['owner']}/{named['repo']}"[:_MAX_TARGET] if len(named) == 2 else ""
