from __future__ import annotations

import subprocess
import sys

import pytest

import lockgate

NAMES = [
    "AbuseGateMiddleware",
    "Action",
    "Assessment",
    "Block",
    "Commitment",
    "Decision",
    "ENCODED_CONTENT_WARNING",
    "Finding",
    "Gate",
    "HeldByLockgate",
    "Inquiry",
    "InvalidBlock",
    "InvalidCall",
    "InvalidConfig",
    "InvalidPattern",
    "InvalidPayload",
    "InvalidTrace",
    "JournalUnavailable",
    "Judge",
    "KeySource",
    "Kind",
    "Lineage",
    "LocalRuleAdapter",
    "LockgateError",
    "MemoryApprovals",
    "Mode",
    "Opined",
    "Origin",
    "Policy",
    "Ran",
    "Reason",
    "Receipt",
    "RemoteAdapter",
    "Risk",
    "Ruling",
    "SelfAssessment",
    "Session",
    "Silent",
    "Step",
    "Supervision",
    "Triage",
    "Trust",
    "Unreadable",
    "Verdict",
    "VerifierAdapter",
    "__version__",
    "guard",
    "resolve_adapter_from_env",
]


def test_the_public_names_are_these_and_no_others() -> None:
    assert sorted(lockgate.__all__) == NAMES
    assert len(set(lockgate.__all__)) == len(lockgate.__all__)


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_resolves(name: str) -> None:
    value = getattr(lockgate, name)
    assert value is getattr(lockgate, name)
    if isinstance(value, type):
        assert value.__name__ == name
        assert value.__module__.startswith("lockgate.")


def test_dir_lists_the_public_names() -> None:
    assert set(NAMES) <= set(dir(lockgate))


@pytest.mark.parametrize("name", ["gate_", "Question", "Scanner", "_missing", ""])
def test_an_unknown_name_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match="has no attribute"):
        getattr(lockgate, name)
    assert not hasattr(lockgate, name)


def test_a_star_import_brings_the_public_names() -> None:
    space: dict[str, object] = {}
    exec("from lockgate import *", space)
    assert set(NAMES) <= set(space)
    assert space["Gate"] is lockgate.Gate


def test_importing_a_name_that_is_not_there_is_an_import_error() -> None:
    with pytest.raises(ImportError):
        exec("from lockgate import Question")


def test_importing_the_package_imports_neither_the_engine_nor_anything_heavy() -> None:
    heavy = (
        "hyperscan",
        "asyncio",
        "json",
        "tomllib",
        "argparse",
        "rich",
        "tempfile",
        "logging",
        "httpx2",
        "opentelemetry",
        "lockgate.gate.gate",
        "lockgate.verifiers.adapters",
        "lockgate.core.text.rules",
    )
    code = f"import sys, lockgate; print([name for name in {heavy!r} if name in sys.modules])"
    clean = [sys.executable, "-I", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"]
    run = subprocess.run(clean, capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.strip() == "[]"


def test_the_version_is_the_installed_one_s_shape() -> None:
    assert [part.isdigit() for part in lockgate.__version__.split(".")[:2]] == [True, True]
