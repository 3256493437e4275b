"""One request of schemathesis' for each operation of our own document; tests/hosts has a hundred of each."""

from __future__ import annotations

from typing import Any

from asking import HOST, Asking
from hypothesis import HealthCheck, given, settings

from lockgate.service.http import Caller
from lockgate.service.routes import ROUTES
from lockgate.service.schemas import find_misfit
from lockgate.verifiers.adapters import LocalRuleAdapter

# One that does not end is not asked like this (test_events.py does), nor is the document itself.
OPERATIONS = {
    (route.method, route.path): route for route in ROUTES if route.path not in ("/v1/events", "/openapi.json")
}


def test_no_5xx_and_no_undocumented_status(besieged: Asking, monkeypatch: Any) -> None:
    import schemathesis

    monkeypatch.setattr(besieged.api, "adapter", LocalRuleAdapter())
    token = besieged.tokens.token(Caller.PERSON)
    schema: Any = schemathesis.openapi.from_asgi("/openapi.json", besieged.api, headers={"host": HOST})
    left = dict(OPERATIONS)
    for found in schema.get_all_operations():
        operation = found.ok()
        route = left.pop((operation.method.upper(), operation.path), None)
        if route is not None:
            _probe(operation, route, {"host": HOST, "authorization": f"Bearer {token}"})
    assert left == {}


def _probe(operation: Any, route: Any, headers: dict[str, str]) -> None:
    @settings(max_examples=1, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy())
    def asked(case: Any) -> None:
        response = case.call(headers=headers)
        assert response.status_code in route.statuses
        assert response.status_code < 500
        if response.status_code != route.status:
            assert set(response.json()["error"]) == {"code", "message", "hint"}
        elif not isinstance(route.answers, str):
            assert find_misfit(response.json(), route.answers) == ""

    asked()
