"""One agent run as a host sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lockgate.core.ruling.context import PastCall
from lockgate.core.ruling.policy import Policy
from lockgate.core.vocabulary import Block, Decision, Finding, Kind, Lineage, ToolCall, Trust
from lockgate.gate.ruler import Ruler

if TYPE_CHECKING:
    from lockgate.gate.supervised_step import Step


class Session:
    """One agent run: add what enters its context, check each call before it runs. Safe for several threads."""

    __slots__ = ("__weakref__", "_ruler")

    def __init__(self, ruler: Ruler) -> None:
        self._ruler = ruler

    @property
    def id(self) -> str:
        """The name of the run; approvals are bound to it."""
        return self._ruler.id

    @property
    def goal(self) -> str:
        """What the user wants from this run."""
        return self._ruler.goal

    @property
    def policy(self) -> Policy:
        """The policy in force in this run."""
        return self._ruler.policy

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Every block so far."""
        return self._ruler.blocks

    def block(self, id: str) -> Block | None:
        """Return the block of this id; None where there is none."""
        return self._ruler.block(id)

    @property
    def history(self) -> tuple[PastCall, ...]:
        """The latest calls with their rulings, oldest first."""
        return self._ruler.history

    def add(
        self,
        content: str,
        *,
        source: str,
        trust: str | Trust | None = None,
        kind: str | Kind | None = None,
        mutable: bool | None = None,
        tainted_by: Sequence[str | Block] = (),
        id: str | None = None,
    ) -> Block:
        """Add a piece of context, scanned once; return it with the trust it really has.

        Untrusted text voids the questions that are open with a person.
        """
        return self._ruler.add(
            content, source=source, trust=trust, kind=kind, mutable=mutable, tainted_by=tainted_by, id=id
        )

    def check(
        self,
        tool: str,
        arguments: Mapping[str, object],
        *,
        annotations: Mapping[str, object] | None = None,
        findings: Sequence[Finding] = (),
    ) -> Decision:
        """Rule on one call before it runs: only CONTINUE lets it run.

        `findings` is what the host itself knows against the call: with any, it is escalated, whatever the tool.
        """
        return self._ruler.check(ToolCall(tool, arguments, annotations, findings))

    async def check_async(
        self,
        tool: str,
        arguments: Mapping[str, object],
        *,
        annotations: Mapping[str, object] | None = None,
        findings: Sequence[Finding] = (),
    ) -> Decision:
        """Rule on one call for a caller on an event loop; the ruling is the same."""
        return await self._ruler.check_async(ToolCall(tool, arguments, annotations, findings))

    def step(self, goal: str, *, supervision: str | None = None, parent: Step | None = None) -> Step:
        """Begin a supervised unit of work: the agent commits, acts through checked calls, and is held to its word."""
        from lockgate.gate.supervised_step import Step

        ruler = self._ruler
        return Step(ruler, goal, supervision=supervision, parent=parent, name=ruler.next_step_name())

    def lineage(self, block: str | Block, *, depth: int = 16) -> Lineage:
        """Return what a block was derived from, as a tree."""
        return self._ruler.lineage(block, depth=depth)
