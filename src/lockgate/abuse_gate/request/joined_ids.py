"""The ids by which a request's record is joined with the rulings of the agent that sent it.

The client chooses them, so they are a hint for a person who investigates, and decide nothing. A record has the trace id
as it is, since it can only be 32 hexadecimal digits, and the conversation id as its SHA-256.
"""

from __future__ import annotations

from collections.abc import Iterable

from lockgate.journal.record import sha256_hex
from lockgate.runtime.tracing import parse_traceparent

# Headers in which agents and gateways name the conversation; the first one that is there counts.
CONVERSATION_HEADERS = (b"x-claude-code-session-id", b"x-litellm-session-id", b"x-session-id", b"x-conversation-id")
_TRACEPARENT = b"traceparent"
JOINED_HEADERS = frozenset((_TRACEPARENT, *CONVERSATION_HEADERS))
MAX_CONVERSATION = 200


def ids_from_request(headers: Iterable[tuple[bytes, bytes]], conversation: str) -> dict[str, str]:
    """Return the fields `trace` and `conversation_sha256`, each empty if the request has no such id, or two of them.

    `conversation` is the id in the request's body, for a request without a header that names one.
    """
    given: dict[bytes, bytes] = {}
    for name, value in headers:
        name = name.lower()
        if name in JOINED_HEADERS:
            given[name] = value if given.get(name, value) == value else b""
    named = next((given[name].decode("latin-1") for name in CONVERSATION_HEADERS if name in given), conversation)
    return {
        "trace": parse_traceparent(given.get(_TRACEPARENT, b"").decode("latin-1")),
        "conversation_sha256": sha256_hex(named) if 0 < len(named) <= MAX_CONVERSATION else "",
    }
