from __future__ import annotations

import json
from pathlib import Path

import pytest

from lockgate.core.errors import LockgateError
from lockgate.core.judging.exam import ExamResult
from lockgate.core.ruling.opinions import Authority, JudgeIdentity, JudgeStanding
from lockgate.verifiers.exam_store import DAY_S, FILE, GRACE_S, ExamStore, result_as_json

WHO = JudgeIdentity("anthropic", "claude-haiku-5-5", "https://api.anthropic.example")
NOW = 1_795_000_000
DAY = "2026-11-18"
QUESTION = "a" * 64
FAILED, PASSED, DISTINCTION = Authority.FAILED, Authority.PASSED, Authority.DISTINCTION


def result(
    standing: Authority = PASSED, at: int = NOW, question: str = QUESTION, who: JudgeIdentity = WHO
) -> ExamResult:
    tally = {"unwanted": 300, "kept": 299}
    return ExamResult(
        f"{at:016x}", who, "haiku-20261018", question, at, standing, "", {"triage": tally}, {"office": tally}
    )


def standing(store: ExamStore, now: float = NOW, question: str = QUESTION, who: JudgeIdentity = WHO) -> JudgeStanding:
    return store.standing(who, question, now)


def test_a_result_is_kept_and_counts(tmp_path: Path) -> None:
    store = ExamStore(tmp_path / "state")
    assert standing(store) == JudgeStanding(
        Authority.UNEXAMINED, why="anthropic/claude-haiku-5-5 has not taken the exam"
    )
    store.add(result())
    for each in (store, ExamStore(tmp_path / "state")):
        assert each.results() == [result()]
        assert standing(each) == JudgeStanding(PASSED, result().id, DAY)
        assert each.latest(WHO) == result()


@pytest.mark.parametrize("other", [WHO._replace(endpoint="http://127.0.0.1:1"), WHO._replace(route="host")])
def test_another_judge_has_no_exam(tmp_path: Path, other: JudgeIdentity) -> None:
    store = ExamStore(tmp_path)
    store.add(result())
    found = standing(store, who=other)
    assert found.authority is Authority.UNEXAMINED
    assert found.why
    assert store.latest(other) is None


@pytest.mark.parametrize(("taken", "held"), [(PASSED, Authority.REPLACED), (Authority.FAILED, Authority.FAILED)])
def test_another_program_than_the_one_that_passed_is_replaced_and_one_that_failed_has_failed(
    tmp_path: Path, taken: Authority, held: Authority
) -> None:
    store = ExamStore(tmp_path)
    store.add(result()._replace(standing=taken, identity=WHO._replace(program_sha256="a" * 64)))
    for digest in ("b" * 64, ""):
        assert standing(store, who=WHO._replace(program_sha256=digest)).authority is held


@pytest.mark.parametrize(
    ("taken", "counts"),
    [
        ([DISTINCTION, PASSED], PASSED),
        ([FAILED, DISTINCTION, DISTINCTION, DISTINCTION], FAILED),
        ([FAILED, DISTINCTION, DISTINCTION, DISTINCTION, DISTINCTION], DISTINCTION),
        # One that was given up neither helps nor harms.
        ([PASSED, Authority.UNEXAMINED], PASSED),
        ([Authority.UNEXAMINED], Authority.UNEXAMINED),
    ],
)
def test_the_worst_of_the_last_four_counts(tmp_path: Path, taken: list[Authority], counts: Authority) -> None:
    store = ExamStore(tmp_path)
    for number, each in enumerate(taken):
        store.add(result(each, NOW + number * DAY_S))
    assert standing(store, NOW + 9 * DAY_S).authority is counts


def test_two_tries_a_day(tmp_path: Path) -> None:
    store = ExamStore(tmp_path)
    assert store.tries_left(WHO, NOW) == 2
    store.add(result(FAILED, NOW))
    store.add(result(Authority.UNEXAMINED, NOW + 60))
    assert store.tries_left(WHO, NOW + 61) == 0
    assert store.tries_left(WHO._replace(model="other"), NOW + 61) == 2
    assert store.tries_left(WHO, NOW + DAY_S + 1) == 1


def test_an_exam_takes_its_try_when_it_begins(tmp_path: Path) -> None:
    """Neither exams side by side nor a killed one give more tries than two a day."""
    store = ExamStore(tmp_path)
    first, second, third = (result(Authority.UNEXAMINED, NOW + number)._replace(id=str(number)) for number in range(3))
    store.begin(first)
    ExamStore(tmp_path).begin(second)
    with pytest.raises(LockgateError, match="two exams within a day"):
        store.begin(third)
    # One that was ended early gives its try back; a result stands in the place of its exam.
    store.forget(second)
    store.add(result(FAILED, NOW + 9), first)
    assert store.results() == [result(FAILED, NOW + 9)]
    store.begin(third)
    assert store.tries_left(WHO, NOW + 10) == 0


def test_a_changed_question_voids_an_exam_after_seven_days(tmp_path: Path) -> None:
    store, new = ExamStore(tmp_path), "b" * 64
    store.add(result())
    # A gate has the new words for the first time half a year later.
    began = NOW + 180 * DAY_S
    assert standing(store, began, new).authority is PASSED
    assert standing(ExamStore(tmp_path), began + GRACE_S - 1, new).authority is PASSED
    void = standing(ExamStore(tmp_path), began + GRACE_S, new)
    assert (void.authority, void.why) == (FAILED, f"its exam of {DAY} is void: the question has changed")
    assert standing(store, began + GRACE_S).authority is PASSED
    # Exams with the old words no longer count once there is one with the new ones.
    store.add(result(DISTINCTION, began + GRACE_S, new))
    assert standing(store, began + GRACE_S, new).authority is DISTINCTION


def test_an_exam_that_was_failed_says_when(tmp_path: Path) -> None:
    store = ExamStore(tmp_path)
    store.add(result(FAILED)._replace(why="because its replies came from 2 models"))
    assert standing(store).why == f"it failed its exam on {DAY} because its replies came from 2 models"


def forge(path: Path) -> None:
    kept = {"results": [result_as_json(result(DISTINCTION))], "questions": {}}
    path.write_bytes(b"\0" * 32 + json.dumps(kept).encode())


TAMPERINGS = {
    "a-flipped-byte": lambda path: path.write_bytes(path.read_bytes()[:-5] + b"\0" + path.read_bytes()[-4:]),
    "another-grade": lambda path: path.write_bytes(path.read_bytes().replace(b'"failed"', b'"passed"')),
    "cut-short": lambda path: path.write_bytes(path.read_bytes()[:40]),
    "empty": lambda path: path.write_bytes(b""),
    "forged": forge,
    "writable-by-others": lambda path: path.chmod(0o666),
    "the-key-is-gone": lambda path: (path.parent / "cache.key").unlink(),
}


@pytest.mark.parametrize("how", TAMPERINGS)
def test_a_file_that_was_tampered_with_holds_no_exam(tmp_path: Path, how: str) -> None:
    ExamStore(tmp_path).add(result(FAILED))
    TAMPERINGS[how](tmp_path / FILE)
    store = ExamStore(tmp_path)
    found = standing(store)
    assert found.authority is Authority.FAILED
    assert "damaged, or were not sealed with the key of this machine" in found.why
    assert store.latest(WHO) is None
    with pytest.raises(LockgateError):
        store.add(result(DISTINCTION))


def test_the_key_of_a_journal_seals_and_an_older_one_still_counts(tmp_path: Path) -> None:
    keys = [b"1" * 32]
    store = ExamStore(tmp_path, keys=lambda: tuple(reversed(keys)))
    store.add(result())
    keys.append(b"2" * 32)
    assert ExamStore(tmp_path, keys=lambda: tuple(reversed(keys))).results() == [result()]
    for others in ((b"3" * 32,), ()):
        with pytest.raises(LockgateError):
            ExamStore(tmp_path, keys=lambda others=others: others).results()


def test_a_result_that_cannot_be_recorded_does_not_count(tmp_path: Path) -> None:
    def record(_: ExamResult) -> None:
        raise LockgateError("the journal is full")

    with pytest.raises(LockgateError, match="full"):
        ExamStore(tmp_path, record=record).add(result())
    assert ExamStore(tmp_path).results() == []
