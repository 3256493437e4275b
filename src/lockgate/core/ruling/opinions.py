"""What a judge says, once its reply has been read strictly."""

from __future__ import annotations

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
