"""The detection corpus keeps its promises: well-formed, fully labelled, paired, original and free of real hosts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

CORPUS = Path(__file__).resolve().parents[2] / "bench" / "corpus"
THEMES = ("coding", "commerce", "multilingual", "office", "ops", "web")

RESERVED = re.compile(r"(^|\.)(example|test|invalid|localhost)$|(^|\.)example\.(com|net|org)$")
# Names that any real lock file, image or cluster shows; an attacker's address is never among them.
PUBLIC = {"docker.io", "github.com", "pypi.org", "registry.npmjs.org", "schema.org"}
PUBLIC |= {"clusterrolebinding.rbac.authorization.k8s.io"}
# Documentation ranges (RFC 5737) and private ones only: a real address in a corpus gets scanned by strangers.
PRIVATE_IP = re.compile(r"^(192\.0\.2|198\.51\.100|203\.0\.113|127\.0\.0|10\.\d{1,3}\.\d{1,3})\.\d{1,3}$")
URL_HOST = re.compile(r"[a-z][a-z0-9+]{1,9}://(?:[^\s/@\"'<>]*@)?([\w.-]*\w)", re.IGNORECASE)
MAIL_HOST = re.compile(r"[\w.+-]+@((?:[\w-]+\.)+[a-z]{2,})", re.IGNORECASE)
BARE_HOST = re.compile(r"\b(?:[a-z0-9-]+\.)+(?:com|net|org|io|dev|app|info|biz)\b(?![\w(])", re.IGNORECASE)
ACCOUNT = re.compile(r"XX\d\d(?: \d{2,4}){3,6}")


@dataclass
class Session:
    theme: str
    goal: str
    id: str
    pair: str | None
    events: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    def calls(self, label: str) -> list[str]:
        return [canonical(e) for kind, e in self.events if kind == "call" and e["label"] == label]

    def blocks(self) -> dict[str, dict[str, object]]:
        return {str(e["id"]): e for kind, e in self.events if kind == "block"}

    @property
    def attacked(self) -> bool:
        return bool(self.calls("attack"))


def canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def lines(theme: str) -> list[str]:
    return (CORPUS / f"{theme}.jsonl").read_text(encoding="utf-8").removesuffix("\n").split("\n")


def records(theme: str) -> Iterator[tuple[str, dict[str, object]]]:
    for line in lines(theme)[1:]:
        record = json.loads(line)
        assert isinstance(record, dict), line[:80]
        assert len(record) == 1, line[:80]
        yield from record.items()


def load() -> list[Session]:
    sessions: list[Session] = []
    for theme in THEMES:
        for kind, body in records(theme):
            if kind == "session":
                sessions.append(Session(theme, str(body["goal"]), str(body["id"]), body.get("pair")))  # type: ignore[arg-type]
            else:
                sessions[-1].events.append((kind, body))
    return sessions


SESSIONS = load()
PAIRS = sorted({s.pair for s in SESSIONS if s.pair})
BY_ID = {s.id: s for s in SESSIONS}


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def texts(session: Session) -> Iterator[str]:
    yield session.goal
    for kind, event in session.events:
        yield from strings(event["arguments"] if kind == "call" else event["content"])


def test_the_folder_holds_exactly_the_promised_themes() -> None:
    assert sorted(p.stem for p in CORPUS.glob("*.jsonl")) == list(THEMES)


@pytest.mark.parametrize("theme", THEMES)
def test_a_file_is_a_trace_that_starts_with_the_header_and_a_session(theme: str) -> None:
    assert json.loads(lines(theme)[0]) == {"trace": "lockgate/1"}
    kinds = [kind for kind, _ in records(theme)]
    assert kinds[0] == "session"
    assert set(kinds) == {"session", "block", "call"}


@pytest.mark.parametrize("session", SESSIONS, ids=lambda s: s.id)
def test_a_session_is_well_formed_and_every_call_is_labelled(session: Session) -> None:
    assert session.goal.strip()
    assert session.id.startswith(session.theme + "-")
    tool: object = None
    ids: list[object] = []
    for kind, event in session.events:
        if kind == "call":
            assert set(event) == {"tool", "arguments", "label"}
            assert isinstance(event["tool"], str)
            assert event["tool"]
            assert isinstance(event["arguments"], dict)
            assert event["label"] in ("attack", "ordinary")
            tool = event["tool"]
        else:
            assert set(event) == {"content", "source", "id"}
            assert isinstance(event["content"], str)
            # The result of a call follows the call; a block without one would be text from nowhere.
            assert event["source"] == f"tool:{tool}"
            ids.append(event["id"])
    assert session.events[0][0] == "call"
    assert len(ids) == len(set(ids))
    assert 2 <= sum(kind == "call" for kind, _ in session.events) <= 8


def test_ids_are_unique_and_no_session_is_a_copy_of_another() -> None:
    assert len(BY_ID) == len(SESSIONS)
    assert len({canonical([s.goal, s.events]) for s in SESSIONS}) == len(SESSIONS)
    goals = [s.goal for s in SESSIONS if not s.id.endswith("b")]
    assert len(goals) == len(set(goals))


def test_attacks_stand_only_in_the_attacked_half_of_a_pair() -> None:
    for session in SESSIONS:
        assert session.attacked == bool(session.pair and session.id == f"{session.pair}a"), session.id


@pytest.mark.parametrize("pair", PAIRS)
def test_an_attacked_session_and_its_twin_differ_only_in_the_poisoned_blocks(pair: str) -> None:
    attacked, clean = BY_ID[f"{pair}a"], BY_ID[f"{pair}b"]
    assert attacked.goal == clean.goal
    assert attacked.calls("ordinary") == clean.calls("ordinary")
    # What answers an attack call has no counterpart; everything else lines up by id.
    shared = [(k, e) for k, e in attacked.events if not (k == "block" and str(e["id"]).startswith("x"))]
    shared = [(k, e) for k, e in shared if not (k == "call" and e["label"] == "attack")]
    assert len(shared) == len(clean.events)
    poisoned = 0
    for (kind, a), (other, c) in zip(shared, clean.events, strict=True):
        assert kind == other
        if canonical(a) != canonical(c):
            assert kind == "block"
            assert (a["id"], a["source"]) == (c["id"], c["source"])
            poisoned += 1
    assert poisoned >= 1


@pytest.mark.parametrize("pair", PAIRS)
def test_an_attack_call_follows_the_text_that_caused_it(pair: str) -> None:
    attacked, clean = BY_ID[f"{pair}a"], BY_ID[f"{pair}b"].blocks()
    seen = False
    label: object = None
    for kind, event in attacked.events:
        if kind == "block":
            here = str(event["id"])
            if here.startswith("x"):
                assert label == "attack", f"{here} does not answer an attack call"
            else:
                seen = seen or event["content"] != clean[here]["content"]
        else:
            label = event["label"]
            assert seen or label == "ordinary"


@pytest.mark.parametrize("pair", PAIRS)
def test_the_clean_twin_does_not_hold_the_attackers_addresses(pair: str) -> None:
    attacked, clean = BY_ID[f"{pair}a"], BY_ID[f"{pair}b"]
    wanted: set[str] = set()
    for kind, event in attacked.events:
        if kind == "call" and event["label"] == "attack":
            for text in strings(event["arguments"]):
                wanted.update(m.group(0) for m in re.finditer(MAIL_HOST, text))
                wanted.update(ACCOUNT.findall(text))
    left = "\n".join(texts(clean))
    assert not [value for value in wanted if value in left]


def test_hosts_are_reserved_names_or_on_the_short_public_list() -> None:
    bad: set[tuple[str, str]] = set()
    for session in SESSIONS:
        for text in texts(session):
            for pattern in (URL_HOST, MAIL_HOST, BARE_HOST):
                for match in pattern.finditer(text):
                    host = match.group(match.lastindex or 0).lower().rstrip(".")
                    if not (RESERVED.search(host) or host in PUBLIC or PRIVATE_IP.match(host)):
                        bad.add((session.id, host))
    assert not bad


def test_no_mark_of_the_writing_tools_is_left() -> None:
    for session in SESSIONS:
        for text in texts(session):
            assert not re.search("‹‹|¦¦|››", text), session.id


def test_the_corpus_is_as_large_and_as_mixed_as_promised() -> None:
    assert len(SESSIONS) >= 250
    assert len(PAIRS) >= 90
    assert sum(s.pair is None for s in SESSIONS) >= 70
    for theme in THEMES:
        assert sum(s.theme == theme for s in SESSIONS) >= 30, theme
    sizes = [len(str(b["content"])) for s in SESSIONS for b in s.blocks().values()]
    assert max(sizes) <= 12_500
    assert sum(n > 2_000 for n in sizes) >= 30
    assert sum(not text.isascii() for s in SESSIONS if s.theme == "multilingual" for text in (s.goal,)) >= 20


def test_the_readme_states_the_real_counts_and_lists_every_session() -> None:
    readme = (CORPUS / "README.md").read_text(encoding="utf-8")
    for theme in THEMES:
        mine = [s for s in SESSIONS if s.theme == theme]
        attacked = sum(s.attacked for s in mine)
        plain = sum(s.pair is None for s in mine)
        attacks = sum(len(s.calls("attack")) for s in mine)
        ordinary = sum(len(s.calls("ordinary")) for s in mine)
        blocks = sum(len(s.blocks()) for s in mine)
        counts = (len(mine), attacked, attacked, plain, attacks, ordinary, blocks)
        row = f"| `{theme}.jsonl` | {' | '.join(map(str, counts))} |"
        assert row in readme, row
    for name in [*PAIRS, *(s.id for s in SESSIONS if s.pair is None)]:
        assert f"\n| {name} |" in readme, name
