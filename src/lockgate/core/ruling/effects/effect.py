"""What a tool call would do, as values: kinds of effects, how grave each is, and what it is aimed at.

Provenance says where the words of a call came from; an effect says what happens when the call runs. A ruling needs
both. Every kind stands in one table, `KINDS`, from which the reference page and its tests are made.
"""

from __future__ import annotations

from typing import NamedTuple

from lockgate.core.tables import read_sections
from lockgate.core.vocabulary import Certainty as Certainty
from lockgate.core.vocabulary import Effect as Effect
from lockgate.core.vocabulary import Severity as Severity


class EffectKind(NamedTuple):
    """One kind of effect: its severity, and what it does in words.

    `does` completes the sentence "this call …"; `{target}` stands for the target. `by_target` says of a kind that
    reaches out whether it is enough that untrusted text names the target: a link in a page is there to be followed, an
    account is not there to be paid.
    """

    severity: Severity
    does: str
    by_target: bool = False


def effect(
    kind: str,
    target: str = "",
    *,
    certainty: Certainty = Certainty.SURE,
    argument: str = "",
    span: tuple[int, int] = (0, 0),
) -> Effect:
    """Return an effect with the severity of its kind."""
    return Effect(kind, KINDS[kind].severity, target, certainty, argument, *span)


def _read_phrases(file: str) -> dict[str, tuple[str, ...]]:
    sections = read_sections(__package__, file)
    return {name: tuple(phrase for line in lines for phrase in line.split(", ")) for name, lines in sections.items()}


# By kind, the phrases by which a goal asks for it; the file says how.
ASKED_BY = _read_phrases("asked_by.txt")

_LOOKS, _HERE, _OUT, _DOOR = Severity.LOOKS, Severity.WORKS_HERE, Severity.REACHES_OUT, Severity.OPENS_A_DOOR

KINDS: dict[str, EffectKind] = {
    # 0 looks
    "looks": EffectKind(_LOOKS, "only looks"),
    # 1 works here
    "edits-project": EffectKind(_HERE, "changes `{target}` in the project"),
    "writes-scratch": EffectKind(_HERE, "writes the scratch file `{target}`"),
    "makes-folder": EffectKind(_HERE, "makes the empty folder `{target}`"),
    "runs-project-task": EffectKind(_HERE, "runs `{target}`, a task of the project"),
    "installs-known-package": EffectKind(_HERE, "installs what the project names, or a common developer tool"),
    "commits": EffectKind(_HERE, "records changes in the local repository"),
    "computes": EffectKind(_HERE, "runs a few lines of code that stay in the project"),
    "asks-local": EffectKind(_HERE, "asks a server on this machine, `{target}`"),
    "downloads-file": EffectKind(_HERE, "saves what it downloads or decodes as `{target}`"),
    "changes-own-note": EffectKind(_HERE, "keeps a note, task or label of the user's own"),
    # 2 reaches out or stays
    "requests": EffectKind(_OUT, "sends a request to `{target}`"),
    "sends-data": EffectKind(_OUT, "sends data to `{target}`", by_target=True),
    "installs-package": EffectKind(_OUT, "installs `{target}`, which no manifest names", by_target=True),
    "adds-dependency": EffectKind(_OUT, "makes the project depend on `{target}`", by_target=True),
    "uses-package-source": EffectKind(_OUT, "installs packages from `{target}`", by_target=True),
    "clones": EffectKind(_OUT, "fetches a repository from `{target}`", by_target=True),
    "pushes": EffectKind(_OUT, "pushes to `{target}`", by_target=True),
    "changes-remote": EffectKind(_OUT, "points the repository at `{target}`", by_target=True),
    "signs-as": EffectKind(_OUT, "records commits in the name of `{target}`", by_target=True),
    "opens-port": EffectKind(_OUT, "lets other machines connect to `{target}`"),
    "sends-message": EffectKind(_OUT, "sends a message to `{target}`", by_target=True),
    "publishes": EffectKind(_OUT, "publishes `{target}`"),
    "publishes-link": EffectKind(_OUT, "leads many readers to `{target}`", by_target=True),
    "shares": EffectKind(_OUT, "shares something with `{target}`", by_target=True),
    "pays": EffectKind(_OUT, "moves money to `{target}`", by_target=True),
    "approves-payment": EffectKind(_OUT, "approves money that others ask for"),
    "orders": EffectKind(_OUT, "orders or books `{target}`"),
    "changes-record": EffectKind(_OUT, "changes a record, `{target}`"),
    "deletes-record": EffectKind(_OUT, "deletes `{target}`"),
    "discards-work": EffectKind(_OUT, "throws away work that is nowhere else, `{target}`"),
    "changes-service": EffectKind(_OUT, "changes the running service `{target}`"),
    "embeds-remote-code": EffectKind(_OUT, "makes the project load code from `{target}`", by_target=True),
    "embeds-address": EffectKind(_OUT, "makes the project connect to `{target}`", by_target=True),
    "shows-remote-content": EffectKind(_OUT, "makes its readers load something from `{target}`", by_target=True),
    "weakens-setting": EffectKind(_OUT, "writes a setting, `{target}`, that protects less", by_target=True),
    "logs-in": EffectKind(_OUT, "logs in as `{target}`"),
    "routes-to": EffectKind(_OUT, "leads visitors or mail to `{target}`", by_target=True),
    "instructs-agent": EffectKind(_OUT, "gives another agent its orders"),
    "runs-program": EffectKind(_OUT, "runs `{target}`, a program that Lockgate does not know"),
    "unknown-act": EffectKind(_OUT, "does something that Lockgate cannot tell"),
    # 3 opens a door
    "runs-download": EffectKind(_DOOR, "runs what it downloads from `{target}`"),
    "runs-decoded": EffectKind(_DOOR, "runs text that it decodes first"),
    "reads-own-token": EffectKind(_DOOR, "reads `{target}`, where Lockgate keeps its tokens and keys"),
    "changes-own-state": EffectKind(_DOOR, "changes `{target}`, where Lockgate keeps its state"),
    "changes-own-guard": EffectKind(_DOOR, "changes `{target}`, which Lockgate rests on"),
    "asks-own-service": EffectKind(_DOOR, "asks `{target}`, where Lockgate's own service answers a person"),
    "reads-secret": EffectKind(_DOOR, "reads the secret `{target}`"),
    "sends-secret": EffectKind(_DOOR, "sends the secret `{target}` away"),
    "writes-startup-file": EffectKind(_DOOR, "changes `{target}`, which runs at every start"),
    "schedules-job": EffectKind(_DOOR, "makes a command run later by itself"),
    "installs-hook": EffectKind(_DOOR, "changes `{target}`, which tools run by themselves"),
    "changes-pipeline": EffectKind(_DOOR, "changes `{target}`, which the build server runs"),
    "changes-agent-file": EffectKind(_DOOR, "changes `{target}`, which agents obey"),
    "grants-access": EffectKind(_DOOR, "gives `{target}` access"),
    "makes-key": EffectKind(_DOOR, "makes a key that lets `{target}` in"),
    "changes-permissions": EffectKind(_DOOR, "changes who may use `{target}`"),
    "disables-check": EffectKind(_DOOR, "switches off `{target}`, which protects"),
    "changes-login": EffectKind(_DOOR, "changes how `{target}` logs in"),
    "writes-outside": EffectKind(_DOOR, "writes `{target}`, outside the project"),
    "deletes-outside": EffectKind(_DOOR, "deletes `{target}`, outside the project"),
    "deletes-data": EffectKind(_DOOR, "destroys the data in `{target}`"),
    "rewrites-history": EffectKind(_DOOR, "rewrites history that others share, `{target}`"),
    "deletes-branch": EffectKind(_DOOR, "deletes branches or tags that others share, `{target}`"),
    "approves-change": EffectKind(_DOOR, "approves or merges a change of others"),
    "runs-as-root": EffectKind(_DOOR, "runs with the rights of the administrator"),
    "unreadable": EffectKind(_DOOR, "runs a command that Lockgate cannot read"),
}
# Kinds that spend the user's money: the goal has to ask for them, whatever they are aimed at.
SPENDS = frozenset({"pays", "approves-payment"})
