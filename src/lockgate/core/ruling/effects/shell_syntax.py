"""The grammar of POSIX shells and bash: a command line to a tree.

Written for this purpose because a ruling must see what the shell would run, also in the corners where general parsers
give up (`cmd <<EOF 2>&1 | sh`). It reads each character a bounded number of times: there is no backtracking, nesting is
capped, and what does not end (a quote, a bracket) stops the reading at once.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from typing import Literal, NamedTuple

from lockgate.core.tables import read_patterns

MOST_NESTING = 20
# Commands, quoted words and expansions of one text: what a person or an agent writes has a few hundred at most.
MOST_PIECES = 2_000
# The longest text whose tree is kept.
MOST_KEPT = 2_000


class Part(NamedTuple):
    """A piece of a word: what it is, its text or name, and in `inner` the parts or the commands inside an expansion.

    A `default` is used where a variable has no value; `opaque` is an expansion whose value is not computed.
    """

    what: Literal["text", "variable", "default", "substitution", "process", "opaque"]
    text: str = ""
    quoted: bool = False
    inner: tuple[object, ...] = ()


Word = str | tuple[Part, ...]
"""A word without quotes and expansions is its text; any other is its parts."""


class Redirect(NamedTuple):
    """A redirection. `body` has the text of a here-document, which is read after the line that begins it."""

    operator: str
    target: Word
    body: list[Word] | None = None


class Simple(NamedTuple):
    """A simple command: assignments, words, redirections, and its span in the text.

    An assignment is `NAME=word`; the elements of an array stand behind the word. `plain` are the values of the words
    where none of them is to be expanded.
    """

    assignments: tuple[tuple[str, Word, tuple[Word, ...]], ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]
    start: int
    end: int
    plain: tuple[str, ...] = ()


class Compound(NamedTuple):
    """A compound command: what it is, its scripts, and the words in its head.

    `what` is `|` (each script one command), `{`, `(`, `if`, `while`, `for`, `case`, `[[`, `((` or `function`; `name` is
    the variable of a loop or the function's name.
    """

    what: str
    scripts: tuple[Script, ...] = ()
    words: tuple[Word, ...] = ()
    name: str = ""
    redirects: tuple[Redirect, ...] = ()


Command = Simple | Compound
Script = tuple[Command, ...]
"""Commands in the order in which the shell would start them."""


class ShellSyntaxError(Exception):
    """The text is no shell command, or has too many pieces or too deep a nesting.

    `read` are the commands before the place where reading stopped; a shell may run them all the same.
    """

    read: Script = ()


_P = read_patterns(__package__, "shell.tbl")
_META = frozenset(" \t\r\n;|&()<>")
# Compound commands that are scripts up to a closing word, and the words between these scripts.
_CLOSED_BY = {"{": "}", "if": "fi", "while": "done", "for": "done"}
_BETWEEN = frozenset(("then", "elif", "else", "do"))


def parse_script(text: str) -> Script:
    """Return the tree of a text; raise `ShellSyntaxError` where it has none."""
    # Agents repeat themselves, and one call is read more than once.
    return _parse(text) if len(text) <= MOST_KEPT else _parse.__wrapped__(text)


@lru_cache(maxsize=512)
def _parse(text: str) -> Script:
    parser = _Parser(text)
    commands: list[Command] = []
    try:
        parser.read_commands(commands)
        if parser.at < len(text):
            raise ShellSyntaxError
    except ShellSyntaxError as error:
        error.read = tuple(commands)
        raise
    return tuple(commands)


class _Parser:
    def __init__(self, text: str, depth: int = 0, pieces: list[int] | None = None) -> None:
        self.text = text
        self.at = 0
        self.depth = depth
        # The pieces that may still be read, shared with the parsers of inner texts.
        self.pieces = pieces if pieces is not None else [MOST_PIECES]
        self.here: list[tuple[str, bool, bool, list[Word]]] = []

    def enter(self) -> None:
        self.depth += 1
        if self.depth > MOST_NESTING:
            raise ShellSyntaxError

    def count(self) -> None:
        self.pieces[0] -= 1
        if self.pieces[0] < 0:
            raise ShellSyntaxError

    def peek(self) -> str:
        """Return the next character behind blanks; an empty text at the end."""
        character = self.text[self.at : self.at + 1]
        if character and character in " \t\r\\":
            self.at = _P["blank"].match(self.text, self.at).end()  # type: ignore[union-attr]
            return self.text[self.at : self.at + 1]
        return character

    def skip(self, gap: re.Pattern[str] = _P["lines"]) -> str:
        """Go over line ends as well, reading here-documents on the way; return the next character."""
        while True:
            self.at = gap.match(self.text, self.at).end()  # type: ignore[union-attr]
            character = self.text[self.at : self.at + 1]
            if character != "\n":
                return character
            self.at += 1
            if self.here:
                self.read_bodies()

    def expect(self, token: str) -> None:
        if not self.text.startswith(token, self.at):
            raise ShellSyntaxError
        self.at += len(token)

    def take(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """Read what has to come here."""
        match = pattern.match(self.text, self.at)
        if match is None:
            raise ShellSyntaxError
        self.at = match.end()
        return match

    # Lists, pipelines and commands

    def script(self) -> Script:
        """Read commands up to a closing word or bracket, or to the end."""
        commands: list[Command] = []
        self.read_commands(commands)
        return tuple(commands)

    def read_commands(self, commands: list[Command]) -> None:
        self.enter()
        while True:
            self.skip(_P["gap"])
            if _P["closer"].match(self.text, self.at) is not None:
                break
            commands.append(self.pipeline())
            following = self.text[self.at : self.at + 2]
            if following in ("&&", "||"):
                self.at += 2
            elif following == ";;":
                break
            elif following[:1] not in ("", ";", "&", "\n", ")", "#"):
                raise ShellSyntaxError
        self.depth -= 1

    def pipeline(self) -> Command:
        """Read commands that `|` joins, and the blanks behind them."""
        scripts: list[Script] = [(self.command(),)]
        while self.peek() == "|" and not self.text.startswith("||", self.at):
            self.at += 2 if self.text.startswith("|&", self.at) else 1
            self.skip()
            scripts.append((self.command(),))
        return Compound("|", tuple(scripts)) if len(scripts) > 1 else scripts[0][0]

    def command(self) -> Command:
        self.count()
        match = _P["opener"].match(self.text, self.at)
        if match is None:
            return self.simple()
        if name := match[2] or match[3]:
            self.at = match.end()
            return Compound("function", ((self.command(),),), name=name)
        if match[1] in ("!", "time", "coproc"):
            self.at = match.end()
            while self.peek() == "-" and self.text.startswith(("-p", "--"), self.at):
                self.at += 2
            return self.command() if self.peek() not in ("", "\n", ";", ")") else Simple((), (), (), self.at, self.at)
        block = self.compound(match.group())
        redirects: list[Redirect] = []
        while self.peek() and (match := _P["redirect"].match(self.text, self.at)) is not None:
            redirects.append(self.redirect(match))
        return block._replace(redirects=tuple(redirects)) if redirects else block

    def compound(self, word: str) -> Compound:
        if word == "(" and (parts := self.arithmetic(self.at)):
            return Compound("((", words=(parts,))
        self.at += len(word)
        if word == "(":
            return Compound("(", (self.script_until(")"),))
        if word == "[[":
            return Compound("[[", words=self.closed_words("]]", "<>&|();"))
        if word == "case":
            return self.case_body()
        name, words = self.loop_head() if word in ("for", "select") else ("", ())
        what = {"until": "while", "select": "for"}.get(word, word)
        return Compound(what, self.scripts_until(_CLOSED_BY[what]), words, name)

    def script_until(self, closer: str) -> Script:
        script = self.script()
        self.expect(closer)
        return script

    def scripts_until(self, closer: str) -> tuple[Script, ...]:
        """Read scripts up to a closing word; which words of the grammar stand between them changes nothing."""
        scripts = [self.script()]
        while (word := self.name_word()) != closer:
            if word not in _BETWEEN:
                raise ShellSyntaxError
            scripts.append(self.script())
        return tuple(script for script in scripts if script)

    def loop_head(self) -> tuple[str, tuple[Word, ...]]:
        """Read a loop's variable and values, or the arithmetic in their place."""
        if self.peek() == "(":
            return "", (self.arithmetic(self.at),)
        name = self.name_word()
        self.skip()
        if self.text.startswith("in", self.at) and self.text[self.at + 2 : self.at + 3] in ("", *_META):
            self.at += 2
            return name, self.words_until("\n;", is_line=True)
        return name, ()

    def words_until(self, closer: str, passed: str = "", *, is_line: bool = False) -> tuple[Word, ...]:
        """Read words up to one that begins with a closing sign, or up to the end."""
        words: list[Word] = []
        while (character := self.peek() if is_line else self.skip()) and character not in closer:
            if character in passed:
                self.at += 1
            else:
                words.append(self.word())
        return tuple(words)

    def closed_words(self, closer: str, passed: str = "") -> tuple[Word, ...]:
        """Read words up to a closing sign, and over it."""
        words = self.words_until(closer, passed)
        self.expect(closer)
        return words

    def case_body(self) -> Compound:
        self.peek()
        words: tuple[Word, ...] = (self.word(),)
        self.skip()
        self.expect("in")
        scripts: list[Script] = []
        while True:
            self.skip(_P["gap"])
            if self.text.startswith("esac", self.at):
                self.at += 4
                return Compound("case", tuple(scripts), words)
            words += self.closed_words(")", "|(")
            scripts.append(self.script())
            if (ending := _P["branch end"].match(self.text, self.at)) is not None:
                self.at = ending.end()

    def name_word(self) -> str:
        """Read a word that the grammar itself expects: a name, `fi`."""
        return self.take(_P["name word"]).group()

    def simple(self) -> Simple:
        """Read a simple command; runs of words without quotes and expansions are taken in one step."""
        text, start = self.text, self.at
        assignments: list[tuple[str, Word, tuple[Word, ...]]] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        while (character := self.peek()) not in ("", "\n", ";", "|", ")", "#"):
            at = self.at
            if character == "&" and not text.startswith("&>", at):
                break
            if not words and (match := _P["assignment"].match(text, at)) is not None:
                assignments.append(self.assignment(match))
            elif (match := _P["run"].match(text, at)) is not None:
                words += match.group().split()
                self.at = match.end()
            elif character in "<>&0123456789{" and (match := _P["redirect"].match(text, at)) is not None:
                redirects.append(self.redirect(match))
            else:
                words.append(self.word())
        end = len(text[start : self.at].rstrip()) + start
        if end == start:
            raise ShellSyntaxError
        return Simple(tuple(assignments), tuple(words), tuple(redirects), start, end, _plain_values(words))

    def assignment(self, match: re.Match[str]) -> tuple[str, Word, tuple[Word, ...]]:
        self.at = match.end()
        following = self.text[self.at : self.at + 2]
        if following[:1] == "(":
            self.at += 1
            return match[1], "", self.closed_words(")")
        if following[:1] in ("", *_META) and following not in ("<(", ">("):
            return match[1], "", ()
        return match[1], self.word(), ()

    def redirect(self, match: re.Match[str]) -> Redirect:
        operator = match[2]
        self.at = match.end()
        self.peek()
        word = self.word()
        if operator not in ("<<", "<<-"):
            return Redirect((match[1] or "") + operator if operator in (">&", "<&") else operator, word)
        quoted = not isinstance(word, str)
        tag = word if isinstance(word, str) else "".join(part.text for part in word)
        body: list[Word] = []
        self.here.append((tag, operator == "<<-", quoted, body))
        return Redirect(operator, "", body)

    def read_bodies(self) -> None:
        pending, self.here = self.here, []
        for tag, strip, quoted, body in pending:
            tabs = "\t*" if strip else ""
            end = re.compile(rf"^{tabs}{re.escape(tag)}\r*$", re.MULTILINE).search(self.text, self.at)
            text = self.text[self.at : end.start() if end else None]
            self.at = min(end.end() + 1, len(self.text)) if end else len(self.text)
            text = re.sub(r"^\t+", "", text, flags=re.MULTILINE) if strip else text
            body.append(text if quoted or not re.search(r"[$`\\]", text) else self.parts_of(text))

    def parts_of(self, text: str) -> tuple[Part, ...]:
        """Return the parts of a text with expansions and no quotes: a here-document, arithmetic."""
        parts: list[Part] = []
        _Parser(text, self.depth, self.pieces).quoted(parts, _P["in body"], "")
        return tuple(parts)

    # Words

    def word(self) -> Word:
        """Read one word with its quotes and expansions."""
        self.count()
        text, size, start = self.text, len(self.text), self.at
        parts: list[Part] = []
        while self.at < size:
            match = _P["simple part"].match(text, self.at)
            if match is not None:
                group = match.lastindex
                if group not in (1, 2):
                    self.count()
                if group is not None:
                    parts.append(Part("text", match[group], group > 1))
                self.at = match.end()
                continue
            character = text[self.at]
            if character in _META:
                if character not in "<>" or not text.startswith("(", self.at + 1):
                    break
                parts.append(Part("process", character, inner=self.substitution()))
            elif character == '"':
                self.double_quoted(parts)
            elif character == "'":
                raise ShellSyntaxError
            else:
                self.expansion(parts, quoted=False)
        if self.at == start:
            raise ShellSyntaxError
        if len(parts) == 1 and parts[0].what == "text" and not parts[0].quoted:
            return parts[0].text
        return tuple(parts)

    def double_quoted(self, parts: list[Part]) -> None:
        self.count()
        self.at += 1
        before = len(parts)
        self.quoted(parts, _P["double quoted"], '"')
        if len(parts) == before:
            parts.append(Part("text", "", True))

    def quoted(self, parts: list[Part], run: re.Pattern[str], closer: str) -> None:
        """Read text with expansions up to a sign, and over it; without a sign up to the end."""
        while (character := self.text[self.at : self.at + 1]) != closer:
            match = run.match(self.text, self.at)
            if match is not None:
                parts.append(Part("text", match.group(), True))
                self.at = match.end()
            elif character == "\\":
                escaped = self.text[self.at + 1 : self.at + 2]
                kept = escaped if escaped in ("$", "`", "\\", '"') else "" if escaped == "\n" else "\\" + escaped
                parts.append(Part("text", kept, True))
                self.at += 2
            elif character == '"':
                self.double_quoted(parts)
            elif character == "'" or not character:
                parts.append(Part("text", self.take(_P["single quoted"])[1], True))
            else:
                self.expansion(parts, quoted=True)
        self.at += len(closer)

    def expansion(self, parts: list[Part], *, quoted: bool) -> None:
        """Read what begins with `$` or a back quote."""
        self.count()
        text, at = self.text, self.at
        following = text[at + 1 : at + 2]
        if text[at] == "`":
            parts.append(Part("substitution", "", quoted, self.back_quoted()))
        elif following == "(":
            inner = self.arithmetic(at + 1)
            parts += inner or [Part("substitution", "", quoted, self.substitution())]
        elif following == "{":
            parts.append(self.braces(quoted=quoted))
        elif following == "'" and not quoted:
            parts.append(Part("text", decode_escapes(self.take(_P["ansi quoted"])[1]), True))
        elif following == '"' and not quoted:
            self.at += 1
            self.double_quoted(parts)
        elif (match := _P["name"].match(text, at + 1)) is not None:
            parts.append(Part("variable", match.group(), quoted))
            self.at = match.end()
        else:
            parts.append(Part("text", "$", quoted))
            self.at += 1

    def substitution(self) -> Script:
        """Read commands in brackets, behind `$`, `<` or `>`."""
        self.at += 2
        return self.script_until(")")

    def back_quoted(self) -> Script:
        content = self.take(_P["back quoted"])[1]
        inner = _Parser(re.sub(r"\\([`\\$])", r"\1", content), self.depth, self.pieces)
        script = inner.script()
        if inner.at < len(inner.text):
            raise ShellSyntaxError
        return script

    def braces(self, *, quoted: bool) -> Part:
        self.enter()
        match = _P["braces"].match(self.text, self.at + 1)
        name = match[1] if match else ""
        is_value = match is not None and match.group() == "{" + name
        self.at = match.end() if match else self.at + 2
        # `${#V}`, `${!V}` and `${V[0]}` are not the variable's value.
        inner: list[Part] = [] if is_value else [Part("opaque")]
        has_default = is_value and self.text.startswith((":-", ":="), self.at)
        self.at += 2 * has_default
        self.quoted(inner, _P["in quoted braces"] if quoted else _P["in braces"], "}")
        self.depth -= 1
        what: Literal["variable", "default", "opaque"] = "opaque" if inner else "variable"
        return Part("default" if has_default else what, name, quoted, tuple(inner))

    def arithmetic(self, at: int) -> tuple[Part, ...]:
        """Read `((…))`; return nothing where the brackets at a place are not two that two brackets close."""
        depth = 0
        for match in _P["brackets"].finditer(self.text, at) if self.text.startswith("((", at) else ():
            depth += {"(": 1, ")": -1}.get(match.group(), 0)
            if depth == 1 and match.group() == ")":
                if not self.text.startswith(")", match.end()):
                    return ()
                self.enter()
                content = self.text[at + 2 : match.start()]
                self.at = match.end() + 1
                parts = self.parts_of(content) if "$" in content or "`" in content else ()
                self.depth -= 1
                return (Part("opaque", "", True, parts),)
        if depth:
            raise ShellSyntaxError
        return ()


def _plain_values(words: list[Word]) -> tuple[str, ...]:
    """Return the values of words; nothing where one is to be expanded, or where the shell looks for the program."""
    values: list[str] = []
    for word in words:
        if isinstance(word, str):
            if "{" in word:
                return ()
            values.append(word)
        elif any(part.what != "text" or ("{" in part.text and not part.quoted) for part in word):
            return ()
        else:
            values.append("".join([part.text for part in word]))
    return (
        () if not values or not values[0] or (values[0] is words[0] and _P["glob"].search(values[0])) else tuple(values)
    )


_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}


def decode_escapes(text: str) -> str:
    r"""Return a text with the escapes of `$'…'` and `printf` replaced."""

    def replace(match: re.Match[str]) -> str:
        escape = match.group(1)
        if escape[0] in "xuU" and len(escape) > 1:
            code = int(escape[1:], 16)
            return chr(code) if 0 < code < 0x110000 else ""
        if escape[0] in "01234567":
            return chr(int(escape, 8) & 0xFF or 32)
        return _LETTERS.get(escape, escape)

    return _P["escape"].sub(replace, text)


# Stands around the number of an unknown piece in a value. Shells cannot hold this character, so no input has it.
MARK = "\x00"

# Paths by which a program opens what streams into it.
STANDARD_INPUT = frozenset(("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "/proc/$$/fd/0", "/proc/0/fd/0"))


class Source(IntEnum):
    """Where a value or output comes from, the more telling the higher. `NONE` is not known, `EMPTY` has no content."""

    EMPTY = 0
    NONE = 1
    TEXT = 2
    VARIABLE = 3
    FILE = 4
    DOWNLOAD = 5
    DECODED = 6
    SECRET = 7
    ENVIRONMENT = 8


class Output(NamedTuple):
    """What a program prints: its text when it is known, otherwise what it comes from (a host, a path, a variable)."""

    source: Source = Source.NONE
    text: str = ""
    target: str = ""


NO_OUTPUT = Output(Source.EMPTY)
UNKNOWN_OUTPUT = Output(Source.NONE)
# What a program prints for the shell to run as its own setting up: `ssh-agent -s`, `pyenv init -`.
SETUP = Output(Source.NONE, "setup")


class Invocation(NamedTuple):
    """One program with its arguments, what it reads, and the variables set for it alone.

    Arguments are expanded; a piece whose value is not known is a mark, see `Walk.pieces_in`.
    """

    name: str
    arguments: list[str]
    stdin: Output
    environment: dict[str, str]
