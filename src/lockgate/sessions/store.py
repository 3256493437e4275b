"""What a store of sessions has to promise."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from lockgate.sessions.session_entries import (
    EntryPlace,
    RulingFilter,
    RulingTally,
    SessionEntry,
    SessionInfo,
    SessionRow,
)


class SessionStore(Protocol):
    """Where sessions are kept. Safe for several threads and several processes.

    What a call has acknowledged outlives the process. `seq` rises over all sessions, and no process can read an entry
    before every one with a lower `seq` can be read. What cannot be read or kept is SessionsUnavailable.
    """

    def create(self, info: SessionInfo) -> SessionInfo:
        """The session of this id: the one that is there, else this one, which is there from now on.

        The context of one that was forgotten is not known, whatever this one says.
        """

    def append(self, sessions: Sequence[int], entries: Sequence[SessionEntry]) -> list[EntryPlace] | None:
        """Keep these in the first of the sessions, all or none, in this order; None where it is no more.

        An entry that is there already under its key is not kept again; one that says something else is. What
        `Put.last` says is over all the sessions. With an entry changes what it says of its session: the goal (the
        first one), mode, mark, and whether a person was asked.
        """

    def enqueue(
        self, sessions: Sequence[int], entries: Sequence[SessionEntry]
    ) -> Callable[[], list[EntryPlace] | None]:
        """Take entries in, to be kept when the returned function is called; what other callers gave may go with them.

        The function does what `append` does; where it is not called, the entries may be kept or not.
        """

    def read_entries(self, sessions: Sequence[int], after: int, *, rulings_after: int = 0) -> list[SessionRow]:
        """What is new in these sessions since that `seq`, in order; of rulings only the first session's."""

    def ruling_cursor(self, session: int, count: int) -> int:
        """The `seq` after which there are at most so many rulings of the session."""

    def end(self, session: str, at: float) -> None:
        """Note when a session ended; 0 for one that goes on."""

    def session(self, id: str) -> SessionInfo | None: ...

    def sessions(self, *, limit: int, before: int | None, q: str) -> list[SessionInfo]: ...

    def ruling(self, id: str) -> tuple[SessionRow, str, str] | None:
        """A ruling with its session's id and its host."""

    def rulings(self, asked: RulingFilter) -> list[tuple[SessionRow, str, str]]: ...

    def count_pauses(self, sessions: Sequence[int]) -> dict[int, int]:
        """How many rulings of these sessions are PAUSE; a session without one is left out."""

    def set_outcome(self, session: str, key: str, ran: str) -> bool:
        """Note what became of the latest ruling of this key; whether there is one."""

    def tallies(self, since: float) -> Iterable[RulingTally]: ...

    def last_seen_at(self) -> float:
        """When any session was last heard of; 0 where there is none."""

    def prune(self, before: float, most: int, spare: Collection[str] = ()) -> int:
        """Forget sessions that were last heard of before that time, at most so many; how many those were."""

    def test_write(self) -> None:
        """Write something, and change nothing; SessionsUnavailable where that fails."""

    def close(self) -> None: ...
