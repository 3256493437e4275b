"""Tools that reach an address or act on a page."""

from __future__ import annotations

from lockgate.core.ruling.effects.effects_of_call import effects_of
from lockgate.core.ruling.tool_call import ToolCall


def kinds(tool: str, **arguments: object) -> list[tuple[str, str]]:
    return [(found.kind, found.target) for found in effects_of(ToolCall(tool, arguments))]


def test_a_page_is_asked_by_its_host() -> None:
    assert kinds("WebFetch", url="https://Docs.example/a", prompt="read") == [("requests", "docs.example")]
    assert kinds("browse_webpage", url="www.shop.example") == [("requests", "www.shop.example")]
    assert kinds("browser_get_page", url="https://a.example/form") == [("requests", "a.example")]


def test_a_request_with_a_body_sends_data() -> None:
    assert kinds("http_request", url="https://a.example", method="POST", body="x") == [("sends-data", "a.example")]
    assert kinds("http_request", url="https://a.example", method="DELETE") == [("sends-data", "a.example")]


def test_a_tool_by_the_name_of_a_method_sends_data() -> None:
    assert kinds("http_post", url="https://a.example/sign", json={"name": "x"}) == [("sends-data", "a.example")]
    assert kinds("send_webhook", url="https://a.example/in", text="x") == [("sends-data", "a.example")]
    assert kinds("http_get", url="https://a.example/sign") == [("requests", "a.example")]


def test_this_machine_is_no_other() -> None:
    assert kinds("fetch", url="http://localhost:8000/health") == [("asks-local", "localhost")]


def test_an_address_makes_a_looking_tool_reach_out() -> None:
    assert kinds("get_summary", source="https://a.example/x?d=1") == [("requests", "a.example")]
    assert kinds("web_search", query="how to") == [("looks", "")]


def test_a_page_is_looked_at_typed_into_or_clicked() -> None:
    assert kinds("browser_snapshot") == [("looks", "")]
    assert kinds("browser_scroll", direction="down") == [("looks", "")]
    assert kinds("browser_type", selector="#a", text="LS6") == [("sends-data", "")]
    assert kinds("browser_type", url="https://a.example/f", selector="#a", text="x") == [("sends-data", "a.example")]
    assert kinds("browser_click", selector="text=OK") == [("unknown-act", "")]
    assert kinds("computer", action="screenshot") == [("looks", "")]
    assert kinds("computer", action="left_click", coordinate=[1, 2])[0][0] == "unknown-act"
