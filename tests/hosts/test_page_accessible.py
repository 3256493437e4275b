"""Every view of the page under axe-core, in the light and in the dark, wide and narrow: no serious violation."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from npm_package import read_npm_file
from playwright.sync_api import Browser, expect

HERE = Path(__file__).parent
AXE = "axe-core@4.12.1"


def story() -> ModuleType:
    spec = importlib.util.spec_from_file_location("page_story", HERE / "page_story.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STORY = story()
Service, service, browser = STORY.Service, STORY.service, STORY.browser
watched, settled, go = STORY.watched, STORY.settled, STORY.go

# Each view, and what is there once it is drawn.
VIEWS = {
    "#/decisions": "table.stream tbody tr",
    "#/decisions?q=nothing-has-this": ".empty",
    "#/decision/{held}": "article.decision",
    "#/approvals": ".approval",
    "#/overview": "figure.plot",
    "#/sessions": "table.sessions",
    "#/session/parcel": ".timeline .ruled",
    "#/journal": "ol.steps li.good",
    "#/requests": ".room h1",
    "#/help/page": ".help-page h1",
}
RUN = """() => axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => violations
    .filter((each) => ["serious", "critical"].includes(each.impact))
    .map((each) => `${each.id}: ${each.nodes[0].html.slice(0, 200)} ${each.nodes[0].failureSummary}`))"""


@pytest.fixture(scope="module")
def axe() -> str:
    return read_npm_file(AXE, "axe.min.js").decode()


@pytest.mark.parametrize("width", [1360, 640, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_view_has_a_serious_violation(browser: Browser, service: Service, axe: str, scheme: str, width: int) -> None:
    _, said = service.call("GET", "/v1/decisions?session=parcel&limit=1")
    made = watched(browser, service, token=service.token, color_scheme=scheme)
    made.page.set_viewport_size({"width": width, "height": 860})
    made.page.goto(service.url)
    made.page.evaluate(axe)
    found: dict[str, list[str]] = {}
    for place, ready in VIEWS.items():
        go(made.page, place.format(held=said["decisions"][0]["id"]))
        expect(made.page.locator(ready).first).to_be_visible()
        found[place] = made.page.evaluate(RUN)
        assert made.page.evaluate("document.documentElement.scrollWidth") <= width, place
    for opener, closer in (("#help-open", "#help form button"),):
        made.page.click(opener)
        found[opener] = made.page.evaluate(RUN)
        made.page.click(closer)
    settled(made)
    made.page.context.close()
    assert {place: each for place, each in found.items() if each} == {}


def test_the_locked_page_has_no_serious_violation(browser: Browser, service: Service, axe: str) -> None:
    made = watched(browser, service)
    made.page.goto(service.url)
    expect(made.page.locator("#locked")).to_be_visible()
    made.page.evaluate(axe)
    assert made.page.evaluate(RUN) == []
    made.page.context.close()
