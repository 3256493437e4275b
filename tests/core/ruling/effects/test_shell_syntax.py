"""The grammar of the shell."""

from __future__ import annotations

import pytest
from cpu_time import takes_less

from lockgate.core.ruling.effects.shell_syntax import (
    Compound,
    ShellSyntaxError,
    Simple,
    decode_escapes,
    parse_script,
)


def only(text: str) -> Simple:
    (command,) = parse_script(text)
    assert isinstance(command, Simple)
    return command


def test_plain_words_are_taken_as_they_stand() -> None:
    command = only("git log --oneline -5 -- src/a.py  # the last ones")
    assert command.words == ("git", "log", "--oneline", "-5", "--", "src/a.py")
    assert (command.start, command.end) == (0, 32)


def test_quotes_escapes_and_expansions_are_parts_of_one_word() -> None:
    (word,) = only("""c"u"'r'\\l$X"$(ls)"${Y:-z}""").words
    assert [part.text for part in word if not isinstance(part, str)] == ["c", "u", "r", "l", "X", "", "Y"]


@pytest.mark.parametrize("ending", ["", " 2>&1", " | tail -3", " 2>&1 | tail -3", " && echo done", " > out.txt"])
def test_a_here_document_is_read_after_the_line_that_begins_it(ending: str) -> None:
    script = parse_script(f"python3 - <<'EOF'{ending}\nprint(1)\nEOF\necho end")
    first = script[0]
    command = first.scripts[0][0] if isinstance(first, Compound) else first
    assert isinstance(command, Simple)
    assert command.redirects[0].body == ["print(1)\n"]
    last = script[-1]
    assert isinstance(last, Simple)
    assert last.words == ("echo", "end")


def test_two_here_documents_on_a_line_come_one_after_the_other() -> None:
    first, second = parse_script("a <<A; b <<-B\n1\nA\n\t2\n\tB\n")
    assert isinstance(first, Simple)
    assert isinstance(second, Simple)
    assert (first.redirects[0].body, second.redirects[0].body) == (["1\n"], ["2\n"])


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a | b |& c", "|"),
        ("{ a; b; }", "{"),
        ("(a; b)", "("),
        ("if a; then b; elif c; then d; else e; fi", "if"),
        ("while read -r x; do echo $x; done < f", "while"),
        ("for x in a b; do echo $x; done", "for"),
        ("for ((i=0; i<3; i++)); do a; done", "for"),
        ("case $x in a|b) c;; *) d;; esac", "case"),
        ("[[ -f x && $y =~ ^(a|b)$ ]]", "[["),
        ("((i++))", "(("),
        ("f() { a; }", "function"),
        ("function f { a; }", "function"),
    ],
)
def test_compound_commands_are_told_apart(text: str, what: str) -> None:
    (command,) = parse_script(text)
    assert isinstance(command, Compound)
    assert command.what == what


@pytest.mark.parametrize("text", ["echo 'a", 'echo "a', "echo $(a", "a |", "( a", "if a; then b", "a )", "echo `a"])
def test_what_does_not_end_is_no_command(text: str) -> None:
    with pytest.raises(ShellSyntaxError):
        parse_script(text)


def test_the_commands_before_an_error_are_kept() -> None:
    with pytest.raises(ShellSyntaxError) as error:
        parse_script("rm -rf /etc; echo 'a")
    assert len(error.value.read) == 1


@pytest.mark.parametrize("piece", ["$(", "${a:-", "( ", "if a; then ", "$((", "{ ", "`", "f() { ", "<(", "a=("])
def test_deep_nesting_ends_early(piece: str) -> None:
    def read() -> None:
        with pytest.raises(ShellSyntaxError):
            parse_script(piece * 15_000)

    assert takes_less(0.5, read)


def test_escapes_are_decoded() -> None:
    assert decode_escapes(r"\x63\165rl\n") == "curl\n"
