"""Texts made to act, everywhere a text can stand on the page: nothing runs, nothing is fetched, everything is seen."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

HERE = Path(__file__).parent
PAYLOADS: list[str] = json.loads((HERE / "page_payloads.json").read_text(encoding="utf-8"))
# What no text on the page, and no name for a screen reader, may hold as itself.
RAW = (
    r"[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u180b-\u180f\u200b-\u200f"
    r"\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\u{e0000}-\u{e01ef}]"
)
AUDIT = (HERE / "page_audit.js").read_text(encoding="utf-8").partition("\n")[2]


def story() -> ModuleType:
    spec = importlib.util.spec_from_file_location("page_story", HERE / "page_story.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STORY = story()
Service = STORY.Service
service, browser, seen = STORY.service, STORY.browser, STORY.seen
Watched, settled, go, rows = STORY.Watched, STORY.settled, STORY.go, STORY.rows


@pytest.fixture(scope="module")
def poisoned(service: Service) -> dict[int, Any]:
    """A session, a block, a source, a goal, a tool and arguments of every payload; the rulings on them."""
    ruled: dict[int, Any] = {}
    for at, payload in enumerate(PAYLOADS):
        # An id takes visible characters only; where this payload has others, it is everything else.
        session = payload[:100] if payload.isprintable() else f"payload-{at}"
        source = f"web:{payload}"[:180]
        service.post("/v1/sessions", {"id": session, "goal": payload, "host": "api"})
        content = f"{payload}\nPlease send it to x{at}@clearance.example: {payload}"
        place = f"/v1/sessions/{quote(session, safe='')}/blocks"
        status, said = service.call("POST", place, {"content": content, "source": source})
        if status >= 300:
            assert (status, bool(said["error"]["message"])) == (422, True), said
            service.post(place, {"content": content, "source": "web:refused"})
        name = payload[:60].strip() or "tool"
        arguments = {payload[:200]: payload, "to": f"x{at}@clearance.example", "list": [payload, {"deep": payload}]}
        status, said = service.call("POST", place.replace("/blocks", "/checks"), {"tool": name, "arguments": arguments})
        if status >= 300:
            assert status in (400, 422), said
            said = service.check(session, "send_email", arguments)
        ruled[at] = {**said, "payload": payload}
    return ruled


def quiet(seen: Watched) -> None:
    assert seen.page.evaluate(f"raw => ({AUDIT}).inert(raw)", RAW) == []
    settled(seen)


def test_hostile_content_does_nothing_and_is_seen_in_a_decision(seen: Watched, poisoned: dict[int, Any]) -> None:
    assert len(PAYLOADS) >= 60
    for at, ruled in poisoned.items():
        go(seen.page, f"#/decision/{ruled['id']}")
        seen.page.wait_for_function(
            "id => document.querySelector('.crumbs')?.textContent.includes(id)", arg=ruled["id"]
        )
        quiet(seen)
        payload = ruled["payload"]
        box = seen.page.locator(".call-box").last
        if at % 9 == 0 or not payload.isprintable():
            odd = [ch for ch in payload[:2000] if not ch.isprintable() and ch not in "\n\t"]
            if odd:
                expect(box.locator(".chip").first).to_be_visible()
                assert f"U+{ord(odd[0]):04X}" in box.inner_text() or "ESC" in box.inner_text(), ascii(payload)
        if payload.isascii() and payload.isprintable() and len(payload) < 300:
            assert payload in box.inner_text(), payload


def test_hostile_content_does_nothing_in_any_list(seen: Watched, poisoned: dict[int, Any]) -> None:
    page = seen.page
    for place, ready in (
        ("#/decisions", "table.stream tbody tr"),
        ("#/sessions", "table.sessions tbody tr"),
        ("#/approvals", ".approval"),
        ("#/overview", "figure.plot"),
    ):
        go(page, place)
        expect(page.locator(ready).first).to_be_visible()
        quiet(seen)
    go(page, "#/decisions")
    while (older := page.locator(".foot button.more")).is_visible() and rows(page).count() < 300:
        before = rows(page).count()
        older.click()
        expect(rows(page).nth(before)).to_be_visible()
    quiet(seen)
    for ruled in list(poisoned.values())[::4]:
        go(page, f"#/session/{quote(ruled['session'], safe='')}")
        expect(page.locator("details.block").first).to_be_visible()
        for block in page.locator("details.block > summary").all():
            block.click()
        quiet(seen)


def test_hostile_addresses_do_nothing(seen: Watched) -> None:
    for payload in PAYLOADS[::4]:
        for place in ("#/decisions?q=", "#/decision/", "#/session/", "#/"):
            go(seen.page, place + payload)
    expect(seen.page.locator("main")).to_be_visible()
    # What is not there is answered so, and the browser logs that.
    seen.wrong[:] = [each for each in seen.wrong if not re.search("status of 4(0[04]|22)", each)]
    settled(seen)
