"""What one session keeps for later ones, and finds of earlier ones: texts and files that came from untrusted text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING

from lockgate.core.errors import LockgateError
from lockgate.core.ruling import carried_text
from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.context import CarriedFrom, Context
from lockgate.core.ruling.effects.activity import Change
from lockgate.core.ruling.effects.effects_of_call import effects_of, files_of
from lockgate.core.text.scanner import Scanner
from lockgate.core.vocabulary import Decision, Risk, Severity, ToolCall
from lockgate.runtime.failures import report_failure

if TYPE_CHECKING:
    from lockgate.gate.ruler import CarriedTexts

# What the user and the host say themselves is theirs, whatever it repeats; a page has its words from no session.
_SPOKEN = frozenset({"goal", "supervisor", "system", "user", "web"})
_MAX_VALUE, _MAX_ASKED = 400, 64 * 1024
# A call without one of these downloads nothing that a rule could tell.
_FETCHING = re.compile(
    r"://|\b(?:aria2c|curl|curlie|decode|download|fetch|ftp|gh|http|https|iwr|rsync|save|scp|sftp|wget|xh)\b",
    re.IGNORECASE,
)


class CarriedMemory:
    """The gate's store of carried texts, as one session uses it; the lock is that of the session's context."""

    def __init__(self, store: CarriedTexts, session: str, context: Context, scanner: Scanner, lock: Lock) -> None:
        self._store, self._session, self._context, self._scanner, self._lock = store, session, context, scanner, lock
        # Files that count as read here.
        self._added: set[str] = set()

    def find(self, content: str, source: str) -> CarriedFrom | None:
        """Return where a text comes from that an agent carried over from an earlier session; None for any other.

        An agent's own words are kept here for later sessions, as far as they come from untrusted text.
        """
        store, speaker, project = self._store, source.partition(":")[0], self._context.project
        if speaker in _SPOKEN:
            return None
        try:
            if speaker == "agent" and self._context.readings:
                with self._lock:
                    derived = carried_text.find_derived_note(self._context, content, self._scanner)
                if derived is not None:
                    store.keep(derived._replace(session=self._session))
            if not (words := store.words()):
                return None
            with self._lock:
                asked, folder = self._context.asked_for(source), project.folder or project.root
                places = carried_text.list_places(source, asked, folder)
                hashes = carried_text.hashes_to_look_up(self._context, content, words, places)
            hits = store.find(hashes) if hashes else ()
            return carried_text.weigh_hits(hits, source=source, asked=asked, session=self._session, folder=folder)
        except LockgateError as error:
            report_failure("carried-texts", error)
            # It may be one of them.
            return CarriedFrom("unknown", 0.0, is_firm=True, is_ordered=False)

    def keep(self, call: ToolCall, leaves: Sequence[Leaf], decision: Decision, changes: Sequence[Change]) -> None:
        """Keep what a call writes from untrusted text, also where it is held: a person may let it run elsewhere."""
        store, effects, project = self._store, decision.effects, self._context.project
        if decision.risk is Risk.LOW:
            return
        folder = call.folder or project.folder or project.root
        places = carried_text.list_places("", " ".join(leaf.text[:_MAX_VALUE] for leaf in leaves), folder)
        try:
            marks = carried_text.hashes_of_marks(places, store.words())
            copied_from = carried_text.find_marked_source(store.find(marks), places) if marks else ""
            if not (effects or copied_from or self._context.readings or _may_fetch(leaves)):
                return
            with self._lock:
                # Tier 1 has not looked at them where nothing untrusted is recent.
                effects = effects or effects_of(call, project, self._context.activity, leaves=leaves)
                texts = carried_text.find_derived(
                    self._context, leaves, effects, self._scanner, folder=folder, copied_from=copied_from
                )
                texts += carried_text.mark_acting_files(self._context, changes)
            for text in texts:
                store.keep(text._replace(session=self._session))
        except LockgateError as error:
            report_failure("carried-texts", error)

    def find_run(self, call: ToolCall, leaves: Sequence[Leaf]) -> dict[str, CarriedFrom]:
        """Return the files that a call runs, that an earlier session wrote from untrusted text, and that do much.

        What they hold is unknown from now on, unless the host can show them. Each file is returned once.
        """
        store, project = self._store, self._context.project
        folder, asked = call.folder or project.folder or project.root, " ".join(leaf.text for leaf in leaves)
        try:
            places = carried_text.list_places("", asked[:_MAX_ASKED], folder) + carried_text.list_loaded(asked)
            marks = carried_text.hashes_of_marks(places, store.words())
            hits = carried_text.find_carried_files(store.find(marks)) if marks else {}
        except LockgateError as error:
            report_failure("carried-texts", error)
            with self._lock:
                # Any file may be one of them.
                self._context.activity = self._context.activity._replace(is_full=True)
            return {}
        if not hits:
            return {}
        with self._lock:
            activity = self._context.activity = self._context.activity.carrying([*hits])
            run = {activity.resolve(project.full_path(path)) for path in files_of(call, project, activity)[0]}
            found = run & hits.keys() - self._added
            if not found or all(found.severity < Severity.REACHES_OUT for found in effects_of(call, project, activity)):
                return {}
        self._added |= found
        return {path: CarriedFrom(hits[path].source, hits[path].at_s, is_firm=True, is_ordered=False) for path in found}


def _may_fetch(leaves: Sequence[Leaf]) -> bool:
    return any(_FETCHING.search(leaf.text) is not None for leaf in leaves)
