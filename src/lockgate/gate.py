"""The gate and its sessions: the pure pipeline, driven with a clock and a lock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from time import perf_counter_ns

from lockgate.core import pipeline
from lockgate.core.context import Context
from lockgate.core.errors import InvalidBlock, InvalidCall, quoted
from lockgate.core.policy import Policy, tightened
from lockgate.core.rules import RULES
from lockgate.core.scanner import Scanner, custom_rules
from lockgate.core.vocabulary import Block, Decision, Kind, Lineage, Mode, ToolCall, Trust

_shared: dict[tuple[str, ...], Scanner] = {}
_sharing = Lock()


def shared_scanner(policy: Policy) -> Scanner:
    """The compiled rules for a policy, once per process: compiling takes seconds."""
    key = policy.additional_patterns
    with _sharing:
        if key not in _shared:
            if len(_shared) >= 8:
                _shared.clear()
            _shared[key] = Scanner((*RULES, *custom_rules(key)))
        return _shared[key]


class Gate:
    """Rules on tool calls. `Gate()` uses the defaults, keeps everything in memory and touches no file."""

    def __init__(self, policy: Policy | None = None, *, scanner: Scanner | None = None) -> None:
        self.policy = policy or Policy()
        self._scanner = scanner

    @classmethod
    def from_config(cls, path: str | None = None) -> Gate:
        """A gate with the discovered configuration, its compiled rules kept in the user's cache directory."""
        from lockgate.assemble import gate_from_config

        return gate_from_config(path)

    @property
    def scanner(self) -> Scanner:
        if self._scanner is None:
            self._scanner = shared_scanner(self.policy)
        return self._scanner

    def session(self, *, goal: str = "", mode: str | Mode | None = None, scope: str = "") -> Session:
        """One agent run. A mode given here can make the policy stricter, never looser."""
        if not isinstance(goal, str):
            raise InvalidBlock(f"a goal must be text, not {type(goal).__name__}")
        policy = self.policy
        if mode is not None:
            asked = {"research_scope": scope} if scope else {}
            policy = tightened(policy, mode=_mode(mode), **asked)
        return Session(self.scanner, policy, goal)


class Session:
    """One agent run: add what enters its context, check each call before it runs. Safe for several threads."""

    def __init__(self, scanner: Scanner, policy: Policy, goal: str) -> None:
        self.policy = policy
        self.goal = goal
        self._scanner = scanner
        self._context = Context(scanner, user_trust=policy.user_trust)
        self._lock = Lock()
        if goal:
            self._context.add(goal, source="goal", id="goal")

    @property
    def blocks(self) -> tuple[Block, ...]:
        with self._lock:
            return tuple(self._context.blocks)

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
        """Take a piece of context in, scanned once and for all; returns it with the trust it really has."""
        if not isinstance(content, str):
            raise InvalidBlock(f"content must be text, not {type(content).__name__}", hint="decode bytes first")
        if not source or not isinstance(source, str):
            raise InvalidBlock("a block needs a source", hint='say where it came from, e.g. source="tool:read_inbox"')
        if id is not None and not isinstance(id, str):
            raise InvalidBlock(f"a block's id must be text, not {type(id).__name__}")
        level = _trust(trust)
        sort = None if kind is None else _kind(kind)
        parents = [parent.id if isinstance(parent, Block) else parent for parent in tainted_by]
        with self._lock:
            return self._context.add(
                content, source=source, trust=level, kind=sort, mutable=mutable, tainted_by=parents, id=id
            )

    def check(
        self, tool: str, arguments: Mapping[str, object], *, annotations: Mapping[str, object] | None = None
    ) -> Decision:
        """Rule on one call before it runs: only CONTINUE lets it run."""
        began = perf_counter_ns()
        if not isinstance(tool, str):
            raise InvalidCall(f"a tool's name must be text, not {type(tool).__name__}")
        if type(arguments) is not dict and not isinstance(arguments, Mapping):
            raise InvalidCall(f"arguments must be an object, not {type(arguments).__name__}")
        with self._lock:
            ruling = pipeline.begin(
                self._context, ToolCall(tool, arguments), self.policy, self._scanner, annotations=annotations
            )
        decision = ruling if type(ruling) is Decision else pipeline.settle(ruling, self.policy)
        # The pure pipeline has no clock: the time, its last field, is filled in here.
        return Decision._make((*decision[:-1], (perf_counter_ns() - began) / 1000))

    async def check_async(
        self, tool: str, arguments: Mapping[str, object], *, annotations: Mapping[str, object] | None = None
    ) -> Decision:
        """The same ruling for a caller on an event loop; Tier 1 takes microseconds, so it runs in place."""
        return self.check(tool, arguments, annotations=annotations)

    def lineage(self, block: str | Block, *, depth: int = 16) -> Lineage:
        """What a block was derived from, as a tree."""
        with self._lock:
            return self._context.lineage(block.id if isinstance(block, Block) else block, depth=depth)


def _trust(value: str | Trust | None) -> Trust | None:
    if value is None or isinstance(value, Trust):
        return value
    try:
        return Trust[value.upper()]
    except (KeyError, AttributeError):
        raise InvalidBlock(f"unknown trust {quoted(value)}", hint="use trusted, vetted or untrusted") from None


def _kind(value: str | Kind) -> Kind:
    try:
        return Kind(value)
    except ValueError:
        raise InvalidBlock(f"unknown kind {quoted(value)}", hint="use instruction or data") from None


def _mode(value: str | Mode) -> Mode:
    try:
        return Mode(value)
    except ValueError:
        raise InvalidCall(f"unknown mode {quoted(value)}", hint="use default, paranoid or research") from None
