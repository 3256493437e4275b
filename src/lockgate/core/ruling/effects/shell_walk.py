"""A walk over the tree of a shell command, as the shell would run it, that collects effects.

What a program does stands in `programs/`; this module knows the shell: folders, variables, functions, pipes,
redirections and what streams through them. It runs nothing and reads no file.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Sequence, Set
from dataclasses import replace

from lockgate.core.ruling.effects.activity import Activity, Content
from lockgate.core.ruling.effects.effect import Certainty, Effect, Severity, effect
from lockgate.core.ruling.effects.own_acts import note_own_acts, note_own_number
from lockgate.core.ruling.effects.own_paths import ASKS_SERVICE, find_own_service, may_lead_to_own, own_access
from lockgate.core.ruling.effects.paths import Access, is_secret, is_secret_variable, place_of, read_access
from lockgate.core.ruling.effects.programs.engine import read_program
from lockgate.core.ruling.effects.programs.loaded_files import read_loaded_code, run_content
from lockgate.core.ruling.effects.programs.program_rows import WORDS
from lockgate.core.ruling.effects.programs.variables import note_variable
from lockgate.core.ruling.effects.project import Place, Project, normalize_path
from lockgate.core.ruling.effects.shell_syntax import (
    MARK,
    NO_OUTPUT,
    SETUP,
    STANDARD_INPUT,
    UNKNOWN_OUTPUT,
    Command,
    Compound,
    Invocation,
    Output,
    Part,
    Redirect,
    Script,
    ShellSyntaxError,
    Simple,
    Source,
    Word,
    parse_script,
)
from lockgate.core.ruling.effects.written import read_written_file
from lockgate.core.tables import read_patterns

MOST_CHARACTERS = 64 * 1024
# Work that one command may cause: commands run (functions and loops repeat them), and texts read as commands in turn.
MOST_STEPS = 1_200
MOST_DEPTH = 12
MOST_TEXTS = 24
MOST_FIELDS = 256
MOST_WORDS = 2_000
MOST_PATH = 4096
# Characters that are read as commands, and that variables expand to.
MOST_READ = 128 * 1024
MOST_EXPANDED = 512 * 1024


def read_command(text: str, argument: str, project: Project, activity: Activity) -> list[Effect]:
    """Return what a command line would do; one that cannot be read opens a door."""
    if len(text) > MOST_CHARACTERS:
        return [effect("unreadable", certainty=Certainty.GUESS, argument=argument, span=(0, len(text)))]
    walk = Walk(argument, project, activity, text)
    # Codes of letters can spell any path.
    may_be_near = project.follow is not None or activity.is_near_own or "\\" in text
    walk.is_near_own = may_be_near or may_lead_to_own(text, project)
    walk.read_text(text.replace(MARK, ""))
    read_loaded_code(walk)
    found = walk.effects()
    walk.note_changes()
    for path, content in walk.written.items():
        found += read_written_file(path, content.text, "", argument, project) if content.text is not None else []
    return found


class Walk:
    """The state of the shell while its commands are read, and the effects found so far."""

    folder = ""
    # What streams into the program that is being read, and from the last connection that was opened.
    stdin = socket = NO_OUTPUT
    # Whether the program that is being read has the administrator's rights.
    as_root = False
    # Whether the command can come near Lockgate's own files at all.
    is_near_own = True
    # How many substitutions take the output: what is captured is not shown, and its use decides.
    _captured = 0
    _nested = _texts = _read = _expanded = _depth = _steps = 0

    def __init__(self, argument: str, project: Project, activity: Activity, line: str) -> None:
        self.argument = argument
        self.line = line
        self.project = project
        self.activity = activity
        self.variables: dict[str, str] = {}
        self.functions: dict[str, Compound] = {}
        self.aliases: dict[str, str] = {}
        self.pieces: list[Output] = []
        # Paths that this line downloads, unpacks or clones, with the host; files that it writes; and links, to what.
        self.downloads: dict[str, str] = {}
        self.written: dict[str, Content] = {}
        self.links: dict[str, str] = {}
        self.span = (0, len(line))
        # Variables that this line sets.
        self.assigned: set[str] = set()
        self._found: dict[tuple[str, str], Effect] = {}
        self._running: list[str] = []

    # What is found

    def add(self, kind: str, target: str = "", certainty: Certainty = Certainty.SURE) -> None:
        """Note an effect of the command that is being read."""
        target = self.plain(target)
        if self.downloads and kind in _RUNS_FOLDER and (host := self.download_of(self.full_path("."))):
            kind, target = "runs-download", host
        key = (kind, target)
        if key not in self._found:
            self._found[key] = effect(kind, target, certainty=certainty, argument=self.argument, span=self.span)

    def add_unreadable(self) -> None:
        """Note that a part of the command cannot be read."""
        self.add("unreadable", "", Certainty.GUESS)

    def access(self, path: str, access: Access) -> None:
        """Note what an access to a path does."""
        found = read_access(self.plain(path), access, self.project, folder=self.folder)
        if found.severity:
            self.add(found.kind, found.target, found.certainty)

    def note_own(self, path: str, access: Access, *, below: bool = False) -> None:
        """Note what an access does to Lockgate's own files; `below` is whether it reaches everything below the path."""
        path = self.plain(path)
        found = own_access(path, access, self.project, folder=self.folder, below=below) if self.is_near_own else None
        if found is not None:
            self.add(found.kind, found.target)

    def effects(self) -> list[Effect]:
        """Return what was found: each effect once; only looking when there is nothing."""
        effects = [*self._found.values()] or [effect("looks", argument=self.argument, span=(0, self.span[1]))]
        return sorted(effects, key=lambda entry: -entry.severity) if len(effects) > 1 else effects

    # Values

    def mark(self, stream: Output) -> str:
        """Return a mark that stands for a value which is not known."""
        self.pieces.append(stream)
        return f"{MARK}{len(self.pieces) - 1}{MARK}"

    def pieces_in(self, text: str) -> list[Output]:
        """Return the unknown pieces of a value."""
        return [self.pieces[int(number)] for number in text.split(MARK)[1::2]]

    def _only_piece(self, text: str) -> Output:
        """Return the unknown piece that a value consists of; nothing where it has other pieces."""
        is_piece = text.count(MARK) == 2 and text[0] == text[-1] == MARK
        return self.pieces_in(text)[0] if is_piece else NO_OUTPUT

    def plain(self, text: str) -> str:
        """Return a value with its unknown pieces as they were spelled, a substitution as `$()`."""
        if MARK not in text:
            return text
        parts = text.split(MARK)
        # A list of files stands for the path that it was made of.
        forms = {Source.VARIABLE: "${}", Source.NONE: "{}"}
        parts[1::2] = [forms.get(piece.source, "").format(piece.target) or "$()" for piece in self.pieces_in(text)]
        return "".join(parts)

    def secrets_in(self, text: str) -> list[str]:
        """Return the secrets among the unknown pieces of a value: variables and files."""
        pieces = [piece for piece in self.pieces_in(text) if piece.source in _HOLDS_SECRETS]
        return [
            piece.target or "environment"
            for piece in pieces
            if piece.source is not Source.VARIABLE or is_secret_variable(piece.target)
        ]

    # Texts and scripts

    def read_text(self, text: str, arguments: Sequence[str] = ()) -> Output:
        """Read a text as a command line of its own: that of `sh -c`, `eval`, a here-document."""
        self._texts += 1
        self._read += len(text)
        if self._texts > MOST_TEXTS or self._read > MOST_READ or self._nested > MOST_DEPTH:
            self.add_unreadable()
            return NO_OUTPUT
        if MARK in text:
            # An unknown piece becomes a variable that keeps what is known of it.
            parts = text.split(MARK)
            self.variables |= {f"_piece{number}": f"{MARK}{number}{MARK}" for number in parts[1::2]}
            parts[1::2] = [f"${{_piece{number}}}" for number in parts[1::2]]
            text = "".join(parts)
        note_own_number(self, text)
        try:
            script = parse_script(text)
        except ShellSyntaxError as error:
            self.add_unreadable()
            script = error.read
        saved = self.span
        self._nested += 1
        self.variables |= {str(index): value for index, value in enumerate(arguments)}
        stream = self.run_script(script)
        self._nested -= 1
        self.span = saved
        if stream.source is Source.ENVIRONMENT:
            self.add("reads-secret", "environment")
        return stream

    def run_script(self, script: Script, stdin: Output = NO_OUTPUT) -> Output:
        """Walk over commands in order; the result is what they print, as far as that is known."""
        if len(script) == 1:
            return self.run_command(script[0], stdin)
        return join_streams([self.run_command(command, stdin) for command in script])

    def run_command(self, command: Command, stdin: Output) -> Output:
        """Walk over one command."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            self.add_unreadable()
            return NO_OUTPUT
        if isinstance(command, Simple):
            return self.run_simple(command, stdin)
        if command.what == "|":
            # Each part of a pipe is a process of its own: `cd` and variables there end with it.
            folder, variables = self.folder, dict(self.variables)
            for index, (part,) in enumerate(command.scripts):
                # What flows through a pipe is never known to be nothing.
                stdin = self.run_command(part, UNKNOWN_OUTPUT if index and stdin is NO_OUTPUT else stdin)
                self.folder = folder
            self.variables = variables
            return stdin
        return self.run_block(command, stdin)

    def run_block(self, block: Compound, stdin: Output) -> Output:
        """Walk over a compound command."""
        if block.what == "function":
            self.functions[block.name] = block
            return NO_OUTPUT
        stdin, output = self.redirect(block.redirects, stdin)
        folder, variables = self.folder, dict(self.variables)
        fields = [field for word in block.words for field in self.expand(word)]
        results: list[Output] = []
        is_loop = block.what == "for" and block.name != ""
        if is_loop and not fields:
            fields = [self.mark(Output(Source.VARIABLE, target=block.name))]
        # Each value of a loop is looked at, as far as the steps allow.
        for value in fields if is_loop else [""]:
            if is_loop:
                self.variables[block.name] = value
            results += [self.run_script(script, stdin) for script in block.scripts]
        if block.what == "(":
            self.folder, self.variables = folder, variables
        return self.write_output(output, join_streams(results))

    # Simple commands

    def run_simple(self, command: Simple, stdin: Output) -> Output:
        """Walk over a simple command: expand its words, follow its redirections, and read its program."""
        if self._nested < 2:
            self.span = (command.start, command.end)
        environment = self.assignments_of(command) if command.assignments else {}
        fields = [*command.plain] or self.fields_of(command.words)
        stdin, output = self.redirect(command.redirects, stdin) if command.redirects else (stdin, None)
        if not fields:
            self.variables.update(environment)
            return self._redirect_nothing(output, stdin, is_assigned=bool(environment))
        result = self.run_program(fields, stdin, environment)
        # Secrets that a substitution hands to a program, and one that it is given from a file.
        for piece in self.pieces_in("".join(fields)) if self.pieces and fields[0] not in WORDS["keep values"] else ():
            self.show(piece)
        if stdin.source is Source.SECRET:
            if command.redirects and fields[0] not in WORDS["take secrets"]:
                self.show(stdin)
            if result.source is Source.NONE and fields[0] not in WORDS["show little of a secret"]:
                result = stdin
        return self.write_output(output, result)

    def _redirect_nothing(self, output: tuple[str, bool] | None, stdin: Output, *, is_assigned: bool) -> Output:
        if output is not None and not output[1] and stdin is NO_OUTPUT and self.place(output[0]) is Place.INSIDE:
            # A bare `> FILE` empties it, as `truncate` does.
            self.add("discards-work", output[0])
        # `$(<FILE)` is the content of the file.
        return self.write_output(output, stdin if self._captured and not is_assigned else NO_OUTPUT)

    def assignments_of(self, command: Simple) -> dict[str, str]:
        """Return the variables that a command sets, and note what setting them does."""
        environment: dict[str, str] = {}
        for name, value, more in command.assignments:
            text = " ".join(" ".join(self.expand(each)) for each in more) if more else self.expand_one(value)
            environment[name] = text
            note_variable(self, name, text)
        return environment

    def fields_of(self, words: Sequence[Word]) -> list[str]:
        """Return the program and its arguments."""
        fields: list[str] = []
        # More are not read; the command is then one that cannot be.
        for word in words[: MOST_WORDS + 1]:
            if isinstance(word, str) and "{" not in word:
                fields.append(word)
            elif len(fields) <= MOST_WORDS:
                fields += self.expand(word)
        while len(fields) > 1 and not fields[0]:
            del fields[0]
        if fields and isinstance(words[0], str) and _P["glob"].search(words[0]) and words[0] not in ("[", "[["):
            # The shell would look for a file that fits, and run that.
            self.add_unreadable()
        return fields

    def run_program(self, fields: list[str], stdin: Output, environment: dict[str, str] | None = None) -> Output:
        """Read one program with its arguments; wrappers call this for the program that they start."""
        self._steps += 1
        is_beyond = self._steps > MOST_STEPS or self._depth > MOST_DEPTH
        if is_beyond or len(fields) > MOST_WORDS:
            self.add_unreadable()
            fields = fields[:MOST_WORDS]
        name = fields[0]
        if is_beyond:
            return NO_OUTPUT
        if MARK in name:
            return self.run_unknown(fields, stdin)
        if name in self.functions:
            return self.run_function(self.functions[name], fields, stdin)
        if name in self.aliases and name not in self._running:
            self._running.append(name)
            result = self.read_text(f"{self.aliases[name]} {shlex.join(fields[1:])}")
            self._running.pop()
            return result
        self._depth += 1
        before, self.stdin = self.stdin, stdin
        result = read_program(self, Invocation(name, fields[1:], stdin, environment or {}))
        self.stdin = before
        self._depth -= 1
        return result

    def run_unknown(self, fields: list[str], stdin: Output) -> Output:
        """Read a command whose name comes from a variable or a substitution."""
        for piece in self.pieces_in(fields[0]):
            if piece.source in (Source.DOWNLOAD, Source.DECODED):
                is_download = piece.source is Source.DOWNLOAD
                self.add("runs-download" if is_download else "runs-decoded", piece.target if is_download else "")
                return NO_OUTPUT
        # `$PYTHON -m pytest`: a variable named after the program it stands for.
        variable, tail = self._only_piece(fields[0]), fields[0].rpartition(MARK)[2]
        if variable.source is Source.VARIABLE and variable.target in WORDS["variables of programs"]:
            return self.run_program([variable.target.lower(), *fields[1:]], stdin)
        if re.fullmatch(r"(?:/[\w.-]+)*/(?:bin|Scripts)/[\w.-]+", tail):
            return self.run_program([tail.rpartition("/")[2], *fields[1:]], stdin)
        name = self.plain(fields[0])
        note_own_acts(self, Invocation(name, fields[1:], stdin, {}), name, is_known=True)
        self.add_unreadable()
        return NO_OUTPUT

    def run_function(self, function: Compound, fields: list[str], stdin: Output) -> Output:
        if fields[0] in self._running or len(self._running) > 8:
            return NO_OUTPUT
        self._running.append(fields[0])
        saved = {key: value for key, value in self.variables.items() if key.isdigit() or key in "@*"}
        self.variables |= {str(index): value for index, value in enumerate(fields)}
        self.variables["@"] = self.variables["*"] = " ".join(fields[1:])
        result = join_streams([self.run_script(script, stdin) for script in function.scripts])
        self.variables.update(saved)
        self._running.pop()
        return result

    def run_contained(self, fields: list[str], stdin: Output) -> tuple[bool, Output]:
        """Read a program that runs in a container; return whether it does more than look there, and its output."""
        inner, printed = self._apart(lambda: self.run_program(fields, stdin), WORDS["stay in a container"])
        changes = any(each.severity > Severity.LOOKS and each.kind != "asks-local" for each in inner)
        return changes, printed if printed.source is Source.ENVIRONMENT else UNKNOWN_OUTPUT

    def run_elsewhere(self, text: str) -> None:
        """Read a command that runs on another machine: its paths are those of that machine."""
        self._apart(lambda: self.read_text(text), WORDS["stay in a container"])

    def run_as_root(self, fields: list[str], stdin: Output) -> Output:
        """Read a program that has the administrator's rights: they add to it where what it does is not known."""
        before, self.as_root = self.as_root, True
        inner, printed = self._apart(lambda: self.run_program(fields, stdin), frozenset())
        self.as_root = before
        if any(_is_unsafe_as_root(each) for each in inner):
            self.add("runs-as-root")
        return printed

    def _apart(self, run: Callable[[], Output], stays: Set[str]) -> tuple[Collection[Effect], Output]:
        """Return what a program does and prints; of its effects those of kinds that stay where it runs are not kept."""
        found, folder, variables, project = self._found, self.folder, dict(self.variables), self.project
        self._found = {}
        if stays:
            self.project = replace(project, named=None)
        printed = run()
        inner, self._found, self.folder, self.variables = self._found, found, folder, variables
        self.project = project
        for key, each in inner.items():
            if each.kind not in stays:
                found.setdefault(key, each)
        return inner.values(), printed

    # Redirections

    def redirect(self, redirects: Sequence[Redirect], stdin: Output) -> tuple[Output, tuple[str, bool] | None]:
        """Follow redirections: return what streams in, and the path that the output is written to, or added to."""
        output: tuple[str, bool] | None = None
        for operator, target, body in redirects:
            path = self.expand_one(target)
            if body is not None:
                stdin = Output(Source.TEXT, self.expand_one(body[0]) if body else "")
            elif operator == "<<<":
                stdin = Output(Source.TEXT, path)
            elif operator[-2:] in (">&", "<&") and (path.isdigit() or path[-1:] == "-"):
                # A shell that reads what another machine writes obeys that machine.
                if self.socket is not NO_OUTPUT and operator in ("<&", "0<&", "0>&"):
                    stdin = self.socket
            elif path.startswith(("/dev/tcp/", "/dev/udp/")):
                self.connect(self.plain(path))
                stdin = stdin if operator in (">", ">>", ">|") else self.socket
            elif operator == "<":
                self.load(path)
                stdin = self.read_file(path)
            elif path not in _NO_FILES:
                output = path, ">>" in operator
        return stdin, output

    def connect(self, path: str) -> None:
        """Note a connection that the shell itself opens: `/dev/tcp/HOST/PORT`."""
        host = path.split("/")[3]
        self.add("sends-data", host)
        self.socket = Output(Source.DOWNLOAD, target=host)
        if found := find_own_service(path, self.project.service_port):
            self.add(ASKS_SERVICE, found)

    def read_file(self, path: str) -> Output:
        """Return what reading a file gives."""
        if path in STANDARD_INPUT:
            return self.stdin
        self.note_own(path, Access.READ)
        piece = self._only_piece(path)
        if piece is not NO_OUTPUT and piece.source is not Source.VARIABLE:
            return piece
        plain = self.plain(path)
        if self.written or self.downloads or self.activity.downloaded or self.activity.is_full:
            full = self.full_path(path)
            if (written := self.written_text(full)) is not None:
                return Output(Source.TEXT, written, target=path)
            if host := self.download_of(full):
                return Output(Source.DOWNLOAD, target=host)
        if is_secret(plain, self.folder):
            return Output(Source.SECRET, "", plain)
        content = self.content_of(path)
        return Output(Source.TEXT, content.text, path) if content and content.text else Output(Source.FILE, "", path)

    def written_text(self, full: str) -> str | None:
        """Return the text that this line writes to a file, where it is known."""
        return self.written[full].text if full in self.written else None

    def content_of(self, path: str) -> Content | None:
        """Return what is known of a file that this line or the session wrote; None for any other."""
        full = self.full_path(path)
        if self.written_text(full) is None and full in self.links and self.links[full] != path:
            return self.content_of(self.links[full])
        if full in self.written:
            return self.written[full]
        known, show = self.project.full_path(full), self.project.show
        content = self.activity.find(known) if self.activity.contents or self.activity.is_full else None
        shown = show(self.activity.resolve(known)) if show and content else None
        if content is None or shown is None:
            return content
        # What was written may be on its way, so both count; of a piece the whole file says more.
        texts = [content.text] if content.text and content.is_whole and content.text != shown else []
        return content._replace(text="\n".join([*texts, shown]), is_whole=True)

    def note_changes(self) -> None:
        """Note what the line writes to files, for a caller that wants it."""
        for path, (text, is_whole, _) in self.written.items():
            self.project.note_change(path, None if text is None else self.plain(text), is_whole=is_whole)
        for path, target in self.links.items():
            self.project.note_change(path, None, link=target)

    def copy_content(self, path: str, target: str, *, is_link: bool = False) -> None:
        """Remember what a file, or all in a folder, holds at the place that it is copied to or linked from."""
        source, to = self.full_path(path), self.full_path(target)
        # The target may be a folder.
        for place in (to, f"{to}/{source.rpartition('/')[2]}"):
            if is_link:
                self.links[place] = source
                continue
            known = [
                (name[len(source) :], content)
                for name, content in self.written.items()
                if f"{name}/".startswith(f"{source}/")
            ]
            for rest, content in known or self.activity.below(self.project.full_path(source)):
                self.written[place + rest] = content._replace(is_carried=False)

    def print_file(self, path: str) -> Output:
        """Return what printing a file gives, and note a secret that it shows."""
        return self.show(self.read_file(path))

    def show(self, stream: Output) -> Output:
        """Note a secret that is shown, unless a substitution takes it."""
        if stream.source is Source.SECRET and not self._captured:
            self.add("reads-secret", stream.target)
        return stream

    def write_output(self, output: tuple[str, bool] | None, stream: Output) -> Output:
        """Write what a command prints to a file, when it is redirected to one."""
        if output is None:
            return stream
        self.write_file(output[0], stream, appends=output[1])
        return NO_OUTPUT

    def write_file(self, path: str, stream: Output, *, appends: bool = False) -> None:
        """Note that a file is written or added to, and remember where its content comes from."""
        full = self.full_path(path)
        self.access(path, Access.WRITE)
        if stream.source in (Source.DOWNLOAD, Source.DECODED):
            self.downloads[full] = stream.target if stream.source is Source.DOWNLOAD else ""
            self.add("downloads-file", full)
        elif stream.source is Source.TEXT:
            # Of two writings one may not happen.
            known = self.content_of(path) if appends else self.written.get(full, Content(""))
            is_whole = known is not None and known.text is not None and known.is_whole
            self.written[full] = Content(((known and known.text) or "") + stream.text, is_whole)
        elif stream.source is Source.NONE:
            self.written.setdefault(full, Content())
        elif stream.source in (Source.SECRET, Source.ENVIRONMENT):
            self.add("reads-secret", stream.target or "environment")

    def full_path(self, path: str) -> str:
        """Return a path in the form in which this walk compares paths."""
        return normalize_path(self._from_root(self.plain(path)))

    def _from_root(self, path: str) -> str:
        base = "" if path[:1] in ("/", "~") else self.folder or self.project.folder or self.project.root
        return f"{base}/{path}" if base else path

    def place(self, path: str) -> Place:
        """Return where a path lies."""
        return place_of(self.plain(path), self.project, self.folder)

    def download_of(self, full: str) -> str:
        """Return the host that a path was downloaded from in this line or earlier, or an empty text."""
        if self.downloads:
            # By the folders above: there may be a thousand downloads.
            folders = [full[:at] for at, sign in enumerate(full[:MOST_PATH]) if sign == "/"]
            source = next((path for path in (full, ".", *folders) if path in self.downloads), None)
            if source is not None:
                return self.downloads[source] or "decoded text"
        earlier, name = self.activity.downloaded, full.rpartition("/")[2]
        if not earlier.isdisjoint((full, name)) or any(normalize_path(path) == full for path in earlier):
            return full
        if self.activity.is_full and full not in self.activity.written and self.place(full) is not Place.INSIDE:
            return full
        return ""

    def run_path(self, path: str, stream: Output | None = None) -> None:
        """Note what running a file does."""
        self.load(path)
        stream = stream or self.read_file(path)
        if stream.source is Source.DOWNLOAD:
            self.add("runs-download", stream.target)
            return
        content, names = self.content_of(path), {self.plain(path), self.full_path(path)}
        if content is not None and content.text is None:
            self.note_unknown_content(path, content)
        elif self.place(path) is Place.SCRATCH and (content or names & self.activity.written):
            self.add("computes")
        else:
            self.access(path, Access.RUN)
        if content is not None and content.text:
            run_content(self, path, content)

    def note_unknown_content(self, path: str, content: Content) -> None:
        """Note that a file is run which was written and whose content is not known."""
        if content.is_carried:
            self.add("unreadable", self.plain(path), Certainty.GUESS)
        else:
            self.add("runs-program", self.plain(path), Certainty.GUESS)

    def load(self, path: str) -> None:
        """Note that the command runs or loads a file of this machine, if it does not write that file itself."""
        if self.project.named is None or path in STANDARD_INPUT or path == "/dev/null":
            return
        if self.written_text(self.full_path(path)) is None:
            self.project.named.append(self._from_root(self.plain(path)))

    def enter_folder(self, path: str) -> None:
        """Follow `cd`."""
        self.folder = "" if path == "-" else self.full_path(path or "~")

    # Expansion

    def expand_one(self, word: Word) -> str:
        """Return a word's value without splitting it."""
        if isinstance(word, str):
            return word
        return "".join(map(self.expand_part, word))

    def expand(self, word: Word) -> list[str]:
        """Return the fields that a word becomes; braces with more choices than are followed cannot be read."""
        if isinstance(word, str):
            if "{" not in word:
                return [word]
            word = (Part("text", word),)
        words = [word]
        for _ in range(4 if sum(len(part.text) for part in word) <= MOST_PATH else 0):
            following = [choice for each in words for choice in _choices(each)]
            if len(following) > MOST_FIELDS:
                break
            words = following
        if any(_choices(each) != [each] for each in (words[0], words[-1])):
            self.add_unreadable()
        return [field for each in words for field in self.expand_parts(each)][:MOST_FIELDS]

    def expand_parts(self, word: tuple[Part, ...]) -> list[str]:
        """Return the fields that the parts of a word become."""
        fields = [""]
        for part in word:
            value = self.expand_part(part)
            if part.what in ("text", "process") or part.quoted or not _P["blanks"].search(value):
                fields[-1] += value
            else:
                # Blanks at an end of the value end a field too.
                pieces = _P["blanks"].split(value, MOST_FIELDS)
                fields[-1] += pieces[0]
                fields += pieces[1:]
        if len(fields) > 1:
            return [field for field in fields if field][:MOST_FIELDS]
        # An unquoted expansion to nothing is no word at all.
        return fields if fields[0] or any(part.quoted for part in word) else []

    def expand_part(self, part: Part) -> str:
        """Return the value of a part of a word."""
        if part.what == "text":
            return part.text
        if part.what == "variable":
            return self.value_of(part.text)
        if part.what in ("substitution", "process"):
            return self.substitute(part)
        if part.what == "default":
            default = self.expand_one(part.inner)  # type: ignore[arg-type]
            return self.variables.get(part.text) or default
        for inner in part.inner:
            if isinstance(inner, Part):
                self.expand_part(inner)
        return self._changed(part, self.variables.get(part.text, ""))

    def _changed(self, part: Part, value: str) -> str:
        """Return what `${V%x}`, `${V#x}` and `${V/x/y}` give with plain letters; else a path, or a mark."""
        change = "".join(inner.text for inner in part.inner if isinstance(inner, Part))
        end, (old, _, new) = change.lstrip("%#"), change.strip("/").partition("/")
        if value and change in (",,", "^^"):
            return value.lower() if change == ",," else value.upper()
        if value and (part_of := re.fullmatch(r":\s*(\d{1,5})(?::(\d{1,5}))?", change)):
            return value[int(part_of[1]) :][: int(part_of[2]) if part_of[2] else None]
        if 0 < len(value) * len(change) < MOST_EXPANDED and change[0] in "%#/" and not re.search(r"[*?\[]", change):
            cut = {"%": value.removesuffix(end), "#": value.removeprefix(end)}
            return cut.get(change[0], value.replace(old, new, -1 if change[:2] == "//" else 1))
        return value if "/" in value or MARK in value else self.mark(Output(Source.VARIABLE, target=part.text))

    def value_of(self, name: str) -> str:
        value = self.variables.get(name)
        if value is not None:
            self._expanded += len(value)
            if self._expanded > MOST_EXPANDED:
                # A variable that doubles itself a few times is as long as the machine's memory.
                self.add_unreadable()
                return ""
            return value
        known = {"HOME": "~", "PWD": self.folder or ".", "IFS": " "}.get(name) or ("0" if name in "?#$!-0" else "")
        return known or self.mark(Output(Source.VARIABLE, target=name))

    def substitute(self, part: Part) -> str:
        """Return the value of `$(…)` or `<(…)`: its text when known, otherwise a mark that knows where it is from."""
        script: Script = part.inner  # type: ignore[assignment]
        folder, variables, span = self.folder, dict(self.variables), self.span
        self._nested += 1
        self._captured += 1
        stream = self.run_script(script)
        self._captured -= 1
        self._nested -= 1
        self.folder, self.variables, self.span = folder, variables, span
        if part.what == "substitution" and stream.source is Source.TEXT:
            return stream.text.rstrip("\n")
        if stream is NO_OUTPUT or stream is UNKNOWN_OUTPUT:
            command = script[0] if len(script) == 1 else None
            line = " ".join(command.plain) if isinstance(command, Simple) and not command.assignments else ""
            if _P["prints library"].fullmatch(line):
                return f"/usr/lib/{line.rpartition('=')[2]}"
            stream = SETUP if _prints_settings(line) else UNKNOWN_OUTPUT
        return self.mark(stream)


_P = read_patterns(__package__, "shell.tbl")
# What runs code of the folder that it is started in.
_RUNS_FOLDER = frozenset(("runs-project-task", "installs-known-package"))
_NO_FILES = frozenset("/dev/null /dev/stderr /dev/stdout /dev/tty NUL $null".split())
_HOLDS_SECRETS = (Source.ENVIRONMENT, Source.SECRET, Source.VARIABLE)


def _prints_settings(line: str) -> bool:
    """Return whether a command prints settings of a shell by design: `ssh-agent -s`, `kubectl completion bash`."""
    name, _, arguments = line.partition(" ")
    has_verb = not WORDS["verbs that print settings"].isdisjoint(arguments.split()[:1])
    by_verb = has_verb and name in WORDS["print settings by a verb"] and re.fullmatch(r"[\w./= -]+", arguments)
    return name in WORDS["print settings"] or bool(by_verb)


def _is_unsafe_as_root(found: Effect) -> bool:
    is_script = found.kind == "runs-project-task" and _P["script"].fullmatch(found.target)
    return bool(is_script) or found.severity is Severity.OPENS_A_DOOR or found.kind in WORDS["unknown as root"]


def _choices(word: tuple[Part, ...]) -> list[tuple[Part, ...]]:
    """Return the words that the first braces without quotes stand for."""
    for index, (what, text, quoted, _) in enumerate(word):
        if what != "text" or quoted or (match := _P["brace list"].search(text)) is None:
            continue
        first, last = sorted((ord(match[1][0]), ord(match[1][-1])))
        choices = match[1].split(",") if "," in match[1] else list(map(chr, range(first, last + 1)))
        texts = [text[: match.start()] + choice + text[match.end() :] for choice in choices[: MOST_FIELDS + 1]]
        return [(*word[:index], Part("text", each), *word[index + 1 :]) for each in texts]
    return [word]


def join_streams(streams: list[Output]) -> Output:
    """Return what several commands print one after the other: the most telling of it."""
    streams = [stream for stream in streams if stream is not NO_OUTPUT]
    if len(streams) < 2 or streams.count(UNKNOWN_OUTPUT) == len(streams):
        return streams[0] if streams else NO_OUTPUT
    # A list of files or of processes is what stands for it, and says more than a file that is read beside it.
    lists = {at for at, stream in enumerate(streams) if stream.source is Source.NONE and stream.target}
    if all(at in lists or stream.source is Source.TEXT for at, stream in enumerate(streams)):
        return Output(Source.TEXT, "".join(stream.text or f"{stream.target}\n" for stream in streams))
    return streams[max(range(len(streams)), key=lambda at: Source.FILE + 0.5 if at in lists else streams[at].source)]
