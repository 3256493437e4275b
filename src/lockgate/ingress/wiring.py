"""The parts of an abuse gate that nobody has given it: from its settings, and from the environment."""

from __future__ import annotations

from os import urandom
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from lockgate.abuse_settings import AbuseSettings, abuse_settings
from lockgate.gate import Gate
from lockgate.ingress.identity import Identity
from lockgate.ingress.ladder import Ladder
from lockgate.metrics import Metrics
from lockgate.recording import Journal

if TYPE_CHECKING:
    from lockgate.adapters import VerifierAdapter
    from lockgate.ingress.artifacts import Inspector


def from_environment(journal: Journal | None, gate: Gate | None) -> tuple[AbuseSettings, Journal | None, Gate]:
    """The settings in force here, with the journal and the rules of the configuration where none are given."""
    from lockgate import assemble

    found = assemble.settings_from_environment()
    settings = abuse_settings(table=found.abuse_gate)
    return (
        settings,
        journal or assemble.journal_from_settings(found),
        gate or Gate(found.policy, scanner=assemble.scanner_from_settings(found)),
    )


def adapter() -> VerifierAdapter:
    from lockgate.adapters import resolve_adapter_from_env

    return resolve_adapter_from_env()


def identity(settings: AbuseSettings) -> Identity:
    return Identity(settings.secret or urandom(32), trusted_proxies=settings.trusted_proxies)


def ladder(settings: AbuseSettings, metrics: Metrics) -> Ladder:
    store = bans = None
    if settings.store != "memory":
        from lockgate.stores.abuse_valkey import ValkeyStrikes

        scheme, _, place = settings.store.partition("://")
        password = f":{quote(settings.store_password, safe='')}@" if settings.store_password else ""
        store = ValkeyStrikes(f"{scheme}://{password}{place}", settings.ladder)
    if settings.bans_file:
        from lockgate.stores.abuse_bans import SqliteBans

        bans = SqliteBans(Path(settings.bans_file), settings.ladder)
    return Ladder(settings.ladder, store, bans=bans, count=metrics.ladder_events.add)


def inspector(settings: AbuseSettings, gate: Gate) -> Inspector:
    from lockgate.ingress.artifacts import Inspector, Limits

    # Within the time for the whole verdict: what one document says counts, also when another takes too long.
    total_s = min(Limits().total_s, settings.verdict_timeout_s * 0.8)
    limits = Limits(timeout_s=min(Limits().timeout_s, total_s), total_s=total_s, document_bytes=settings.max_body_bytes)
    return Inspector(limits, scanner=gate.scanner)
