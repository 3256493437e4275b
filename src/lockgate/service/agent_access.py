"""What the agent's token may say, and what it is told.

An agent may find the token of its own plug. With it, it must not be able to say in its user's name that a call is
wanted, nor to read what other agents have read.

1. Own.   A session that was opened over HTTP with the agent's token is that token's, if what it is inside of is too.
          All programs that have the token are one here: an operator whose agents must not trust each other runs
          several services.
2. Say.   In its own sessions the token says what the host says: the user's words, and whom to trust. In any other it
          can only add text, and that is untrusted whatever it is said to be. What a session is about (its scope) is
          the operator's to say, in every session.
3. Hear.  A ruling in any other session comes without a word of what that session has read.
4. Keep out.  A session that a hook of another account opened is closed to the token, and so is what is inside of it:
          calls that are asked about there would count as that agent's own.

What comes over /hooks is about sessions that a hook opened, and about no other (`claude_code/events.py`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

from lockgate.core.errors import LockgateError
from lockgate.core.vocabulary import OBSERVE, Decision, Finding
from lockgate.runtime.accounts import account_of_peer
from lockgate.service.http import Caller, Problem, Request
from lockgate.sessions.host import is_plug
from lockgate.sessions.live_session import OPENED_BY, OPENER_ACCOUNT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockgate.sessions import Host, SessionInfo, StoredRuling

# In the notes of a session when it is made, and never later.
OPENED = {OPENED_BY: "agent"}
# Whose words count as orders or wishes; an agent's own are worth what it has read.
_SPEAKERS = ("user", "system", "goal", "supervisor")
_MOST_INSIDE = 16
_GROUNDS_WITHHELD = "what this rests on is told to a person only, since another program opened the session"


def is_own(host: Host, info: SessionInfo | None) -> bool:
    """1. Whether a session and all that it is inside of were opened with the agent's token."""
    for _ in range(_MOST_INSIDE):
        if info is None or any(info.meta.get(name) != value for name, value in OPENED.items()):
            return False
        if not info.parent:
            return True
        info = host.session(info.parent)
    return False


def may_speak_for_user(host: Host, request: Request, session: str) -> bool:
    """Return whether the caller may speak for the user of this session."""
    return request.who is Caller.PERSON or is_own(host, host.session(session))


def open_session_for(host: Host, request: Request, id: str, goal: str, given: dict[str, Any]) -> SessionInfo:
    """2. The session that is opened; only who speaks for its user says its goal and mode."""
    if request.who is Caller.PERSON:
        return host.open(id, goal=goal, **given)
    for name in (id, given.get("parent", "")):
        require_same_account(host, request, name)
    if is_plug(_as_shown(given.get("host", ""))):
        raise Problem(
            403, "not-yours", "this host opens its sessions itself", hint="give `host` the name of your own program"
        )
    if not given.get("host", "").isascii():
        raise Problem(422, "invalid", "a host's name must be ASCII", hint="name your program in plain letters")
    if "scope" in given:
        raise Problem(
            403, "needs-a-person", "only a person's token says the scope of a session", hint="leave `scope` out"
        )
    mode = given.pop("mode", None)
    if mode == OBSERVE:
        raise Problem(
            403, "needs-a-person", "only a person's token opens a session that is not enforced", hint="leave `mode` out"
        )
    # Made first, then looked at: another process may have made it in between.
    info = host.open(id, meta=OPENED, mode=_mode_inside(host, id, given.get("parent", "")), **given)
    if not goal.strip() and mode is None:
        return info
    if not is_own(host, info):
        raise _not_yours_problem()
    return host.open(info.id, goal=goal, mode=mode)


def _as_shown(host: str) -> str:
    """2. A host's name as a person takes it on the page, where `Claude Code` passes for `claude-code`."""
    return re.sub(r"[^a-z0-9:]+", "-", normalize("NFKC", host).casefold()).strip("-")


def _mode_inside(host: Host, id: str, parent: str) -> str | None:
    """2. The mode of a new session inside another: a person's trial is not the token's to be in.

    What is inside of the token's own sessions, or of those that a hook opened, takes their mode.
    """
    above = host.session(parent) if parent and host.session(id) is None else None
    if above is None or is_own(host, above) or (is_plug(above.host) and OPENED_BY not in above.meta):
        return None
    for _ in range(_MOST_INSIDE):
        if above is None:
            return None
        if above.mode == OBSERVE:
            break
        above = host.session(above.parent) if above.parent else None
    return host.gate.policy.mode.value


def may_add(host: Host, request: Request, source: str) -> bool:
    """2. Whether a block is taken as what it says it is; if not, it is untrusted."""
    if may_speak_for_user(host, request, request.params["session"]):
        return True
    if source.partition(":")[0] in _SPEAKERS:
        raise _not_yours_problem()
    return False


def require_own_session(host: Host, request: Request) -> None:
    """2. Steps are held to their session's goal, and their errors quote it."""
    if not may_speak_for_user(host, request, request.params["session"]):
        raise _not_yours_problem()


def require_same_account(host: Host, request: Request, session: str) -> None:
    """4. Raise a Problem where a hook of another account opened the session, or one that it is inside of."""
    info = None if request.who is Caller.PERSON or not session else host.session(session)
    for _ in range(_MOST_INSIDE):
        if info is None:
            return
        refuse_other_accounts(request, [info.meta[OPENER_ACCOUNT]] if OPENER_ACCOUNT in info.meta else [])
        info = host.session(info.parent) if info.parent else None


def refuse_other_accounts(request: Request, openers: Sequence[str]) -> None:
    """4. Raise a Problem unless the caller's own account opened these sessions, as far as a hook did."""
    if openers and request.who is not Caller.PERSON and {*openers} != {str(account_of_peer(*request.ends).uid)}:
        raise Problem(
            403,
            "not-yours",
            "another account of this machine opened this session",
            hint="open a session of your own, or use a person's token",
        )


def _not_yours_problem() -> Problem:
    return Problem(
        403,
        "not-yours",
        "an agent's token speaks for the user only in sessions that it opened itself",
        hint="open a session of your own, or use a person's token",
    )


def is_plain(request: Request, kept: StoredRuling) -> bool:
    """3. Return whether the caller may get a ruling unchanged, whichever session it is in: most reveal nothing."""
    ruling = kept.decision
    says_nothing = ruling.tier == 1 and not (ruling.findings or ruling.origins or ruling.correction)
    return says_nothing or request.who is Caller.PERSON


def may_see_grounds(host: Host, kept: StoredRuling) -> bool:
    """3. Whether the agent's token may hear what a ruling rests on; in doubt, not."""
    try:
        return is_own(host, host.session(kept.session))
    except LockgateError:
        return False


def without_grounds(ruling: Decision) -> Decision:
    """3. A ruling without the words of what its session has read: what was ruled, and which rules hit."""
    return ruling._replace(
        explanation=_GROUNDS_WITHHELD,
        correction="",
        findings=tuple(Finding(found.rule, "", 0, 0) for found in ruling.findings),
        origins=(),
        effects=(),
    )
