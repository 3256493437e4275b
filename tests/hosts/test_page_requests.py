"""The page's view of abuse gates, in a real Chromium: a gate in another process than the service judges requests."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from asgi import ATTACK, HARMLESS, Handler, Reply, chat, post
from playwright.sync_api import Page, Route, expect

from lockgate import assemble
from lockgate.abuse_gate.middleware import AbuseGateMiddleware

HERE = Path(__file__).parent
AUDIT = (HERE / "page_audit.js").read_text(encoding="utf-8").partition("\n")[2]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SESSION = "conversation-7"


def story() -> ModuleType:
    spec = importlib.util.spec_from_file_location("page_story", HERE / "page_story.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STORY = story()
Service, Watched = STORY.Service, STORY.Watched
browser, seen, page = STORY.browser, STORY.seen, STORY.page
settled, go, look = STORY.settled, STORY.go, STORY.look


class Gated(NamedTuple):
    """A gate that shares its journal and its file of bans with the service."""

    gate: AbuseGateMiddleware

    def send(self, text: str, who: str, *headers: tuple[bytes, bytes]) -> Reply:
        # An address for each client: the attacks of one must not slow the others.
        about: dict[str, Any] = {"state": {"principal": who}, "client": (f"198.51.100.{sum(who.encode()) % 250}", 1)}
        about["headers"] = ((b"content-type", b"application/json"), *headers)
        # In a thread of its own: Playwright's loop runs in this one.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(lambda: asyncio.run(post(self.gate, chat(text), **about))).result()


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, pytest.MonkeyPatch]]:
    folder = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("ABUSE_")]:
            patch.delenv(name)
        (folder / "gate").mkdir(mode=0o700)
        patch.setenv("ABUSE_BANS_FILE", str(folder / "gate" / "bans.db"))
        patch.setenv("ABUSE_SECRET", "0123456789abcdef" * 4)
        yield folder, patch


@pytest.fixture(scope="module")
def service(environment: tuple[Path, pytest.MonkeyPatch]) -> Iterator[Any]:
    with STORY.serving(*environment) as made:
        yield made


@pytest.fixture(scope="module")
def history(service: Any) -> None:
    """Seventy harmless requests, and five attacks of one client in the conversation."""
    made = Gated(AbuseGateMiddleware(Handler()))
    joined = (b"x-session-id", SESSION.encode()), (b"traceparent", f"00-{TRACE}-00f067aa0ba902b7-01".encode())
    for _ in range(70):
        made.send(HARMLESS, "lee")
    for _ in range(5):
        made.send(ATTACK, "kim", *joined)
    assemble.close_journals()


@pytest.fixture
def gated(history: None) -> Gated:
    """A gate that is new: it knows bans from the file only."""
    return Gated(AbuseGateMiddleware(Handler()))


def requests(page: Page) -> Any:
    return page.locator("table.requests tbody tr")


def test_verdicts_incidents_and_clients_are_listed_by_page(page: Page, gated: Gated) -> None:
    page.keyboard.press("6")
    expect(requests(page).first).to_contain_text("refused")
    first = requests(page).first
    expect(first).to_contain_text("unsafe")
    expect(first).to_contain_text("quarantined")
    expect(first).to_contain_text("5 strikes")
    expect(requests(page)).to_have_count(60)
    page.click("button.more:has-text('Older')")
    expect(requests(page)).to_have_count(75)
    expect(page.locator("button.more:has-text('Older')")).to_be_hidden()
    assert "kim" not in page.inner_text("main")
    page.select_option("select[name=outcome]", "refused")
    expect(requests(page)).to_have_count(5)
    assert "outcome=refused" in page.url
    requests(page).first.locator("a.mono").click()
    expect(requests(page)).to_have_count(5)
    assert re.search("subject=[0-9a-f]{12}$", page.url)


def test_a_new_incident_appears_by_itself(page: Page, gated: Gated) -> None:
    go(page, "#/requests")
    expect(requests(page).first).to_be_visible()
    incident = gated.send(ATTACK, "mia").incident
    expect(requests(page).filter(has_text=incident)).to_have_count(1)


def test_an_incident_and_the_ruling_of_its_conversation_lead_to_each_other(
    page: Page, service: Any, gated: Gated
) -> None:
    service.open(SESSION, "Look around")
    ruled = service.check(SESSION, "list_files", {})
    incident = gated.send(ATTACK, "joe", (b"x-session-id", SESSION.encode())).incident
    go(page, "#/requests")
    page.fill("input[name=incident]", incident.lower())
    page.keyboard.press("Enter")
    expect(page.locator(".crumbs")).to_contain_text(incident)
    ruling = page.locator("table.requests tbody tr").filter(has_text="list_files")
    expect(ruling).to_contain_text("conversation")
    expect(page.locator("main")).to_contain_text("A hint, and no proof")
    ruling.locator("a").click()
    expect(page.locator("h1")).to_contain_text(SESSION)
    look(page, ruled["id"])
    page.click("details.joined summary")
    page.click(f"details.joined a:has-text('{incident}')")
    expect(page.locator(".crumbs")).to_contain_text(incident)
    page.keyboard.press("Escape")
    expect(page.locator("h1")).to_have_text("Requests")


def test_a_ban_is_lifted_by_two_presses_and_the_gate_hears_of_it(page: Page, service: Any, gated: Gated) -> None:
    for _ in range(5):
        gated.send(ATTACK, "noa")
    assert gated.send(HARMLESS, "noa").status == 429
    (subject,) = {
        each["subject"] for each in service.call("GET", "/v1/requests?outcome=refused&limit=1")[1]["requests"]
    }
    go(page, "#/overview")
    go(page, "#/requests")
    ban = page.locator("table.bans tbody tr").filter(has_text=subject)
    expect(ban).to_contain_text("quarantined")
    ban.get_by_text("Lift…").click()
    sure = ban.get_by_text("Lift this ban")
    expect(sure).to_be_disabled()
    page.keyboard.press("Escape")
    expect(sure).to_be_hidden()
    # The second click of a double click falls on Back.
    ban.get_by_text("Lift…").dblclick()
    expect(sure).to_be_hidden()
    assert service.call("GET", "/v1/requests?outcome=lifted")[1]["requests"] == []
    ban.get_by_text("Lift…").click()
    sure.click()
    expect(ban).to_contain_text("Lifted, and recorded")
    (lifted,) = service.call("GET", "/v1/requests?outcome=lifted")[1]["requests"]
    assert lifted["subject"] == subject
    for _ in range(50):
        if gated.send(HARMLESS, "noa").status == 200:
            break
        page.wait_for_timeout(200)
    assert gated.send(HARMLESS, "noa").status == 200
    go(page, "#/requests?outcome=lifted")
    expect(requests(page)).to_have_count(1)
    expect(requests(page)).to_contain_text("a person lifted a ban")


def test_a_ban_that_was_lifted_elsewhere_says_so(seen: Any, gated: Gated) -> None:
    page = seen.page
    go(page, "#/requests")
    ban = page.locator("table.bans tbody tr").first
    page.route("**/v1/bans/*/lift", lambda route: refuse(route, 404, "not-banned"))
    ban.get_by_text("Lift…").click()
    ban.get_by_text("Lift this ban").click()
    expect(ban).to_contain_text("Not lifted: <b>no</b>")
    seen.wrong[:] = [each for each in seen.wrong if "404" not in each]


def refuse(route: Route, status: int, code: str) -> None:
    error = {"code": code, "message": "<b>no</b>", "hint": ""}
    route.fulfill(status=status, content_type="application/json", body=json.dumps({"error": error}))


@pytest.mark.parametrize("width", [1360, 640])
def test_both_views_are_fit_for_a_screen_reader_and_for_a_narrow_window(page: Page, gated: Gated, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 860})
    go(page, "#/requests")
    expect(requests(page).first).to_be_visible()
    expect(page.locator("table.bans")).to_be_visible()
    assert page.evaluate(f"({AUDIT}).audit()") == []
    requests(page).filter(has_text="refused").first.locator("th a").click()
    expect(page.locator(".crumbs")).to_be_visible()
    assert page.evaluate(f"({AUDIT}).audit()") == []


HOSTILE = '<img src=x onerror="window.__pwned=1"><script>window.__pwned=1</script>\x1b[31m\u202eevil\u200b'


def test_a_service_that_tells_hostile_text_cannot_make_it_act(seen: Any, gated: Gated) -> None:
    """A record cannot hold such text. If one did, or the service were another one, it would be drawn all the same."""
    page = seen.page

    def poisoned(route: Route) -> None:
        said = json.loads(route.fetch().text())
        rows = said.get("requests") or said.get("bans") or [said]
        for row in rows:
            for name, value in row.items():
                if isinstance(value, str):
                    row[name] = "constructor" if name == "standing" else HOSTILE + value
                elif name == "rules":
                    row[name] = [HOSTILE] * 9
        if "said" in said:
            said["said"] = HOSTILE
        route.fulfill(status=200, content_type="application/json", body=json.dumps(said))

    page.route(re.compile("/v1/(requests|bans)"), poisoned)
    go(page, "#/requests")
    expect(requests(page).first).to_contain_text("U+202E")
    expect(page.locator("table.bans tbody tr").first).to_be_visible()
    page.unroute_all(behavior="wait")
    incident = gated.send(ATTACK, "kay").incident
    page.route(re.compile("/v1/requests"), poisoned)
    go(page, f"#/request/{incident}")
    expect(page.locator(".head")).to_contain_text("U+202E")
    assert page.locator("main img, main script").count() == 0
    assert not re.search("[\x1b\u202e\u200b]", page.inner_text("body"))


def test_without_a_store_it_says_what_it_cannot_know(page: Page, gated: Gated) -> None:
    body = {"state": "none", "said": "this service knows no store of bans", "total": 0, "bans": []}
    page.route("**/v1/bans?*", lambda route: route.fulfill(content_type="application/json", body=json.dumps(body)))
    go(page, "#/requests")
    expect(page.get_by_role("region", name="Banned now")).to_contain_text("Not known here: this service knows no store")
    page.unroute_all(behavior="wait")


@pytest.mark.skipif(not os.environ.get("LOCKGATE_PICTURES"), reason="pictures are made on request")
def test_the_pictures_of_the_docs(page: Page, gated: Gated) -> None:
    from PIL import Image

    go(page, "#/requests")
    expect(page.locator("table.bans")).to_be_visible()
    page.evaluate("document.activeElement?.blur()")
    picture = HERE.parents[1] / "docs" / "pictures" / "requests-light.png"
    Image.open(BytesIO(page.screenshot())).convert("RGB").quantize(255, kmeans=2).save(picture, optimize=True)
    assert picture.stat().st_size < 150_000
