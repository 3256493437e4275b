"""`lockgate audit show`: records for people, one per line, and for programs, one JSON object each.

An attacker who can write the log can write any record, so every name is made visible. Only `lockgate audit verify`
proves records; here a record is marked as changed if it does not match the leaf beside it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from shlex import quote as shell_quote
from time import sleep, time
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

import lockgate
from lockgate.cli.audit.open_log import choose_shard, log_from_args, read_body
from lockgate.cli.exit_codes import Exit
from lockgate.cli.terminal import excerpt, format_count, make_console, make_visible
from lockgate.cli.times import format_time, parse_since
from lockgate.core.errors import LockgateError, quoted, suggest_closest
from lockgate.core.requests.strikes import incident_time_ms
from lockgate.core.vocabulary import Action, Reason
from lockgate.journal.ocsf import finding_from_record
from lockgate.journal.record import KINDS, label
from lockgate.journal.record_search import (
    END,
    NEAR,
    StoredRecord,
    end_of_bodies,
    find_incident,
    joined_records,
    read_rows,
    record_from_row,
    shared_ids,
)

if TYPE_CHECKING:
    from rich.console import Console

    from lockgate.journal.log import Shard, Snapshot

_CHUNK = 1024
_DEFAULT_LIMIT = 100
FOLLOW_S = 0.5
_COLOURS = {"CONTINUE": "green", "REORIENT": "yellow", "PAUSE": "red"}
_LABEL = 15
_Print = Callable[..., None]


class RecordFilter(NamedTuple):
    """Which records to show; an empty field matches all."""

    session: str = ""
    tool: str = ""
    action: str = ""
    reason: str = ""
    rule: str = ""
    kind: str = ""
    since_ms: int = 0
    until_ms: int = 0

    def matches(self, found: StoredRecord) -> bool:
        fields = found.fields
        if found.wrong:
            # An unreadable record may be one that was asked for.
            return True
        ts_ms = fields["ts_ms"]
        if not isinstance(ts_ms, int) or ts_ms < self.since_ms or (self.until_ms and ts_ms >= self.until_ms):
            return False
        named = (("session", self.session), ("tool", self.tool))
        if any(asked and fields.get(name) not in (asked, label(asked)) for name, asked in named):
            return False
        exact = (("action", self.action), ("reason", self.reason), ("kind", self.kind))
        if any(asked and fields.get(name) != asked for name, asked in exact):
            return False
        rules = fields.get("rules")
        return not self.rule or (isinstance(rules, list) and self.rule in rules)


def _records_between(view: Snapshot, shard: Shard, start: int, stop: int) -> Iterator[StoredRecord]:
    for at, leaf, data in read_rows(view, shard, start, stop):
        if data is not None:
            yield record_from_row(shard, at, leaf, data)


def all_records(view: Snapshot, wanted: RecordFilter, after: Mapping[int, int] | None = None) -> Iterator[StoredRecord]:
    """Yield matching records, the oldest first, after these indexes of each shard."""
    for shard in view.shards():
        for found in _records_between(view, shard, (after or {}).get(shard.number, -1) + 1, END):
            if wanted.matches(found):
                yield found


def newest_records(view: Snapshot, wanted: RecordFilter, limit: int) -> list[StoredRecord]:
    """Return the newest matching records, the oldest first; read only the end of a long log."""
    kept: list[StoredRecord] = []
    for shard in reversed(view.shards()):
        stop = end_of_bodies(view, shard)
        while stop > 0 and len(kept) < limit:
            start = max(0, stop - _CHUNK)
            stored = list(_records_between(view, shard, start, stop))
            for found in reversed(stored):
                if wanted.matches(found) and len(kept) < limit:
                    kept.append(found)
            # Pruning leaves long ranges without a body, and a forged index may be anywhere.
            stop = start if stored else end_of_bodies(view, shard, start)
    return kept[::-1]


def last_indexes(view: Snapshot) -> dict[int, int]:
    """Return the last index of each shard that has a record."""
    return {shard.number: end_of_bodies(view, shard) - 1 for shard in view.shards()}


# The command


def show(args: argparse.Namespace) -> Exit:
    wanted = _filter_from_args(args)
    log = log_from_args(args)
    shown = _RecordPrinter(args)
    with log.reading() as view:
        after = last_indexes(view) if args.follow else {}
        for found in _records_to_show(view, wanted, args):
            shown(found, joined_records(view, found) if args.records and not args.format else [])
    while args.follow:
        sys.stdout.flush()
        sleep(FOLLOW_S)
        with log.reading() as view:
            before, after = after, last_indexes(view)
            for found in all_records(view, wanted, before):
                shown(found)
    return shown.finish()


def _records_to_show(view: Snapshot, wanted: RecordFilter, args: argparse.Namespace) -> Iterable[StoredRecord]:
    if args.records:
        return (found for named in args.records for found in named_records(view, named, args.shard))
    limit = (0 if args.json or args.format else _DEFAULT_LIMIT) if args.limit is None else args.limit
    return newest_records(view, wanted, limit) if limit else all_records(view, wanted)


def named_records(view: Snapshot, named: int | str, origin: str) -> list[StoredRecord]:
    """Return the record at an index, or the records of an incident; raise if there is none."""
    if isinstance(named, int):
        shard = choose_shard(view, origin)
        return [record_from_row(shard, named, _leaf_at(view, shard, named), read_body(view, shard, named))]
    if found := find_incident(view, named):
        return found
    raise LockgateError(
        f"there is no record of incident {quoted(named)}, which was made on {format_time(incident_time_ms(named))}",
        hint="another log may have it (--log), or it was deleted; `lockgate audit show --kind assess` lists requests",
    )


def _leaf_at(view: Snapshot, shard: Shard, index: int) -> bytes:
    return next((leaf for _, leaf in view.leaves(shard.number, index, index + 1)), b"")


class _RecordPrinter:
    """Print records in the chosen form, and count those that were changed or cannot be read."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._for_people = not (args.json or args.format)
        self._print = (
            screen_printer(whole=bool(args.records))
            if self._for_people
            else line_printer(ocsf_line if args.format else json_line)
        )
        self.count = self.changed = self.unreadable = 0

    def __call__(self, found: StoredRecord, joined: Sequence[StoredRecord] = ()) -> None:
        self.count += 1
        self.changed += found.changed
        self.unreadable += bool(found.wrong) and not found.changed
        self._print(found, joined)

    def finish(self) -> Exit:
        if not self.count and self._for_people:
            print("no such record")
        sys.stdout.flush()
        for count, what in ((self.changed, "changed since recording"), (self.unreadable, "cannot be read")):
            if count:
                said = f"lockgate: warning: {format_count(count, 'record')} {what}; see lockgate audit verify"
                print(said, file=sys.stderr)
        return Exit.FLAGGED if self.changed or self.unreadable else Exit.CLEAR


def _filter_from_args(args: argparse.Namespace) -> RecordFilter:
    words = (
        ("action", args.action, [each.value for each in Action]),
        ("reason", args.reason, [each.value for each in Reason]),
        ("kind", args.kind, list(KINDS)),
    )
    for name, given, known in words:
        # Assessed requests have reasons of their own, and that list is open.
        if given and given not in known and not (name == "reason" and args.kind == "assess"):
            hint = suggest_closest(given, known) or f"use {', '.join(known)}"
            raise LockgateError(f"unknown {name} {quoted(given)}", hint=hint)
    if args.json and args.format:
        raise LockgateError("--json and --format cannot both be had", hint="OCSF events are JSON, too")
    filters = (args.session, args.tool, args.action, args.reason, args.rule, args.kind, args.since, args.until)
    if args.records and (any(filters) or args.follow or args.limit is not None):
        raise LockgateError("an INDEX leaves nothing to filter or follow", hint="leave the one or the other out")
    if args.shard and int not in map(type, args.records):
        raise LockgateError("--shard has no effect without an INDEX")
    now = time()
    since, until = (0.0 if text is None else parse_since(text, now) for text in (args.since, args.until))
    return RecordFilter(
        args.session, args.tool, args.action, args.reason, args.rule, args.kind, int(since * 1000), int(until * 1000)
    )


# For programs


def line_printer(written: Callable[[StoredRecord, Sequence[StoredRecord]], str]) -> _Print:
    def show(found: StoredRecord, joined: Sequence[StoredRecord] = ()) -> None:
        if text := written(found, joined):
            print(text)

    return show


def json_line(found: StoredRecord, joined: Sequence[StoredRecord] = ()) -> str:
    # ASCII only: a bidirectional control in a JSON string would still act on the terminal that shows it.
    value: dict[str, object] = {
        "shard": found.origin,
        "index": found.at,
        "leaf_hash": found.leaf.hex(),
    }
    value |= {"changed": True} if found.changed else {}
    value |= {"wrong": found.wrong} if found.wrong else {"record": found.fields}
    if joined:
        # The clients choose these ids: who shares one is a hint, and no proof.
        value["joined"] = [
            {"shard": each.origin, "index": each.at, "by": shared_ids(found.fields, each.fields)} for each in joined
        ]
    return json.dumps(value, ensure_ascii=True)


def ocsf_line(found: StoredRecord, _: Sequence[StoredRecord] = ()) -> str:
    """Return a record as an OCSF event, or an empty text for a record that is no finding."""
    if found.wrong:
        return ""
    event = finding_from_record(
        found.fields,
        origin=found.origin,
        index=found.at,
        leaf_hash=found.leaf,
        software=lockgate.__version__,
    )
    return "" if event is None else json.dumps(event, ensure_ascii=True)


# For people


def screen_printer(*, whole: bool) -> _Print:
    """Return a printer of records: one line each under their shard's name, or all their fields and what is joined."""
    screen = make_console()
    shard: list[str] = []

    def show(found: StoredRecord, joined: Sequence[StoredRecord] = ()) -> None:
        if whole:
            print_record(screen, found)
            _print_joined(screen, found, joined)
            return
        if shard[-1:] != [found.origin]:
            shard.append(found.origin)
            screen.print(Text(make_visible(found.origin), "bold"), soft_wrap=True)
        _print_line(screen, record_line(found))

    return show


def _print_joined(screen: Console, found: StoredRecord, joined: Sequence[StoredRecord]) -> None:
    if joined:
        what = f"with the same conversation or trace id, at most {NEAR:,} records away"
        screen.print(Text(f"  {what}; clients choose these ids: a hint, no proof", "dim"), soft_wrap=True)
    for each in joined:
        by = f"  ({', '.join(shared_ids(found.fields, each.fields))})"
        _print_line(screen, Text.assemble(record_line(each), (by, "dim")))


def _print_line(screen: Console, text: Text) -> None:
    # On a terminal a record is cut to one line; elsewhere it is printed in full.
    if screen.is_terminal:
        screen.print(text, no_wrap=True, overflow="ellipsis")
    else:
        screen.print(text, soft_wrap=True)


def record_line(found: StoredRecord) -> Text:
    if found.wrong:
        return Text.assemble(f"{found.at:>7}  ", (_fault_text(found), "bold red"))
    fields = found.fields
    kind = str(fields["kind"])
    word = str(fields["action"]) if kind == "ruling" else kind
    session = _shorten(str(fields.get("session", "")))
    # The session is last: a narrow screen cuts the end off.
    return Text.assemble(
        (f"{found.at:>7}  ", "dim"),
        (f"{format_time(fields['ts_ms'])}  ", "cyan"),
        (f"{word:<13}  ", _COLOURS.get(word, "magenta")),
        _summarize(kind, fields),
        (f"  {session}" if session else "", "dim"),
    )


def print_record(screen: Console, found: StoredRecord) -> None:
    """Print one record with all its fields."""
    screen.print(Text.assemble((make_visible(f"{found.origin} {found.at}"), "bold")), soft_wrap=True)
    if found.wrong:
        screen.print(Text(_fault_text(found), "bold red"), soft_wrap=True)
    told: list[tuple[str, str]] = [("leaf_hash", found.leaf.hex())]
    if not found.wrong:
        told.append(("proof", f"lockgate audit prove {found.at} --shard {shell_quote(found.origin)}"))
    for name, value in found.fields.items():
        if name == "ts_ms":
            told.append(("time", f"{format_time(value)} ({value})"))
        elif name == "blocks" and isinstance(value, list):
            told += [(name, f"{each['id']} {each['trust']} {each['sha256']}") for each in value] or [(name, "none")]
        elif isinstance(value, list):
            told.append((name, ", ".join(map(str, value)) or "none"))
        else:
            told.append((name, str(value) if value != "" else "none"))
    for name, text in told:
        screen.print(Text.assemble((f"  {name:<{_LABEL}} ", "dim"), make_visible(text)), soft_wrap=True)


def _summarize(kind: str, fields: Mapping[str, object]) -> str:
    """Return a record in a few words, with every text of it made visible."""
    rules = fields.get("rules")
    named = ", ".join(_shorten(str(rule), 40) for rule in rules) if isinstance(rules, list) else ""
    match kind:
        case "ruling":
            asked = [f"tier {fields['tier']}", f"{fields['risk']} risk"]
            who = f", approved by {_visible_excerpt(fields['approved_by'])}" if fields["approved_by"] else ""
            hit = f": {named}" if named else ""
            return f"{_shorten(str(fields['tool']), 30)}  {fields['reason']}, {', '.join(asked)}{who}{hit}"
        case "approval":
            who = f" by {_visible_excerpt(fields['who'])}" if fields["who"] else ""
            return f"{_shorten(str(fields['approval']))} {fields['state']}{who}"
        case "assess":
            hit = f": {named}" if named else ""
            return f"request {fields['verdict']}, {fields['reason']}, {fields['acted']}{hit}"
        case "configuration":
            before = str(fields["previous_sha256"])[:12]
            was = f", was {before}" if before else ""
            settings = str(fields["settings_sha256"])[:12]
            told = f", settings {settings}" if settings else ""
            return f"policy {str(fields['policy_sha256'])[:12]}{was}{told}, {_visible_excerpt(fields['software'])}"
        case "gap":
            return f"events {fields['first']} to {fields['last']} could not be recorded: {fields['reason']}"
        case "prune":
            return f"records below {fields['before']} of {_visible_excerpt(fields['origin'])} deleted{_by_text(fields)}"
        case "rotation":
            return f"the log goes on under {_visible_excerpt(fields['next_vkey'], 120)}{_by_text(fields)}"
        case "opening":
            return "the log goes on here" if fields["previous"] else "the log begins"
        case "context":
            blocks = fields["blocks"]
            return f"{len(blocks) if isinstance(blocks, list) else 0} blocks read"
    return ""


def _fault_text(found: StoredRecord) -> str:
    return f"{'was changed' if found.changed else 'cannot be read'}: {_visible_excerpt(found.wrong, 200)}"


def _by_text(fields: Mapping[str, object]) -> str:
    return f" by {_visible_excerpt(fields['who'])}" if fields["who"] else ""


def _visible_excerpt(text: object, limit: int = 60) -> str:
    return excerpt(str(text), limit)


def _shorten(text: str, limit: int = 18) -> str:
    """Return a name cut to a column, and a hash by its first digits."""
    text = text[:14] + "…" if text.startswith("sha256:") else text
    return text if len(text) <= limit else text[: limit - 1] + "…"
