"""Large arguments do not stall the page, and none of them is left out unsaid."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

SPEC = importlib.util.spec_from_file_location("page_story", Path(__file__).parent / "page_story.py")
assert SPEC is not None
assert SPEC.loader is not None
STORY = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(STORY)
service, browser, seen, page = STORY.service, STORY.browser, STORY.seen, STORY.page

BUSY_S = 0.2
MOST_ELEMENTS = 6_000
# Resolves when the decision is on the screen.
DRAWN = """(id) => new Promise((done) => {
  location.hash = `#/decision/${id}`;
  const isDrawn = () => document.querySelector(".crumbs")?.textContent.includes(id);
  const look = () => (isDrawn() ? requestAnimationFrame(done) : setTimeout(look, 20));
  look();
})"""
LARGE: dict[str, Any] = {
    "one plain text": "word " * 199_000,
    "one hidden text": "a\u200b" * 140_000,
    "markup": "<b>" * 330_000,
    "markup around hidden text": ("<b" + "\u200b\u200c" * 100) * 800,
    "many short texts": ["a"] * 190_000,
    "many numbers": [7] * 330_000,
    "many names": {f"n{number}": "v" for number in range(65_000)},
    "lists in lists": [[[]]] * 9_000,
    "16 KB of texts": ["\u200b"] * 2_000,
}


def busy_s(page: Page, id: str) -> float:
    """Return the processor time of the page's thread until the place was drawn and laid out."""
    client = page.context.new_cdp_session(page)
    client.send("Performance.enable", {"timeDomain": "threadTicks"})

    def task_s() -> float:
        metrics = client.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))

    before = task_s()
    page.evaluate(DRAWN, id)
    return task_s() - before


@pytest.mark.parametrize("shape", LARGE)
def test_a_decision_with_large_arguments_is_drawn_at_once(page: Page, service: Any, shape: str) -> None:
    service.open(f"large {shape}", "Tell Mira when her parcel arrives", STORY.PARCEL)
    ruled = service.check(f"large {shape}", "send_email", {**STORY.ORDERS, "notes": LARGE[shape]})
    spent_s = busy_s(page, ruled["id"])
    assert page.evaluate("document.querySelectorAll('*').length") < MOST_ELEMENTS
    assert spent_s < BUSY_S, f"{spent_s:.3f} s"
    expect(page.locator(".call-box button.more").first).to_be_visible()


@pytest.mark.parametrize(
    ("notes", "presses"),
    [(["a"] * 100 + ["rm -rf ~"], 1), ("a\u200b" * 1_500 + "rm -rf ~", 2), ({"n" * 7_000 + " rm -rf ~": 1}, 1)],
    ids=["entries", "hidden text", "name"],
)
def test_what_is_cut_is_announced_and_shown_before_a_yes(page: Page, service: Any, notes: Any, presses: int) -> None:
    ruled = service.waiting(f"cut {presses} {type(notes).__name__}", notes=notes)
    STORY.go(page, "#/approvals")
    box = page.locator(f"[data-approval='{ruled['approval']}']")
    for _ in range(presses):
        expect(box.locator("button.arm")).to_be_disabled()
        expect(box.locator(".call-box")).not_to_contain_text("rm -rf ~")
        box.locator(".call-box button.more").last.click()
    expect(box.locator(".call-box")).to_contain_text("rm -rf ~")
    expect(box.locator(".call-box button.more")).to_have_count(0)
    expect(box.locator("button.arm")).to_be_enabled()
