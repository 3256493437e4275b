"""What a tool call would do, as values: kinds of effects, how grave each is, and what it is aimed at.

Provenance says where the words of a call came from; an effect says what happens when the call runs. A ruling needs
both. Every kind is a row of `kinds.tbl`, from which the reference page and its tests are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lockgate.core.tables import read_sections, read_table
from lockgate.core.vocabulary import Certainty as Certainty
from lockgate.core.vocabulary import Effect as Effect
from lockgate.core.vocabulary import Severity as Severity


class EffectKind(NamedTuple):
    """One kind of effect, as a row of `kinds.tbl` says it."""

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


# By kind, the phrases by which a goal asks for it; the file says how.
_PHRASES = read_sections(__package__, "asked_by.txt")
ASKED_BY = {kind: tuple(", ".join(lines).split(", ")) for kind, lines in _PHRASES.items()}
_SEVERITIES = dict(zip(("looks", "here", "out", "door"), Severity, strict=True))
KINDS = {
    kind: EffectKind(_SEVERITIES[severity], words, by_target == "target")
    for kind, severity, by_target, words in read_table(
        __package__, "kinds.tbl", "kinds", ("kind", "severity", "by target", "in words")
    )
}
# Kinds that spend the user's money: the goal has to ask for them, whatever they are aimed at.
SPENDS = frozenset({"pays", "approves-payment"})

# What a session has done so far, as far as later effects depend on it.

MAX_PATHS = 1024
_WRITES = frozenset(
    "edits-project writes-scratch writes-outside writes-startup-file installs-hook changes-pipeline"
    " changes-agent-file".split()
)


class Activity(NamedTuple):
    """The paths that earlier calls of a session downloaded or wrote, as the calls spelled them.

    `is_full` says that there were more than are kept: then any file may be one of them.
    """

    downloaded: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()
    is_full: bool = False

    def after(self, effects: Sequence[Effect]) -> Activity:
        """Return the activity with what these effects leave behind."""
        written = {entry.target for entry in effects if entry.kind in _WRITES and entry.target}
        fetched = {entry.target for entry in effects if entry.kind == "downloads-file" and entry.target}
        if written <= self.written and fetched <= self.downloaded:
            return self
        downloaded, all_written = self.downloaded | fetched, self.written | written
        if len(downloaded) > MAX_PATHS or len(all_written) > MAX_PATHS:
            return self._replace(is_full=True)
        return self._replace(downloaded=downloaded, written=all_written)


NO_ACTIVITY = Activity()
