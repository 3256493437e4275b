"""The grammar of POSIX shells and bash: a command line to a tree.

Written for this purpose because a ruling must see what the shell would run, also in the corners where general parsers
give up (`cmd <<EOF 2>&1 | sh`). It reads each character a bounded number of times: there is no backtracking, nesting is
capped, and what does not end (a quote, a bracket) stops the reading at once.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

MOST_NESTING = 32
# Commands, quoted words and expansions of one text: what a person or an agent writes has a few hundred at most.
MOST_PIECES = 2_000
# The longest text whose tree is kept.
MOST_KEPT = 2_000

# What a part of a word is. `TEXT`, `VARIABLE` (a name), `DEFAULT` (a name and the word used without a value),
# `SUBSTITUTION` and `PROCESS` (a script), and `OPAQUE`: an expansion whose value is not computed, with the words in it.
TEXT, VARIABLE, DEFAULT, SUBSTITUTION, PROCESS, OPAQUE = range(6)


class Part(NamedTuple):
    """A piece of a word."""

    what: int
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


class Assignment(NamedTuple):
    """`NAME=word`; an array's elements are in `more`."""

    name: str
    value: Word
    more: tuple[Word, ...] = ()


class Simple(NamedTuple):
    """A simple command: assignments, words, redirections, and its span in the text."""

    assignments: tuple[Assignment, ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]
    start: int
    end: int


class Pipeline(NamedTuple):
    """Commands joined by `|`."""

    commands: tuple[Command, ...]


class Compound(NamedTuple):
    """A compound command: what it is, its scripts, and the words in its head.

    `what` is `{`, `(`, `if`, `while`, `for`, `case`, `[[`, `((` or `function`; `name` is the variable of a loop or the
    function's name.
    """

    what: str
    scripts: tuple[Script, ...] = ()
    words: tuple[Word, ...] = ()
    name: str = ""
    redirects: tuple[Redirect, ...] = ()


Command = Simple | Compound | Pipeline


class Script(NamedTuple):
    """Commands in the order in which the shell would start them."""

    commands: tuple[Command, ...]


class ShellSyntaxError(Exception):
    """The text is no shell command, or has too many pieces or too deep a nesting.

    `read` are the commands before the place where reading stopped; a shell may run them all the same.
    """

    read: Script = Script(())


_BLANK = re.compile(r"(?:[ \t\r]|\\\r?\n)*")
_GAP = re.compile(r"(?:[ \t\r;&]|\\\r?\n)*")
_PLAIN = re.compile(r"[\w@%+=:,./~^\[\]*?!{}#-]+")
_RUN = re.compile(r"[\w@%+=:,./~^\[\]*?!{}#\t -]+")
_META = frozenset(" \t\r\n;|&()<>")
_UNQUOTED = re.compile(r"[^\s;|&()<>\"'\\$`]+")
_DOUBLE_QUOTED = re.compile(r"[^\"\\$`]+")
_IN_BODY = re.compile(r"[^\\$`]+")
_REDIRECT = re.compile(r"(\d+|\{\w+\})?(<<<|<<-|<<|<>|>>|>\||&>>|&>|>&|<&|<(?!\()|>(?!\())")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^]\n]*\])?\+?=")
_NAME = re.compile(r"[A-Za-z_]\w*|\d|[@*#?$!-]")
_SIMPLE_BRACES = re.compile(r"\{([A-Za-z_]\w*|\d+|[@*#?$!-])\}")
_BRACES = re.compile(r"\{[!#]?([A-Za-z_]\w*|\d+|[@*#?$!-]?)(?:\[[^]\n]*\])?")
_FUNCTION = re.compile(r"([\w.:+-]+)[ \t]*\([ \t]*\)[ \t\r\n]*")
_BRACKETS = re.compile(r"\\.|'[^']*'|[()]", re.DOTALL)
_BRANCH_END = re.compile(r";;&|;;|;&")
_IN_BRACES = re.compile(r"[^}\"'\\$`]+|'")
_ANSI_QUOTED = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_CLOSER = re.compile(r"(?:then|else|elif|fi|do|done|esac|\})(?=[\s;|&()<>]|$)|;;")
_OPENER = re.compile(r"(?:if|while|until|for|select|case|\{|\[\[|!|time|function|coproc)(?=[\s;|&()<>]|$)")


def parse_script(text: str) -> Script:
    """Return the tree of a text; raise `ShellSyntaxError` where it has none."""
    # Agents repeat themselves, and one call is read more than once.
    return _parse_short(text) if len(text) <= MOST_KEPT else _parse(text)


@lru_cache(maxsize=512)
def _parse_short(text: str) -> Script:
    return _parse(text)


def _parse(text: str) -> Script:
    parser = _Parser(text)
    commands: list[Command] = []
    try:
        parser.read_commands(commands)
        if parser.at < len(text):
            raise ShellSyntaxError
    except ShellSyntaxError as error:
        error.read = Script(tuple(commands))
        raise
    return Script(tuple(commands))


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
        return self.text[self.at] if self.at < len(self.text) else ""

    # Lists and pipelines

    def script(self) -> Script:
        """Read commands up to a closing word or bracket, or to the end."""
        commands: list[Command] = []
        self.read_commands(commands)
        return Script(tuple(commands))

    def read_commands(self, commands: list[Command]) -> None:
        self.enter()
        while True:
            self.skip_gap()
            if self.at >= len(self.text) or self.text[self.at] == ")" or self.at_closer():
                break
            commands.append(self.pipeline())
            self.skip_blank()
            if self.text.startswith(("&&", "||"), self.at):
                self.at += 2
            elif self.text.startswith(";;", self.at):
                break
            elif self.peek() not in ("", ";", "&", "\n", ")", "#"):
                raise ShellSyntaxError
        self.depth -= 1

    def skip_blank(self) -> None:
        if self.at < len(self.text) and self.text[self.at] in " \t\r\\":
            match = _BLANK.match(self.text, self.at)
            self.at = match.end() if match else self.at

    def skip_gap(self) -> None:
        """Go to the next command: over blanks, `;`, `&`, comments and line ends, reading here-documents on the way."""
        while self.at < len(self.text):
            start = self.at
            if self.text[start] in " \t\r;&\\":
                match = _GAP.match(self.text, start)
                end = match.end() if match else start
                # `;;` ends a branch of `case`.
                double = self.text.find(";;", start, end)
                if double >= 0:
                    self.at = double
                    return
                self.at = end
            character = self.peek()
            if character == "#":
                newline = self.text.find("\n", self.at)
                self.at = len(self.text) if newline < 0 else newline
            elif character == "\n":
                self.at += 1
                if self.here:
                    self.read_bodies()
            else:
                return

    def at_closer(self) -> bool:
        return _CLOSER.match(self.text, self.at) is not None

    def pipeline(self) -> Command:
        first = self.command()
        self.skip_blank()
        if self.peek() != "|" or self.text.startswith("||", self.at):
            return first
        commands = [first]
        while self.peek() == "|" and not self.text.startswith("||", self.at):
            self.at += 2 if self.text.startswith("|&", self.at) else 1
            self.skip_lines()
            commands.append(self.command())
            self.skip_blank()
        return Pipeline(tuple(commands))

    def skip_lines(self) -> None:
        while True:
            self.skip_blank()
            if self.peek() == "\n":
                self.at += 1
                if self.here:
                    self.read_bodies()
            elif self.peek() == "#":
                newline = self.text.find("\n", self.at)
                self.at = len(self.text) if newline < 0 else newline
            else:
                return

    # Commands

    def command(self) -> Command:
        self.count()
        self.skip_blank()
        text, at = self.text, self.at
        if self.peek() == "(":
            if text.startswith("((", at) and self.is_arithmetic(at):
                return self.with_redirects(Compound("((", words=(self.arithmetic(at),)))
            self.at += 1
            body = self.script()
            self.expect(")")
            return self.with_redirects(Compound("(", (body,)))
        if (opener := _OPENER.match(text, at)) is not None:
            self.at = opener.end()
            return self.compound(opener.group())
        if (found := _FUNCTION.match(text, at)) is not None:
            self.at = found.end()
            return Compound("function", (Script((self.command(),)),), name=found.group(1))
        return self.simple()

    def compound(self, word: str) -> Command:
        if word in ("!", "time", "coproc"):
            self.skip_blank()
            while word == "time" and self.text.startswith(("-p", "--"), self.at):
                self.at += 2
                self.skip_blank()
            return self.command() if self.peek() not in ("", "\n", ";", ")") else Simple((), (), (), self.at, self.at)
        self.enter()
        block = self.compound_body(word)
        self.depth -= 1
        return self.with_redirects(block)

    def compound_body(self, word: str) -> Compound:
        if word == "{":
            body = self.script()
            self.expect("}")
            return Compound("{", (body,))
        if word == "[[":
            return Compound("[[", words=self.test_words())
        if word == "function":
            self.skip_blank()
            name = self.plain_word()
            self.skip_blank()
            if self.text.startswith("()", self.at):
                self.at += 2
            self.skip_lines()
            return Compound("function", (Script((self.command(),)),), name=name)
        if word in ("while", "until"):
            head = self.script()
            self.expect("do")
            body = self.script()
            self.expect("done")
            return Compound("while", (head, body))
        if word == "if":
            return self.if_body()
        return self.case_body() if word == "case" else self.for_body()

    def if_body(self) -> Compound:
        scripts = [self.script()]
        self.expect("then")
        while True:
            scripts.append(self.script())
            closer = self.plain_word()
            if closer == "fi":
                return Compound("if", tuple(scripts))
            if closer == "elif":
                scripts.append(self.script())
                self.expect("then")
            elif closer != "else":
                raise ShellSyntaxError

    def for_body(self) -> Compound:
        self.skip_blank()
        words: tuple[Word, ...] = ()
        name = ""
        if self.text.startswith("((", self.at):
            words = (self.arithmetic(self.at),)
        else:
            name = self.plain_word()
            self.skip_lines()
            if self.text.startswith("in", self.at) and self.text[self.at + 2 : self.at + 3] in ("", *_META):
                self.at += 2
                words = self.words_to_line_end()
        self.skip_gap()
        closer = "}" if self.peek() == "{" else "done"
        self.expect("{" if closer == "}" else "do")
        body = self.script()
        self.expect(closer)
        return Compound("for", (body,), words, name)

    def words_to_line_end(self) -> tuple[Word, ...]:
        words: list[Word] = []
        while True:
            self.skip_blank()
            if self.peek() in ("", "\n", ";"):
                return tuple(words)
            words.append(self.word())

    def case_body(self) -> Compound:
        self.skip_blank()
        words = [self.word()]
        self.skip_lines()
        self.expect("in")
        scripts: list[Script] = []
        while True:
            self.skip_gap()
            if self.text.startswith("esac", self.at):
                self.at += 4
                return Compound("case", tuple(scripts), tuple(words))
            while (character := self.peek()) != ")":
                if character in (" ", "\t", "|", "("):
                    self.at += 1
                elif character in ("", "\n", ";", "&", "<", ">"):
                    raise ShellSyntaxError
                else:
                    words.append(self.word())
            self.at += 1
            scripts.append(self.script())
            self.skip_blank()
            ending = _BRANCH_END.match(self.text, self.at)
            if ending:
                self.at = ending.end()

    def test_words(self) -> tuple[Word, ...]:
        words: list[Word] = []
        while True:
            self.skip_lines()
            character = self.peek()
            if not character:
                raise ShellSyntaxError
            if character in "<>&|();":
                self.at += 1
                continue
            word = self.word()
            if word == "]]":
                return tuple(words)
            words.append(word)

    def plain_word(self) -> str:
        self.skip_gap()
        match = _PLAIN.match(self.text, self.at)
        if match is None:
            raise ShellSyntaxError
        self.at = match.end()
        return match.group()

    def expect(self, token: str) -> None:
        self.skip_gap()
        if not self.text.startswith(token, self.at):
            raise ShellSyntaxError
        self.at += len(token)

    def with_redirects(self, block: Compound) -> Compound:
        redirects: list[Redirect] = []
        while True:
            self.skip_blank()
            match = _REDIRECT.match(self.text, self.at)
            if match is None:
                return block._replace(redirects=tuple(redirects)) if redirects else block
            redirects.append(self.redirect(match))

    def simple(self) -> Simple:
        """Read a simple command; runs of words without quotes and expansions are taken in one step."""
        text, size = self.text, len(self.text)
        start = self.at
        assignments: list[Assignment] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        while self.at < size:
            at = self.at
            character = text[at]
            if character in "\n;|&)#" and not (character == "&" and text.startswith("&>", at)):
                break
            if character in "<>&0123456789{" and (found := _REDIRECT.match(text, at)) is not None:
                redirects.append(self.redirect(found))
            elif not words and (found := _ASSIGNMENT.match(text, at)) is not None:
                assignments.append(self.assignment(found))
            elif not self.take_run(words):
                words.append(self.word())
            self.skip_blank()
        end = len(text[start : self.at].rstrip()) + start
        if end == start:
            raise ShellSyntaxError
        return Simple(tuple(assignments), tuple(words), tuple(redirects), start, end)

    def take_run(self, words: list[Word]) -> bool:
        """Add the plain words that follow, up to one with quotes, an expansion, a comment or a redirection."""
        match = _RUN.match(self.text, self.at)
        if match is None:
            return False
        run, end = match.group(), match.end()
        if end < len(self.text) and self.text[end] not in "\n;|&)":
            # The last word goes on with something else, or is the number of a redirection.
            run = run[: max(run.rfind(" "), run.rfind("\t")) + 1]
        if " #" in run or "\t#" in run:
            run = run[: re.search(r"[ \t]#", run).end() - 1]  # type: ignore[union-attr]
        if not run.strip():
            return False
        words += run.split()
        self.at += len(run)
        return True

    def assignment(self, match: re.Match[str]) -> Assignment:
        self.at = match.end()
        character = self.peek()
        if character == "(":
            self.at += 1
            more: list[Word] = []
            while True:
                self.skip_lines()
                if self.peek() == ")":
                    self.at += 1
                    return Assignment(match.group(1), "", tuple(more))
                if self.peek() in ("", ";", "|", "&", "<", ">", "("):
                    raise ShellSyntaxError
                more.append(self.word())
        if character == "" or character in _META:
            if not self.text.startswith(("<(", ">("), self.at):
                return Assignment(match.group(1), "")
        return Assignment(match.group(1), self.word())

    def redirect(self, match: re.Match[str]) -> Redirect:
        operator = match.group(2)
        self.at = match.end()
        self.skip_blank()
        if operator not in ("<<", "<<-"):
            return Redirect((match.group(1) or "") + operator if operator in (">&", "<&") else operator, self.word())
        word = self.word()
        quoted = not isinstance(word, str)
        tag = word if isinstance(word, str) else "".join(part.text for part in word)
        body: list[Word] = []
        self.here.append((tag, operator == "<<-", quoted, body))
        return Redirect(operator, "", body)

    def read_bodies(self) -> None:
        pending, self.here = self.here, []
        for tag, strip, quoted, body in pending:
            lines: list[str] = []
            while self.at < len(self.text):
                newline = self.text.find("\n", self.at)
                stop = len(self.text) if newline < 0 else newline
                line = self.text[self.at : stop]
                self.at = min(stop + 1, len(self.text))
                if strip:
                    line = line.lstrip("\t")
                if line.rstrip("\r") == tag:
                    break
                lines.append(line + "\n")
            text = "".join(lines)
            body.append(text if quoted or not re.search(r"[$`\\]", text) else self.parts_of(text))

    def parts_of(self, text: str) -> tuple[Part, ...]:
        """Return the parts of a text with expansions and no quotes: a here-document, arithmetic."""
        inner = _Parser(text, self.depth, self.pieces)
        parts: list[Part] = []
        while inner.at < len(text):
            inner.quoted_piece(parts, _IN_BODY, '"')
        return tuple(parts)

    # Words

    def word(self) -> Word:
        """Read one word with its quotes and expansions."""
        self.count()
        text, size = self.text, len(self.text)
        parts: list[Part] = []
        start = self.at
        while self.at < size:
            character = text[self.at]
            if character in _META:
                if character in "<>" and text.startswith("(", self.at + 1):
                    parts.append(Part(PROCESS, character, inner=(self.substitution(2),)))
                    continue
                break
            match = _UNQUOTED.match(text, self.at)
            if match is not None:
                parts.append(Part(TEXT, match.group()))
                self.at = match.end()
            elif character == "'":
                parts.append(Part(TEXT, self.single_quoted(1), quoted=True))
            elif character == '"':
                self.count()
                self.double_quoted(parts)
            elif character == "\\":
                self.count()
                escaped = text[self.at + 1 : self.at + 2]
                if escaped != "\n":
                    parts.append(Part(TEXT, escaped, quoted=True))
                self.at += 2
            else:
                self.expansion(parts, quoted=False)
        if self.at == start:
            raise ShellSyntaxError
        if len(parts) == 1 and parts[0].what == TEXT and not parts[0].quoted:
            return parts[0].text
        return tuple(parts)

    def single_quoted(self, skip: int) -> str:
        end = self.text.find("'", self.at + skip)
        if end < 0:
            raise ShellSyntaxError
        content = self.text[self.at + skip : end]
        self.at = end + 1
        return content

    def double_quoted(self, parts: list[Part]) -> None:
        self.at += 1
        before = len(parts)
        while True:
            if self.at >= len(self.text):
                raise ShellSyntaxError
            if self.text[self.at] == '"':
                self.at += 1
                break
            self.quoted_piece(parts, _DOUBLE_QUOTED, '"')
        if len(parts) == before:
            parts.append(Part(TEXT, "", quoted=True))

    def quoted_piece(self, parts: list[Part], run: re.Pattern[str], quote: str) -> None:
        match = run.match(self.text, self.at)
        if match is not None:
            parts.append(Part(TEXT, match.group(), quoted=True))
            self.at = match.end()
        elif self.text[self.at] == "\\":
            escaped = self.text[self.at + 1 : self.at + 2]
            kept = escaped if escaped in ("$", "`", "\\", quote) else "" if escaped == "\n" else "\\" + escaped
            parts.append(Part(TEXT, kept, quoted=True))
            self.at += 2
        else:
            self.expansion(parts, quoted=True)

    def expansion(self, parts: list[Part], *, quoted: bool) -> None:
        """Read what begins with `$` or a back quote."""
        self.count()
        text, at = self.text, self.at
        if text[at] == "`":
            parts.append(Part(SUBSTITUTION, quoted=quoted, inner=(self.back_quoted(),)))
            return
        after = text[at + 1 : at + 2]
        if after == "(":
            if text.startswith("((", at + 1) and self.is_arithmetic(at + 1):
                parts.extend(self.arithmetic(at + 1))
            else:
                parts.append(Part(SUBSTITUTION, quoted=quoted, inner=(self.substitution(2),)))
        elif after == "{":
            parts.append(self.braces(quoted=quoted))
        elif after == "'" and not quoted:
            parts.append(Part(TEXT, self.ansi_quoted(), quoted=True))
        elif after == '"' and not quoted:
            self.at += 1
            self.double_quoted(parts)
        elif (match := _NAME.match(text, at + 1)) is not None:
            parts.append(Part(VARIABLE, match.group(), quoted))
            self.at = match.end()
        else:
            parts.append(Part(TEXT, "$", quoted=quoted))
            self.at += 1

    def substitution(self, skip: int) -> Script:
        self.enter()
        self.at += skip
        script = self.script()
        self.expect(")")
        self.depth -= 1
        return script

    def back_quoted(self) -> Script:
        self.enter()
        at = self.at + 1
        content: list[str] = []
        while True:
            stop = self.text.find("`", at)
            if stop < 0:
                raise ShellSyntaxError
            slash = self.text.find("\\", at, stop)
            if slash < 0:
                content.append(self.text[at:stop])
                break
            escaped = self.text[slash + 1 : slash + 2]
            content.append(self.text[at:slash] + (escaped if escaped in ("`", "\\", "$") else "\\" + escaped))
            at = slash + 2
        self.at = stop + 1
        inner = _Parser("".join(content), self.depth, self.pieces)
        script = inner.script()
        if inner.at < len(inner.text):
            raise ShellSyntaxError
        self.depth -= 1
        return script

    def braces(self, *, quoted: bool) -> Part:
        simple = _SIMPLE_BRACES.match(self.text, self.at + 1)
        if simple is not None:
            self.at = simple.end()
            return Part(VARIABLE, simple.group(1), quoted)
        self.enter()
        match = _BRACES.match(self.text, self.at + 1)
        name = match.group(1) if match else ""
        begin = match.group() if match else "{"
        self.at = match.end() if match else self.at + 2
        operator = self.text[self.at : self.at + 2]
        # `${#V}`, `${!V}` and `${V[0]}` are not the variable's value.
        inner: list[Part] = [] if begin == "{" + name else [Part(OPAQUE)]
        has_default = begin == "{" + name and operator in (":-", ":=")
        if has_default:
            self.at += 2
        while True:
            if self.at >= len(self.text):
                raise ShellSyntaxError
            character = self.text[self.at]
            if character == "}":
                self.at += 1
                break
            if character == '"':
                self.double_quoted(inner)
            elif character == "'" and not quoted:
                inner.append(Part(TEXT, self.single_quoted(1), quoted=True))
            else:
                self.quoted_piece(inner, _IN_BRACES, '"')
        self.depth -= 1
        return Part(DEFAULT if has_default else OPAQUE, name, quoted, tuple(inner))

    def ansi_quoted(self) -> str:
        r"""Read `$'…'` with its escapes (`\x41`, `\n`)."""
        match = _ANSI_QUOTED.match(self.text, self.at)
        if match is None:
            raise ShellSyntaxError
        self.at = match.end()
        return decode_escapes(match.group(1))

    def is_arithmetic(self, at: int) -> bool:
        """Return whether the two brackets at a place are closed by two brackets, as those of arithmetic are."""
        depth = 0
        for match in _BRACKETS.finditer(self.text, at):
            depth += {"(": 1, ")": -1}.get(match.group(), 0)
            if depth == 1 and match.group() == ")":
                return self.text.startswith(")", match.end())
        raise ShellSyntaxError

    def arithmetic(self, at: int) -> tuple[Part, ...]:
        depth = 0
        for match in _BRACKETS.finditer(self.text, at):
            depth += {"(": 1, ")": -1}.get(match.group(), 0)
            if depth == 0:
                self.enter()
                content = self.text[at + 2 : match.end() - 2]
                self.at = match.end()
                parts = self.parts_of(content) if "$" in content or "`" in content else ()
                self.depth -= 1
                return (Part(OPAQUE, quoted=True, inner=parts),)
        raise ShellSyntaxError


_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|0?[0-7]{1,3}|.)", re.DOTALL)
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

    return _ESCAPE.sub(replace, text)


_CHANGE = re.compile(r"(%%?|##?|//?)([^/#%\\\[\]()][^/\\\[\]()]*)(?:/([^/\\]*))?")
MOST_CHANGED = 256


def change_value(value: str, inner: tuple[object, ...]) -> str | None:
    """Return a value as `${V%x}`, `${V##x}`, `${V/x/y}`, `${V:1:2}` or `${V,,}` gives it; None if not computed."""
    texts = [part.text for part in inner if isinstance(part, Part) and part.what == TEXT]
    # A sign of a pattern is none in quotes.
    if len(texts) < len(inner) or re.search(r"[*?\[]", "".join(texts[1:])):
        return None
    return _changed(value, "".join(texts))


def _changed(value: str, change: str) -> str | None:
    if change in (",,", "^^"):
        return value.lower() if change == ",," else value.upper()
    if (cut := re.fullmatch(r":\s*(\d{1,5})(?::(\d{1,5}))?", change)) is not None:
        return value[int(cut[1]) :][: int(cut[2]) if cut[2] else None]
    if (found := _CHANGE.fullmatch(change)) is None or len(value) > MOST_CHANGED or change.count("*") > 2:
        return None
    sign, pattern, new = found.groups("")
    pattern = re.escape(pattern).replace(r"\*", ".*?" if sign in "#%" else ".*").replace(r"\?", ".")
    if sign == "%":
        return re.sub(rf"(?s)\A(.*){pattern}\Z", r"\1", value)
    pattern = rf"\A{pattern}" if sign[0] == "#" else rf"{pattern}\Z" if sign == "%%" else pattern
    return re.sub(f"(?s){pattern}", new, value, count=sign != "//")
