"""The host that a plug asks when a service runs: `Plug(name, url="http://127.0.0.1:7717")`.

Its page and its journal then show what frameworks call. Each question is signed with the agent's token, and an answer
counts only with the service's own proof, as for the hooks of Claude Code: a program that takes the service's port can
let no call run. The agent's token answers no approvals, so that a person answers on the page or with
`lockgate approvals`; the run is then resumed, and the call is ruled on again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping
from hashlib import sha256
from time import monotonic
from typing import Any

from lockgate.claude_code.hook_command import HookFailure, ask_service, parse_url
from lockgate.core.errors import InvalidConfig, LockgateError
from lockgate.core.ruling.arguments import flatten_arguments
from lockgate.core.vocabulary import Action, Decision, Finding, Origin, Reason, Risk, Trust
from lockgate.integrations.plug import HeldQuestion, PlugCall, QuestionAnswer

# What stands in the path of a request as it is; the signature is over the path that the service reads.
_PLAIN_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,150}")
_ODD = re.compile(r"[^A-Za-z0-9_-]")


class ServiceHost:
    """Sessions in a running service. `environment` says where the agent's token is, as it does for hooks."""

    def __init__(self, url: str, *, deadline_s: float, environment: Mapping[str, str] | None = None) -> None:
        try:
            parse_url(url)
        except HookFailure as error:
            raise InvalidConfig(str(error)) from None
        self._url = url.rstrip("/")
        self._deadline_s = deadline_s
        self._environment = os.environ if environment is None else environment

    def open(self, session: str, *, goal: str, host: str, parent: str, known: bool) -> object:
        # The names of our own plugs are those of hooks, whose sessions are not this token's.
        body = {"id": _plain_id(session), "goal": goal, "host": host.replace("plug:", "framework-"), "known": known}
        return self._ask("/v1/sessions", {**body, "parent": _plain_id(parent)} if parent else body)

    def add(self, session: str, content: str, *, source: str, trust: Trust | None, key: str) -> object:
        body = {"content": content, "source": source, "key": key}
        return self._ask(f"{_path(session)}/blocks", body if trust is None else {**body, "trust": trust.word})

    def said(self, session: str, texts: Collection[str]) -> Collection[str]:  # noqa: ARG002
        # An agent's token reads no sessions: what another process took in is not known to be the user's here.
        return ()

    def check(self, session: str, call: PlugCall) -> Decision:
        # Raises for what JSON cannot hold: its text would be ruled on, and the tool gets the value.
        flatten_arguments(call.arguments)
        body: dict[str, object] = {"tool": call.tool, "arguments": dict(call.arguments), "key": call.id}
        if call.annotations:
            body["annotations"] = call.annotations
        if call.findings:
            body["suspect"] = True
        return _decision_from(self._ask(f"{_path(session)}/checks", body))

    def question(self, session: str, tool: str, approval: str) -> HeldQuestion | None:
        text = f"Lockgate holds a call of {tool}. Answer {approval} on the page of {self._url}, then let the run go on."
        return HeldQuestion(session, tool, approval, "", text)

    def answer(self, answer: QuestionAnswer) -> bool:  # noqa: ARG002
        # Only a person's token answers, on the page; the call is ruled on again in any case.
        return False

    def outcome(self, session: str, key: str, ran: str) -> bool:
        self._ask(f"{_path(session)}/outcomes", {"key": key, "ran": ran})
        return True

    def close(self) -> None:
        """Leave the service's sessions as they are: it keeps them."""

    def _ask(self, path: str, body: Mapping[str, object]) -> Any:
        try:
            sent = json.dumps(body).encode("utf-8", "surrogatepass")
            return json.loads(ask_service(self._url, sent, self._environment, monotonic() + self._deadline_s, path))
        except HookFailure as error:
            raise LockgateError(str(error), hint="lockgate serve starts it, lockgate doctor finds the cause") from None
        except OSError as error:
            said = (error.strerror or type(error).__name__).lower()
            raise LockgateError(f"the service does not answer: {said}", hint="lockgate serve starts it") from None


def _plain_id(session: str) -> str:
    if _PLAIN_ID.fullmatch(session):
        return session
    digest = sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{_ODD.sub('_', session)[:100]}-{digest}"


def _path(session: str) -> str:
    return f"/v1/sessions/{_plain_id(session)}"


def _decision_from(said: Mapping[str, Any]) -> Decision:
    """Return the ruling as far as a plug needs it; what it cannot read raises, and the call does not run."""
    return Decision(
        Action(said["action"]),
        int(said["tier"]),
        Reason(said["reason"]),
        Risk(said["risk"]),
        findings=tuple(Finding(str(each["rule"]), "", 0, 0) for each in said["findings"]),
        origins=tuple(
            Origin(str(each["argument"]), "", "", str(each["source"]), 0, 0, known=each["known"] is True)
            for each in said["origins"]
        ),
        correction=str(said["correction"]),
        approval=str(said["approval"]),
    )
