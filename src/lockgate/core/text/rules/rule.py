"""What a rule of Tier 1 is made of, and where its hits count."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """Where a hit counts: ordinary documents are full of shell lines and of the word `token`."""

    AGENT = "agent"  # speaks to an agent: counts in arguments, and in any recent untrusted block
    RELATED = "related"  # broad: counts in arguments, and in a block only when the call is related to that block
    ARGUMENTS = "arguments"  # counts in arguments only


@dataclass(frozen=True, slots=True)
class Rule:
    """One named deterministic check.

    `hit` is a text that the rule must match, `miss` an ordinary text close to it that it must not; both are tests.
    `phrase` marks lists of human wordings. They miss attacks in new words, so they are measured apart from rules about
    the shape of commands, markup and keys. `dotall` lets `.` cross line ends. `utf8` asks for the engine's Unicode
    mode: then every text scanned with the rule must be valid UTF-8. `on_demand` keeps a rule out of the one pass over
    everything: callers look for it only where it counts. `beyond_ascii` says that no text of ASCII alone can match, so
    the scanner skips the rule for such texts; a test checks the claim.
    """

    id: str
    family: str
    pattern: str
    scope: Scope
    what: str
    why: str
    hit: str
    miss: str
    owasp: str
    phrase: bool = False
    utf8: bool = False
    dotall: bool = False
    on_demand: bool = False
    beyond_ascii: bool = False
