"""Finds one ruling by an id of any kind, and prints its story: `lockgate explain ID`."""

from __future__ import annotations

import argparse
import re
from time import time
from typing import TYPE_CHECKING

from rich.text import Text

from lockgate import assemble
from lockgate.cli.approvals import print_behind_bar, print_json, spell_out
from lockgate.cli.audit.open_log import log_from_args
from lockgate.cli.audit.show import named_records
from lockgate.cli.exit_codes import Exit
from lockgate.cli.ruling_story import (
    Story,
    place_text,
    story_from_approval,
    story_from_incident,
    story_from_record,
    story_from_ruling,
)
from lockgate.cli.terminal import make_console, make_visible
from lockgate.core.errors import InvalidConfig, LockgateError, quoted
from lockgate.core.requests.strikes import is_incident_id
from lockgate.core.vocabulary import SCHEMA
from lockgate.journal.record_search import NEAR, joined_records, read_rows, record_at, record_from_row

if TYPE_CHECKING:
    from lockgate.core.ruling.approvals import Approval
    from lockgate.core.vocabulary import Receipt
    from lockgate.journal.log import Snapshot
    from lockgate.journal.record_search import StoredRecord
    from lockgate.settings.config import Settings

_DECISION = re.compile("d[0-9a-f]{16}")
_INDEX = re.compile("[0-9]{1,12}")
_APPROVAL = re.compile("[0-9a-z]{4,64}")
_HINT = "the page, the API, `lockgate approvals list --all` and `lockgate audit show` name them"


def explain_ruling(args: argparse.Namespace) -> Exit:
    """Print the story of the ruling that `args.what` names."""
    story, is_sound = _find_story(args)
    if args.json:
        print_json({"schema": SCHEMA, **story.as_dict(), "sound": is_sound})
    else:
        _draw(story)
    return Exit.CLEAR if is_sound else Exit.FLAGGED


def _find_story(args: argparse.Namespace) -> tuple[Story, bool]:
    id = args.what
    if is_incident_id(id) or _INDEX.fullmatch(id):
        try:
            return _from_journal(args)
        except LockgateError:
            # What is no record may be the beginning of a question's id: one in forty begins with eight digits.
            if args.log or not _APPROVAL.fullmatch(id):
                raise
            approval = _find_approval(assemble.settings_from_environment(args.config), id)
            if approval is None:
                raise
            return story_from_approval(approval), True
    if args.log:
        raise LockgateError(
            f"a journal knows no {quoted(id)}", hint="with --log name an incident, or the index of a record"
        )
    settings = assemble.settings_from_environment(args.config)
    if _DECISION.fullmatch(id) and (found := _from_store(settings, args)) is not None:
        return found
    if _APPROVAL.fullmatch(id) and (approval := _find_approval(settings, id)) is not None:
        return story_from_approval(approval), True
    if _DECISION.fullmatch(id) or re.fullmatch("[0-9a-f]{4,64}", id):
        raise LockgateError(f"there is no ruling {quoted(id)} here", hint=_HINT)
    raise LockgateError(
        f"{quoted(id)} is no id of a ruling",
        hint=f"{_HINT}; what a call would do is explained by `lockgate explain TOOL ARGUMENTS`",
    )


def _from_store(settings: Settings, args: argparse.Namespace) -> tuple[Story, bool] | None:
    from lockgate.sessions.host import ruling_or_damaged

    try:
        store = assemble.sessions_from_settings(settings)
    except InvalidConfig:
        return None
    try:
        found = store.ruling(args.what)
        if found is None:
            return None
        kept = ruling_or_damaged(*found)
        session = store.session(kept.session)
    finally:
        store.close()
    named = kept.decision.approval
    approval = _find_approval(settings, named) if named else None
    # A session's goal may have changed since.
    goal = approval.pending.shown.goal if approval is not None else ""
    record, is_sound = _record_text(args, kept.decision.receipt)
    return story_from_ruling(kept, goal or (session.goal if session is not None else ""), approval, record), is_sound


def _find_approval(settings: Settings, id: str) -> Approval | None:
    if settings.state_dir is None:
        return None
    store = assemble.approvals_from_settings(settings)
    ids = store.find(id)
    if len(ids) > 1:
        raise LockgateError(f"{quoted(id)} could be {', '.join(map(quoted, ids))}", hint="type more of it")
    return store.get(ids[0], time()) if ids else None


def _record_text(args: argparse.Namespace, receipt: Receipt | None) -> tuple[str, bool]:
    """Return how a ruling stands in the journal, and whether its record is as it was written."""
    if receipt is None:
        return "not in the journal, which was off or failed then", True
    place = f"{receipt.origin} {receipt.index}"
    try:
        with log_from_args(args).reading() as view:
            found = record_at(view, receipt.origin, receipt.index)
    except LockgateError as error:
        return f"{place}; the journal cannot be read: {error.message}", True
    if found is None:
        return f"{place}, which was deleted or is gone; lockgate audit verify tells which", True
    if found.wrong or found.leaf != receipt.leaf_hash:
        return f"{place}, which is NOT as it was written; see lockgate audit verify", False
    return place_text(found), True


def _from_journal(args: argparse.Namespace) -> tuple[Story, bool]:
    named: int | str = args.what if is_incident_id(args.what) else int(args.what)
    with log_from_args(args).reading() as view:
        found = named_records(view, named, "")[0]
        if found.wrong:
            # The attacker who changed it wants its story to be told.
            raise LockgateError(f"record {found.at} cannot be told: {found.wrong}", hint="see lockgate audit verify")
        kind = found.fields["kind"]
        if kind == "assess":
            return story_from_incident(args.what, found, joined_records(view, found)), True
        if kind != "ruling":
            raise LockgateError(f"record {named} is no ruling but of kind {kind}", hint=f"lockgate audit show {named}")
        later = _records_of_question(view, found)
    named = str(found.fields["approval"])
    settings = None if args.log or not named else assemble.settings_from_environment(args.config)
    approval = _find_approval(settings, named) if settings is not None else None
    if approval is not None and approval.pending.tool == found.fields["tool"]:
        return story_from_approval(approval, place_text(found)), True
    return story_from_record(found, later), True


def _records_of_question(view: Snapshot, ruling: StoredRecord) -> list[StoredRecord]:
    """Return the records of what became of the question that a ruling led to, the oldest first."""
    named = str(ruling.fields["approval"])
    shard = next(each for each in view.shards() if each.origin == ruling.origin)
    if not named:
        return []
    rows = read_rows(view, shard, ruling.at + 1, ruling.at + NEAR)
    found = [record_from_row(shard, at, leaf, data) for at, leaf, data in rows if data and named.encode() in data]
    return [each for each in found if each.fields.get("kind") == "approval" and each.fields["approval"] == named]


def _draw(story: Story) -> None:
    screen = make_console()
    head = Text.assemble((make_visible(story.id), "bold"), f"  {make_visible(story.outcome)}")
    screen.print(head, soft_wrap=True)
    passes = [("passes if", text) for text in story.passes_if]
    for label, text in (*story.lines, *passes, ("grant", story.grant)):
        print_behind_bar(screen, label, [spell_out(text)])
