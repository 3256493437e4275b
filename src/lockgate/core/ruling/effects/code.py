"""Source text that a call would run or write (Python, JavaScript, SQL, …) to its effects, by patterns of tables.

No parse: the languages are many. A call counts where its syntax stands, not where a word does; comments are left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from lockgate.core.ruling.effects.activity import NO_ACTIVITY
from lockgate.core.ruling.effects.effect import KINDS, Certainty, Effect, Severity, effect
from lockgate.core.ruling.effects.own_paths import may_lead_to_own, own_access
from lockgate.core.ruling.effects.paths import Access, is_secret, is_secret_variable, read_access
from lockgate.core.ruling.effects.programs.options import METADATA_HOSTS, host_of, is_local
from lockgate.core.ruling.effects.project import NO_PROJECT, Place, Project
from lockgate.core.ruling.effects.tool_arguments import quote_word
from lockgate.core.tables import read_patterns, read_table

# A dozen patterns read it: twice as much would take longer than a check may.
MOST_CHARACTERS = 32 * 1024
_MOST_COMMANDS, _MOST_DECODERS, _MOST_LITERALS, _MOST_JOINED = 16, 100, 400, 4096
ACT_COLUMNS = ("kind", "target", "pattern")
_P = read_patterns(__package__, "code.tbl")
NEEDS = {name: words.split() for name, words in read_table(__package__, "code.tbl", "needs", ("pattern", "words"))}
_ACTS = [
    (kind, target.strip("-"), re.compile(pattern))
    for kind, target, pattern in read_table(__package__, "code.tbl", "acts", ACT_COLUMNS)
]
# What is written to such a path is more than a file outside of the project.
_DOORS = {kind for kind, row in KINDS.items() if row.severity is Severity.OPENS_A_DOOR} - {"writes-outside"}
_UNCERTAIN = frozenset({"unreadable", "unknown-act", "runs-program"})


def read_code(text: str, argument: str, project: Project) -> list[Effect]:
    """Return what running this source text would do, by what it names: hosts, processes, secrets, paths outside."""
    source = _P["glued"].sub("", _P["comment"].sub("", text[:MOST_CHARACTERS]))
    source = _P["imported"].sub(r"\2", _P["called by text"].sub(r".\2", source))
    source = _P["home path"].sub(_spell_path, source) if _may_have("home path", source) else source
    reader = _CodeReader(source, project)
    if len(text) > MOST_CHARACTERS:
        reader.add("unreadable")
    reader.read()
    effects = sorted(reader.effects.values(), key=lambda found: -found.severity)
    if not effects or effects[0].severity <= Severity.LOOKS:
        effects = [effect("computes")]
    return [found._replace(argument=argument, start=0, end=len(text)) for found in effects]


class _CodeReader:
    def __init__(self, source: str, project: Project) -> None:
        self.source = source
        self.project = project
        self.effects: dict[tuple[str, str], Effect] = {}
        self.texts = [_text_in(match, 1) for match in islice(_P["text"].finditer(source), _MOST_LITERALS)]

    def add(self, kind: str, target: str = "") -> None:
        certainty = Certainty.GUESS if kind in _UNCERTAIN else Certainty.LIKELY
        self.effects.setdefault((kind, target), effect(kind, target, certainty=certainty))

    def add_doors(self, effects: Iterable[Effect]) -> None:
        for found in effects:
            if found.severity is Severity.OPENS_A_DOOR:
                self.add(found.kind, found.target)

    def has(self, name: str) -> bool:
        return _may_have(name, self.source) and _P[name].search(self.source) is not None

    def matches(self, name: str, most: int | None = None) -> Iterable[re.Match[str]]:
        return islice(_P[name].finditer(self.source), most) if _may_have(name, self.source) else ()

    def read(self) -> None:
        away = self.read_network() if self.has("network") else []
        secrets = self.read_secret_files() + self.read_variables(is_sent=bool(away))
        for secret in secrets if away else ():
            self.add("sends-secret", secret)
        self.read_deletions()
        self.read_statements()
        self.read_own()
        if self.has("starts process"):
            self.read_processes()
        for match in self.matches("bare command", _MOST_COMMANDS):
            self.read_line(match[match.lastindex or 0])
        self.read_hidden(away)
        for kind, target, pattern in _ACTS if _may_have("acts", self.source) else ():
            if pattern.search(self.source):
                self.add(kind, target)

    def read_hidden(self, away: list[str]) -> None:
        """Note code that is decoded, fetched or read before it is run, and a shell for another machine."""
        # A call that runs text stands before one that decodes or fetches it.
        befores = (self.source[max(0, match.start() - 160) : match.start()] for match in self.matches("decoder"))
        is_run = (n >= _MOST_DECODERS or _P["evaluator"].search(before) for n, before in enumerate(befores))
        if self.has("hidden call") or any(is_run):
            fetched = away if self.has("fetches") else []
            self.add("runs-download" if fetched else "runs-decoded", fetched[0] if fetched else "")
        elif self.has("runs input"):
            self.add("unreadable")
        if away and self.has("reverse shell"):
            self.add("grants-access", away[0])

    def read_network(self) -> list[str]:
        """Note the hosts of a source that calls a network function; return those that are not this machine."""
        hosts = [host_of(match.group()) for match in _P["url"].finditer(self.source)]
        hosts += [match[match.lastindex or 0].lower() for match in _P["endpoint"].finditer(self.source)]
        kind = "sends-data" if self.has("sends") else "requests"
        away: list[str] = []
        for host in dict.fromkeys(hosts):
            if host in METADATA_HOSTS:
                self.add("reads-secret", host)
            elif is_local(host):
                self.add("asks-local", host)
            else:
                away.append(host)
                self.add(kind, host)
        return away

    def read_secret_files(self) -> list[str]:
        """Note what is done to files; return the secret ones that are read."""
        absolute = [text for text in self.texts if text[:1] in ("/", "~", "$")]
        secrets = [*self.read_path_calls(), *filter(is_secret, absolute)]
        for path in secrets:
            self.add("reads-secret", path)
        written = (read_access(_P["home variable"].sub("~", path), Access.WRITE, self.project) for path in absolute)
        for found in written if absolute and self.has("writes") else ():
            if found.kind in _DOORS:
                self.add(found.kind, found.target)
        for match in _P["opened for writing"].finditer(self.source):
            self.note_access(match[1].strip(), Access.WRITE)
        for match in _P["runs file"].finditer(self.source):
            if self.project.locate(match[1]) is not Place.INSIDE:
                self.add("runs-program", match[1])
        return secrets

    def read_path_calls(self) -> Iterator[str]:
        """Note files that are written or deleted by a call with their path; yield the secret ones that are read."""
        for match in self.matches("path call"):
            call, path = match["call"], match[2] or match[3]
            if _P["deleting call"].match(call):
                self.note_access(path, Access.DELETE)
            elif _P["writing call"].match(call) or _P["write mode"].search(match["rest"]):
                self.note_access(path, Access.WRITE)
            elif is_secret(path) and "dotenv" not in call:
                yield path

    def read_deletions(self) -> None:
        """Note paths outside the project in statements that delete, or that list the files for one that does."""
        statements = _P["statement"].findall(self.source) if self.has("deletes") else ()
        deleting = [part for part in statements if _P["deletes"].search(part) or _P["lists"].search(part)]
        paths = dict.fromkeys(path for statement in deleting for path in _P["any path"].findall(statement))
        self.add_doors(read_access(path, Access.DELETE, self.project) for path in islice(paths, _MOST_LITERALS))
        if len(paths) > _MOST_LITERALS:
            self.add("unreadable")

    def read_statements(self) -> None:
        """Note what statements of SQL remove or open, unless the only databases are there to be tried things on."""
        connected = _P["connects"].findall(self.source) if self.has("asks database") else [":memory:"]
        if connected and all(map(is_scratch_database, connected)):
            return
        for count, match in enumerate(islice(_P["change"].finditer(self.source), _MOST_COMMANDS + 1)):
            if count == _MOST_COMMANDS:
                self.add("unreadable")
                break
            # A `where` further on is none of its own.
            is_deletion = match[1][:6].lower() == "delete"
            own = _P["text end"].split(match[1], maxsplit=1)[0] if is_deletion else match[1]
            self.add_doors(read_sql(_P["named later"].sub("$", own.replace("\\", ""))))

    def read_own(self) -> None:
        """Note what reads Lockgate's secrets, changes its places, ends its processes or uses its package."""
        if not may_lead_to_own(self.source, self.project):
            return
        self.note_own((*self.texts, "/".join(text.strip("/") for text in self.texts)[:_MOST_JOINED]), Access.READ)
        # The place may be the last of the texts, stand before the call, or be a variable that was set elsewhere.
        if self.has("puts") or self.has("writes"):
            self.note_own(self.texts, Access.WRITE)
        if self.has("whole tree"):
            access = Access.DELETE if self.has("takes tree") else Access.READ
            self.note_own([*(["~"] if self.has("bare home") else []), *self.texts], access, below=True)
        numbers = re.findall(r"(?<!\d)\d{1,10}(?!\d)", self.source) if self.has("ends process") else ()
        if numbers and not self.project.own_pids().isdisjoint(map(int, numbers)):
            self.add("changes-own-guard", "lockgate")
        # It reads the tokens and answers approvals.
        if self.has("own import") and self.has("own parts"):
            self.add("changes-own-state", "lockgate")

    def note_own(self, paths: Iterable[str], access: Access, *, below: bool = False) -> None:
        for path in paths:
            found = own_access(path, access, self.project, below=below)
            if found is not None:
                self.add(found.kind, path if below else found.target[:300])

    def note_access(self, path: str, access: Access) -> None:
        found = read_access(_P["home variable"].sub("~", path), access, self.project)
        self.add(found.kind, found.target)

    def read_variables(self, *, is_sent: bool) -> list[str]:
        """Return the secret variables that are read; note those that are shown."""
        names = [name for name in dict.fromkeys(_P["variable"].findall(self.source)) if is_secret_variable(name)]
        is_whole = self.has("whole environment")
        if is_sent:
            return [*names, "environment"] if is_whole else names
        showing = [line for line in self.source.splitlines() if _P["shows"].search(line)]
        for name in names:
            if any(name in line for line in showing):
                self.add("reads-secret", name)
        is_shown = (is_whole and self.has("shown environment")) or (showing and self.has("each variable"))
        if is_shown or self.has("printed environment"):
            self.add("reads-secret", "environment")
        return names

    def read_processes(self) -> None:
        """Read the commands of processes that are started; one that is not a text of this source is a guess."""
        texts = {match[1]: _text_in(match, 2) for match in _P["assigned"].finditer(self.source)}
        for count, match in enumerate(_P["process"].finditer(self.source)):
            following = self.source[match.end() : match.end() + 400]
            if match["name"] and _P["common word"].fullmatch(match["call"]) and following[:1] in ("(", "["):
                continue
            if count >= _MOST_COMMANDS:
                self.add("unreadable")
                break
            line, is_known = _command_line(match, texts, following)
            if not is_known:
                self.add("runs-program")
            if line:
                self.read_line(line)

    def read_line(self, line: str) -> None:
        from lockgate.core.ruling.effects.shell_walk import read_command  # the shell's readers use this module

        for found in read_command(line, "", self.project, NO_ACTIVITY):
            self.effects.setdefault((found.kind, found.target), found)


def _command_line(match: re.Match[str], texts: dict[str, str], following: str) -> tuple[str, bool]:
    """Return the command that a call starts as a line of a shell, and whether all of it is known; `$X` is a value."""
    head, name, joined = match.group(), match["name"], _P["joined"].match(following)
    has_values = joined is not None or _P["holds values"].search(head) is not None
    command, *words = _texts_of_call(match, joined[0] if joined else "", has_values=has_values)
    if name is not None or match["call"] is None:
        # The interpreter itself, with a module or a file of the project after it.
        known = " ".join(["python", *words]) if name == "sys.executable" else texts.get(name or "", "")
        return ("", False) if joined else (known, known != "")
    # `exec "a", "b"` of Perl and Ruby has the arguments apart as well.
    is_apart = "[" in head or _P["arguments apart"].search(head) is not None
    # A value may be any command, unless it is one argument among others.
    is_known = joined is None and (is_apart or not has_values)
    return " ".join([command, *words]) if is_apart or match["call"] in ("exec", "system") else command, is_known


def _texts_of_call(match: re.Match[str], joined: str, *, has_values: bool) -> list[str]:
    """Return the command of a call, with what is joined to it, and its other texts as words."""
    parts = [_text_in(part, 1) or "$X" for part in _P["joined part"].finditer(joined)]
    texts = ["".join([_text_in(match, 2), *parts])]
    texts += [_text_in(word, 1) for word in _P["text"].finditer(match["rest"] or "")]
    texts = [_P["value"].sub("$X", text) for text in texts] if has_values else texts
    return [texts[0], *map(quote_word, texts[1:])]


def _spell_path(match: re.Match[str]) -> str:
    """Return a path that is put together as one text; its last parts may be other arguments of the call."""
    path, paths = "~" if match["home"] else "", list[str]()
    for part in filter(None, _P["parts"].findall(match["parts"])):
        path += "/" + part.strip("/")
        paths.append(path)
    doors = [path for path in paths if read_access(path, Access.WRITE, NO_PROJECT).kind in _DOORS]
    return f'Path("{[path, *doors, *filter(is_secret, paths)][-1]}")' if paths else match[0]


def _may_have(name: str, source: str) -> bool:
    return any(word in source for word in NEEDS.get(name, ("",)))


def _text_in(match: re.Match[str], first: int) -> str:
    text = next((group for group in match.groups()[first - 1 : first + 2] if group), "")
    return text.replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'") if "\\" in text else text


# Statements of SQL, by the patterns of `sql.tbl`

MOST_STATEMENTS = 64
# Only the head of a statement is looked at: where the condition of a change comes later, it counts as absent.
MOST_HEAD = 4_000
_SQL = read_patterns(__package__, "sql.tbl")
_HEADS = tuple((kind, pattern) for kind, pattern in _SQL.items() if kind in KINDS)


def _credential_shown(statement: str) -> str:
    """Return a column or table of credentials that a statement shows; what is only counted or compared is not shown."""
    plain = _SQL["counting"].sub(" ", statement)
    columns = " ".join(_SQL["shown columns"].findall(plain))
    is_shown = _SQL["something"].search(columns) or _SQL["whole table"].search(plain)
    tables = " ".join(_SQL["tables"].findall(plain)) if is_shown else ""
    shown = _SQL["credential"].search(f"{columns}; {tables}")
    return shown[0] if shown else ""


def is_scratch_database(path: str) -> bool:
    """Return whether the file of a database is there to be tried things on, by its name."""
    return _SQL["scratch"].search(path) is not None


def read_sql(text: str, argument: str = "") -> list[Effect]:
    """Return what statements would do; one that is not known may change anything."""
    plain = _SQL["noise"].sub(r"\1\1 ", text)
    statements = [part for part in plain.split(";") if part.strip()]
    if _SQL["ends differ"].search(text):
        statements += [part[1] for noise in _SQL["noise"].finditer(text) for part in _SQL["hidden"].finditer(noise[0])]
    found: dict[tuple[str, str], Effect] = {}
    is_unclear = len(statements) > MOST_STATEMENTS or _has_unclear_comment(text)
    for statement in statements[:MOST_STATEMENTS]:
        for each in _read_statement(statement[:MOST_HEAD], argument):
            found.setdefault((each.kind, each.target), each)
            # Beyond the head a list of tables may go on.
            is_unclear = is_unclear or (each.severity is Severity.OPENS_A_DOOR and len(statement) > MOST_HEAD)
    found.update(((each.kind, each.target), each) for each in _read_files(text, argument))
    if is_unclear:
        found["", ""] = effect("unreadable", certainty=Certainty.GUESS, argument=argument)
    return list(found.values()) or [effect("looks", argument=argument)]


def _read_files(text: str, argument: str) -> Iterator[Effect]:
    """Yield what reading or writing the files that statements name does, where they are more than data."""
    for match in islice(_SQL["file"].finditer(text), MOST_STATEMENTS):
        access = Access.READ if match.group(1).lower() in ("from", "infile") else Access.WRITE
        found = read_access(match.group(2), access, NO_PROJECT)
        if found.severity is Severity.OPENS_A_DOOR and found.kind != "writes-outside":
            yield found._replace(argument=argument)


def _has_unclear_comment(text: str) -> bool:
    inner = _SQL["comment in comment"].search(text)
    # What nothing closes is no comment in a comment: `like 'src/*' or path like 'docs/*'`.
    is_nested = inner is not None and "*/" in text[inner.end() :]
    return is_nested or _SQL["comment that runs"].search(text) is not None


def _read_statement(statement: str, argument: str) -> list[Effect]:
    if _SQL["server"].search(statement):
        return [effect("unreadable", "database server", argument=argument)]
    secret = _SQL["secret"].search(statement) and "database"
    if secret := secret or (_SQL["credential hint"].search(statement) and _credential_shown(statement)):
        return [effect("reads-secret", secret, argument=argument)]
    if _SQL["reads"].match(statement):
        return [effect("looks", argument=argument)]
    for kind, pattern in _HEADS:
        match = pattern.match(statement)
        if match is not None:
            if kind == "deletes-record" and not _SQL["where"].search(statement):
                kind = "deletes-data"
            names = _names_in_list(statement, match) or ["database"]
            return [effect(kind, name, argument=argument) for name in names]
    inside = _SQL["change inside"].search(statement)
    if inside is not None:
        return _read_statement(inside[1], argument)
    if _SQL["looks at"].match(statement):
        return [effect("looks", argument=argument)]
    return [effect("changes-record", "database", certainty=Certainty.GUESS, argument=argument)]


def _names_in_list(statement: str, head: re.Match[str]) -> list[str]:
    """Return the name in the head of a statement and those behind its commas: `drop table a, b` drops two tables."""
    names: list[str] = []
    found: re.Match[str] | None = head
    while found is not None and found.lastindex:
        names.append(_SQL["quotes"].sub("", found[found.lastindex]))
        found = _SQL["next name"].match(statement, found.end(found.lastindex))
    return names


def without_removals(text: str, tables: Collection[str]) -> str:
    """Return a text without what empties or removes one of these tables, wherever it stands."""
    return _SQL["removal"].sub(lambda match: "" if _SQL["quotes"].sub("", match[1]) in tables else match[0], text)
