"""The parts of an abuse gate that the application does not give: made from the settings and the environment."""

from __future__ import annotations

import logging
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from lockgate.abuse_gate.identity import Identity, Principal
from lockgate.abuse_gate.shared_strikes import Ladder
from lockgate.core.errors import InvalidConfig
from lockgate.gate.gate import Gate
from lockgate.journal.recorder import JournalWriter
from lockgate.runtime.metrics import Metrics
from lockgate.settings.abuse_gate import AbuseSettings, abuse_settings_from_env

if TYPE_CHECKING:
    from lockgate.abuse_gate.documents.inspector import Inspector
    from lockgate.abuse_gate.stores.bans_sqlite import SqliteBans
    from lockgate.abuse_gate.stores.strikes_valkey import ValkeyStrikes
    from lockgate.verifiers.adapters import VerifierAdapter

LOG = logging.getLogger("lockgate.abuse_gate")
# The package that reads PDF files, and how to install it.
PDF_READER, INSTALL_PDF_READER = "pypdf", "pip install 'lockgate[api]'"


def configured_parts(
    settings: AbuseSettings | None, journal: JournalWriter | Literal[False] | None, gate: Gate | None
) -> tuple[AbuseSettings, JournalWriter | None, Gate]:
    """Return what is given, and what is not from the configuration; `False` for the journal means none."""
    if settings is not None and journal is not None and gate is not None:
        return settings, journal or None, gate
    from lockgate import assemble

    found = assemble.settings_from_environment()
    # The settings first: refusing them is quicker than compiling rules.
    settings = settings or abuse_settings_from_env(table=found.abuse_gate)
    if journal is None:
        journal = assemble.journal_from_settings(found)
    return settings, journal or None, gate or Gate(found.policy, scanner=assemble.scanner_from_settings(found))


def adapter_from_environment() -> VerifierAdapter:
    """Return the adapter that `VERIFIER_ADAPTER` names."""
    from lockgate.verifiers.adapters import resolve_adapter_from_env

    return resolve_adapter_from_env()


def checked_identity(settings: AbuseSettings, given: Identity | None, principal: Principal | None) -> Identity:
    """Return the given identity, or one from the settings; raise InvalidConfig if it contradicts the settings."""
    if given is None:
        return Identity.from_settings(settings, principal)
    if principal is not None:
        raise InvalidConfig("both an identity and a principal are given", hint="an Identity takes the principal itself")
    if not given.matches_settings(settings):
        raise InvalidConfig(
            "the identity has another secret than ABUSE_SECRET, or does not trust ABUSE_TRUSTED_PROXIES",
            hint="give the gate `principal=…` instead, or make it with Identity.from_settings(settings, principal)",
        )
    return given


def ladder_from_settings(settings: AbuseSettings, metrics: Metrics) -> Ladder:
    return Ladder(
        settings.ladder,
        shared_store_from_settings(settings),
        bans=ban_file_from_settings(settings),
        count=metrics.ladder_events.add,
    )


def shared_store_from_settings(settings: AbuseSettings) -> ValkeyStrikes | None:
    """Return the store that several gates share, or None."""
    if settings.store == "memory":
        return None
    from lockgate.abuse_gate.stores.strikes_valkey import ValkeyStrikes

    scheme, _, place = settings.store.partition("://")
    password = f":{quote(settings.store_password, safe='')}@" if settings.store_password else ""
    return ValkeyStrikes(f"{scheme}://{password}{place}", settings.ladder)


def ban_file_from_settings(settings: AbuseSettings, *, make: bool = True) -> SqliteBans | None:
    """Return the bans file, or None if the settings name none."""
    if not settings.bans_file:
        return None
    from lockgate.abuse_gate.stores.bans_sqlite import SqliteBans

    return SqliteBans(Path(settings.bans_file), settings.ladder, make=make)


def inspector_from_settings(settings: AbuseSettings, gate: Gate) -> Inspector:
    from lockgate.abuse_gate.documents.inspector import InspectionLimits, Inspector

    if settings.enabled and not can_read_pdf():
        becomes = "refused" if settings.on_unread == "block" else "passed on unread"
        LOG.warning(
            "PDF files cannot be read here, and requests that carry one are %s: %s", becomes, INSTALL_PDF_READER
        )
    # Within the time for the whole verdict: a document that is read counts, even if another one takes too long.
    total_s = min(InspectionLimits().total_s, settings.verdict_timeout_s * 0.8)
    limits = InspectionLimits(
        timeout_s=min(InspectionLimits().timeout_s, total_s), total_s=total_s, document_bytes=settings.max_body_bytes
    )
    return Inspector(limits, scanner=gate.scanner)


def can_read_pdf() -> bool:
    """Return whether the package that reads PDF files is installed."""
    return find_spec(PDF_READER) is not None
