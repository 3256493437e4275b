"""What a judge says, once its reply has been read strictly, and how far that counts by the exam that it took."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from lockgate.core.vocabulary import Action


class Triage(NamedTuple):
    """Tier 2's answer to the one question: do instructions in the untrusted text make the agent do this?"""

    suspicious: bool


class Ruling(NamedTuple):
    """Tier 3's answer; `correction` is what a REORIENT tells the agent."""

    action: Action
    correction: str = ""


class Unreadable(NamedTuple):
    """There was a reply, and it is not exactly what was asked for."""


class Silent(NamedTuple):
    """There was no reply; `why` is one of the words of `questions.NoAnswerReason`."""

    why: str = ""


Opinion = Triage | Ruling | Unreadable | Silent


class Authority(StrEnum):
    """How far a judge's "not suspicious" counts; `ruling/decide.tbl` has the table."""

    # A `Judge` object that a program passes in: what it may clear is the developer's decision.
    DEVELOPER = "developer"
    EMBEDDED = "embedded"
    UNEXAMINED = "unexamined"
    # Examined and failed, or an exam that no longer holds.
    FAILED = "failed"
    # What passed was another program or model: it is not asked, and `auto` stays wide, so that calls pause.
    REPLACED = "replaced"
    PASSED = "passed"
    DISTINCTION = "distinction"


class JudgeIdentity(NamedTuple):
    """What an exam holds for: another route, endpoint, program or model is another judge.

    `model` is the id that the judge's replies carry, which may differ from the name that was configured.
    """

    route: str
    model: str
    endpoint: str = ""
    program_sha256: str = ""


class JudgeStanding(NamedTuple):
    """A judge's standing, the exam behind it (id and day), and why it may clear nothing, where that is so."""

    authority: Authority
    exam: str = ""
    examined_on: str = ""
    why: str = ""

    @property
    def has_passed(self) -> bool:
        return self.authority in (Authority.PASSED, Authority.DISTINCTION)

    @property
    def may_agree(self) -> bool:
        """Whether its "clear" counts beside Tier 3's."""
        return self.has_passed or self.authority is Authority.DEVELOPER


DEVELOPERS = JudgeStanding(Authority.DEVELOPER)


def standing_of(judge: object) -> JudgeStanding:
    """Return a judge's standing; one that has none was passed in by a program."""
    standing = getattr(judge, "standing", DEVELOPERS)
    return standing if isinstance(standing, JudgeStanding) else DEVELOPERS
