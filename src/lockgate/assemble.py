"""The composition root: from settings to a gate, a host, a judge, an adapter or a journal.

This is the only module that chooses concrete stores and providers. From top to bottom: gates and hosts, judges, stores,
the journal, adapters, and the cache of compiled rules.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, cast

from lockgate import __version__
from lockgate.core.errors import InvalidConfig, JournalUnavailable, LockgateError, quoted
from lockgate.core.ruling.approvals import ApprovalChange, ApprovalState
from lockgate.core.ruling.opinions import Authority, standing_of
from lockgate.core.text.rules import RULES, Rule
from lockgate.core.text.scanner import Scanner, check_pattern, rules_from_patterns
from lockgate.gate.gate import Gate
from lockgate.gate.judge import Judge
from lockgate.journal import recorder as recording
from lockgate.runtime.forks import on_fork
from lockgate.runtime.rule_cache import RuleCache
from lockgate.runtime.sealed_cache import SealedCache
from lockgate.settings.config import AuditSettings, Settings, discover_settings
from lockgate.settings.journal_paths import POSTGRES, JournalFiles, path_beside_log
from lockgate.settings.model_names import AUTO, EMBEDDED, LOCAL, NO_JUDGE
from lockgate.settings.prices import cost_today

if TYPE_CHECKING:
    from lockgate.core.judging.exam import ExamResult
    from lockgate.gate.approvals_sqlite import SqliteApprovals
    from lockgate.gate.carried_sqlite import SqliteCarriedTexts
    from lockgate.gate.judge_budget import JudgeBudget
    from lockgate.gate.ledger import FileLedger
    from lockgate.gate.trust_pins import TrustPin
    from lockgate.gate.trust_store import TrustStore
    from lockgate.journal.journal import Journal
    from lockgate.journal.log import Store
    from lockgate.journal.signing import Signer
    from lockgate.sessions import Host, SessionStore
    from lockgate.settings.model_names import ModelName
    from lockgate.settings.verifiers import VerifierSettings
    from lockgate.verifiers.adapters import EmbeddedAdapter, KeySource, LocalRuleAdapter, RemoteAdapter
    from lockgate.verifiers.client import Client, Provider
    from lockgate.verifiers.command_judge import CommandJudge
    from lockgate.verifiers.embedded_judge import EmbeddedJudge
    from lockgate.verifiers.exam_store import ExamStore
    from lockgate.verifiers.model_judge import ModelJudge

    # Wraps a provider, for a command that shows what the provider says.
    ProviderWrapper = Callable[[Provider], Provider]

TRIAGE_KEY, SUPERVISOR_KEY = "security.verification.triage_model", "supervision.model"

LOCAL_TIMEOUT_MS = 20_000


def settings_from_environment(path: str | None = None) -> Settings:
    """Return the configuration of this process; each file and variable is read once."""
    return discover_settings(Path(path) if path is not None else None, check_pattern=check_pattern)


def gate_from_config(path: str | None = None) -> Gate:
    return gate_from_settings(settings_from_environment(path))


def gate_from_settings(settings: Settings, *, keep_records: bool = True) -> Gate:
    """Return a gate with the judges and stores of these settings; without `keep_records` it leaves no trace."""
    supervision, policy = settings.supervision, settings.policy
    journal = journal_from_settings(settings) if keep_records else None
    triage, supervisor = judges_from_settings(settings)
    return Gate(
        policy,
        scanner=scanner_from_settings(settings),
        triage=triage,
        supervisor=supervisor,
        approvals=approvals_from_settings(settings, journal)
        if keep_records and _has_place_for_approvals(settings)
        else None,
        ledger=ledger_from_settings(settings) if keep_records else None,
        journal=journal,
        prices=partial(cost_today, supervision.prices),
        budget=_budget_from_settings(settings) if keep_records else None,
        vouched=trust_from_settings(settings) if settings.state_dir is not None else None,
        carried=carried_from_settings(settings) if keep_records else None,
        human_timeout_s=supervision.human_timeout_s,
        approval_life_s=supervision.approval_life_s,
        two_person=supervision.two_person,
        service_port=settings.server.port,
        own_folders=(*_own_folders(settings), *_judge_files(triage, supervisor)),
    )


def _own_folders(settings: Settings) -> tuple[str, ...]:
    """Return where these settings put the state and the journal, as they are called and as links lead there."""
    log = settings.audit.log_path
    beside = [] if not log or log.startswith(POSTGRES) else [log, f"{log}-wal", f"{path_beside_log(Path(log), '.')}*"]
    places = [*([str(settings.state_dir)] if settings.state_dir is not None else []), *beside]
    return tuple(dict.fromkeys(each for place in places for each in (os.path.abspath(place), os.path.realpath(place))))


def judges_from_settings(settings: Settings) -> tuple[Judge | None, Judge | None]:
    """Return who judges in Tier 2 and in Tier 3 by these settings; None where there is no judge."""
    supervision = settings.supervision
    supervisor = _judge_for_key(settings, SUPERVISOR_KEY, settings.policy.supervisor_model, supervision.timeout_s)
    return triage_from_settings(settings), supervisor


def _judge_files(*judges: Judge | None) -> list[str]:
    """Return the programs that judge, to be protected like our own files."""
    files = [file for judge in judges for file in getattr(judge, "files", ())]
    return [place for file in files for place in (file, os.path.realpath(file))]


def host_from_settings(settings: Settings) -> Host:
    """Return a gate with its sessions, for the service and the hosts' plugs."""
    from lockgate.sessions import Host

    gate = gate_from_settings(settings)
    # Compiling takes a while the first time: no session is to wait for it.
    gate.scanner.make_ready()
    return Host(gate, sessions_from_settings(settings), keep_days=settings.server.keep_days)


def changed_gate(gate: Gate, before: Settings, settings: Settings) -> Gate:
    """Return a gate of these settings with the stores of another, and with its rules and judges where they stay."""
    policy, supervision = settings.policy, settings.supervision

    def judges(of: Settings) -> tuple[object, ...]:
        named = (of.policy.triage_model, of.policy.judge_preset, of.policy.supervisor_model)
        return (*named, of.supervision.timeout_s, of.supervision.model_aliases, of.supervision.host_endpoint)

    # Whom `auto` means may have changed with the exams alone.
    same_judges = judges(before) == judges(settings) and AUTO not in judges(settings)
    same_rules = before.policy.additional_patterns == policy.additional_patterns
    triage, supervisor = (gate.triage, gate.supervisor) if same_judges else judges_from_settings(settings)
    return Gate(
        policy,
        scanner=gate.scanner if same_rules else scanner_from_settings(settings),
        triage=triage,
        supervisor=supervisor,
        approvals=gate.approvals,
        ledger=gate.ledger,
        # Its own: it records the changed settings before the first ruling under them.
        journal=journal_from_settings(settings) if gate.journal is not None else None,
        prices=partial(cost_today, supervision.prices),
        budget=_budget_from_settings(settings) if gate.budget is not None else None,
        vouched=gate.vouched,
        carried=gate.carried,
        human_timeout_s=supervision.human_timeout_s,
        approval_life_s=supervision.approval_life_s,
        two_person=supervision.two_person,
        service_port=gate.service_port,
        own_folders=dict.fromkeys((*gate.own_folders, *_judge_files(triage, supervisor))),
    )


def host_for_library(gate: Gate | None, *, keep: bool) -> Host:
    """Return a host for an agent in this process, its sessions in memory or with `keep` where the settings say.

    Without a gate it is made of the discovered configuration; people can then be asked even if nothing is kept.
    """
    from lockgate.gate.approvals_memory import MemoryApprovals
    from lockgate.sessions import Host
    from lockgate.sessions.stores.memory import MemorySessions

    if gate is not None and not keep:
        return Host(gate, MemorySessions())
    settings = settings_from_environment()
    if gate is None:
        gate = gate_from_settings(settings)
        gate.approvals = gate.approvals or MemoryApprovals()
    return Host(gate, sessions_from_settings(settings) if keep else MemorySessions())


def sessions_from_settings(settings: Settings) -> SessionStore:
    """Return the session store: the database of these settings, else a file in the user's state directory."""
    if settings.server.database:
        from lockgate.sessions.stores.postgres import PostgresSessions

        return PostgresSessions(settings.server.database)
    if settings.state_dir is None:
        raise InvalidConfig("there is no folder to keep sessions in", hint="set HOME or XDG_STATE_HOME")
    from lockgate.sessions.stores.sqlite import SqliteSessions

    return SqliteSessions(settings.state_dir / "sessions.db")


def triage_from_settings(settings: Settings) -> Judge | None:
    """Return the judge of Tier 2: the named model, or one that has passed; else the embedded judge if it is installed.

    An embedded judge that the settings name is verified here. One that they do not name is loaded with its first
    question, which counts as unanswered if it fails: a damaged installation must not keep every program from starting.
    """
    name = settings.policy.triage_model
    if name not in ("", EMBEDDED):
        passed = _judge_for_key(settings, TRIAGE_KEY, name, settings.supervision.triage_timeout_s or None)
        if passed is not None or name != AUTO:
            return passed
    if name != EMBEDDED and not is_embedded_installed():
        return None
    judge = embedded_from_settings(settings)
    if name == EMBEDDED:
        try:
            judge.verify()
        except InvalidConfig as error:
            raise InvalidConfig(f"`{TRIAGE_KEY}` names {quoted(name)}: {error.message}", hint=error.hint) from None
    return judge


def is_embedded_installed() -> bool:
    from lockgate.verifiers import embedded_model as embedded

    # Without a model the judge's module need not be loaded.
    if not embedded.PIN:
        return False
    from lockgate.verifiers.embedded_judge import is_installed

    return is_installed()


# One that reads recorded sessions waits for the embedded judge: a busy machine must not change what it finds.
PATIENT_S = 120.0


def embedded_from_settings(settings: Settings, *, patient: bool = False) -> EmbeddedJudge:
    from lockgate.verifiers.embedded_judge import EmbeddedJudge

    preset = settings.policy.judge_preset
    return EmbeddedJudge(preset=preset, timeout_s=PATIENT_S) if patient else EmbeddedJudge(preset=preset)


def _judge_for_key(settings: Settings, key: str, name: str, timeout_s: float | None = None) -> Judge | None:
    """Return the judge that a configuration key names; errors name the key."""
    if name in ("", NO_JUDGE):
        return None
    if name == AUTO:
        return _passed_judge(settings, timeout_s)
    try:
        return _examined(settings, named_judge(settings, name, timeout_s))
    except InvalidConfig as error:
        raise InvalidConfig(f"`{key}` names {quoted(name)}: {error.message}", hint=error.hint) from None


def named_judge(settings: Settings, name: str, timeout_s: float | None = None) -> CommandJudge | ModelJudge:
    """Return the program or the provider's model of this name as a judge that knows of no exam."""
    return program_judge(settings, name, timeout_s) or judge_from_settings(settings, name, timeout_s)


def _examined(settings: Settings, judge: CommandJudge | ModelJudge) -> Judge:
    """Return a judge with the standing that its exams give it; without a state directory there are none."""
    if settings.state_dir is None:
        return judge
    from lockgate.verifiers.examined_judge import ExaminedJudge

    return ExaminedJudge(judge, exams_from_settings(settings))


def _passed_judge(settings: Settings, timeout_s: float | None) -> Judge | None:
    """Return the first judge that has passed its exam: an agent's own model, another program, a provider's model.

    One that was replaced after it had passed comes last: it is not asked, and calls pause.
    """
    if settings.state_dir is None:
        return None
    replaced = None
    with suppress(LockgateError):
        names = dict.fromkeys(result.name for result in reversed(exams_from_settings(settings).results()))
        for name in sorted(filter(None, names), key=_rank_of_route):
            with suppress(InvalidConfig):
                judge = _examined(settings, named_judge(settings, name, timeout_s))
                if (held := standing_of(judge)).has_passed:
                    return judge
                replaced = replaced or (judge if held.authority is Authority.REPLACED and _judge_files(judge) else None)
    return replaced


def _rank_of_route(name: str) -> int:
    return ("host", "command").index(route) if (route := name.partition(":")[0]) in ("host", "command") else 2


def models_from_settings(settings: Settings) -> dict[str, ModelName]:
    """Return the resolved models that the configuration names, by key; the environment is not read."""
    from lockgate.settings.model_names import parse_aliases, parse_program, resolve_model

    named = {TRIAGE_KEY: settings.policy.triage_model, SUPERVISOR_KEY: settings.policy.supervisor_model}
    aliases = parse_aliases(settings.supervision.model_aliases)
    found: dict[str, ModelName] = {}
    for key, name in named.items():
        try:
            named_here = name and name not in (NO_JUDGE, AUTO) and (name != EMBEDDED or key != TRIAGE_KEY)
            found |= {key: resolve_model(name, aliases)} if named_here and parse_program(name) is None else {}
        except InvalidConfig as error:
            raise InvalidConfig(f"`{key}`: {error.message}", hint=error.hint) from None
    return found


def program_judge(settings: Settings, name: str, timeout_s: float | None = None) -> CommandJudge | None:
    """Return the program of this name as a judge; None where the name is that of a provider's model."""
    from lockgate.settings.model_names import parse_program

    if (program := parse_program(name)) is None:
        return None
    if settings.state_dir is None or os.name != "posix":
        raise InvalidConfig("a program cannot judge here", hint="it takes a POSIX system, and HOME or XDG_STATE_HOME")
    from lockgate.verifiers.command_judge import TIMEOUT_S, CommandJudge
    from lockgate.verifiers.providers.envelope import parse_address

    if endpoint := settings.supervision.host_endpoint:
        endpoint = parse_address(endpoint, "host_endpoint")
    return CommandJudge(program, settings.state_dir, timeout_s=timeout_s or TIMEOUT_S, endpoint=endpoint)


def judge_from_settings(
    settings: Settings, name: str, timeout_s: float | None = None, *, wrap_provider: ProviderWrapper | None = None
) -> ModelJudge:
    """Return the model of this name as a judge; its key, endpoint and limits come from the environment."""
    from lockgate.verifiers.model_judge import ModelJudge

    chosen = judge_settings(settings, name)
    provider = provider_from_settings(chosen)
    client = _client(chosen, chosen.timeout_ms if timeout_s is None else int(timeout_s * 1000))
    return ModelJudge(
        client, wrap_provider(provider) if wrap_provider else provider, chosen.keys, key_needed=chosen.key_needed
    )


def judge_settings(settings: Settings, name: str) -> VerifierSettings:
    """Return the environment's settings for the model of this name; raise InvalidConfig if it cannot judge calls."""
    from lockgate.settings.model_names import parse_aliases, resolve_model
    from lockgate.settings.verifiers import settings_for_model

    named = resolve_model(name, parse_aliases(settings.supervision.model_aliases))
    chosen = settings_for_model(named.provider, named.model, named.endpoint)
    if getattr(provider_from_settings(chosen), "rates", False):
        raise InvalidConfig(
            f"{quoted(str(named))} rates texts and cannot judge a call", hint="name a model that answers questions"
        )
    # On one's own machine an answer takes longer, and the first waits until the model is loaded.
    slow = name.startswith(f"{LOCAL}:")
    return replace(chosen, timeout_ms=max(chosen.timeout_ms, LOCAL_TIMEOUT_MS)) if slow else chosen


def _budget_from_settings(settings: Settings) -> JudgeBudget | None:
    """Return the budget for questions to judges; None without a state directory."""
    if settings.state_dir is None:
        return None
    from lockgate.gate.judge_budget import JudgeBudget

    limits = settings.supervision
    return JudgeBudget(
        settings.state_dir / "judge_budget.db",
        per_session=limits.budget_session,
        per_day=limits.budget_day,
        usd_per_day=limits.budget_usd,
    )


def ledger_from_settings(settings: Settings) -> FileLedger | None:
    """Return the file that counts this installation's rulings; None without a state directory."""
    from lockgate.gate.ledger import FileLedger

    return None if settings.state_dir is None else FileLedger(settings.state_dir / "ledger.jsonl")


def _has_place_for_approvals(settings: Settings) -> bool:
    return settings.state_dir is not None or bool(settings.server.database)


def approvals_from_settings(settings: Settings, journal: recording.JournalWriter | None = None) -> SqliteApprovals:
    """Return the approvals store beside the sessions; with a journal, every change is recorded."""
    from lockgate.gate.approvals_sqlite import SqliteApprovals

    if settings.server.database:
        from lockgate.gate.approvals_postgres import PostgresApprovals

        record = None if journal is None else recording.Recorder(journal).record_approvals
        return PostgresApprovals(settings.server.database, record=record, ended=_ended_from_settings(settings))
    if settings.state_dir is None:
        raise InvalidConfig("there is no folder to keep approvals in", hint="set HOME or XDG_STATE_HOME")
    record = None if journal is None else recording.Recorder(journal).record_approvals
    return SqliteApprovals(settings.state_dir / "approvals.db", record=record, ended=_ended_from_settings(settings))


def _ended_from_settings(settings: Settings) -> Callable[[str], bool]:
    """Return what the journal says about the end of an answer, a grant or a pin; nothing has ended without one."""
    if not settings.audit.enabled:
        return lambda _: False
    from lockgate.journal.ended_approvals import EndedApprovals

    return EndedApprovals(lambda: cast("Journal", _shared_log(settings).log))


def carried_from_settings(settings: Settings) -> SqliteCarriedTexts | None:
    """Return the store of what agents wrote from untrusted text; None where there is no place for it."""
    if settings.server.database:
        from lockgate.gate.carried_postgres import PostgresCarriedTexts

        return PostgresCarriedTexts(settings.server.database)
    if settings.state_dir is None:
        return None
    from lockgate.gate.carried_sqlite import SqliteCarriedTexts

    path = settings.state_dir / "carried.db"
    with _logs_lock:
        return _carried.setdefault(path, SqliteCarriedTexts(path))


def trust_from_settings(settings: Settings, journal: recording.JournalWriter | None = None) -> TrustStore:
    """Return the texts that a person has vouched for; with a journal, every change is recorded."""
    from lockgate.gate.trust_store import TrustStore

    if settings.state_dir is None:
        raise InvalidConfig("there is no folder to keep trusted texts in", hint="set HOME or XDG_STATE_HOME")
    record = None if journal is None else partial(_record_trust, journal)
    return TrustStore(settings.state_dir, record=record, ended=_ended_from_settings(settings))


def _record_trust(journal: recording.JournalWriter, pin: TrustPin, made: bool) -> None:  # noqa: FBT001
    state = ApprovalState.GRANTED if made else ApprovalState.VOIDED
    recording.Recorder(journal).record_approvals([ApprovalChange("trust", pin.id, state, pin.digest, pin.who)])


def exams_from_settings(settings: Settings, *, who: str = "") -> ExamStore:
    """Return the exams that judges took; with `who`, a new result is put on record under that name first."""
    from lockgate.core.judging.exam import LIMITS
    from lockgate.verifiers.exam_store import ExamStore

    if settings.state_dir is None:
        raise InvalidConfig("there is no folder to keep exams in", hint="set HOME or XDG_STATE_HOME")
    journal = journal_from_settings(settings) if who else None

    def record(result: ExamResult) -> None:
        state = ApprovalState.GRANTED if result.standing in LIMITS else ApprovalState.DENIED
        if journal is not None:
            digest = sha256(repr(result).encode()).hexdigest()
            recording.Recorder(journal).record_approvals([ApprovalChange("exam", result.id, state, digest, who)])

    return ExamStore(settings.state_dir, keys=partial(_exam_keys, settings), record=record)


def _exam_keys(settings: Settings) -> tuple[bytes, ...]:
    """Return the keys that seal exams, made from those of the journal, newest first; none without a journal."""
    from lockgate.journal import keys

    files = reversed(journal_files(settings).key_files()) if settings.audit.enabled else ()
    return tuple(sha256(keys.load(path).sign(b"lockgate exam seal/1")).digest() for path in files)


def journal_files(settings: Settings) -> JournalFiles:
    """Return where these settings put the journal; raise JournalUnavailable if there is no folder for it."""
    path, state = settings.audit.log_path, settings.state_dir
    shared = path.startswith(POSTGRES)
    if state is None and (shared or not path):
        raise JournalUnavailable(
            "there is no folder to keep the journal in", hint="set HOME or XDG_STATE_HOME, or `security.audit.log_path`"
        )
    if shared and state is not None:
        # A key of its own: one key under two logs would look like one log with two histories.
        return JournalFiles(path, state / "postgres.key")
    log = Path(path) if path or state is None else state / "journal.db"
    return JournalFiles(log, path_beside_log(log, ".key"))


def has_journal_key(settings: Settings, vkey: str) -> bool:
    """Return whether this machine has the key with which the log continues."""
    return _find_signer(journal_files(settings), vkey) is not None


def log_from_settings(settings: Settings) -> Journal:
    """Return the journal, newly opened, for commands that prove, prune or rotate; the caller closes it."""
    return _open_log(settings)[0]


def _open_log(settings: Settings) -> tuple[Journal, str]:
    """Return the journal and the origin that it began with."""
    from lockgate.journal import keys
    from lockgate.journal.journal import Journal

    files = journal_files(settings)
    refuse_lost_log(files)
    store: Store
    if isinstance(files.log, str):
        from lockgate.journal.stores.postgres import PostgresLog

        store = PostgresLog(files.log)
    else:
        from lockgate.journal.stores.sqlite import SqliteLog

        store = SqliteLog(files.log)
    made = partial(
        Journal,
        store,
        verify=keys.verify,
        held=files.witnessed_heads(),
        find_signer=partial(_find_signer, files),
        retention_days=settings.audit.retention_days,
    )
    with ExitStack() as on_failure:
        # The caller gets no journal to close, and tries again at the next call: each try would leave a connection open.
        on_failure.callback(store.close)
        # This makes the log, where there is none. Its key comes second: a key without a log has lost it.
        with store.writing(durable=True) as log:
            shards = log.shards()
            if not shards:
                if files.key_files():
                    raise _lost_log_error(files)
                # This process holds the writers' lock. A leftover key has signed nothing that was stored.
                with suppress(OSError):
                    files.new_key.unlink()
                begun = made(keys.create(files.new_key, f"lockgate/{os.urandom(4).hex()}"))
                begun.open_first_shard(log)
                shards = log.shards()
        newest = shards[-1].vkey
        journal = made(_find_signer(files, newest) or _first_signer(files, newest) or _raise_missing_key(files, newest))
        on_failure.pop_all()
    return journal, shards[0].origin


def _first_signer(files: JournalFiles, vkey: str) -> Signer | None:
    """Return the log's first key, and give its file the final name: the first process to come by does this."""
    from lockgate.journal import keys

    with suppress(LockgateError):
        if keys.load(files.new_key).key.vkey == vkey and not os.path.lexists(files.key):
            with suppress(OSError):
                os.replace(files.new_key, files.key)
    return _find_signer(files, vkey)


def refuse_lost_log(files: JournalFiles) -> None:
    """A key whose log is gone signs no other one: two histories under one name would look like a forgery.

    The key is looked for first, for the log is made first.
    """
    if files.key_files() and not isinstance(files.log, str) and not os.path.lexists(files.log):
        raise _lost_log_error(files)


def _lost_log_error(files: JournalFiles) -> JournalUnavailable:
    return JournalUnavailable(
        f"the key {quoted(files.key, 200)} is there, and the journal that it signed is gone from {files.shown_log}",
        hint="bring the log back from a copy; or move the key away too, and a new log begins under a new one",
    )


def _raise_missing_key(files: JournalFiles, vkey: str) -> Signer:
    """Raise why there is no key: a new one could not continue this log, and would hide the right one."""
    from lockgate.journal import keys

    hint = "bring the key back from a copy; or move the log away, and a new one begins"
    if isinstance(files.log, str):
        hint = "copy the key, by a safe way, from the host that began the log: `lockgate help audit`, Several hosts"
    found = files.key_files()
    for path in found:
        # Raises what is wrong with an existing key.
        keys.load(path)
    which = f"; it needs {quoted(vkey, 120)}" if found else ""
    raise JournalUnavailable(
        f"the journal {files.shown_log} is there, and its key is not in {quoted(files.key, 200)}{which}", hint=hint
    )


def _find_signer(files: JournalFiles, vkey: str) -> Signer | None:
    """Return the key with which this log continues, from any of the key files."""
    from lockgate.journal import keys

    for path in reversed(files.key_files()):
        # A key that cannot be read cannot sign.
        with suppress(LockgateError):
            signer = keys.load(path)
            if signer.key.vkey == vkey:
                return signer
    return None


def journal_from_settings(settings: Settings) -> recording.JournalWriter | None:
    """Return where a gate of these settings records its rulings; None only if the operator switched the journal off.

    Nothing is opened before the first ruling. An unusable place then raises JournalUnavailable for each ruling.
    """
    audit = settings.audit
    if not audit.enabled:
        with suppress(LockgateError):
            recording.note_journal_off(journal_files(settings).note)
        return None
    if audit.strict and not audit.witnesses:
        raise InvalidConfig(
            "`security.audit.strict` needs a witness",
            hint="name one in `security.audit.witnesses`, or set strict = false",
        )
    if audit.witnesses or audit.anchors:
        from lockgate.journal.anchors import parse_anchor
        from lockgate.journal.publisher import parse_witness

        for name, texts, parse in (
            ("witnesses", audit.witnesses, parse_witness),
            ("anchors", audit.anchors, parse_anchor),
        ):
            for text in texts:
                try:
                    parse(text)
                except InvalidConfig as error:
                    raise InvalidConfig(f"`security.audit.{name}`: {error.message}", hint=error.hint) from None
    try:
        files = journal_files(settings)
    except JournalUnavailable as error:
        return recording.UnavailableJournal(error.message, hint=error.hint)
    return recording.DeclaredJournal(
        partial(_shared_log, settings),
        policy_hash=settings.policy.hash,
        settings_hash=settings_hash(settings),
        software=_SOFTWARE,
        note=files.note,
    )


_SOFTWARE = f"lockgate/{__version__}"


def settings_hash(settings: Settings) -> str:
    """Return one hash over all settings that decide how calls are ruled on and recorded, and the program's version."""

    def plain(value: object) -> object:
        return dict(value) if isinstance(value, Mapping) else str(value)

    said = {
        "policy": settings.policy.hash,
        "audit": asdict(settings.audit),
        "supervision": asdict(settings.supervision),
        "abuse_gate": settings.abuse_gate,
        "software": _SOFTWARE,
    }
    return f"sha256:{sha256(json.dumps(said, sort_keys=True, default=plain).encode()).hexdigest()}"


# One per log and process: the records of all gates share commits, signatures and a thread.
_logs: dict[tuple[JournalFiles, AuditSettings], tuple[recording.OpenedJournal, Callable[[], None]]] = {}
# What agents wrote from untrusted text: one store per file and process.
_carried: dict[Path, SqliteCarriedTexts] = {}
_logs_lock = Lock()


def _reset_lock() -> None:
    global _logs_lock
    _logs_lock = Lock()


on_fork(_reset_lock)


def _shared_log(settings: Settings) -> recording.OpenedJournal:
    files, audit = journal_files(settings), settings.audit
    with _logs_lock:
        if (files, audit) not in _logs:
            log, origin = _open_log(settings)
            known: tuple[recording.OpenedJournal, Callable[[], None]] = (
                recording.OpenedJournal(log, log, origin),
                log.close,
            )
            if audit.witnesses or audit.anchors:
                from lockgate.journal.publisher import WitnessedJournal, start_publishing

                publishing = start_publishing(log, audit.witnesses, audit.anchors, witnessed=files.witnessed)
                strict = WitnessedJournal(log, publishing, strict_s=audit.strict_seconds) if audit.strict else log
                known = recording.OpenedJournal(strict, log, origin), publishing.close
            _logs[files, audit] = known
        return _logs[files, audit][0]


def close_journals() -> None:
    """Sign and close the journals that gates of this process have opened (also done at exit), and their other files."""
    with _logs_lock:
        while _logs:
            _logs.popitem()[1][1]()
        while _carried:
            _carried.popitem()[1].close()


def scanner_from_settings(settings: Settings) -> Scanner:
    rules = (*RULES, *rules_from_patterns(settings.policy.additional_patterns))
    return cached_scanner(rules, rule_cache_from_settings(settings))


def request_scanner_from_settings(settings: Settings) -> Scanner:
    """Return the readings and the installation's own patterns: of the rules for agents, none is about requests."""
    return cached_scanner(rules_from_patterns(settings.policy.additional_patterns), rule_cache_from_settings(settings))


def adapter_from_env(
    environ: Mapping[str, str] | None = None, *, keys: KeySource | None = None
) -> LocalRuleAdapter | RemoteAdapter | EmbeddedAdapter:
    """Return the adapter that the environment names, with the rules of this process's configuration."""
    from lockgate.settings.verifiers import verifier_settings_from_env

    # The verifier's settings first: refusing them is quicker than compiling rules.
    verifier = verifier_settings_from_env(environ, keys_elsewhere=keys is not None)
    settings = discover_settings(environ=environ, check_pattern=check_pattern)
    scanner = request_scanner_from_settings(settings)
    return adapter_from_settings(verifier, scanner, keys=keys, preset=settings.policy.judge_preset)


def adapter_from_settings(
    settings: VerifierSettings,
    scanner: Scanner,
    *,
    keys: KeySource | None = None,
    client: Client | None = None,
    wrap_provider: ProviderWrapper | None = None,
    preset: str = "balanced",
) -> LocalRuleAdapter | RemoteAdapter | EmbeddedAdapter:
    # Imported here: a gate, and the command that hosts start for every call, do not need it.
    from lockgate.verifiers.adapters import EmbeddedAdapter, LocalRuleAdapter, RemoteAdapter

    if settings.adapter == "none":
        return LocalRuleAdapter(scanner=scanner, timeout_ms=settings.timeout_ms)
    if settings.adapter == "embedded":
        from lockgate.verifiers.embedded_judge import EmbeddedJudge

        judge = EmbeddedJudge(preset=preset)
        try:
            judge.verify()
        except InvalidConfig as error:
            raise InvalidConfig(f"VERIFIER_ADAPTER `embedded`: {error.message}", hint=error.hint) from None
        return EmbeddedAdapter(judge, scanner=scanner, timeout_ms=settings.timeout_ms)
    try:
        provider = provider_from_settings(settings)
        tenant_providers = {
            each.tenant: provider_from_settings(
                replace(settings, endpoint=each.endpoint, model=each.model, unsafe_http=each.unsafe_http)
            )
            for each in settings.tenant_endpoints
        }
    except InvalidConfig as error:
        raise InvalidConfig(f"VERIFIER_ADAPTER `{settings.adapter}`: {error.message}", hint=error.hint) from None
    wrap = wrap_provider or (lambda provider: provider)
    return RemoteAdapter(
        wrap(provider),
        client or _client(settings, settings.timeout_ms),
        settings.keys if keys is None else keys,
        scanner=scanner,
        timeout_ms=settings.timeout_ms,
        excerpt_characters=settings.excerpt_characters,
        custom_redactions=settings.custom_redactions,
        key_needed=settings.key_needed,
        tenant_providers={tenant: wrap(each) for tenant, each in tenant_providers.items()},
    )


def _client(settings: VerifierSettings, timeout_ms: int) -> Client:
    from lockgate.verifiers.client import Client

    return Client(
        timeout_ms=timeout_ms,
        max_retries=settings.max_retries,
        circuit_open_s=settings.circuit_open_s,
        ca_file=settings.ca_file,
    )


def provider_from_settings(settings: VerifierSettings) -> Provider:
    match settings.adapter:
        case "openai":
            from lockgate.verifiers.providers.openai import OpenAI

            return OpenAI(settings.model, settings.endpoint, unsafe_http=settings.unsafe_http)
        case "anthropic":
            from lockgate.verifiers.providers.anthropic import Anthropic

            return Anthropic(settings.model, settings.endpoint, unsafe_http=settings.unsafe_http)
        case "azure":
            from lockgate.verifiers.providers.azure import Azure

            return Azure(settings.endpoint, settings.model, settings.api_version, unsafe_http=settings.unsafe_http)
        case "compatible":
            from lockgate.verifiers.providers.compatible import Compatible

            return Compatible(settings.model, settings.endpoint, unsafe_http=settings.unsafe_http)
    raise InvalidConfig(f"no adapter is called `{settings.adapter}`")


def cached_scanner(rules: tuple[Rule, ...], cache: RuleCache | None) -> Scanner:
    """Return the compiled rules, from the cache if they are intact there; a cache that fails costs only time."""
    return Scanner(rules, cache)


def rule_cache_from_settings(settings: Settings) -> RuleCache:
    """Return where compiled rules come from; none are kept where there is no folder for them, or for their key."""
    if settings.cache_dir is None or settings.state_dir is None:
        return RuleCache(None)
    return RuleCache(SealedCache(settings.cache_dir, settings.state_dir))
