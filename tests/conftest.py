"""The built-in rules compiled once per checkout, a short way to ask the gate one question, and no journal left open."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from rule_cache import drop_old_patterns, keep_rules, share_compiled_patterns

from lockgate import Decision, Gate, Policy, assemble
from lockgate.core.text.rules import RULES
from lockgate.core.text.scanner import Scanner
from lockgate.gate import gate as gate_module
from lockgate.runtime.sealed_cache import SealedCache
from lockgate.verifiers import embedded_model

# The same examples in every run: `make fuzz` is where chance and many examples belong. And no example has a deadline of
# its own, nor may making examples be called slow: both measure the machine.
settings.register_profile(
    "steady", derandomize=True, deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")

Ask = Callable[..., Decision]

# In the background of a shell Ctrl-C is ignored, and so it would be in every process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Keep the compiled rules between runs: every process of every run would spend some seconds on them."""
    # Gates that tests make keep nothing in the home of the person who runs them.
    gate_module._users_rule_cache = lambda: None
    kept = getattr(session.config, "cache", None)
    if kept is not None:
        folder = kept.mkdir("compiled-rules")
        folder.chmod(0o700)
        sealed = SealedCache(folder, folder)
        gate_module._scanners[()] = Scanner(RULES, sealed)
        share_compiled_patterns(sealed)
        drop_old_patterns(folder)


def pytest_collection_finish() -> None:
    """Leave the many thousand collected tests out of every garbage collection."""
    gc.collect()
    gc.freeze()


# The embedded judge's engine comes with the hosts, and `make test-hosts` runs these.
if find_spec("onnx") is None:
    collect_ignore = [
        "abuse_gate/test_middleware_judged.py",
        "bench/test_judge_quick_run.py",
        "verifiers/test_embedded_judge.py",
        "verifiers/test_embedded_judge_configured.py",
        "cli/test_judge.py",
    ]


@pytest.fixture(autouse=True)
def _no_embedded_judge() -> Iterator[None]:
    """What a gate without judges does must not depend on whether this checkout has a model.

    For each test, and not once: fixtures of a module are made before, and some of them want the shipped judge. Without
    `monkeypatch`, which would cost every test a tenth of a millisecond.
    """
    pin, embedded_model.PIN = embedded_model.PIN, ""
    yield
    embedded_model.PIN = pin


@pytest.fixture(autouse=True)
def _journals_end() -> Iterator[None]:
    yield
    assemble.close_journals()


@pytest.fixture(autouse=True, scope="module")
def _leaks_show_in_their_own_file() -> Iterator[None]:
    """Python 3.13 warns of a database that was never closed when it is collected, often in a later file's test."""
    yield
    if sys.version_info >= (3, 13):
        gc.collect()


@pytest.fixture(scope="session")
def scanner() -> Scanner:
    return gate_module.shared_scanner(Policy())


@pytest.fixture(scope="session")
def cache(scanner: Scanner, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for XDG_CACHE_HOME: processes of their own find the compiled rules there, and need not compile them."""
    folder = tmp_path_factory.mktemp("cache")
    keep_rules(scanner, folder, tmp_path_factory.mktemp("state"))
    return folder


@pytest.fixture(scope="session")
def gate(scanner: Scanner) -> Gate:
    return Gate(scanner=scanner)


@pytest.fixture(scope="session")
def ask(scanner: Scanner) -> Ask:
    """The ruling on one call after some texts from outside were read, in a session of its own."""

    def ask(
        texts: str | Sequence[str],
        tool: str,
        arguments: Mapping[str, object],
        *,
        goal: str = "Summarise what came in this week",
        annotations: Mapping[str, object] | None = None,
        **policy: object,
    ) -> Decision:
        session = Gate(Policy(**policy), scanner=scanner).session(goal=goal)  # type: ignore[arg-type]
        for text in [texts] if isinstance(texts, str) else texts:
            session.add(text, source="tool:read_inbox")
        return session.check(tool, arguments, annotations=annotations)

    return ask
