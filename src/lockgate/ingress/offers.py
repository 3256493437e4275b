"""Whether something in a request offers, calls or answers for tools.

A client that is execute-locked must not find a way to do so that is not seen, so names are taken by what they look
like and not from a list of what one provider calls them. What is taken for tools and is none costs a locked client a
request, and nobody else anything.
"""

from __future__ import annotations

import re
from typing import Final

# In any name.
_STEMS: Final = ("tool", "function", "mcp", "search_param", "search_option")
# And these names: other ways to say it, and ids of what is kept elsewhere with its tools.
_NAMES: Final = frozenset(
    "plugins connectors web_search websearch enable_search searchparameters code_interpreter previous_response_id"
    " assistant_id assistantid agent_id agentid".split()
)
_PLAIN_KINDS: Final = frozenset(
    "text object string integer number boolean array message input_text output_text image_url input_image".split()
)
# How a name goes on in whatever notation (`"tools": [`, `tools[0][type]=`, `tools: x`), if not with nothing.
_GOES_ON = re.compile(
    r"[\w.$-]{0,40}+[\"'\]\[\w%]{0,80}+\s{0,80}+[:=]"
    r"(?!\s{0,80}+(?:\[\s{0,80}+\]|\{\s{0,80}+\}|null|[\"']?none\b))"
)
# Who writes these so often in one text has something else in mind than a text.
_MAX_NAMES: Final = 10_000
_ESCAPED = re.compile(r"\\u00([0-9a-fA-F]{2})")
_JSON = re.compile(r"\s*+[{\[]")


def is_offer(name: str, value: object) -> bool:
    """Whether a key (in lower case) of an object or a form stands for tools; an empty one offers none."""
    if not value or value == "none":
        return False
    # One by one: this is asked of every key of every request.
    if "tool" in name or "function" in name or "mcp" in name or "search_" in name or name in _NAMES:
        return name in _NAMES or any(stem in name for stem in _STEMS)
    if name == "method":
        return isinstance(value, str) and value.startswith("tools/")
    # A prompt that is kept elsewhere may bring tools along.
    return name == "prompt" and isinstance(value, dict) and "id" in value


def is_tool_part(kind: str) -> bool:
    """Whether the `type` of an object (in lower case) is a tool's, a call's or a result's."""
    return kind not in _PLAIN_KINDS and (
        "tool" in kind or "function" in kind or kind.startswith("mcp") or kind.endswith(("_call", "_call_output"))
    )


def begins_like_json(text: str) -> bool:
    return _JSON.match(text) is not None


def is_offer_in(text: str) -> bool:
    """Whether somebody who reads a text as JSON, a form or the like, however leniently, might find tools in it."""
    if "\\u00" in text:
        text = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
    text = text.lower()
    seen = 0
    # Found one by one: a search for all of them at once takes a hundred times as long.
    for stem in (*_STEMS, *_NAMES):
        at = text.find(stem)
        while at >= 0:
            seen += 1
            if seen > _MAX_NAMES or _GOES_ON.match(text, at + len(stem)):
                return True
            at = text.find(stem, at + 1)
    return False
