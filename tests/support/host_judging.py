"""The scripted model of an agent as the judge of its own calls, the same for all frameworks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from lockgate import Gate
from lockgate.integrations.plug import Plug
from lockgate.testing.plug_suite import READ, SEND, MakeDriver, PlugKit

_NONCE = re.compile(r"The case with the nonce (\w+):")
ORDINARY = SEND._replace(arguments={"to": "bo@corp.example", "body": "the summary"})
# What the model answers, and whether the call runs then.
ANSWERS: dict[str, tuple[Callable[[str], str], bool]] = {
    "clear": (lambda nonce: json.dumps({"suspicious": False, "nonce": nonce}), True),
    "suspicious": (lambda nonce: json.dumps({"suspicious": True, "nonce": nonce}), False),
    "wrong nonce": (lambda nonce: json.dumps({"suspicious": False, "nonce": nonce[::-1]}), False),
    "more than asked": (lambda nonce: json.dumps({"suspicious": False, "nonce": nonce, "why": "fine"}), False),
    "no boolean": (lambda nonce: json.dumps({"suspicious": "false", "nonce": nonce}), False),
    "prose": (lambda nonce: f"Not suspicious at all. {nonce}", False),
}
asked: list[str] = []
_answer: list[Callable[[str], str]] = []


def judge_reply(request: str) -> str | None:
    """Return what the scripted model says to a judge's question; None for every other request."""
    found = _NONCE.search(request)
    if found is None:
        return None
    asked.append(request)
    return _answer[-1](found[1])


def answer_with(name: str) -> None:
    """Let the scripted model answer like this from here on."""
    _answer[:], asked[:] = [ANSWERS[name][0]], []


class Recording:
    """A host that notes what it is told of."""

    def __init__(self, host: Any) -> None:
        self.inner, self.read, self.checked = host, [], []  # type: ignore[var-annotated]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def add(self, session: str, content: str, **more: Any) -> object:
        self.read.append(content)
        return self.inner.add(session, content, **more)

    def check(self, session: str, call: Any) -> Any:
        self.checked.append(call.tool)
        return self.inner.check(session, call)


def check_host_judge(make: MakeDriver, attach: Callable[[Plug], object], mode: str) -> None:
    """Play a call that is asked about, with every answer; `attach` gives the plug its judge, as an agent does."""
    for name, (_, runs) in ANSWERS.items():
        answer_with(name)
        kit = PlugKit(make, Gate(), wrap=Recording, on_pause="deny")
        attach(kit.plug)
        call = ORDINARY if runs else SEND
        outcome = kit.start([READ], [call], "done", mode=mode)
        host: Any = kit.plug._host
        kit.close()
        assert outcome.error is None, (name, outcome.error)
        assert bool(kit.sent) == runs, name
        assert asked, name
        assert call.arguments["to"] in asked[0].replace("\\u0040", "@"), name
        # The question is no call, and nothing that the agent has read.
        assert [tool.rpartition("__")[2] for tool in host.checked] == ["read_page", "send_email"], name
        assert not any(_NONCE.search(text) for text in host.read), name
