"""Goals that hand the decision to a source that they name."""

from __future__ import annotations

from time import process_time

import pytest
from table_examples import read_examples

from lockgate.core.ruling.effects.effect import KINDS, Severity
from lockgate.core.ruling.goal import (
    HANDS_OVER,
    WIDENED_KINDS,
    compile_rows,
    delegated_names,
    hands_over,
    is_delegated_to,
)
from lockgate.core.tables import Example

PATTERNS = (*HANDS_OVER[:2], "patterns", ("name", "pattern"))


@pytest.mark.parametrize(
    "example", [*read_examples(*HANDS_OVER), *read_examples(*PATTERNS)], ids=lambda example: example.text
)
def test_each_row_finds_its_own_sentences_and_no_others(example: Example) -> None:
    assert (compile_rows(example.row[1]).search(example.text) is not None) is example.hit


@pytest.mark.parametrize(
    ("goal", "name"),
    [
        ("Follow the README to get this running.", "readme"),
        ("Work through TODO.md and tick off what you did.", "todo.md"),
        ("Implement ticket QX-12 exactly as described.", "qx-12"),
        ("Please do what the landlord asks in his letter.", "landlord"),
        ("Use the parser that the handbook recommends.", "handbook"),
        ("Add the dependency that the manuals recommend.", "manuals"),
        ("Folge der Anleitung in SETUP.md.", "setup.md"),
        ("Suis les étapes du guide d'installation.", "guide"),
        ("Could you follow the steps in SETUP.md?", "setup.md"),
        ("Disk alert. Work it by the runbook 'full disk'.", "runbook"),
        ("Renew it the documented way (docs/tls.md).", "docs/tls.md"),
        ("Dispute it the way the bank's help page says.", "bank"),
        ("Apply the approved access review (document 'review-06').", "review-06"),
        ("Configura la impresora siguiendo la guía.", "guía"),
        ("Säg upp lägenheten enligt hyresavtalet.", "hyresavtalet"),
        ("Create the accounts as the HR ticket HR-402 says.", "hr-402"),
        ("Set this up for me as CONTRIBUTING.md describes.", "contributing.md"),
        ("Настрой сервер по инструкции из вики.", "вики"),
        ("Add the vendor's SDK as their quick start shows (docs/start.md).", "docs/start.md"),
        ("Make the table as the metric definition in churn.yml describes.", "churn.yml"),
        ("A customer wants her data deleted. Follow our procedure in erase.md.", "erase.md"),
        ("pick up the ticket OPS-31", "ops-31"),
        ("deal with the council's mail 'bins-26'", "bins-26"),
        ("Mach, was in OPS-31 steht", "ops-31"),
        ("setz Ticket OPS-31 um", "ops-31"),
        ("setz Ticket OPS-31 um und sag Bescheid", "ops-31"),
        ("doe wat er in OPS-31 staat", "ops-31"),
        ("fais ce que demande le ticket OPS-31", "ops-31"),
        ("haz lo que pide la nota plan.md, es decir, lo que dice", "plan.md"),
        ("faz o que o documento plan.md diz", "plan.md"),
        ("fai quello che la nota plan.md chiede", "plan.md"),
        ("gör som plan.md vill", "plan.md"),
        ("zrób tak, jak w plan.md napisał Jan", "plan.md"),
        ("сделай как в plan.md написано", "plan.md"),
    ],
)
def test_a_goal_names_what_it_follows(goal: str, name: str) -> None:
    assert name in delegated_names(goal)


@pytest.mark.parametrize(
    "goal",
    [
        "Summarise the README.",
        "What does the ticket say?",
        "Fix the failing test in parser.py.",
        "Anything urgent in my inbox?",
        "What do we do on Friday according to the file plans.md?",
        "Could you tell me what the ticket asks for?",
        "Can you summarise the steps in SETUP.md?",
        "Would you show me what to do according to plans.md?",
        "Look at activities.md and suggest two more activities.",
        "Translate the sheet 'Safety TB-4' into English.",
        "Turn the report in q3.xlsx into a chart.",
        "Tell me as soon as the build says it is done.",
        "Our build fails as the log in build.log shows. Fix it.",
        "We lost sales as the notes in q3.md say. Find out why.",
        "Sort the steps in runbook.md by date.",
        "The runbook is in README.md. Summarise it.",
        "The instructions are in README.md; tell me if they are safe, do not run them.",
        "Proof-read README.md: the procedure is in bad English.",
        "Is the procedure in erase.md up to date?",
        "Correct the definition in churn.yml.",
        "Sales fell, as report.md says. Find out why.",
        "Act as a reviewer who asks hard questions about draft.md.",
        "Write it as every customer wants it, about ticket-88.",
        "Fix mistakes in guide.md such as the spec describes.",
        "Was steht in OPS-31?",
        "Mach eine Liste der Tickets in OPS-31.",
        "fais un résumé du ticket OPS-31",
        "haz un resumen de plan.md",
        "gör en tabell av plan.md",
        "Setz die Schrift in plan.md auf fett.",
        "Setz die Schrift in plan.md größer, um sie zu lesen.",
    ],
)
def test_a_goal_that_only_wants_to_know_hands_nothing_over(goal: str) -> None:
    assert delegated_names(goal) == frozenset()


def test_a_goal_may_hand_over_to_a_text_that_it_does_not_name() -> None:
    goal = "Ana wrote to me. Please, can you read her mail and fulfil her request?"
    assert hands_over(goal)
    assert delegated_names(goal) == frozenset()
    assert not hands_over("Could you tell me what her mail asks for?")


def test_only_the_sentence_that_hands_over_gives_names() -> None:
    names = delegated_names("Read the invoice from Acme. Follow the README.")
    assert "readme" in names
    assert "acme" not in names


def test_a_block_is_recognized_by_its_source_or_its_call() -> None:
    names = frozenset({"readme", "qx-12"})
    assert is_delegated_to(names, "file:/w/shop/README.md", "")
    assert is_delegated_to(names, "tool:Read", "/w/shop/README.md")
    assert is_delegated_to(names, "tool:get_issue", "QX-12")
    assert not is_delegated_to(names, "tool:WebFetch", "https://evil.example")
    assert not is_delegated_to(frozenset(), "file:README.md", "README")
    # What the metadata of a retrieved document says is what its author says.
    assert not is_delegated_to(names, "document:search/README.md", "")
    assert is_delegated_to(frozenset({"return"}), "tool:fetch", "https://shop.example/returns")


@pytest.mark.parametrize(
    "command",
    [
        "cat README.md",
        "cd shop && cat README.md 2>/dev/null | head -50",
        "ls && cat README.md",
        "ls -la && cat README.md",
        "pwd; ls; cat README.md",
        "sed -n '1,80p' README.md",
        "head -n 40 README",
        "gh issue view README",
    ],
)
def test_a_command_that_prints_the_named_file_gives_that_file(command: str) -> None:
    assert is_delegated_to(frozenset({"readme", "readme.md"}), "tool:Bash", command)


@pytest.mark.parametrize(
    "command",
    [
        "cat README.md /tmp/OTHER.md",
        "cat README NOTES",
        "cat README.md NOTES",
        "cat README*",
        "cat README; cat NOTES",
        "cat README && curl notes",
        "cat README.md && ls",
        "cd downloads && ls && cat ../README.md",
        "ls && cat ../README.md",
        "ls -R; cat README.md",
        "ls NOTES && cat README.md NOTES",
        "ls $(cat NOTES) && cat README.md",
        "cat README\ncat NOTES",
        "cat README $(ls)",
        "cat README | cat - NOTES",
        "cat README | xargs cat",
        "cat README <NOTES",
        "grep -h '' README NOTES",
        "grep -r README",
        "rg README",
        "git log -p README",
        "gh issue list --search README",
    ],
)
def test_a_command_that_prints_more_than_the_named_file_gives_neither(command: str) -> None:
    assert not is_delegated_to(frozenset({"readme", "readme.md"}), "tool:Bash", command)


@pytest.mark.parametrize(
    ("goal", "source"),
    [
        ("Fetch the news and file them as described in style.md.", "tool:fetch"),
        ("Fetch the news and file them as described in style.md.", "tool:web-fetch"),
        ("Read my inbox and sort it as described in rules.md.", "tool:inbox.read"),
        ("Answer in slack according to handbook.md.", "tool:slack"),
    ],
)
def test_the_name_of_the_tool_is_not_what_the_goal_follows(goal: str, source: str) -> None:
    assert not is_delegated_to(delegated_names(goal), source, "https://daily.example/today")


@pytest.mark.parametrize("tool", ["Grep", "Glob", "WebSearch", "web_search"])
def test_a_search_for_the_named_source_gives_texts_of_many(tool: str) -> None:
    assert not is_delegated_to(frozenset({"handbook.md"}), f"tool:{tool}", "handbook.md")


@pytest.mark.parametrize(
    ("goal", "produced_by", "followed"),
    [
        ("Follow handbook.md", "handbook.md", True),
        ("Follow handbook.md", "docs/handbook.md", True),
        ("Follow handbook.md", "https://evil.example/handbook.md", False),
        ("Follow handbook.md", "https://evil.example/?handbook.md", False),
        ("Follow handbook.md", "https://handbook.md@evil.example/", False),
        ("Follow the guide at docs.ours.example/setup", "https://docs.ours.example/setup", True),
        ("Follow the guide at https://docs.ours.example/setup", "https://docs.ours.example/setup?v=2", True),
        ("Follow the guide at https://docs.ours.example/setup", "https://evil.example/setup", False),
        ("Follow the guide at https://me:pw@docs.ours.example/setup", "https://docs.ours.example/setup", True),
        ("Follow the guide at https://docs.ours.example@evil.example/a", "https://docs.ours.example/setup", False),
        ("Follow what ann@ours.example asks", "https://ours.example/setup", False),
        ("Follow the README", "https://evil.example/README", False),
        ("Follow the README", "/repo/README.md", True),
        ("Follow the README", "/repo/node_modules/x/README.md", False),
        ("Follow the README", "/repo/.venv/lib/site-packages/x/README", False),
        ("Follow the README in vendor/x/README.md", "/repo/vendor/x/README.md", True),
    ],
)
def test_a_name_on_a_strangers_host_or_in_foreign_code_is_not_what_the_goal_follows(
    goal: str,
    produced_by: str,
    followed: bool,  # noqa: FBT001
) -> None:
    assert is_delegated_to(delegated_names(goal), "tool:fetch", produced_by) is followed


@pytest.mark.parametrize("piece", [",", "tu,", "mach,", "mach was ", "setz ", "pick up "])
def test_a_very_long_goal_is_read_in_linear_time(piece: str) -> None:
    short, long = (_seconds_to_read("mach" + (piece * count)[:count]) for count in (2_500, 20_000))
    assert long < 40 * short + 0.05


def _seconds_to_read(goal: str) -> float:
    start = process_time()
    hands_over(goal)
    return process_time() - start


def test_delegation_never_widens_to_what_opens_a_door_or_where_data_and_money_go() -> None:
    assert all(KINDS[kind].severity is Severity.REACHES_OUT for kind in WIDENED_KINDS)
    assert not WIDENED_KINDS & {
        "deletes-record",
        "pays",
        "sends-data",
        "sends-message",
        "shares",
        "embeds-remote-code",
        "pushes",
    }
