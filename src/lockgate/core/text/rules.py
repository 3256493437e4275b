"""The rules of Tier 1, read, checked and typed from the rows of `rules.tbl`; and what an operator's pattern may cost.

Patterns are matched over UTF-8 bytes in one pass whose cost is linear in the text. A pattern starts with whole words:
the engine looks for those and runs nothing until it sees one. A gap counts words, a tenth of the cost of `.{0,40}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from types import MappingProxyType
from typing import NamedTuple

from lockgate.core.errors import InvalidConfig, quoted
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


# --- what compiling an operator's patterns can cost
#
# The engine cannot be stopped once it has begun. A configuration may come with a repository, and a short pattern can
# keep it busy for minutes: by many steps and links between them (a repeat writes its body down as often as it may
# match, `(?:a?b?){0,99}`), and where no two fixed characters stand in a row (`a.*b`), by one automaton for all such
# patterns, which grows with the square of their steps. The count is never below the true one.

# Of all patterns together. At the limit of the cost the engine is busy for some seconds.
MAX_CHARACTERS = 50_000
MAX_COST = 5_000
# What a step costs in a pattern without two fixed characters in a row.
UNFIXED_STEP = 15
# In a pattern beyond ASCII a class stands for several sequences of bytes, and a Unicode property for very many.
_WIDE = {"set": 3, "property": 60}
_MAX_GROUPS = 200


class _Piece(NamedTuple):
    """A piece of a pattern: how many steps can begin and end it, whether it may be empty, its steps and their links.

    `fixed` is 2 if two fixed characters in a row are in every match of it, 1 if it ends with one.
    """

    first: int = 0
    last: int = 0
    empty: bool = True
    steps: int = 0
    links: int = 0
    fixed: int = 0


def check_budget(patterns: Sequence[str]) -> None:
    """Raise InvalidConfig, with the worst pattern, if these are too large or too expensive together."""
    for pattern in patterns:
        if _P["hides"].search(pattern):
            raise InvalidConfig(
                f"pattern {quoted(pattern)} has \\Q, \\E or the option x, which are not taken",
                hint="write a backslash before each sign that stands for itself, and no comments",
            )
    if (characters := sum(map(len, patterns))) > MAX_CHARACTERS:
        raise InvalidConfig(
            f"the patterns have {characters:,} characters, the limit is {MAX_CHARACTERS:,}; "
            f"the longest is {quoted(max(patterns, key=len))}",
            hint="write fewer or shorter ones",
        )
    costs = {pattern: pattern_cost(pattern) for pattern in patterns}
    if (cost := sum(costs[pattern] for pattern in patterns)) > MAX_COST:
        worst = max(costs, key=costs.__getitem__)
        raise InvalidConfig(
            f"the patterns cost {cost:,} to compile, the limit is {MAX_COST:,}; "
            f"the most expensive is {quoted(worst)} with {costs[worst]:,}",
            hint="let it repeat less often, and give it two fixed characters in a row",
        )


def pattern_cost(pattern: str) -> int:
    """Return what compiling this pattern costs, in links; 0 for a plain word of at least two characters."""
    if pattern.count("(") > _MAX_GROUPS:
        return MAX_COST + 1
    tokens = [*_P["token"].finditer(pattern)]
    piece = _read_group(iter(tokens), is_wide=not pattern.isascii() or pattern.startswith("(*"))
    # A plain word links each step with the next, which is no more than its text.
    written = sum(token.lastgroup in ("one", *_WIDE) for token in tokens)
    return max(0, piece.links - written) + (0 if piece.fixed == 2 else UNFIXED_STEP * piece.steps)


def _read_group(tokens: Iterator[re.Match[str]], *, is_wide: bool) -> _Piece:
    """Return a group read up to its closing bracket; the engine itself refuses a pattern with one too many."""
    alternatives: list[list[_Piece]] = [[]]
    for token in tokens:
        kind, pieces = token.lastgroup, alternatives[-1]
        if kind == "close":
            break
        if kind == "open":
            group = _read_group(tokens, is_wide=is_wide)
            pieces.append(group._replace(fixed=group.fixed // 2 * 2))
        elif kind == "either":
            alternatives.append([])
        elif kind == "repeat" and pieces:
            pieces[-1] = _repeat(pieces[-1], token)
        elif kind == "place":
            pieces.append(_Piece())
        elif kind != "nothing":
            count = _WIDE.get(str(kind), 1) if is_wide else 1
            pieces.append(_Piece(count, count, False, count, 0, int(kind not in _WIDE)))
    return reduce(_either, [reduce(_join, pieces, _Piece()) for pieces in alternatives])


def _join(a: _Piece, b: _Piece) -> _Piece:
    if not (a.steps and b.steps):
        return a if a.steps else b
    first, last = a.first + (b.first if a.empty else 0), b.last + (a.last if b.empty else 0)
    links = a.links + b.links + a.last * b.first
    fixed = 2 if 2 in (a.fixed, b.fixed) or a.fixed + b.fixed == 2 else b.fixed
    return _Piece(first, last, a.empty and b.empty, a.steps + b.steps, links, fixed)


def _either(a: _Piece, b: _Piece) -> _Piece:
    first, last, steps, links = a.first + b.first, a.last + b.last, a.steps + b.steps, a.links + b.links
    return _Piece(first, last, a.empty or b.empty, steps, links, min(a.fixed, b.fixed))


def _repeat(piece: _Piece, repeat: re.Match[str]) -> _Piece:
    least = int(repeat["least"] or repeat["sign"] == "+")
    most = int(repeat["most"] or 0) if repeat["open_ended"] else 1 if repeat["sign"] == "?" else least
    endless = repeat["sign"] in ("*", "+") or repeat["open_ended"] == ","
    copies = max(least, 1) if endless else most
    ends = 1 if endless else max(most - max(least, 1) + 1, 1)
    # A copy that may be empty lets each before it be followed by each after it.
    pairs = copies * (copies - 1) // 2 if piece.empty else max(copies - 1, 0)
    first, last = piece.first * (copies if piece.empty else 1), piece.last * (copies if piece.empty else ends)
    links = piece.links * copies + piece.last * piece.first * (pairs + endless)
    fixed = 2 if piece.fixed and least > 1 else piece.fixed if least else 0
    return _Piece(first, last, piece.empty or least == 0, piece.steps * copies, links, fixed)
