"""`lockgate audit`: the journal verified, shown, proved, exported, archived, pruned, and its keys."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from lockgate.cli.audit.open_log import had_log, place_from_args
from lockgate.cli.exit_codes import Exit
from lockgate.cli.terminal import make_visible
from lockgate.core.errors import JournalDamaged, JournalUnavailable
from lockgate.core.requests.strikes import is_incident_id
from lockgate.journal.stores.read_only import NotALog

if TYPE_CHECKING:
    from lockgate.cli.parser import Parser

_HELP = """\
The journal holds every ruling, every answer of a person and every change of policy or key, signed.

  lockgate audit verify   [LOG|EXPORT|ARCHIVE ...] [--key VKEY|FILE] [--held FILE] [--after FILE]
                          [--receipt INDEX:HASH] [--witness VKEY]
  lockgate audit show     [INDEX|INCIDENT ...] [--session NAME] [--tool NAME] [--action WORD] [--reason WORD]
                          [--rule ID] [--kind WORD] [--since WHEN] [--until WHEN] [--limit N] [--follow] [--format ocsf]
  lockgate audit head     [--sign] [--out FILE]
  lockgate audit prove    INDEX [--out FILE] [--record FILE], or --check FILE --record FILE --key VKEY|FILE
  lockgate audit export   [--out FOLDER] [--shard ORIGIN]
  lockgate audit archive  --out FOLDER [--days N]
  lockgate audit prune    [--days N] [--archive FOLDER] [--yes]
  lockgate audit keys     [rotate] [--yes]
  lockgate audit witness  --log VKEY [--state FOLDER] [--listen HOST:PORT] [--name NAME]

Most print JSON with --json, and take another log than this installation's with --log LOG.

example:
  $ lockgate audit verify --held head.txt
  $ lockgate audit show --action PAUSE --since 7d
  $ lockgate audit prove 4711 --out 4711.proof --record 4711.json

`lockgate audit verify --help` and so on explain one of them; `lockgate help audit` says more.
Exit code 0: done, the log is sound; 1: the log is broken; 2: bad input.
"""

# The module of each subcommand, imported when that subcommand runs.
_MODULES = {
    "verify": "verify",
    "show": "show",
    "head": "evidence",
    "prove": "evidence",
    "export": "evidence",
    "archive": "archive",
    "prune": "maintain",
    "keys": "maintain",
    "witness": "maintain",
}


def describe(parser: Parser) -> dict[str, Parser]:
    parser.usage = "lockgate audit WHAT [options]"
    parser.description = _HELP
    commands = parser.add_subparsers(
        title="what",
        dest="what",
        metavar="WHAT",
        required=True,
        prog="lockgate audit",
        parser_class=type(parser),
    )
    made: dict[str, Parser] = {}
    for name, help, more in (
        (
            "verify",
            "check a log, or exports or an archive of one, without the network and without this installation",
            _verify_options,
        ),
        ("show", "show records, the newest last", _show_options),
        ("head", "print the newest signed head, to keep it elsewhere", _head_options),
        ("prove", "prove that a record is in the log, or check such a proof", _prove_options),
        ("export", "write the log as text that an outsider can verify", _export_options),
        ("archive", "write records to Parquet files from which they can still be verified", _archive_options),
        ("prune", "delete the contents of old records; their hashes stay", _prune_options),
        ("keys", "list the log's public keys, or change to a new one", _keys_options),
        ("witness", "cosign the heads of logs of other users or machines", _witness_options),
    ):
        one = commands.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.")
        more(one)
        one.set_defaults(run=_runner_for(name))
        made[f"audit {name}"] = one
    return made


def _common_options(parser: Parser, *, log: bool = True, as_json: bool = True) -> None:
    if log:
        parser.add_argument("--log", metavar="LOG", help="this log, a file or postgresql://…, not the installation's")
    if as_json:
        parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--config", metavar="PATH", help="use this configuration file")


def _runner_for(name: str) -> Callable[[argparse.Namespace], Exit]:
    def run(args: argparse.Namespace) -> Exit:
        try:
            done: Exit = getattr(import_module(f"lockgate.cli.audit.{_MODULES[name]}"), name)(args)
        except JournalUnavailable as error:
            # Damage is a finding (exit code 1), not bad input (2).
            if not _is_damage(error, args):
                raise
            sys.stdout.flush()
            lost = not isinstance(error, JournalDamaged)
            said = "a log was there: bring it back from a copy" if lost else error.hint
            hint = f"\nhint: {make_visible(said)}" if said else ""
            print(f"lockgate: broken: {make_visible(error.message)}{hint}", file=sys.stderr, flush=True)
            return Exit.FLAGGED
        return done

    return run


def _is_damage(error: JournalUnavailable, args: argparse.Namespace) -> bool:
    if isinstance(error, NotALog):
        return had_log(place_from_args(args), named=bool(args.log))
    return isinstance(error, JournalDamaged)


def _verify_options(parser: Parser) -> None:
    parser.usage = "lockgate audit verify [LOG|EXPORT|ARCHIVE ...] [options]"
    parser.epilog = """\
Without a name, this installation's log is verified. Of several exports, name the oldest first. Of an archive,
name all its files; with a log beside them the two are compared, and all that the log has deleted must be there.

--after verifies only what came after a head that was kept: seconds instead of minutes for a large log.

A log by itself proves that only the holder of its key can have changed it. Only a head, a receipt or a
witness's cosignature that was kept elsewhere also proves that the holder of the key did not, and that
nothing is missing at the end.

example:
  $ lockgate audit verify --held head.txt
  $ lockgate audit verify --after head.txt
  $ lockgate audit verify journal.export --key "$VKEY" --json
  $ lockgate audit verify journal.db archive/*.parquet

Exit code 0: sound; 1: broken, and it says what was done to it; 2: bad input."""
    parser.add_argument(
        "names", nargs="*", metavar="LOG|EXPORT|ARCHIVE", help="a log, exports, or an archive; - is standard input"
    )
    parser.add_argument("--key", metavar="VKEY|FILE", help="the public key of the first shard, or a file it stands in")
    parser.add_argument(
        "--held", metavar="FILE", action="append", default=[], help="heads that were kept elsewhere; may be repeated"
    )
    parser.add_argument(
        "--after", metavar="FILE", help="verify only the records after the newest head in this file, kept elsewhere"
    )
    parser.add_argument(
        "--receipt",
        metavar="[ORIGIN:]INDEX:HASH",
        action="append",
        default=[],
        help="what a ruling came with: its record's index and leaf hash; may be repeated",
    )
    parser.add_argument(
        "--witness",
        metavar="VKEY",
        action="append",
        default=[],
        help="require that this witness has cosigned a head; may be repeated",
    )
    _common_options(parser, log=False)


def _show_options(parser: Parser) -> None:
    parser.usage = "lockgate audit show [INDEX|INCIDENT ...] [options]"
    parser.epilog = """\
With an index, or the id of an abuse gate's incident, shows everything in that record; otherwise one line per
record. Unusual names of sessions and tools are recorded by their hash; filter by the name all the same.

Below a request come the rulings with the same conversation or trace id, below a ruling the requests. Clients
choose these ids: that two records share one is a hint, and no proof.

--format ocsf prints Detection Findings (class 2004) of OCSF 1.5.0, one on each line, for a SIEM.

example:
  $ lockgate audit show --action PAUSE --since 7d
  $ lockgate audit show 01M7F7J5VMTYRY88TXC9FMV8H3
  $ lockgate audit show --follow --format ocsf

A record is shown as it is stored if it matches its hash; `lockgate audit verify` says whether the whole log is
intact. Exit code 0: shown; 1: a record was changed, or cannot be read; 2: bad input."""
    parser.add_argument(
        "records",
        nargs="*",
        metavar="INDEX|INCIDENT",
        type=_parse_record_name,
        help="only these, with all that they hold",
    )
    parser.add_argument("--session", metavar="NAME", default="", help="of this session")
    parser.add_argument("--tool", metavar="NAME", default="", help="about this tool")
    parser.add_argument("--action", metavar="WORD", default="", type=str.upper, help="CONTINUE, REORIENT or PAUSE")
    parser.add_argument("--reason", metavar="WORD", default="", help="with this reason, e.g. supervisor")
    parser.add_argument("--rule", metavar="ID", default="", help="in which this rule hit")
    parser.add_argument("--kind", metavar="WORD", default="", help="ruling, approval, configuration, gap, …")
    parser.add_argument("--since", metavar="WHEN", help="since then: 2026-11-01, 2026-11-01T09:30, 7d, 12h")
    parser.add_argument("--until", metavar="WHEN", help="before then")
    parser.add_argument("--shard", metavar="ORIGIN", default="", help="the shard that INDEX counts in; else the newest")
    parser.add_argument(
        "--limit", metavar="N", type=_parse_number, help="the newest N, 0 for all (default: 100, or all as JSON)"
    )
    parser.add_argument("--follow", action="store_true", help="keep printing new records until Ctrl-C")
    parser.add_argument("--format", metavar="ocsf", choices=("ocsf",), help="print events for a SIEM")
    _common_options(parser)


def _head_options(parser: Parser) -> None:
    parser.usage = "lockgate audit head [options]"
    parser.epilog = """\
Keep it where the users who can write the log cannot: `lockgate audit verify --held` compares the log with it.
--sign first signs the records since the last head, which a killed process may have left; it needs the log's
key.

example:
  $ lockgate audit head --out head.txt

Exit code 0: printed; 1: the log is broken; 2: bad input."""
    parser.add_argument("--sign", action="store_true", help="sign a new head, where records have none")
    parser.add_argument("--out", metavar="FILE", help="write it to this new file")
    parser.add_argument("--shard", metavar="ORIGIN", default="", help="of this shard; else the newest")
    _common_options(parser, as_json=False)


def _prove_options(parser: Parser) -> None:
    parser.usage = "lockgate audit prove INDEX [options], or lockgate audit prove --check FILE --record FILE"
    parser.epilog = """\
A proof is a c2sp.org/tlog-proof. With the record's own bytes and the log's public key it shows an outsider,
who has nothing else of the log, that the record is in it.

example:
  $ lockgate audit prove 4711 --out 4711.proof --record 4711.json
  $ lockgate audit prove --check 4711.proof --record 4711.json --key "$VKEY"

Exit code 0: proved; 1: the proof does not hold; 2: bad input."""
    parser.add_argument("index", nargs="?", metavar="INDEX", type=_parse_number, help="which record")
    parser.add_argument("--shard", metavar="ORIGIN", default="", help="the shard that INDEX counts in; else the newest")
    parser.add_argument("--out", metavar="FILE", help="write the proof to this new file")
    parser.add_argument("--check", metavar="FILE", help="check the proof in this file")
    parser.add_argument("--record", metavar="FILE", help="write the record there; with --check, read it from there")
    parser.add_argument("--key", metavar="VKEY|FILE", help="with --check: the log's public key")
    parser.add_argument("--witness", metavar="VKEY", help="with --check: require this witness's cosignature")
    _common_options(parser, as_json=False)


def _export_options(parser: Parser) -> None:
    parser.usage = "lockgate audit export [options]"
    parser.epilog = """\
One file for each shard, with a signed head and every record that it covers. spec/journal.md of the source
describes it, and how to verify it without Lockgate.

example:
  $ lockgate audit export --out journal
  $ lockgate audit verify journal/*.export --key "$VKEY"
  $ lockgate audit export | gzip > journal.export.gz"""
    parser.add_argument("--out", metavar="FOLDER", help="write every shard to a new file in this folder")
    parser.add_argument("--shard", metavar="ORIGIN", default="", help="only this shard")
    _common_options(parser, as_json=False)


def _archive_options(parser: Parser) -> None:
    parser.usage = "lockgate audit archive --out FOLDER [options]"
    parser.epilog = """\
Adds what FOLDER does not have yet, as new files, and verifies all of them together and against the log. Nothing
is deleted from the log: `lockgate audit prune --archive FOLDER` does that, after the same steps. Keep the files
together; a missing one is found. Where the log has deleted records and the archive has not their contents,
nothing is added, unless you accept it. Needs the package pyarrow.

example:
  $ lockgate audit archive --out archive --days 90
  $ lockgate audit verify archive/*.parquet --key "$VKEY"

Exit code 0: archived and verified; 1: the log or the archive is broken, and nothing was added; 2: bad input."""
    parser.add_argument("--out", metavar="FOLDER", required=True, help="the folder of the archive")
    parser.add_argument("--days", metavar="N", type=_parse_number, help="only what is older than N days")
    _add_accept_deleted(parser)
    _common_options(parser)


def _add_accept_deleted(parser: Parser) -> None:
    parser.add_argument(
        "--accept-deleted",
        action="store_true",
        help="archive only the hashes of records that were deleted before; `verify` reports those as a fault",
    )


def _prune_options(parser: Parser) -> None:
    parser.usage = "lockgate audit prune [options]"
    parser.epilog = """\
Old records lose their contents; their hashes stay, so the log can still be verified and every proof still
holds. The deletion is recorded. Without --days, `retention_days` of the configuration applies.

With --archive, they are first added to the archive in this folder, which is then verified; only what is in it
is deleted.

example:
  $ lockgate audit prune --days 365
  $ lockgate audit prune --days 90 --archive /backup/lockgate"""
    parser.add_argument("--days", metavar="N", type=_parse_number, help="delete what is older than N days")
    parser.add_argument("--archive", metavar="FOLDER", help="archive the records there first, as `archive` does")
    _add_accept_deleted(parser)
    parser.add_argument("--yes", action="store_true", help="delete without asking")
    parser.add_argument("--who", metavar="NAME", help="who deletes; by default the user this runs as")
    _common_options(parser)


def _keys_options(parser: Parser) -> None:
    parser.usage = "lockgate audit keys [rotate] [options]"
    parser.epilog = """\
`rotate` closes the log's shard with a last signed head and continues in a new shard under a new key, which the
old key signs. The old key's file is kept, but signs nothing more.

example:
  $ lockgate audit keys
  $ lockgate audit keys rotate"""
    parser.add_argument("rotate", nargs="?", metavar="rotate", choices=("rotate",), help="change to a new key")
    parser.add_argument("--yes", action="store_true", help="rotate without asking")
    parser.add_argument("--who", metavar="NAME", help="who rotates; by default the user this runs as")
    _common_options(parser)


def _witness_options(parser: Parser) -> None:
    parser.usage = "lockgate audit witness --log VKEY [options]"
    parser.epilog = """\
Run it as another user or on another machine than the log: an attacker who can rewrite the log then cannot
agree with it as its witness. It prints its own public key, which the log's configuration names in `witnesses`.

example:
  $ lockgate audit witness --log "$VKEY" --state /var/lib/lockgate-witness"""
    parser.add_argument(
        "--log", metavar="VKEY", dest="logs", action="append", required=True, help="a log to cosign; may be repeated"
    )
    parser.add_argument("--state", metavar="FOLDER", help="where it keeps its key and what it has seen")
    parser.add_argument("--listen", metavar="HOST:PORT", default="", help="default: 127.0.0.1:8766")
    parser.add_argument("--name", metavar="NAME", default="", help="its name, for a key that is made now")
    _common_options(parser, log=False, as_json=False)


def _parse_number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise argparse.ArgumentTypeError(f"`{text[:20]}` is no number from 0 on")
    return int(text)


def _parse_record_name(text: str) -> int | str:
    """Return the index, or the incident's id, that a person typed."""
    if is_incident_id(text.upper()):
        return text.upper()
    try:
        return _parse_number(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"`{text[:30]}` is neither a record's number nor the 26 letters and digits of an incident"
        ) from None
