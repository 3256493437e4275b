"""The hosts that a plug asks: sessions in this process, or one `Session` that the application holds."""

from __future__ import annotations

from collections.abc import Collection
from time import time
from typing import TYPE_CHECKING, Protocol, runtime_checkable
from weakref import WeakKeyDictionary, ref

from lockgate.core.errors import LockgateError
from lockgate.core.ruling.approvals import ApprovalState
from lockgate.core.vocabulary import Trust
from lockgate.gate.session import Session
from lockgate.integrations.plug import HeldQuestion, Plug, PlugCall, QuestionAnswer
from lockgate.runtime.forks import on_fork
from lockgate.sessions.spoken_reasons import question_for_person

if TYPE_CHECKING:
    from lockgate.core.ruling.approvals import AnswerResult, Approval
    from lockgate.core.vocabulary import Decision
    from lockgate.gate.gate import Gate
    from lockgate.sessions import Host


@runtime_checkable
class AnswerableApprovals(Protocol):
    """The approvals as a plug uses them."""

    def get(self, id: str, now_s: float) -> Approval | None: ...

    def answer(self, id: str, *, digest: str, yes: bool, who: str, now_s: float, reason: str = "") -> AnswerResult: ...


class LocalHost:
    """Sessions in this process; `host` is the same object that the plugs for Claude Code and MCP use."""

    def __init__(self, host: Host, *, renew_on_fork: bool = False) -> None:
        self.host = host
        if renew_on_fork:
            on_fork(self._renew)
        # Compiling the rules takes seconds: here, and not in the first hook, where the framework's deadline runs.
        host.gate.scanner.make_ready()

    @classmethod
    def made_of(cls, gate: Gate | None, *, keep: bool) -> LocalHost:
        """Return a host for a library: with the discovered configuration where no gate is given."""
        from lockgate.assemble import host_for_library

        return cls(host_for_library(gate, keep=keep), renew_on_fork=not keep)

    def _renew(self) -> None:
        # Sessions in memory stay with the process that had them: a forked one begins with none, with the same rules.
        from lockgate.assemble import host_for_library

        self.host = host_for_library(self.host.gate, keep=False)

    def open(self, session: str, *, goal: str, host: str, parent: str, known: bool) -> object:
        return self.host.open(session, goal=goal, host=host, parent=parent, known=known)

    def add(self, session: str, content: str, *, source: str, trust: Trust | None, key: str) -> object:
        return self.host.add(session, content, source=source, trust=trust, key=key)

    def said(self, session: str, texts: Collection[str]) -> set[str]:
        """Return which of these are the user's or the application's own, also where another process read them."""
        own = {("goal", Trust.TRUSTED), ("user", Trust.TRUSTED), ("system", Trust.VETTED)}
        blocks = self.host.blocks(session)
        return {block.content for block in blocks if (block.source, block.trust) in own and block.content in texts}

    def check(self, session: str, call: PlugCall) -> Decision:
        kept = self.host.check(
            session,
            call.tool,
            call.arguments,
            annotations=call.annotations,
            key=call.id,
            findings=call.findings,
        )
        return kept.decision

    def question(self, session: str, tool: str, approval: str) -> HeldQuestion | None:
        approvals: object = self.host.gate.approvals
        found = approvals.get(approval, time()) if isinstance(approvals, AnswerableApprovals) else None
        if found is None or found.state is not ApprovalState.WAITING:
            return None
        text = question_for_person(found.pending, f"the agent in session {session}")
        return HeldQuestion(session, tool, approval, found.pending.digest, text) if text else None

    def answer(self, answer: QuestionAnswer) -> bool:
        approvals: object = self.host.gate.approvals
        if not isinstance(approvals, AnswerableApprovals):
            raise LockgateError("no person can be asked: this gate has no approvals")
        return approvals.answer(
            answer.approval, digest=answer.digest, yes=answer.yes, who=answer.who, now_s=time()
        ).counted

    def outcome(self, session: str, key: str, ran: str) -> bool:
        return self.host.outcome(session, key, ran)

    def close(self) -> None:
        self.host.close()


class SessionHost:
    """One session that the application opened itself; it asks people itself, too."""

    def __init__(self, session: Session) -> None:
        # Weakly, so that a session ends with its last user.
        self._session = ref(session)

    def open(self, session: str, *, goal: str, host: str, parent: str, known: bool) -> object:  # noqa: ARG002
        return self._live()

    def add(self, session: str, content: str, *, source: str, trust: Trust | None, key: str) -> object:  # noqa: ARG002
        return self._live().add(content, source=source, trust=trust)

    def said(self, session: str, texts: Collection[str]) -> set[str]:  # noqa: ARG002
        return set()

    def check(self, session: str, call: PlugCall) -> Decision:  # noqa: ARG002
        return self._live().check(call.tool, call.arguments, annotations=call.annotations, findings=call.findings)

    def question(self, session: str, tool: str, approval: str) -> HeldQuestion | None:  # noqa: ARG002
        return None

    def answer(self, answer: QuestionAnswer) -> bool:  # noqa: ARG002
        return False

    def outcome(self, session: str, key: str, ran: str) -> bool:  # noqa: ARG002
        return False

    def close(self) -> None:
        pass

    def _live(self) -> Session:
        session = self._session()
        if session is None:
            raise LockgateError("the session of this call is gone")
        return session


_of_sessions: WeakKeyDictionary[Session, Plug] = WeakKeyDictionary()


def plug_for_session(session: Session) -> Plug:
    """Return the one plug of a session: a text that one guarded function lost makes the calls of all others suspect."""
    return _of_sessions.setdefault(session, Plug("guard", host=SessionHost(session), on_pause="deny"))
