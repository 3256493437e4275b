"""How much work one check may do: a count of steps, so that the same call gets the same answer on every machine.

An attacker writes the texts and, through the agent, the arguments: together they can make any search slow. Where the
steps end, the search ends, and that is a finding.
"""

from __future__ import annotations

# A step takes about a microsecond. A check has some in any case, and one more for so many bytes
# that it compares, up to a second of work.
_STEPS, _BYTES_PER_STEP, _MOST_STEPS = 12_288, 3, 1 << 20
# Bytes that one pass in C reads during a step.
_BYTES_PER_PASS = 768


class WorkBudget:
    """The steps that are left to one check of values and texts with so many bytes."""

    __slots__ = ("_paid", "left")

    def __init__(self, size: int) -> None:
        self.left = min(_STEPS + size // _BYTES_PER_STEP, _MOST_STEPS)
        self._paid: set[object] = set()

    @property
    def is_spent(self) -> bool:
        """Whether something was left undone."""
        return self.left < 0

    def take(self, steps: int = 1) -> bool:
        """Take steps; return whether they may be done."""
        self.left -= steps
        return self.left >= 0

    def take_once(self, what: object, steps: int) -> bool:
        """Take the steps for something that is done once in a check, whether or not an earlier check has done it."""
        if what in self._paid:
            return self.left >= 0
        self._paid.add(what)
        return self.take(steps)

    def take_pass(self, size: int) -> bool:
        """Take the steps for reading so many bytes once."""
        return self.take(1 + size // _BYTES_PER_PASS)

    def exhaust(self) -> None:
        """Note that a limit other than the steps has ended the work."""
        self.left = min(self.left, -1)
