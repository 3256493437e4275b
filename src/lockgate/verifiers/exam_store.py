"""The results of judges' exams, in a sealed file of the state folder, and what follows from them.

The worst of a judge's last four exams counts, so that a lucky one is worth nothing. An exam with other words of the
question counts for seven days after a gate first had the new ones. A file that is damaged, or that our key did not
seal, holds no result.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lockgate.core.errors import LockgateError, quoted
from lockgate.core.judging.exam import GRADES, ExamResult
from lockgate.core.ruling.opinions import Authority, JudgeIdentity, JudgeStanding
from lockgate.runtime.private_files import locked_file
from lockgate.runtime.sealed_cache import SealedCache

FILE = "exams.json"
TRIES_A_DAY, COUNTED, DAY_S = 2, 4, 86_400
GRACE_S = 7 * DAY_S
_MAX_RESULTS = 100

# All results, oldest first, and when a gate first had each question.
_Kept = tuple[list[ExamResult], dict[str, int]]
_Record = Callable[[ExamResult], None]


def result_as_json(result: ExamResult) -> dict[str, Any]:
    """Return a result as a JSON object."""
    return {**result._asdict(), "identity": result.identity._asdict()}


def _result_from_json(fields: dict[str, Any]) -> ExamResult:
    identity, standing = JudgeIdentity(**fields["identity"]), Authority(fields["standing"])
    return ExamResult(**{**fields, "identity": identity, "standing": standing})


class ExamStore:
    """Exam results in a file. Safe for several threads and processes.

    `keys` gives the keys that seal it, newest first; without any, a key of the folder does. `record` puts a result into
    the journal before it counts.
    """

    def __init__(
        self, folder: Path, *, keys: Callable[[], tuple[bytes, ...]] = tuple, record: _Record = lambda _: None
    ) -> None:
        self._path, self._keys, self._record = folder / FILE, keys, record
        self._known: tuple[object, _Kept] = (None, ([], {}))

    def results(self) -> list[ExamResult]:
        """Return all results, oldest first; raise LockgateError where the file is there and does not count."""
        return self._read()[0]

    def tries_left(self, identity: JudgeIdentity, now: float) -> int:
        return _tries_left(self.results(), identity, now)

    def begin(self, exam: ExamResult) -> None:
        """Take one of the day's tries for this exam, which has no result yet; raise LockgateError if none is left.

        It is on record first. The try stays used where the process is killed.
        """

        def take(kept: _Kept) -> None:
            if not _tries_left(kept[0], exam.identity, exam.taken_at):
                raise LockgateError(f"{exam.name} took two exams within a day", hint="try again tomorrow")
            self._record(exam)
            kept[0].append(exam)

        self._replace(take)

    def add(self, result: ExamResult, begun: ExamResult | None = None) -> None:
        """Keep a result, which is on record first, in the place of the exam as it was begun."""
        self._record(result)
        self._replace(lambda kept: kept[0].append(result), begun)
        if result not in self.results():
            raise LockgateError(f"{quoted(self._path)} cannot be written")

    def forget(self, begun: ExamResult) -> None:
        """Give the try of an exam back that was ended early."""
        self._replace(lambda _: None, begun)

    def latest(self, identity: JudgeIdentity) -> ExamResult | None:
        """Return this judge's latest exam; None where it took none."""
        with suppress(LockgateError):
            return next((result for result in reversed(self.results()) if _is_exam_of(identity, result)), None)
        return None

    def standing(self, identity: JudgeIdentity, question_sha256: str, now: float) -> JudgeStanding:
        """Return what this judge may clear with these words of the question."""
        try:
            results, seen = self._read()
        except LockgateError as error:
            # A judge that had failed must not clear anything because the file that says so is damaged.
            return JudgeStanding(Authority.FAILED, why=error.message)
        exams = [exam for exam in results if _is_exam_of(identity, exam)]
        if not exams:
            return _standing_of_other(identity, results)
        current = [exam for exam in exams if exam.question_sha256 == question_sha256]
        worst = min(reversed((current or exams)[-COUNTED:]), key=lambda exam: GRADES.index(exam.standing))
        day = datetime.fromtimestamp(worst.taken_at, UTC).date().isoformat()
        if not current and now - self._first_asked(question_sha256, seen, now) >= GRACE_S:
            why = f"its exam of {day} is void: the question has changed"
            return JudgeStanding(Authority.FAILED, worst.id, day, why)
        why = f"it failed its exam on {day} {worst.why}".strip() if worst.standing is Authority.FAILED else ""
        return JudgeStanding(worst.standing, worst.id, day, why)

    def _first_asked(self, question_sha256: str, seen: dict[str, int], now: float) -> int:
        """Return when a gate first had these words; where that cannot be kept, they count as old."""
        if question_sha256 not in seen:
            with suppress(OSError, LockgateError):
                self._replace(lambda kept: kept[1].update({question_sha256: int(now)}))
                seen = self._read()[1]
        return seen.get(question_sha256, 0)

    def _read(self) -> _Kept:
        if not self._path.exists():
            return [], {}
        status = self._path.stat()
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        if stamp != self._known[0]:
            folder = self._path.parent
            try:
                kept = json.loads(SealedCache(folder, folder, self._keys()).read(FILE) or b"")
                results = [_result_from_json(fields) for fields in kept["results"]]
                self._known = (stamp, (results, dict(kept["questions"])))
            except (KeyError, TypeError, ValueError):
                why = "are damaged, or were not sealed with the key of this machine"
                hint = "move the file away, and let the judges take the exam again"
                raise LockgateError(f"the exam results in {quoted(self._path)} {why}", hint=hint) from None
        results, seen = self._known[1]
        return [*results], {**seen}

    def _replace(self, change: Callable[[_Kept], None], without: ExamResult | None = None) -> None:
        folder = self._path.parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked_file(self._path.with_suffix(".lock")):
            results, seen = kept = self._read()
            change(kept)
            rows = [result_as_json(result) for result in results if result != without]
            data = {"results": rows[-_MAX_RESULTS:], "questions": seen}
            SealedCache(folder, folder, self._keys()).write(FILE, json.dumps(data).encode())


def _tries_left(results: list[ExamResult], identity: JudgeIdentity, now: float) -> int:
    recent = [result for result in results if result.identity == identity and now - result.taken_at < DAY_S]
    return max(0, TRIES_A_DAY - len(recent))


def _standing_of_other(identity: JudgeIdentity, results: list[ExamResult]) -> JudgeStanding:
    """Return the standing of a judge that took no exam, while others of its route and model may have."""
    others = [exam for exam in results if exam.identity[:2] == identity[:2] and exam.standing in GRADES]
    was_passed = any(exam.identity[:3] == identity[:3] and exam.standing in GRADES[1:] for exam in others)
    has_failed = any(exam.standing is Authority.FAILED for exam in others)
    why = "was examined at another endpoint or as another program" if others else "has not taken the exam"
    # A failed program that is changed has still failed: else each update would give it back what it may clear.
    authority = Authority.REPLACED if was_passed else Authority.FAILED if has_failed else Authority.UNEXAMINED
    return JudgeStanding(authority, why=f"{identity.route}/{identity.model} {why}")


def _is_exam_of(identity: JudgeIdentity, result: ExamResult) -> bool:
    return result.identity == identity and result.standing in GRADES
