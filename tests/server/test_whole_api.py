"""The whole interface under whatever schemathesis thinks of, from its own document."""

from __future__ import annotations

from typing import Any

import pytest
from asking import HOST, Asking
from hypothesis import HealthCheck, given, settings

from lockgate.server.exchange import Who
from lockgate.server.routes import ROUTES
from lockgate.server.schemas import misfit

EXAMPLES = 5
# One that does not end is not asked like this (test_events.py does), nor is the document itself.
OPERATIONS = [route for route in ROUTES if route.path not in ("/v1/events", "/openapi.json")]


@pytest.fixture
def schema(ask: Asking) -> Any:
    import schemathesis

    return schemathesis.openapi.from_asgi("/openapi.json", ask.api, headers={"host": HOST})


def probe(ask: Asking, operation: Any, route: Any) -> set[int]:
    """A few requests for one operation; the statuses that came, all of them documented."""
    statuses: set[int] = set()
    token = ask.tokens.token(Who.PERSON)

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy())
    def asked(case: Any) -> None:
        response = case.call(headers={"host": HOST, "authorization": f"Bearer {token}"})
        statuses.add(response.status_code)
        assert response.status_code in route.statuses
        assert response.status_code < 500
        if response.status_code != route.status:
            assert set(response.json()["error"]) == {"code", "message", "hint"}
        elif not isinstance(route.answers, str):
            assert misfit(response.json(), route.answers) == ""

    asked()
    return statuses


def test_no_5xx_and_no_undocumented_status(
    ask: Asking, schema: Any, hijacked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lockgate.adapters import LocalRuleAdapter

    monkeypatch.setattr(ask.api, "adapter", LocalRuleAdapter())
    routes = {(route.method, route.path): route for route in OPERATIONS}
    statuses: set[int] = set()
    for found in schema.get_all_operations():
        operation = found.ok()
        route = routes.pop((operation.method.upper(), operation.path), None)
        if route is not None:
            statuses |= probe(ask, operation, route)
    assert routes == {}
    assert {200, 404, 422} <= statuses
