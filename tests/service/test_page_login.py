"""The code in the page's address: good once, for a few minutes, for one of all who try."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from asking import HOST, Asking

from lockgate.cli.main import main
from lockgate.service.approval_links import LinkClaim
from lockgate.service.auth import make_token, person_path
from lockgate.service.http import Caller
from lockgate.service.page_login import ENDED_FOLDER, FOLDER, LIFETIME_S, MAX_WRONG, READING_S, LoginCodes, WrongCodes
from lockgate.service.routes import ROUTES


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def codes(tmp_path: Path) -> LoginCodes:
    return LoginCodes(tmp_path / "codes", clock=Clock())


def test_a_code_gives_the_token_once(make: Callable[..., Asking], codes: LoginCodes) -> None:
    ask = make(codes=codes)
    code = codes.make()
    page = {"Origin": f"http://{HOST}", "Sec-Fetch-Site": "same-origin"}
    reply = ask("POST", "/v1/exchange", {"code": code}, who=None, headers=page)
    assert reply.status == 200
    assert reply.json == {"token": ask.tokens.token(Caller.PERSON)}
    assert reply.headers["cache-control"] == "no-store"
    again = ask("POST", "/v1/exchange", {"code": code}, who=None, headers=page)
    assert (again.status, again.code) == (403, "bad-code")
    assert "lockgate token --url" in again.json["error"]["hint"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example:7717"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "none"},
        {"Content-Type": "text/plain"},
    ],
    ids=str,
)
def test_no_other_page_can_spend_it(make: Callable[..., Asking], codes: LoginCodes, headers: dict[str, str]) -> None:
    ask = make(codes=codes)
    code = codes.make()
    assert ask("POST", "/v1/exchange", {"code": code}, who=None, headers=headers).status in (403, 415)
    assert codes.spend(code)


def test_a_code_is_good_for_minutes_and_for_one_of_many(tmp_path: Path) -> None:
    clock = Clock()
    codes = LoginCodes(tmp_path, clock=clock)
    late, early, good = (codes.make() for _ in range(3))
    clock.now += LIFETIME_S
    assert codes.spend(good)
    assert not codes.spend(good)
    clock.now += 0.1
    assert not codes.spend(late)
    # A clock that was put back makes none good.
    clock.now -= LIFETIME_S + 1
    assert not codes.spend(early)
    contested = codes.make()
    with ThreadPoolExecutor(8) as crowd:
        assert sum(crowd.map(lambda _: LoginCodes(tmp_path, clock=clock).spend(contested), range(32))) == 1
    for odd in ("", "x", "../token", "\ud800", "a" * 101):
        assert not codes.spend(odd)


def test_what_is_kept_of_a_code_is_not_the_code_and_is_private(tmp_path: Path) -> None:
    clock = Clock()
    codes = LoginCodes(tmp_path, clock=clock)
    code = codes.make()
    (file,) = (tmp_path / FOLDER).iterdir()
    assert code not in file.name + file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    assert (tmp_path / FOLDER).stat().st_mode & 0o077 == 0
    # What others could have written makes no caller a person.
    os.chmod(tmp_path / FOLDER, 0o777)
    assert not codes.spend(code)
    os.chmod(tmp_path / FOLDER, 0o700)
    # Unopened ones do not stay.
    clock.now += LIFETIME_S + 1
    codes.make()
    assert len(list((tmp_path / FOLDER).iterdir())) == 1
    codes.forget()
    assert list((tmp_path / FOLDER).iterdir()) == []
    assert LoginCodes(None).make() == ""
    assert not LoginCodes(None).spend("x")


def test_codes_cannot_be_tried_without_end(make: Callable[..., Asking], codes: LoginCodes) -> None:
    ask = make(codes=codes)
    tried = [ask("POST", "/v1/exchange", {"code": "x"}, who=None).status for _ in range(MAX_WRONG + 1)]
    assert tried == [403] * MAX_WRONG + [503]


def test_wrong_codes_do_not_lock_the_person_out(make: Callable[..., Asking], codes: LoginCodes) -> None:
    ask = make(codes=codes)
    for number in range(2 * MAX_WRONG):
        ask("POST", "/v1/exchange", {"code": f"guess-{number}"}, who=None)
    reply = ask("POST", "/v1/exchange", {"code": codes.make()}, who=None)
    assert (reply.status, reply.json) == (200, {"token": ask.tokens.token(Caller.PERSON)})


def test_wrong_codes_are_counted_for_each_address_and_minute() -> None:
    clock = Clock()
    wrong = WrongCodes(clock=clock)
    assert all(wrong.count("10.0.0.1") for _ in range(MAX_WRONG))
    assert not wrong.count("10.0.0.1")
    assert wrong.count("10.0.0.2")
    clock.now += 60.0
    assert wrong.count("10.0.0.1")
    for number in range(5_000):
        wrong.count(f"address {number}")
    assert len(wrong._times) < 2_000


# A browser's reading key


def reading(ask: Asking, key: str) -> Callable[..., Any]:
    def asked(method: str, path: str, body: object = None) -> Any:
        return ask(method, path, body, who=None, headers={"Authorization": f"Bearer {key}"})

    return asked


def test_a_reading_key_reads_what_a_person_reads_and_changes_nothing(ask: Asking, hijacked: dict[str, Any]) -> None:
    made = ask("POST", "/v1/reading-key", {})
    assert (made.status, "set-cookie" in made.headers) == (200, False)
    read = reading(ask, made.json["key"])
    approval = ask("GET", "/v1/approvals").json["approvals"][0]
    names = {"session": "s1", "block": "b0002", "decision": hijacked["id"], "approval": approval["id"], "step": "x"}
    for route in ROUTES:
        path = route.path.format(**{name: names.get(name, "x") for name in route.names})
        if route.method != "GET":
            if route.who is not Caller.WITHOUT_TOKEN:
                reply = read(route.method, path, {"answer": "approve", "digest": approval["digest"]})
                assert (route.path, reply.status, reply.code) == (route.path, 403, "reading-only")
        elif route.path.startswith("/v1/") and route.path != "/v1/events":
            assert read("GET", path).status not in (401, 403) or route.names[-1:] == ("step",), route.path
    assert read("GET", "/metrics").code == "reading-only"
    assert ask("GET", f"/v1/approvals/{approval['id']}").json["state"] == "waiting"


def test_an_agent_gets_no_reading_key_and_one_key_makes_no_other(ask: Asking) -> None:
    assert ask("POST", "/v1/reading-key", {}, who=Caller.AGENT).code == "needs-a-person"
    assert ask("POST", "/v1/reading-key", {}, who=None).code == "no-token"
    key = ask("POST", "/v1/reading-key", {}).json["key"]
    assert reading(ask, key)("POST", "/v1/reading-key", {}).code == "reading-only"


def test_signing_out_ends_the_key_at_once_for_every_worker_and_the_next_service(
    make: Callable[..., Asking], tmp_path: Path
) -> None:
    ask, other = (make(codes=LoginCodes(tmp_path / "codes")) for _ in range(2))
    key = ask("POST", "/v1/reading-key", {}).json["key"]
    assert reading(other, key)("GET", "/v1/decisions").status == 200
    for who in (Caller.AGENT, None):
        assert ask("POST", "/v1/reading-key/end", {"key": key}, who=who).status in (401, 403)
    assert reading(ask, key)("POST", "/v1/reading-key/end", {"key": key}).code == "reading-only"
    assert ask("POST", "/v1/reading-key/end", {"key": key}).json == {"ended": True}
    for each in (ask, other, make(codes=LoginCodes(tmp_path / "codes"))):
        assert reading(each, key)("GET", "/v1/decisions").code == "no-token"
    assert ask("POST", "/v1/reading-key/end", {"key": key}).json == {"ended": False}


def test_only_keys_of_ours_are_noted_as_ended_and_only_while_they_could_count(
    make: Callable[..., Asking], tmp_path: Path
) -> None:
    clock = Clock()
    ask = make(clock=clock, codes=LoginCodes(tmp_path / "codes", clock=clock))
    for text in ("lgr_x.y", "no key", "../../x", "ä" * 50):
        assert ask("POST", "/v1/reading-key/end", {"key": text}).json == {"ended": False}
    assert not (tmp_path / "codes" / ENDED_FOLDER).exists()
    for _ in range(3):
        key = ask("POST", "/v1/reading-key", {}).json["key"]
        assert ask("POST", "/v1/reading-key/end", {"key": key}).json == {"ended": True}
        assert len([*(tmp_path / "codes" / ENDED_FOLDER).iterdir()]) == 1
        clock.now += READING_S + 1
    without_folder = make(codes=LoginCodes(None))
    key = without_folder("POST", "/v1/reading-key", {}).json["key"]
    without_folder("POST", "/v1/reading-key/end", {"key": key})
    assert reading(without_folder, key)("GET", "/v1/decisions").code == "no-token"


def test_an_end_that_cannot_be_kept_is_said(make: Callable[..., Asking], tmp_path: Path) -> None:
    (tmp_path / "codes").write_text("a file stands where the folder should")
    ask = make(codes=LoginCodes(tmp_path / "codes"))
    key = ask("POST", "/v1/reading-key", {}).json["key"]
    assert ask("POST", "/v1/reading-key/end", {"key": key}).status == 503


def test_a_reading_key_ends_with_its_week_and_with_the_token(make: Callable[..., Asking], tmp_path: Path) -> None:
    clock = Clock()
    ask = make(clock=clock)
    made = ask("POST", "/v1/reading-key", {}).json
    assert made["until"] == clock.now + READING_S
    read = reading(ask, made["key"])
    clock.now += READING_S - 1
    assert read("GET", "/v1/decisions").status == 200
    clock.now += 1
    assert read("GET", "/v1/decisions").code == "no-token"
    key = ask("POST", "/v1/reading-key", {}).json["key"]
    make_token(tmp_path / "tokens" / "token", Caller.PERSON, instead=True)
    rotated = make(clock=clock)
    assert reading(rotated, key)("GET", "/v1/decisions").code == "no-token"
    # The signature is over the whole claim, and a link's is none of a key's.
    fresh = rotated("POST", "/v1/reading-key", {}).json["key"]
    claim = LinkClaim("", "page", "", clock.now + 100)
    for forged in (
        fresh[:-1] + ("0" if fresh[-1] != "0" else "1"),
        "lgr_",
        "lgr_x.y",
        f"lgr_{rotated.api.links.make(claim)}",
    ):
        assert reading(rotated, forged)("GET", "/v1/decisions").code == "no-token", forged


def test_a_persons_own_reading_key_ends_with_that_persons_token(make: Callable[..., Asking], tmp_path: Path) -> None:
    own = make_token(person_path(tmp_path / "tokens", "ana"), Caller.PERSON)
    ask = make()
    headers = {"Authorization": f"Bearer {own}"}
    key = ask("POST", "/v1/reading-key", {}, who=None, headers=headers).json["key"]
    assert reading(ask, key)("GET", "/v1/decisions").status == 200
    person_path(tmp_path / "tokens", "ana").unlink()
    assert reading(make(), key)("GET", "/v1/decisions").code == "no-token"


def test_the_command_prints_an_address_without_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("LOCKGATE_TOKEN", "LOCKGATE_URL", "LOCKGATE_CONFIG"):
        monkeypatch.delenv(name, raising=False)

    # Whether it is the service that listens there: tests/cli/test_token.py.
    monkeypatch.setattr("lockgate.cli.token.ask_service", lambda *_: b"{}")

    def printed(*options: str) -> tuple[int, str, str]:
        code = main(["token", *options])
        return code, *(text.strip() for text in capsys.readouterr())

    token = printed()[1]
    said = printed("--url")[1]
    address, _, code = said.partition("/#code=")
    assert address == "http://127.0.0.1:7717"
    assert token not in said
    kept = LoginCodes(tmp_path / "lockgate")
    assert kept.spend(code)
    assert not kept.spend(code)
    monkeypatch.setenv("LOCKGATE_URL", "http://127.0.0.1:9000/")
    assert printed("--url")[1].startswith("http://127.0.0.1:9000/#code=")
    # A new token, and none of the old codes gives it away.
    old: Any = printed("--url")[1].partition("#code=")[2]
    assert printed("--rotate")[1] != token
    assert not kept.spend(old)
    assert printed("--url", "--agent")[0] == 2
