"""The rules of Tier 1, read, checked and typed from the rows of `rules.tbl`.

Patterns are matched over UTF-8 bytes in one pass whose cost is linear in the text. A pattern starts with whole words:
the engine looks for those and runs nothing until it sees one. A gap counts words, a tenth of the cost of `.{0,40}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from lockgate.core.tables import TableRow, read_patterns, read_rows, read_table

# Moves whenever a rule is added, removed or changed.
RULESET_VERSION = "9"
TABLE, SECTION, COLUMNS = "rules.tbl", "rules", ("id", "family", "counts in", "owasp", "what", "why")
FAMILIES = ("override", "authority", "concealment", "exfiltration", "execution", "credential", "markup", "tool")

_FLAGS = frozenset({"phrase", "on-demand", "beyond-ascii"})
_P = read_patterns(__package__, "patterns.tbl")
_UNACCENTED = str.maketrans("áàâãäéèêëíìîïóòôõöúùûüçñłśżźćńąęğşı", "aaaaaeeeeiiiiooooouuuucnlszzcnaegsi")


class Scope(StrEnum):
    """Where a hit counts: ordinary documents are full of shell lines and of the word `token`."""

    AGENT = "agent"  # speaks to an agent: counts in arguments, and in any recent untrusted block
    RELATED = "related"  # broad: counts in arguments, and in a block only when the call is related to that block
    ARGUMENTS = "arguments"  # counts in arguments only


@dataclass(frozen=True, slots=True)
class Rule:
    """One named deterministic check.

    `phrase` marks human wordings, which are measured apart from shapes. `utf8` asks for the engine's Unicode mode. An
    `on_demand` rule is left out of the one pass over everything. `beyond_ascii`: no text of ASCII alone can match.
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
    on_demand: bool = False
    beyond_ascii: bool = False


def rule_from_row(row: TableRow, parts: Mapping[str, str]) -> Rule:
    """Return the rule that a row states; raise ValueError for a row that states none."""
    name, family, counts_in, owasp, what, why = row.cells
    scope, *flags = counts_in.split() or [""]
    hits, misses = ([text_of_example(one.text) for one in row.examples if one.hit is hit] for hit in (True, False))
    for is_right, problem in (
        (_P["id"].fullmatch(name), f"the id `{name}` is not of the form family:short-name"),
        (family in FAMILIES, f"the family `{family}` is none of {', '.join(FAMILIES)}"),
        (name.startswith((family, "seed:")), f"the id `{name}` does not begin with its family"),
        (scope in list(Scope), f"it counts in `{scope}`, which is none of {', '.join(Scope)}"),
        (_FLAGS.issuperset(flags), f"`{' '.join(flags)}` is none of {', '.join(sorted(_FLAGS))}"),
        (_P["owasp"].fullmatch(owasp), f"`{owasp}` is no reference of the form LLM01:2026, ASI01"),
        (what and why and what != why, "`what` and `why` have to say two things"),
        (row.values, "it has no pattern: a line below it that begins with `| `"),
        (hits and misses, "it needs a text that it finds (`+ `) and one that it leaves alone (`- `)"),
    ):
        if not is_right:
            raise ValueError(problem)
    patterns = [pattern_from_text(value, parts) for value in row.values]
    is_phrase = "phrase" in flags or any(value[0] != "/" for value in row.values)
    marks = (is_phrase, False, "on-demand" in flags, "beyond-ascii" in flags)
    return Rule(name, family, "|".join(patterns), Scope(scope), what, why, hits[0], misses[0], owasp, *marks)


def text_of_example(written: str) -> str:
    """Return an example as it is meant: `\\n` is the end of a line, and two backslashes are one."""
    return "\\".join(part.replace("\\n", "\n") for part in written.split("\\\\"))


def pattern_from_text(text: str, parts: Mapping[str, str]) -> str:
    """Return the engine's pattern for one pattern of the table: words with gaps, or what stands between slashes."""
    expanded = _P["part"].sub(lambda part: parts.get(part[1], part[0]), text)
    if len(expanded) > 2 and expanded[0] == expanded[-1] == "/":
        return expanded[1:-1]
    if not _P["words"].fullmatch(expanded):
        raise ValueError(
            f"`{text[:60]}` is no row of words with `|`, `_`, `*`, `?`, `..2` and {{name}}, nor between slashes"
        )
    is_latin = expanded.isascii() or _P["other script"].search(expanded) is None
    between, word = (r"[^a-z0-9(){}\[\]=;@$%^&+~]+", r"[a-z0-9]+") if is_latin else (r"\s+", r"\S+")
    pieces = expanded.split()
    # In bytes a letter beyond ASCII is no letter of a word: nothing can be asked of the place beside it.
    pieces[0] = re.sub(r"(?<![^|])(?=[a-zA-Z0-9])", r"\\b", pieces[0])
    pieces[-1] = re.sub(r"(?<=[a-zA-Z0-9?])(?![^|])", r"\\b", pieces[-1])
    pattern, gap, rest = "", "", r"\w*" if is_latin else r"\S*"
    for piece in pieces:
        if piece.startswith(".."):
            gap = f"{between}(?:{word}{between}){{0,{int(piece[2:])}}}"
            continue
        words = piece if piece.isascii() else re.sub(r"[^\x00-\x7f]+", _in_any_case, piece)
        pattern += f"{gap}(?:{words.replace('*', rest).replace('_', between)})"
        gap = between
    return pattern


def _in_any_case(letters: re.Match[str]) -> str:
    """Return a run of letters beyond ASCII as it is, capitalised, in capitals, and without its accents."""
    run = letters[0]
    ways = dict.fromkeys((run, run[0].upper() + run[1:], run.upper(), run.translate(_UNACCENTED)))
    return f"(?:{'|'.join(ways)})" if len(ways) > 1 else run


def rules_from_rows(rows: Sequence[TableRow], parts: Mapping[str, str]) -> tuple[Rule, ...]:
    """Return the rules of some rows; raise ValueError with the place of the first row that is wrong."""
    rules: dict[str, Rule] = {}
    for row in rows:
        try:
            if rules.setdefault(row.cells[0], rule := rule_from_row(row, parts)) is not rule:
                raise ValueError(f"there is another row with the id `{rule.id}`")
        except ValueError as error:
            raise ValueError(f"{row.place}: {error}") from None
    return tuple(rules.values())


# The lists of words that a pattern may hold as `{name}`; one may hold those above it.
PARTS: dict[str, str] = {}
for _name, _pattern in read_table(__package__, TABLE, "parts", ("name", "pattern")):
    PARTS[_name] = _P["part"].sub(lambda part: PARTS.get(part[1], part[0]), _pattern)

# The order is part of the rule set: the engine reports rules by their number in this table.
RULES = rules_from_rows(read_rows(__package__, TABLE, SECTION, COLUMNS), PARTS)
RULES_BY_ID: Mapping[str, Rule] = MappingProxyType({rule.id: rule for rule in RULES})
SEED_RULES = tuple(rule for rule in RULES if rule.id.startswith("seed:"))
# What an agent must never do to Lockgate itself, whatever it has read and whatever a model says.
SELF_PROTECTION_RULES = tuple(RULES_BY_ID[f"execution:own-{part}"] for part in ("approval", "guard", "state", "token"))
