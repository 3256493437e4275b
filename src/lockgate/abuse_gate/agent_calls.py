"""An agent's context inside a request: its tool calls, traced to where their arguments came from.

A chat with tool calls and results is a session in the middle of its run. Its texts become blocks, and its latest calls
are checked in their places. The verdict on the whole request learns the rules under which they escalate, and what the
rules for agents say about its texts from outside.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from lockgate.abuse_gate.documents.document_judge import hits_in_outside_text
from lockgate.abuse_gate.request.conversation import TOOL_DESCRIPTION, Turn
from lockgate.core.errors import LockgateError
from lockgate.core.requests.payload import MAX_RULE_HITS
from lockgate.core.text.scanner import Scanner
from lockgate.core.vocabulary import Action
from lockgate.gate.gate import Gate

# Earlier calls were checked when they were the latest ones.
MAX_CALLS: Final = 32
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,63}")


def rules_hit_by_calls(turns: Sequence[Turn], gate: Gate) -> tuple[str, ...]:
    """Return the ids of the rules under which calls escalate; `origin:unchecked` for a call that cannot be checked."""
    session = gate.session()
    earlier = max(0, sum(turn.kind == "call" for turn in turns) - MAX_CALLS)
    hits: dict[str, None] = {}
    for turn in turns:
        try:
            if turn.kind != "call":
                # The sender of a tool description counts as the system.
                session.add(turn.text, source="system" if turn.source == TOOL_DESCRIPTION else turn.source)
            elif earlier:
                earlier -= 1
            else:
                decision = session.check(turn.tool or "unknown", turn.arguments)
                if decision.escalated or decision.action is not Action.CONTINUE:
                    found = [finding.rule.replace(">", "/") for finding in decision.findings]
                    hits |= dict.fromkeys(rule for rule in found if _NAME.fullmatch(rule))
                    hits.setdefault("origin:escalated")
        except LockgateError:
            hits.setdefault("origin:unchecked")
    return tuple(hits)[:MAX_RULE_HITS]


def rules_hit_outside(turns: Sequence[Turn], scanner: Scanner) -> tuple[str, ...]:
    """Return what the rules for agents say about the texts from outside: tool results and documents in a chat."""
    hits: dict[str, None] = {}
    for turn in turns:
        if turn.outside and turn.kind != "call":
            hits |= dict.fromkeys(hits_in_outside_text(turn.text, scanner)[0])
    return tuple(hits)[:MAX_RULE_HITS]
