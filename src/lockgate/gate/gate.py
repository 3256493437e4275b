"""The gate: what every session of a process shares, and where sessions begin."""

from __future__ import annotations

from collections.abc import Callable, Collection
from os import PathLike, environ, fspath, path, urandom
from threading import Lock
from typing import TYPE_CHECKING

from lockgate.core.errors import InvalidBlock, InvalidCall, InvalidConfig, quoted
from lockgate.core.ruling.effects.project import Project
from lockgate.core.ruling.policy import Policy, change_policy, tighten
from lockgate.core.text.rules import RULES
from lockgate.core.text.scanner import Scanner, check_pattern, rules_from_patterns
from lockgate.core.vocabulary import OBSERVE, Mode
from lockgate.gate.judge import Judge
from lockgate.gate.person_questions import Approvals
from lockgate.gate.ruler import CarriedTexts, Ledger, Ruler, VouchedTexts
from lockgate.gate.session import Session
from lockgate.runtime.accounts import own_account
from lockgate.runtime.forks import on_fork
from lockgate.runtime.rule_cache import RuleCache
from lockgate.runtime.sealed_cache import SealedCache
from lockgate.settings.files import home_folder, xdg_folder

if TYPE_CHECKING:
    from lockgate.gate.judge_budget import JudgeBudget
    from lockgate.journal.recorder import JournalWriter

_MAX_SCANNERS = 8
_scanners: dict[tuple[str, ...], Scanner] = {}
_scanner_lock = Lock()


def _reset_lock() -> None:
    global _scanner_lock
    _scanner_lock = Lock()


on_fork(_reset_lock)


def shared_scanner(policy: Policy) -> Scanner:
    """Return the compiled rules for a policy: once per process, from this user's sealed cache where they are there."""
    key = policy.additional_patterns
    with _scanner_lock:
        if key not in _scanners:
            if len(_scanners) >= _MAX_SCANNERS:
                _scanners.clear()
            _scanners[key] = Scanner((*RULES, *rules_from_patterns(key)), _users_rule_cache())
        return _scanners[key]


def _users_rule_cache() -> RuleCache:
    """Return where this user's compiled rules come from; a user without a home keeps none."""
    home = home_folder(environ)
    folder = xdg_folder(environ, "XDG_CACHE_HOME", home, ".cache")
    state = xdg_folder(environ, "XDG_STATE_HOME", home, ".local/state")
    return RuleCache(SealedCache(folder, state) if folder is not None and state is not None else None)


class Gate:
    """Rules on tool calls. `Gate()` uses the defaults and keeps everything in memory, but for its compiled rules.

    Without judges an escalated call gets what the policy says of calls that no judge could clear: PAUSE when the tool
    is high-risk. `prices` turns a judge's name and tokens into US dollars, or None where it does not know, and `budget`
    limits the questions. With a `journal` no ruling is returned before it is recorded there. `vouched` knows what a
    person has vouched for, `carried` what agents have written from untrusted text.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        scanner: Scanner | None = None,
        triage: Judge | None = None,
        supervisor: Judge | None = None,
        approvals: Approvals | None = None,
        ledger: Ledger | None = None,
        journal: JournalWriter | None = None,
        prices: Callable[[str, int, int], float | None] | None = None,
        budget: JudgeBudget | None = None,
        vouched: VouchedTexts | None = None,
        carried: CarriedTexts | None = None,
        human_timeout_s: float = 300.0,
        approval_life_s: float = 86_400.0,
        two_person: Collection[str] = (),
        service_port: int = 7717,
        own_folders: Collection[str] = (),
    ) -> None:
        self.policy = policy or Policy()
        self.triage = triage
        self.supervisor = supervisor
        self.approvals = approvals
        self.ledger = ledger
        self.journal = journal
        self.prices = prices
        self.budget = budget
        self.vouched = vouched
        self.carried = carried
        for name, seconds in (("human_timeout_s", human_timeout_s), ("approval_life_s", approval_life_s)):
            if not 0 < seconds < float("inf"):
                raise InvalidConfig(f"{name} must be a number of seconds, not {seconds!r}", hint="300 is five minutes")
        # How long a host is made to wait for an answer; a question can be answered at least as long.
        self.human_timeout_s = human_timeout_s
        self.approval_life_s = max(approval_life_s, human_timeout_s)
        # The effects, by kind or severity, that two people have to approve.
        self.two_person = frozenset(two_person)
        # Where Lockgate itself is, besides the usual places: no call may touch it.
        self.service_port = service_port
        self.own_folders = tuple(own_folders)
        self._scanner = scanner
        if scanner is None:
            # A bad pattern is refused here; the rules themselves are compiled for the first session.
            for pattern in self.policy.additional_patterns:
                check_pattern(pattern)

    @classmethod
    def from_config(cls, path: str | None = None) -> Gate:
        """Return a gate with the discovered configuration: its judges, its stores, and its compiled rules, cached."""
        from lockgate.assemble import gate_from_config

        return gate_from_config(path)

    @property
    def scanner(self) -> Scanner:
        """The compiled rules."""
        if self._scanner is None:
            self._scanner = shared_scanner(self.policy)
        return self._scanner

    def session(
        self,
        *,
        goal: str = "",
        mode: str | Mode | None = None,
        scope: str = "",
        id: str | None = None,
        resumed: bool | None = None,
        project: str | PathLike[str] | None = None,
    ) -> Session:
        """Begin one agent run. A mode given here can make the policy stricter, never looser.

        The one exception is `observe`: this run is ruled on and recorded, and nothing in it is stopped.

        `project` is the folder that the agent works in: what its manifests, lock files and remotes name now is no news
        to this run. It is read once, here, so that nothing the run itself writes counts.

        An approval is bound to the session's `id`: a host that restarts gives the same id to go on. `resumed` is
        whether another process may have asked a person in it already; by default it is where an id is given.
        """
        ruler = self.ruler(goal=goal, mode=mode, scope=scope, id=id, resumed=resumed)
        ruler.files_from = (own_account(), ".")
        if project is not None:
            ruler.project = _read_project(project)
        return Session(ruler)

    def ruler(
        self,
        *,
        goal: str = "",
        mode: str | Mode | None = None,
        scope: str = "",
        id: str | None = None,
        resumed: bool | None = None,
    ) -> Ruler:
        """Return what a `Session` holds, for the parts of Lockgate that need more than its public names."""
        if not isinstance(goal, str):
            raise InvalidBlock(f"a goal must be text, not {type(goal).__name__}")
        if id is not None and not str(id):
            raise InvalidBlock("a session's id must not be empty")
        policy = self.policy
        if mode == OBSERVE:
            policy, mode = change_policy(policy, enforce=False), None
        if mode is not None or scope:
            asked: dict[str, object] = {"research_scope": scope} if scope else {}
            policy = tighten(policy, mode=policy.mode if mode is None else _parse_mode(mode), **asked)
        again = id is not None if resumed is None else resumed
        return Ruler(self, policy, goal, str(id) if id else urandom(8).hex(), resumed=again)


def _read_project(project: str | PathLike[str]) -> Project:
    from lockgate.runtime.project_files import read_project

    folder = path.abspath(fspath(project))
    if not path.isdir(folder):
        raise InvalidCall(f"no folder at {quoted(folder)}", hint="project is the folder that the agent works in")
    return read_project(folder)


def _parse_mode(value: str | Mode) -> Mode:
    try:
        return Mode(value)
    except ValueError:
        raise InvalidCall(f"unknown mode {quoted(value)}", hint="use default, paranoid, research or observe") from None
