"""What a person sees of approvals beyond the answer itself: what has ended, the reminder, and the one-time link.

Against the real service in a real Chromium, in the light and in the dark, with no error of a script.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from time import time
from types import ModuleType
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from lockgate.service.approval_links import ApprovalLinks, LinkClaim

HERE = Path(__file__).parent
AUDIT = (HERE / "page_audit.js").read_text(encoding="utf-8").partition("\n")[2]
# What is told to the desktop is also kept here.
LISTEN = """
window.__told = [];
window.Notification = class extends Notification {
  constructor(title, options) { super(title, options); window.__told.push(`${title}: ${options.body}`); }
};
"""


def story() -> ModuleType:
    spec = importlib.util.spec_from_file_location("page_story", HERE / "page_story.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STORY = story()
Service, service, browser = STORY.Service, STORY.service, STORY.browser
Watched, watched, settled, go = STORY.Watched, STORY.watched, STORY.settled, STORY.go


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def seen(browser: Browser, service: Service, scheme: str) -> Iterator[Watched]:
    made = watched(browser, service, token=service.token, color_scheme=scheme)
    yield made
    settled(made)
    made.page.context.close()


@pytest.fixture
def stranger(browser: Browser, service: Service, scheme: str) -> Iterator[Watched]:
    """A browser without a token, as that of a person who got a link has none."""
    made = watched(browser, service, color_scheme=scheme)
    yield made
    # The browser itself logs a refusal; nothing else may be wrong.
    made.wrong[:] = [each for each in made.wrong if not re.search("status of 4(03|10)", each)]
    settled(made)
    assert made.page.evaluate("Object.keys(sessionStorage)") == []
    made.page.context.close()


def state_of(service: Service, approval: str) -> Any:
    return service.call("GET", f"/v1/approvals/{approval}")[1]


def answer(service: Service, approval: str, word: str) -> None:
    digest = state_of(service, approval)["digest"]
    status, said = service.call("POST", f"/v1/approvals/{approval}", {"answer": word, "digest": digest})
    assert status == 200, said


def check_view(page: Page, scheme: str) -> None:
    """Every text can be read, by people and by their programs, on the ground that the system asks for."""
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    shades = [int(each) for each in re.findall(r"\d+", ground)[:3]]
    assert (sum(shades) < 3 * 128) is (scheme == "dark"), ground
    assert page.evaluate(f"({AUDIT}).audit()") == []


def test_what_has_ended_is_listed_with_how_and_why(seen: Watched, service: Service, scheme: str) -> None:
    names = [f"{word}-{scheme}" for word in ("denied", "used", "voided")]
    denied, used, voided = (service.waiting(name)["approval"] for name in names)
    answer(service, denied, "deny")
    answer(service, used, "approve")
    assert service.check(names[1], "send_email", STORY.ORDERS)["reason"] == "approved"
    service.post(f"/v1/sessions/{names[2]}/blocks", {"content": "The desk has moved.", "source": "web:more.example"})
    seen.page.goto(f"{service.url}/#/approvals")
    for approval, words in (
        (denied, ("denied", "Denied by")),
        (used, ("used", "Approved by")),
        (voided, ("voided", "Void: the agent has read", "web:more.example")),
    ):
        row = seen.page.locator(f".history [data-ended='{approval}']")
        expect(row).to_have_count(1)
        for each in words:
            expect(row).to_contain_text(each)
        expect(row).to_contain_text("desk@clearance.example")
    # One that ends while the page is open moves there by itself.
    late = service.waiting(f"late-{scheme}")["approval"]
    expect(seen.page.locator(f"[data-approval='{late}']")).to_be_visible()
    answer(service, late, "deny")
    expect(seen.page.locator(f".history [data-ended='{late}']")).to_contain_text("denied")
    check_view(seen.page, scheme)


def test_a_person_is_reminded_only_while_they_ask_for_it(seen: Watched, service: Service, scheme: str) -> None:
    seen.page.context.grant_permissions(["notifications"], origin=service.url)
    seen.page.add_init_script(LISTEN)
    seen.page.goto(f"{service.url}/#/approvals")
    button = seen.page.locator(".title button.quiet")
    expect(button).to_have_text("Notify me in this browser")
    expect(seen.page.locator("#link-text")).to_have_text("live")
    button.click()
    expect(button).to_have_text("Stop notifying me")
    first = service.waiting(f"remind-{scheme}")["approval"]
    expect(seen.page.locator("#told-now")).to_contain_text("waiting for you")
    told = seen.page.evaluate("window.__told")
    assert told
    # How many wait, and nothing of what.
    assert all(re.fullmatch(r"Lockgate: \d+ calls? waiting for you", each) for each in told), told
    button.click()
    expect(button).to_have_text("Notify me in this browser")
    second = service.waiting(f"quiet-{scheme}")["approval"]
    expect(seen.page.locator(f"[data-approval='{second}']")).to_be_visible()
    assert seen.page.evaluate("window.__told") == told
    check_view(seen.page, scheme)
    for approval in (first, second):
        answer(service, approval, "deny")


def test_calls_with_one_cause_stand_together(seen: Watched, service: Service, scheme: str) -> None:
    page = seen.page
    source, other = f"file:notes-{scheme}.md", f"web:other-{scheme}.example"
    asked = []
    for at, where in enumerate((source, other, source, source)):
        service.open(f"cause-{at}-{scheme}", "Tell Mira when her parcel arrives", STORY.PARCEL, source=where)
        asked.append(service.check(f"cause-{at}-{scheme}", "send_email", STORY.ORDERS)["approval"])
    page.goto(f"{service.url}/#/approvals")
    group = page.locator(".held-group", has=page.locator("h2", has_text=source))
    expect(group.locator("> h2")).to_have_text(f"3 calls, same file: {source}")
    expect(group.locator(".approval")).to_have_count(3)
    expect(page.locator(".held-group > h2", has_text=other)).to_have_text(f"1 call, page: {other}")
    # A call that comes later moves nothing that is on the screen.
    box = page.locator(f"[data-approval='{asked[-1]}']")
    before = box.bounding_box()
    service.open(f"cause-late-{scheme}", "Tell Mira when her parcel arrives", STORY.PARCEL, source=source)
    asked.append(service.check(f"cause-late-{scheme}", "send_email", STORY.ORDERS)["approval"])
    expect(page.locator(f"[data-approval='{asked[-1]}']")).to_be_visible()
    assert box.bounding_box() == before
    box.locator("button.deny").click()
    expect(group.first.locator("> h2")).to_have_text(f"2 calls, same file: {source}")
    check_view(page, scheme)
    for approval in asked:
        if state_of(service, approval)["state"] == "waiting":
            answer(service, approval, "deny")


def link_to(service: Service, approval: str, *, lasts_s: float = 600.0) -> str:
    claim = LinkClaim(approval, "hook", "ana", time() + lasts_s)
    return f"{service.url}/#/answer/{ApprovalLinks(lambda: service.token).make(claim)}"


@pytest.mark.parametrize("word", ["deny", "approve"])
def test_a_link_shows_the_call_before_it_answers_once(
    stranger: Watched, service: Service, scheme: str, word: str
) -> None:
    session = f"link-{word}-{scheme}"
    approval = service.waiting(session)["approval"]
    page, link = stranger.page, link_to(service, approval)
    page.goto(link)
    expect(page.locator("h1")).to_have_text("A call waits for you")
    box = page.locator(f"[data-approval='{approval}']")
    expect(box).to_contain_text("desk@clearance.example")
    check_view(page, scheme)
    # Looking at it, also twice, is no answer.
    page.reload()
    expect(box).to_contain_text("desk@clearance.example")
    assert state_of(service, approval)["state"] == "waiting"
    if word == "approve":
        box.locator("button.arm").click()
        expect(box.locator(".confirm")).to_be_visible()
        expect(box.locator("button.approve")).to_be_enabled()
        assert state_of(service, approval)["state"] == "waiting"
    box.locator(f"button.{word}").click()
    expect(box.locator(".outcome")).to_contain_text("Approved" if word == "approve" else "Denied")
    now = state_of(service, approval)
    assert (now["state"], now["answered"]["who"]) == ("granted" if word == "approve" else "denied", "ana")
    # A used link shows nothing of the call any more.
    page.reload()
    expect(page.locator("h2, h1").filter(has_text="This link cannot be used")).to_be_visible()
    expect(page.locator("body")).not_to_contain_text("desk@clearance.example")
    check_view(page, scheme)


@pytest.mark.parametrize("how", ["expired", "forged", "ended"])
def test_a_link_that_is_worth_nothing_shows_nothing(stranger: Watched, service: Service, scheme: str, how: str) -> None:
    approval = service.waiting(f"{how}-{scheme}")["approval"]
    link = link_to(service, approval, lasts_s=-1.0 if how == "expired" else 600.0)
    if how == "forged":
        link = link[:-1] + ("0" if link[-1] != "0" else "1")
    if how == "ended":
        answer(service, approval, "deny")
    stranger.page.goto(link)
    expect(stranger.page.locator("h2, h1").filter(has_text="This link cannot be used")).to_be_visible()
    expect(stranger.page.locator("body")).not_to_contain_text("desk@clearance.example")
    assert stranger.page.locator("button.deny, button.arm").count() == 0
    check_view(stranger.page, scheme)
    if how != "ended":
        assert state_of(service, approval)["state"] == "waiting"
        answer(service, approval, "deny")
