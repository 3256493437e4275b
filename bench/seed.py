"""What Tier 1 as the seed document writes it costs: its patterns over the arguments and every block at each call.

The document leaves the engine open; `re`, which backtracks, is that engine here. What it detects is measured by
`lockgate eval --gate seed`, with the same patterns in our engine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from lockgate.cli.eval.gates import texts_in
from lockgate.core.ruling.tool_risk import tool_risk
from lockgate.core.text.rules import SEED_RULES
from lockgate.core.vocabulary import Risk

PATTERNS = tuple(re.compile(rule.pattern, re.IGNORECASE) for rule in SEED_RULES)


def matching(text: str) -> list[int]:
    """The numbers of all patterns found in a text."""
    return [number for number, pattern in enumerate(PATTERNS) if pattern.search(text)]


def risky(tool: str) -> bool:
    """High risk by Lockgate's own judgement of a name."""
    return tool_risk(tool) is Risk.HIGH


def rescan_all(blocks: list[str], arguments: Mapping[str, object]) -> int:
    """What one call costs the seed when it names what it found: every pattern over every block so far."""
    found = sum(len(matching(block)) for block in blocks)
    return found + len(matching(" ".join(texts_in(arguments))))


def rescan_first(blocks: list[str], arguments: Mapping[str, object]) -> bool:
    """The same, stopping at the first hit: cheap exactly where it escalates."""
    return any(pattern.search(" ".join(texts_in(arguments))) for pattern in PATTERNS) or any(
        pattern.search(block) for block in blocks for pattern in PATTERNS
    )
