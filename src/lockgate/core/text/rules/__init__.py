"""The Tier 1 rule table: what each rule looks for, the attacker's move behind it, a hit and a miss.

A rule never blocks; it escalates. Patterns are in the engine's syntax (no look-around, no back-references) and are
matched over UTF-8 bytes without regard to the case of ASCII letters. A gap is a few words, a few bytes, or ends with
the line: the attacker chooses how much text stands between two words, and we choose how much of it is one sentence.

Three habits keep the table within three times the cost of the six oldest rules. A rule starts with whole words, so that
the engine looks for those and runs nothing until it sees one. A gap counts words where it can: `.{0,40}` in the middle
of a sentence costs the compiler ten times as much as "up to six words". No rule needs the engine's Unicode mode:
`phrase` spells out capitals and unaccented forms, so one byte pattern reads plain, shouted and folded text alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lockgate.core.text.rules.authority import AUTHORITY_RULES
from lockgate.core.text.rules.concealment import CONCEALMENT_RULES
from lockgate.core.text.rules.credential import CREDENTIAL_RULES
from lockgate.core.text.rules.execution import EXECUTION_RULES
from lockgate.core.text.rules.exfiltration import EXFILTRATION_RULES
from lockgate.core.text.rules.languages import LANGUAGE_RULES
from lockgate.core.text.rules.markup import MARKUP_RULES
from lockgate.core.text.rules.override import OVERRIDE_RULES
from lockgate.core.text.rules.rule import Rule, Scope
from lockgate.core.text.rules.seed import SEED_RULES
from lockgate.core.text.rules.tool import TOOL_RULES

__all__ = ["FAMILIES", "RULES", "RULESET_VERSION", "RULES_BY_ID", "SELF_PROTECTION_RULES", "Rule", "Scope"]

# Moves whenever a rule is added, removed or changed, whatever happens to the library's own version.
RULESET_VERSION = "8"

FAMILIES: tuple[str, ...] = (
    "override",
    "authority",
    "concealment",
    "exfiltration",
    "execution",
    "credential",
    "markup",
    "tool",
)

# The order is part of the rule set: the engine reports rules by their number in this table.
RULES: tuple[Rule, ...] = (
    *SEED_RULES,
    *OVERRIDE_RULES,
    *AUTHORITY_RULES,
    *CONCEALMENT_RULES,
    *EXFILTRATION_RULES,
    *EXECUTION_RULES,
    *CREDENTIAL_RULES,
    *MARKUP_RULES,
    *TOOL_RULES,
    *LANGUAGE_RULES,
)

RULES_BY_ID: Mapping[str, Rule] = MappingProxyType({rule.id: rule for rule in RULES})

# What an agent must never do to Lockgate itself, whatever it has read and whatever a model says.
SELF_PROTECTION_RULES = tuple(RULES_BY_ID[f"execution:own-{part}"] for part in ("approval", "guard", "state", "token"))
