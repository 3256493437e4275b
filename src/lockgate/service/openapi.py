"""A route as a value, and the OpenAPI document of all of them: what is handed out is what is routed by."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote_to_bytes

from lockgate.service.http import JSON, Caller, Problem, Request
from lockgate.service.schemas import COMPONENTS, ID, Schema, find_misfit, ref

if TYPE_CHECKING:
    from lockgate.service.app import Api

# Either a plain function, which is run off the loop since it asks a store, or a coroutine function.
Run = Callable[["Api", Request], object | Awaitable[object]]

# Why any route of a kind may answer with these, beside what it says itself.
_STATUS_TEXTS = {
    400: "the body cannot be read: not JSON, not UTF-8, too deep, or a key twice",
    401: "no token, or one that is not known",
    403: "the agent's token where a person's is needed; or a host or origin that is not ours",
    404: "there is no such thing",
    408: "the body took too long",
    409: "it does not fit how things stand",
    413: "the body is too large",
    415: "the body is not `application/json`, or is compressed",
    422: "the body or the query is not what this route takes",
    429: "most of what waits is this agent's own",
    503: "nothing can be kept or read now, or too much is under way",
}
MAX_BODY = 1 << 20


class Param(NamedTuple):
    """A key of the query."""

    name: str
    schema: Schema


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    summary: str
    run: Run
    who: Caller
    # What a good answer is: the schema of its JSON, or its media type where it is no JSON.
    answers: Schema | str
    status: int = 200
    also: Mapping[int, str | Schema] = field(default_factory=dict)
    query: tuple[Param, ...] = ()
    body: Schema | None = None
    most: int = MAX_BODY
    # Whether the body is handed on as it came.
    raw: bool = False
    # Whether it is something that the agent has read: where it is refused, the session's context is not known.
    takes_in: bool = False
    # What is answered in place of an error, with the reason, to a client that takes an error for a yes.
    refusal: Callable[[str], object] | None = None
    # How long its work may take until 503 is answered; None where that is up to the work.
    limit_s: float | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(re.findall(r"{([a-z]+)}", self.path))

    @property
    def statuses(self) -> dict[int, str]:
        """Every status that this route can answer with, and why."""
        codes = {403} | ({401} if self.who else set()) | ({404} if self.names else set())
        if self.who:
            codes |= {429, 503}
        if self.query:
            codes |= {422}
        if self.body is not None:
            codes |= {400, 408, 413, 415, 422}
        said = {code: _STATUS_TEXTS[code] for code in codes}
        said |= {code: why if isinstance(why, str) else _STATUS_TEXTS[code] for code, why in self.also.items()}
        return {self.status: self.summary, **dict(sorted(said.items()))}

    def read_query(self, text: bytes) -> dict[str, Any]:
        """The query as values, or a Problem: a key that is misspelt would else be a filter that filters nothing."""
        known = {param.name: param.schema for param in self.query}
        found: dict[str, Any] = {}
        for part in text.split(b"&") if text else []:
            name, _, given = (_decode_query(each) for each in part.replace(b"+", b" ").partition(b"="))
            if name not in known:
                raise Problem(
                    422, "bad-query", "the query has a key that this route does not know", hint=_known_names(known)
                )
            if name in found:
                raise Problem(422, "bad-query", f"`{name}` stands twice in the query")
            found[name] = _parse_typed(given, known[name])
            bad = find_misfit(found[name], known[name], f"`{name}`")
            if bad:
                raise Problem(422, "bad-query", bad)
        return found


def _known_names(known: Mapping[str, object]) -> str:
    return f"it knows {', '.join(known)}" if known else "it knows none"


def _decode_query(text: bytes) -> str:
    try:
        return unquote_to_bytes(text).decode("utf-8")
    except UnicodeDecodeError:
        raise Problem(422, "bad-query", "the query is not UTF-8 text") from None


def _parse_typed(text: str, schema: Schema) -> object:
    """The value that a text stands for; the text itself where it stands for none, which then does not fit."""
    if schema["type"] == "integer" and re.fullmatch(r"[0-9]{1,18}", text):
        return int(text)
    if schema["type"] == "number" and re.fullmatch(r"[0-9]{1,18}(\.[0-9]{1,18})?", text):
        return float(text)
    return text


class RouteTable:
    """All routes, found by the parts of their paths: what is encoded in a part stays inside it."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = tuple(routes)
        by_path: dict[str, dict[str, Route]] = {}
        for route in routes:
            by_path.setdefault(route.path, {})[route.method] = route
        # By the number of slashes.
        self._found: dict[int, list[tuple[re.Pattern[bytes], dict[str, Route]]]] = {}
        for path, methods in by_path.items():
            pattern = re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]*)", re.escape(path)).encode("ascii"))
            self._found.setdefault(path.count("/"), []).append((pattern, methods))

    def find(self, method: str, raw_path: bytes) -> tuple[Route, dict[str, str]]:
        """The route and what its path names; a Problem where there is none, or none for this method."""
        for pattern, methods in self._found.get(raw_path.count(b"/"), ()):
            values = _match_path(pattern, raw_path)
            if values is None:
                continue
            # A browser or a monitor may ask for the head of what needs no token.
            route = methods.get(method) or (methods.get("GET") if method == "HEAD" else None)
            if route is None or (method == "HEAD" and route.who):
                allowed = ", ".join(sorted(methods)).encode("ascii")
                raise Problem(405, "bad-method", "this path does not take that method", headers=((b"allow", allowed),))
            return route, values
        raise Problem(404, "no-such-path", "there is nothing at this path", hint="/docs lists what there is")


def _match_path(pattern: re.Pattern[bytes], raw_path: bytes) -> dict[str, str] | None:
    found = pattern.fullmatch(raw_path)
    if found is None:
        return None
    try:
        values = {name: unquote_to_bytes(piece).decode("utf-8") for name, piece in found.groupdict().items()}
    except UnicodeDecodeError:
        return None
    return None if any(find_misfit(value, ID) for value in values.values()) else values


def openapi_document(routes: Sequence[Route], version: str) -> dict[str, Any]:
    """OpenAPI 3.1 of these routes."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Lockgate",
            "version": version,
            "summary": "Rules on every tool call of an LLM agent by where its arguments came from.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": dict(COMPONENTS),
            "securitySchemes": {
                "person": {"type": "http", "scheme": "bearer", "description": "`lockgate token`"},
                "agent": {"type": "http", "scheme": "bearer", "description": "`lockgate token --agent`"},
            },
        },
    }


_SECURITY: Mapping[Caller, list[dict[str, list[str]]]] = {
    Caller.WITHOUT_TOKEN: [],
    Caller.AGENT: [{"agent": []}, {"person": []}],
    Caller.PERSON: [{"person": []}],
}


def _operation(route: Route) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": re.sub(r"[^a-z0-9]+", "-", f"{route.method} {route.path}".lower()).strip("-"),
        "summary": route.summary,
        "security": _SECURITY[route.who],
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": ID} for name in route.names),
            *({"name": param.name, "in": "query", "schema": param.schema} for param in route.query),
        ],
        "responses": {},
    }
    if route.body is not None:
        made["requestBody"] = {"required": bool(route.body.get("required")), "content": {JSON: {"schema": route.body}}}
    for status, why in route.statuses.items():
        good = status == route.status
        schema = route.answers if good else route.also.get(status)
        if isinstance(schema, str) and good:
            content: dict[str, Any] = {schema: {"schema": {"type": "string"}}}
        else:
            content = {JSON: {"schema": ref("Error") if schema is None or isinstance(schema, str) else schema}}
        made["responses"][str(status)] = {"description": why, "content": content}
    return made
