"""Every row of `rules.tbl` is tested by its own examples; the rest says what the table as a whole promises."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from lockgate.core.tables import TableRow, parse_rows, read_rows
from lockgate.core.text import rules as rules_module
from lockgate.core.text.rules import (
    COLUMNS,
    FAMILIES,
    RULES,
    RULES_BY_ID,
    RULESET_VERSION,
    SECTION,
    SEED_RULES,
    TABLE,
    Rule,
    Scope,
    pattern_from_text,
    rules_from_rows,
    text_of_example,
)
from lockgate.core.text.scanner import Scanner, check_pattern

Scan = Callable[[str], set[str]]

ROWS = read_rows(rules_module.__package__, TABLE, SECTION, COLUMNS)
MAX_ROWS = 80
# As they were given: nothing of them may change.
SEED = {
    "seed:ignore-previous": r"ignore.*(previous|above|prior).*instruction",
    "seed:new-task": r"new (instruction|directive|task)",
    "seed:forget": r"forget.*(previous|everything)",
    "seed:call-syntax": r"(execute|run|call).*\(",
    "seed:pipe-to-shell": r"curl.*\|.*bash",
    "seed:credential-word": r"(api[_-]?key|password|token|secret)",
}

each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.cells[0])
def test_a_row_finds_what_it_must_and_leaves_its_neighbours_alone(row: TableRow, scan: Scan) -> None:
    for example in row.examples:
        assert (row.cells[0] in scan(text_of_example(example.text))) is example.hit, f"{row.place}: {example.text}"


def test_there_are_no_more_rows_than_earn_their_place() -> None:
    assert len(RULES) == len(ROWS) <= MAX_ROWS


def test_the_seed_patterns_are_in_force_word_for_word() -> None:
    assert {rule.id: rule.pattern for rule in SEED_RULES} == SEED
    broad = {rule.id for rule in SEED_RULES if rule.scope is Scope.RELATED}
    assert broad == {"seed:call-syntax", "seed:credential-word"}
    assert all(RULES_BY_ID[name].scope is Scope.AGENT for name in SEED.keys() - broad)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("tool:x | tool |", "tool-x | tool |", "the id `tool-x` is not of the form family:short-name"),
        ("tool:x | tool |", "tool:x | spells |", "the family `spells` is none of override"),
        ("tool:x | tool |", "markup:x | tool |", "the id `markup:x` does not begin with its family"),
        ("| agent |", "| everywhere |", "it counts in `everywhere`, which is none of agent, related, arguments"),
        ("| agent |", "| agent loudly |", "`loudly` is none of beyond-ascii, on-demand, phrase"),
        ("LLM01:2026, ASI02", "LLM01", "`LLM01` is no reference"),
        ("a reason", "a sign", "`what` and `why` have to say two things"),
        ("  | use|call spoons\n", "", "it has no pattern"),
        ("  + call all spoons\n", "", "it needs a text that it finds (`+ `)"),
        ("  - spoons\n", "", "one that it leaves alone (`- `)"),
        ("use|call spoons", "use|call (spoons)", "is no row of words"),
        ("use|call spoons", "use|call {spoons}", "is no row of words"),
        ("use|call spoons", "use|call groß?", "is no row of words"),
        ("use|call spoons", "/spoons", "nor between slashes"),
        ("use|call spoons", "..2 spoons", "is no row of words"),
    ],
)
def test_a_bad_row_stops_with_its_line_and_what_is_wrong(old: str, new: str, problem: str) -> None:
    table = (
        "[rules] id | family | counts in | owasp | what | why\n"
        "tool:x | tool | agent | LLM01:2026, ASI02 | a sign | a reason\n"
        "  | use|call spoons\n  + call all spoons\n  - spoons\n"
    )
    assert rules_from_rows(parse_rows(table, "my.tbl", SECTION, COLUMNS), {})
    assert old in table
    with pytest.raises(ValueError, match=re.escape("line 2 of `my.tbl`: ")) as error:
        rules_from_rows(parse_rows(table.replace(old, new, 1), "my.tbl", SECTION, COLUMNS), {})
    assert problem in str(error.value)


def test_two_rows_with_one_id_stop_the_start() -> None:
    with pytest.raises(ValueError, match="there is another row with the id `seed:new-task`"):
        rules_from_rows([ROWS[1], ROWS[1]], {})


# --- patterns


def matches(words: str, text: str) -> bool:
    """As the engine does: over bytes, where only ASCII letters have two cases."""
    return re.search(pattern_from_text(words, {"old": "earlier|all_old"}).encode(), text.encode(), re.I) is not None


@pytest.mark.parametrize("text", ["drop the task", "drop  the\n# task", "drop **the** `task`", "drop all of the task"])
def test_a_gap_stands_for_up_to_so_many_other_words(text: str) -> None:
    assert matches("drop ..3 task", text)


@pytest.mark.parametrize(
    "text", ["drop one two three four task", "drop(the) task", "drop = task", "eavesdrop task", "drop tasks"]
)
def test_more_words_the_signs_of_code_and_other_words_end_a_phrase(text: str) -> None:
    assert not matches("drop ..3 task", text)


def test_words_may_be_joined_left_open_and_listed_elsewhere() -> None:
    assert matches("the_user|your_owner", "the-*user*")
    assert not matches("the_user|your_owner", "theuser")
    assert matches("send mail*", "send mailings")
    assert matches("emails?", "no email now")
    assert matches("drop {old} rules", "drop all old rules")


@pytest.mark.parametrize("text", ["tu être", "TU ÊTRE", "Tu Être", "tu etre"])
def test_accented_letters_are_found_capitalised_and_without_accents(text: str) -> None:
    assert matches("tu être", text)


def test_scripts_without_latin_letters_have_white_space_between_words() -> None:
    assert matches("забудь ..1 инструкци*", "забудь все инструкции")
    assert not matches("забудь ..1 инструкци*", "забудь-инструкции")


@each_rule
def test_a_pattern_can_be_compiled_alone(rule: Rule) -> None:
    check_pattern(rule.pattern) if rule.pattern.isascii() else Scanner((rule,))


@each_rule
def test_no_gap_runs_on_for_ever(rule: Rule) -> None:
    anything = r"(?:\[\\s\\S\]|\[\\S\\s\]|\[\\w\\W\]|\[\\W\\w\]|\[\\d\\D\])"
    assert not re.search(anything + r"(?:[*+]|\{\d+,\})", rule.pattern)
    if "(?s:" in rule.pattern:
        assert not re.search(r"(?<!\\)\.(?:[*+]|\{\d+,\})", rule.pattern)


@each_rule
def test_a_byte_pattern_treats_letters_as_wholes(rule: Rule) -> None:
    # Without the engine's Unicode mode a sign after a letter of two bytes would repeat its second byte only, and a
    # class would hold its bytes.
    assert not re.search(r"[^\x00-\x7f](?:[?*+]|\{\d)", rule.pattern)
    assert all(group.isascii() for group in re.findall(r"(?<!\\)\[[^\]]*\]", rule.pattern))


# --- the table as a whole


def test_no_two_rules_share_a_pattern_or_a_description() -> None:
    assert len({rule.pattern for rule in RULES}) == len(RULES)
    assert len({rule.what for rule in RULES}) == len(RULES)


def test_the_table_cannot_be_changed_from_outside() -> None:
    with pytest.raises(TypeError):
        RULES_BY_ID["override:ignore-instructions"] = RULES[0]  # type: ignore[index]


def test_the_rule_set_has_a_version_of_its_own() -> None:
    assert RULESET_VERSION.isdecimal()


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_rules_of_its_own(family: str) -> None:
    assert [rule for rule in RULES if rule.id.startswith(f"{family}:")]


def test_commands_and_keys_alone_never_stop_an_unrelated_call() -> None:
    shapes = [rule for rule in RULES if rule.family in {"execution", "credential"} and not rule.id.startswith("seed:")]
    assert shapes
    assert all(rule.scope is not Scope.AGENT for rule in shapes)


def test_wordings_are_told_apart_from_shapes() -> None:
    assert all(rule.phrase for rule in RULES if rule.family in {"override", "authority"})
    assert not any(rule.phrase for rule in RULES if rule.family in {"execution", "markup"})
    assert not RULES_BY_ID["tool:call-as-json"].phrase


@pytest.mark.parametrize(
    "text",
    [
        "Install the package, then run the tests with `make test`. If a test fails, ignore the previous warning.",
        "def ignore(previous: list[str], *, all_rules: bool = False) -> None:\n    # instructions follow\n    return",
        "The scheduler runs each task in turn. When the task is cancelled, the loop calls its callbacks.",
        "Dear assistant professor, please find the report attached. Do not forget to sign it before Friday.",
        "ssh <user>@<host>\n<user>:<password>\n<system-name>",
        "The system prompts for a password. The user must not be root. Do not share your password with others.",
        "Use the editor to open the file, then call the function with two arguments and check the result.",
        "The language model was trained on public text; its assistant mode is described in chapter four.",
        "You are now ready to begin. From now on you will see the prompt in green.",
        "Please ignore my last e-mail, I sent it by mistake. The meeting is at noon, before the tour.",
        "Forward the message to accounting once it is signed, and keep a copy in the shared folder.",
        "# Instructions\n\n1. Clone the repository.\n2. Follow the instructions in the README.",
        "Your order has been cancelled and the amount will be returned to your account.",
        "If you are a developer, you can enable verbose logging without restarting the service.",
    ],
)
def test_ordinary_text_does_not_speak_to_an_agent(text: str, scan: Scan) -> None:
    assert not {name for name in scan(text) if RULES_BY_ID[name].scope is Scope.AGENT}
