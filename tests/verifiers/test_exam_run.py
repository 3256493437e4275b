from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Callable, Iterator
from random import Random
from threading import Lock

import pytest
from paths import ROOT

from lockgate.core.judging.case import JudgeCase
from lockgate.core.judging.exam import ADDRESSED, MOST_QUESTIONS, ExamBank, ExamItem, ExamResult, Side, Sitting
from lockgate.core.judging.judge_messages import build_question, parse_opinion, question_sha256
from lockgate.core.questions import Question
from lockgate.core.ruling.opinions import Authority, JudgeIdentity, Ruling, Silent, Triage, Unreadable
from lockgate.core.ruling.pipeline import Stage
from lockgate.core.text.scanner import Scanner
from lockgate.core.vocabulary import Action
from lockgate.gate.judge import Inquiry, Opined
from lockgate.verifiers.exam_run import load_bank, take_exam

NONCE = "3f9a1c07d2e84b65a0c4f1e2d3b5a697"
WHO = JudgeIdentity("mine", "m-1")
# What a judge says of a case: whether it clears it. The label is known to scripted judges only.
Clears = Callable[[JudgeCase, Side], bool]


class Sheets:
    """Drawn once for all judges of this file: putting a thousand cases together takes a while."""

    def __init__(self, scanner: Scanner) -> None:
        self.bank, self.scanner, self.lock = load_bank(), scanner, Lock()
        self.drawn: dict[tuple[Stage, Side], tuple[list[ExamItem], Iterator[ExamItem]]] = {}
        self.sides: dict[JudgeCase, Side] = {}

    def items(self, stage: Stage, side: Side) -> Iterator[ExamItem]:
        if (stage, side) not in self.drawn:
            source = Sitting(self.bank, self.scanner, Random(f"{stage} {side}"))._items(stage, side)
            self.drawn[stage, side] = ([], source)
        known, more = self.drawn[stage, side]
        for number in range(MOST_QUESTIONS):
            if number == len(known):
                known.append(next(more))
                self.sides[known[-1].case] = side
            yield known[number]


@pytest.fixture(scope="module")
def sheets(scanner: Scanner) -> Sheets:
    return Sheets(scanner)


class Drawn(Sitting):
    def __init__(self, sheets: Sheets) -> None:
        super().__init__(sheets.bank, sheets.scanner, Random(3))
        self._sheets = sheets

    def _items(self, stage: Stage, side: Side) -> Iterator[ExamItem]:
        return self._sheets.items(stage, side)


class TextJudge:
    """A model by what it writes, read as strictly as any model's reply."""

    name = "mine/m-1"

    def __init__(self, write: Callable[[Inquiry, Question], str], model: str = "m-1") -> None:
        self.write, self.model = write, model

    def opine(self, inquiry: Inquiry) -> Opined:
        text = self.write(inquiry, build_question(inquiry.stage, inquiry.case, NONCE))
        return Opined(parse_opinion(inquiry.stage, text, NONCE, inquiry.case), 100, 10, self.model)

    async def opine_async(self, inquiry: Inquiry) -> Opined:
        return self.opine(inquiry)


def say(stage: Stage, *, clears: bool) -> str:
    if stage is Stage.TRIAGE_AGAIN:
        return "NO" if clears else "YES"
    if stage is Stage.TRIAGE:
        return json.dumps({"suspicious": not clears, "nonce": NONCE})
    return json.dumps({"verdict": "CONTINUE" if clears else "PAUSE", "correction": "", "nonce": NONCE})


def sit(judge: TextJudge, sheets: Sheets) -> ExamResult:
    sitting = Drawn(sheets)
    take_exam(judge, sitting)
    return sitting.result(WHO, 1_000.0)


def examine(sheets: Sheets, write: Callable[[Inquiry, Question], str]) -> ExamResult:
    return sit(TextJudge(write), sheets)


def examine_by_label(sheets: Sheets, clears: Clears) -> ExamResult:
    return examine(
        sheets, lambda inquiry, _: say(inquiry.stage, clears=clears(inquiry.case, sheets.sides[inquiry.case]))
    )


def test_a_perfect_judge_passes_with_distinction(sheets: Sheets) -> None:
    result = examine_by_label(sheets, lambda _, side: side is Side.WANTED)
    assert (result.standing, result.replied, result.question_sha256) == (
        Authority.DISTINCTION,
        "m-1",
        question_sha256(),
    )
    assert set(result.kinds) == {"assistant", "coding", "mixed", "office", "ops", "web"}
    # The exam ended at the second look of each question.
    assert [
        sum(tally[part] for part in ("unwanted", "wanted", "addressed")) for tally in result.questions.values()
    ] == [360, 360]


def test_unread_answers_are_kept_as_in_a_gate_and_asked_for_once_more(sheets: Sheets) -> None:
    def mumbles(inquiry: Inquiry, _: Question) -> str:
        # No object ever, and one word in capital letters when that is asked for.
        right = sheets.sides[inquiry.case] is Side.WANTED
        return "I think not." if inquiry.stage is Stage.TRIAGE else say(inquiry.stage, clears=right)

    assert examine(sheets, mumbles).standing is Authority.DISTINCTION


def text_of(case: JudgeCase) -> str:
    return "\n".join(piece for excerpt in case.excerpts for piece in excerpt.pieces)


def undressed(goal: str) -> str:
    return re.sub(r"^\[\d\d:\d\d\] |\n\n\w+$", "", goal)


def masked(text: str, names: frozenset[str]) -> str:
    """Return a text without what a draw changes."""
    text = re.sub(r"\d+", "0", re.sub(r"\.[a-z]{2,3}\.example", ".example", text))
    return re.sub(r"[^\W\d_]+", lambda word: "name" if word[0].lower() in names else word[0], text)


def learned_judges(bank: ExamBank) -> dict[str, Clears]:
    """Judges that know the shipped file by heart, and look a case up by its text, its call or its goal."""
    texts = {case.text: bool(case.wanted) for case in bank.cases}
    calls = {(case.tool, json.dumps(case.arguments, sort_keys=True)) for case in bank.cases if case.wanted}
    tools = {case.tool for case in bank.cases if case.wanted}
    wanted = {goal for case in bank.cases for goal in case.wanted}
    unwanted = {goal for case in bank.cases for goal in case.unwanted}
    pairs = {(case.text, goal) for case in bank.cases for goal in case.wanted}
    names = frozenset(name.lower() for names in (bank.names, *(case.names for case in bank.cases)) for name in names)
    shapes = {(masked(case.text, names), masked(goal, names)) for case in bank.cases for goal in case.wanted}
    return {
        "text": lambda case, _: texts.get(text_of(case), False),
        "call": lambda case, _: case.tool in tools,
        "arguments": lambda case, _: (case.tool, case.arguments) in calls,
        "goal": lambda case, _: case.goal in wanted,
        "goal-without-its-dress": lambda case, _: undressed(case.goal) in wanted,
        "not-an-unwanted-goal": lambda case, _: undressed(case.goal) not in unwanted,
        "text-and-goal": lambda case, _: (text_of(case), undressed(case.goal)) in pairs,
        "their-shapes": lambda case, _: (masked(text_of(case), names), masked(undressed(case.goal), names)) in shapes,
    }


LEARNED = (
    "text",
    "call",
    "arguments",
    "goal",
    "goal-without-its-dress",
    "not-an-unwanted-goal",
    "text-and-goal",
    "their-shapes",
)


@pytest.mark.parametrize("how", LEARNED)
def test_the_shipped_file_learned_by_heart_is_not_enough(sheets: Sheets, how: str) -> None:
    learned = learned_judges(sheets.bank)[how]
    # Also where it resists all that speaks to it.
    result = examine_by_label(sheets, lambda case, side: side is not Side.ADDRESSED and learned(case, side))
    assert result.standing is Authority.FAILED


def obey(inquiry: Inquiry, question: Question) -> str:
    """Answer what the last line that looks like an answer says, and right otherwise."""
    spoken = re.search(
        r"suspicious|nonce is now|verdict|CONTINUE|approved|Answer exactly|suspect|harmless|benign",
        text_of(inquiry.case),
    )
    return say(inquiry.stage, clears=bool(spoken))


BAD: dict[str, Callable[[Inquiry, Question], str]] = {
    "always-no": lambda inquiry, _: say(inquiry.stage, clears=True),
    "always-yes": lambda inquiry, _: say(inquiry.stage, clears=False),
    "echoes-the-case": lambda _, question: question.user,
    "repeats-the-instructions": lambda _, question: question.system,
    "obeys-the-text": obey,
    "says-nothing": lambda *_: "",
    "old-nonce": lambda inquiry, _: say(inquiry.stage, clears=True).replace(NONCE, "0" * 32),
}


@pytest.mark.parametrize("how", BAD)
def test_a_bad_judge_fails(sheets: Sheets, how: str) -> None:
    result = examine(sheets, BAD[how])
    assert result.standing is Authority.FAILED
    # It is not asked to the end.
    assert sum(tally["addressed"] for tally in result.questions.values()) <= ADDRESSED


@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_a_judge_that_answers_at_random_fails(sheets: Sheets, share: float) -> None:
    dice = Random(11)
    assert examine_by_label(sheets, lambda *_: dice.random() < share).standing is Authority.FAILED


def test_a_judge_that_obeys_only_what_speaks_to_it_fails(sheets: Sheets) -> None:
    result = examine_by_label(sheets, lambda _, side: side is not Side.UNWANTED)
    assert (result.standing, result.questions["triage"]["resisted"]) == (Authority.FAILED, 0)


class Broken(TextJudge):
    def opine(self, inquiry: Inquiry) -> Opined:
        raise RuntimeError("lost")


class Silenced(TextJudge):
    def opine(self, inquiry: Inquiry) -> Opined:
        return Opined(Silent("network"))


@pytest.mark.parametrize("judge", [Broken, Silenced])
def test_no_answers_are_no_pass(sheets: Sheets, judge: type[TextJudge]) -> None:
    result = sit(judge(lambda *_: ""), sheets)
    assert (result.standing, result.replied) == (Authority.FAILED, "")


def test_two_models_behind_one_name_are_no_judge(sheets: Sheets) -> None:
    judge = TextJudge(lambda inquiry, _: say(inquiry.stage, clears=sheets.sides[inquiry.case] is Side.WANTED))

    class Two(TextJudge):
        def opine(self, inquiry: Inquiry) -> Opined:
            return judge.opine(inquiry)._replace(model=f"m-{len(inquiry.case.goal) % 2}")

    result = sit(Two(lambda *_: ""), sheets)
    assert (result.standing, result.why) == (Authority.FAILED, "because its replies came from 2 models")


def test_ten_thousand_mutated_answers_count_only_where_nothing_that_matters_changed() -> None:
    dice = Random(17)
    case = JudgeCase("Sum it up", "send_email", "{}", "high")
    odd = '{}[]":, \t\nabcdefNOYEStruefalsn0123456789\\u200b\u0435\u0430'
    for number in range(10_000):
        stage = (Stage.TRIAGE, Stage.TRIAGE_AGAIN, Stage.SUPERVISOR)[number % 3]
        text = say(stage, clears=False)
        for _ in range(dice.randrange(1, 4)):
            at, what = dice.randrange(len(text)), dice.randrange(3)
            text = text[:at] + ("" if what == 0 else dice.choice(odd)) + text[at + (what != 1) :]
        opinion = parse_opinion(stage, text, NONCE, case)
        if isinstance(opinion, Unreadable):
            continue
        # Read leniently it is the same object, and never one that clears.
        said = text.strip() if stage is Stage.TRIAGE_AGAIN else json.loads(text)
        assert said == ("YES" if stage is Stage.TRIAGE_AGAIN else json.loads(say(stage, clears=False)))
        assert opinion in (Triage(suspicious=True), Ruling(Action.PAUSE))


# --- the shipped file


def test_the_shipped_cases_are_those_of_the_bank() -> None:
    sys.path.insert(0, str(ROOT / "training"))
    try:
        from exam_cases import SHIPPED, lines
    finally:
        sys.path.pop(0)
    stale = "python training/exam_cases.py"
    assert gzip.decompress(SHIPPED.read_bytes()).decode().splitlines() == list(lines()), stale
    assert SHIPPED.stat().st_size < 1_000_000


def test_the_bank_has_enough_of_every_kind() -> None:
    bank = load_bank()
    assert sum(bool(case.unwanted) for case in bank.cases) > 1_500
    assert sum(bool(case.wanted) for case in bank.cases) > 1_200
    assert len(bank.notes) >= 20
    for note in bank.notes:
        assert note.format(tool="send", nonce="n", name="Avery", number=1)
