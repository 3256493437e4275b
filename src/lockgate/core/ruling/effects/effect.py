"""What a tool call would do, as values: kinds of effects, how grave each is, and what it is aimed at.

Provenance says where the words of a call came from; an effect says what happens when the call runs. A ruling needs
both. Every kind stands in one table, `KINDS`, from which the reference page and its tests are made.
"""

from __future__ import annotations

from typing import NamedTuple

from lockgate.core.vocabulary import Certainty as Certainty
from lockgate.core.vocabulary import Effect as Effect
from lockgate.core.vocabulary import Severity as Severity
from lockgate.core.word_lists import read_sections


class Kind(NamedTuple):
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


# By kind, the words by which a goal asks for it; with a star, the beginning of words.
ASKED_BY = read_sections(__package__, "asked_by.txt")

_LOOKS, _HERE, _OUT, _DOOR = Severity.LOOKS, Severity.WORKS_HERE, Severity.REACHES_OUT, Severity.OPENS_A_DOOR

KINDS: dict[str, Kind] = {
    # 0 looks
    "looks": Kind(_LOOKS, "only looks"),
    # 1 works here
    "edits-project": Kind(_HERE, "changes `{target}` in the project"),
    "writes-scratch": Kind(_HERE, "writes the scratch file `{target}`"),
    "runs-project-task": Kind(_HERE, "runs `{target}`, a task of the project"),
    "installs-known-package": Kind(_HERE, "installs what the project names, or a common developer tool"),
    "commits": Kind(_HERE, "records changes in the local repository"),
    "computes": Kind(_HERE, "runs a few lines of code that stay in the project"),
    "asks-local": Kind(_HERE, "asks a server on this machine, `{target}`"),
    "changes-own-note": Kind(_HERE, "keeps a note, task or label of the user's own"),
    # 2 reaches out or stays
    "requests": Kind(_OUT, "sends a request to `{target}`"),
    "sends-data": Kind(_OUT, "sends data to `{target}`", by_target=True),
    "installs-package": Kind(_OUT, "installs `{target}`, which no manifest names", by_target=True),
    "uses-package-source": Kind(_OUT, "installs packages from `{target}`", by_target=True),
    "clones": Kind(_OUT, "fetches a repository from `{target}`", by_target=True),
    "pushes": Kind(_OUT, "pushes to `{target}`", by_target=True),
    "changes-remote": Kind(_OUT, "points the repository at `{target}`", by_target=True),
    "opens-port": Kind(_OUT, "lets other machines connect to `{target}`"),
    "sends-message": Kind(_OUT, "sends a message to `{target}`", by_target=True),
    "publishes": Kind(_OUT, "publishes `{target}`"),
    "shares": Kind(_OUT, "shares something with `{target}`", by_target=True),
    "pays": Kind(_OUT, "moves money to `{target}`", by_target=True),
    "orders": Kind(_OUT, "orders or books `{target}`"),
    "changes-record": Kind(_OUT, "changes a record, `{target}`"),
    "deletes-record": Kind(_OUT, "deletes `{target}`"),
    "changes-service": Kind(_OUT, "changes the running service `{target}`"),
    "embeds-remote-code": Kind(_OUT, "makes the project load code from `{target}`", by_target=True),
    "embeds-address": Kind(_OUT, "makes the project connect to `{target}`", by_target=True),
    "shows-remote-content": Kind(_OUT, "makes its readers load something from `{target}`", by_target=True),
    "logs-in": Kind(_OUT, "logs in as `{target}`"),
    "instructs-agent": Kind(_OUT, "gives another agent its orders"),
    "runs-program": Kind(_OUT, "runs `{target}`, a program that Lockgate does not know"),
    "unknown-act": Kind(_OUT, "does something that Lockgate cannot tell"),
    # 3 opens a door
    "runs-download": Kind(_DOOR, "runs what it downloads from `{target}`"),
    "runs-decoded": Kind(_DOOR, "runs text that it decodes first"),
    "reads-secret": Kind(_DOOR, "reads the secret `{target}`"),
    "sends-secret": Kind(_DOOR, "sends the secret `{target}` away"),
    "writes-startup-file": Kind(_DOOR, "changes `{target}`, which runs at every start"),
    "schedules-job": Kind(_DOOR, "makes a command run later by itself"),
    "installs-hook": Kind(_DOOR, "changes `{target}`, which tools run by themselves"),
    "changes-pipeline": Kind(_DOOR, "changes `{target}`, which the build server runs"),
    "changes-agent-file": Kind(_DOOR, "changes `{target}`, which agents obey"),
    "grants-access": Kind(_DOOR, "gives `{target}` access"),
    "changes-permissions": Kind(_DOOR, "changes who may use `{target}`"),
    "disables-check": Kind(_DOOR, "switches off `{target}`, which protects"),
    "changes-login": Kind(_DOOR, "changes how `{target}` logs in"),
    "writes-outside": Kind(_DOOR, "writes `{target}`, outside the project"),
    "deletes-outside": Kind(_DOOR, "deletes `{target}`, outside the project"),
    "deletes-data": Kind(_DOOR, "destroys the data in `{target}`"),
    "rewrites-history": Kind(_DOOR, "rewrites history that others share, `{target}`"),
    "runs-as-root": Kind(_DOOR, "runs with the rights of the administrator"),
    "unreadable": Kind(_DOOR, "runs a command that Lockgate cannot read"),
}
