"""`lockgate approvals watch`: each call is told of when it waits, and once more when it has ended."""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import time

import pytest

from lockgate import Action, Gate
from lockgate.cli import approvals, approvals_watch
from lockgate.core.ruling.approvals import Approval, ApprovalState, PendingApproval, bind_call
from lockgate.gate.approvals_memory import MemoryApprovals


class Done(Exception):
    """Ends a watch that would go on until Ctrl-C."""


def pending(id: str) -> PendingApproval:
    bound = bind_call("s", "send_email", {"to": f"{id}@x.example"}, "sha256:p", "sha256:c")
    return PendingApproval(id, bound, time(), time() + 60)


def answer(store: MemoryApprovals, id: str, *, yes: bool) -> None:
    found = store.get(id, time())
    assert found is not None
    assert store.answer(id, digest=found.pending.digest, yes=yes, who="ana", now_s=time()).counted


def after(*turns: Callable[[], object]) -> Callable[[float], None]:
    """Return what happens between two looks at the store; then the watch ends."""
    left = iter(turns)

    def wait(_: float) -> None:
        turn = next(left, None)
        if turn is None:
            raise Done
        turn()

    return wait


def told(store: MemoryApprovals, *turns: Callable[[], object]) -> list[tuple[str, ApprovalState]]:
    found: list[tuple[str, ApprovalState]] = []
    changes = approvals_watch.changes(store, after(*turns))  # type: ignore[arg-type]
    with suppress(Done):
        while each := next(changes, None):
            found.append((each.pending.id, each.state))
    return found


def test_each_call_is_told_of_when_it_waits_and_when_it_has_ended() -> None:
    store = MemoryApprovals()
    store.ask(pending("a" * 16))
    found = told(
        store,
        lambda: store.ask(pending("b" * 16)),
        lambda: None,
        partial(answer, store, "a" * 16, yes=False),
        partial(answer, store, "b" * 16, yes=True),
    )
    assert found == [
        ("a" * 16, ApprovalState.WAITING),
        ("b" * 16, ApprovalState.WAITING),
        ("a" * 16, ApprovalState.DENIED),
        ("b" * 16, ApprovalState.GRANTED),
    ]


def test_what_ended_before_is_not_told_of() -> None:
    store = MemoryApprovals()
    store.ask(pending("a" * 16))
    answer(store, "a" * 16, yes=False)
    assert told(store, lambda: None) == []


def options(*, json: bool = False) -> argparse.Namespace:
    return argparse.Namespace(
        what="watch", json=json, full=False, span="once", who="ana", reason="", yes=False, id=None
    )


def test_elsewhere_than_in_a_terminal_lines_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    store = MemoryApprovals()
    store.ask(pending("a" * 16))
    for given in (options(json=True), options()):
        with pytest.raises(Done):
            approvals_watch.watch(
                store,  # type: ignore[arg-type]
                given,
                tell=partial(approvals._tell_change, given),
                ask=lambda _: pytest.fail("no terminal"),
                wait=after(),
            )
    lines = capsys.readouterr().out.splitlines()
    assert json.loads(lines[0])["id"] == "a" * 16
    assert any(line.startswith("a" * 16) for line in lines[1:])


@pytest.mark.parametrize(
    ("typed", "state"),
    [("yes", "granted"), ("no", "denied"), ("", "waiting"), ("y", "waiting"), ("yes please", "waiting")],
)
def test_a_plain_yes_or_no_answers_and_all_else_leaves_it_waiting(
    typed: str, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryApprovals()
    store.ask(pending("a" * 16))
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{typed}\n"))
    found = store.get("a" * 16, time())
    assert isinstance(found, Approval)
    approvals._ask_now(store, options(), found)  # type: ignore[arg-type]
    after_it = store.get("a" * 16, time())
    assert after_it is not None
    assert after_it.state.value == state


@pytest.mark.parametrize(
    "command",
    ["lockgate approvals watch", "yes | lockgate approvals watch", "script -qc 'lockgate approvals watch' /dev/null"],
)
def test_an_agent_cannot_answer_by_watching(command: str) -> None:
    session = Gate().session(goal="Fix the tests")
    assert session.check("Bash", {"command": command}).action is Action.PAUSE
