"""Source text that a call would run or write (Python, JavaScript, …) to its effects.

No parse: the languages are many. A call counts where its syntax stands, not where a word does; comments are left out.
"""

from __future__ import annotations

import re
from itertools import islice

from lockgate.core.ruling.effects.activity import NO_ACTIVITY
from lockgate.core.ruling.effects.effect import Certainty, Effect, Severity, effect
from lockgate.core.ruling.effects.own_paths import own_access
from lockgate.core.ruling.effects.paths import Access, is_secret, is_secret_variable, read_access
from lockgate.core.ruling.effects.programs.url_hosts import METADATA_HOSTS, host_of, is_local
from lockgate.core.ruling.effects.project import Project
from lockgate.core.ruling.effects.sql import is_scratch_database, read_sql

# A dozen patterns read it: twice as much would take longer than a check may.
MOST_CHARACTERS = 32 * 1024
MOST_COMMANDS = 16
MOST_DECODERS = 100
MOST_LITERALS = 400
MOST_JOINED = 4096


def read_code(text: str, argument: str, project: Project) -> list[Effect]:
    """Return what running this source text would do, by what it names: hosts, processes, secrets, paths outside."""
    reader = _CodeReader(_COMMENT.sub("", text[:MOST_CHARACTERS]), argument, project, len(text))
    if len(text) > MOST_CHARACTERS:
        reader.add("unreadable", certainty=Certainty.GUESS)
    reader.read()
    return reader.effects()


class _CodeReader:
    def __init__(self, source: str, argument: str, project: Project, size: int) -> None:
        self.source = source
        self.argument = argument
        self.project = project
        self.size = size
        self.found: dict[tuple[str, str], Effect] = {}

    def add(self, kind: str, target: str = "", certainty: Certainty = Certainty.LIKELY) -> None:
        self.found.setdefault(
            (kind, target), effect(kind, target, certainty=certainty, argument=self.argument, span=(0, self.size))
        )

    def effects(self) -> list[Effect]:
        if not any(each.severity > Severity.LOOKS for each in self.found.values()):
            return [effect("computes", argument=self.argument, span=(0, self.size))]
        return sorted(self.found.values(), key=lambda each: -each.severity)

    def read(self) -> None:
        source = self.source
        away = self.read_network() if _NETWORK.search(source) else []
        secrets = self.read_paths() + self.read_variables(away)
        for secret in secrets if away else ():
            self.add("sends-secret", secret)
        self.read_deletions()
        self.read_statements()
        self.read_own_paths()
        self.read_ended_processes()
        if _OWN_IMPORT.search(source) and _OWN_PARTS.search(source):
            # Our own package in the place of our commands: it reads the tokens and answers approvals.
            self.add("changes-own-state", "lockgate")
        if _STARTS_PROCESS.search(source):
            self.read_processes()
        if self.runs_decoded():
            fetched = away if _FETCHES.search(source) else []
            self.add("runs-download" if fetched else "runs-decoded", fetched[0] if fetched else "")
        elif _RUNS_INPUT.search(source):
            self.add("unreadable", certainty=Certainty.GUESS)
        if away and _REVERSE_SHELL.search(source):
            self.add("grants-access", away[0])
        self.read_others()

    def read_others(self) -> None:
        """Note a port that opens, and code that no pattern can see."""
        if _LISTENS.search(self.source):
            self.add("opens-port", "0.0.0.0")  # noqa: S104 - a name, not a bind
        if _CANNOT_BE_READ.search(self.source):
            self.add("unknown-act", certainty=Certainty.GUESS)

    def read_network(self) -> list[str]:
        """Note the hosts of a source that calls a network function; return those that are not this machine."""
        hosts = [host_of(match.group()) for match in _URL.finditer(self.source)]
        hosts += [match.group(1).lower() for match in _ENDPOINT.finditer(self.source)]
        sends = _SENDS.search(self.source) is not None
        away: list[str] = []
        for host in dict.fromkeys(hosts):
            if host in METADATA_HOSTS:
                self.add("reads-secret", host)
            elif is_local(host):
                self.add("asks-local", host)
            else:
                away.append(host)
                self.add("sends-data" if sends else "requests", host)
        return away

    def read_paths(self) -> list[str]:
        """Note files that are written or deleted, and secret files that are read; return the latter."""
        secrets: list[str] = []
        for match in _PATH_CALL.finditer(self.source):
            call, path, rest = match.group("call"), match.group(2) or match.group(3), match.group("rest")
            if _DELETING_CALL.match(call):
                self.note_access(path, Access.DELETE)
            elif _WRITING_CALL.match(call) or _WRITE_MODE.search(rest):
                self.note_access(path, Access.WRITE)
            elif is_secret(path) and "dotenv" not in call:
                secrets.append(path)
        secrets += self.read_home_paths()
        texts = [_text_in(match, 1) for match in islice(_LITERAL.finditer(self.source), MOST_LITERALS)]
        secrets += [text for text in texts if text[:1] in ("/", "~", "$") and is_secret(text)]
        for path in secrets:
            self.add("reads-secret", path)
        self.note_doors(texts)
        for match in _OPENED_FOR_WRITING.finditer(self.source):
            self.note_access(match.group(1).strip(), Access.WRITE)
        return secrets

    def read_home_paths(self) -> list[str]:
        """Note files below the user's home that are written; return the secret ones that are read."""
        secrets: list[str] = []
        for match in _HOME_PATH.finditer(self.source):
            before = self.source[max(0, match.start() - 80) : match.start()].rpartition("\n")[2]
            writes = _WRITE_MODE.search(match.group("rest")) or _WRITING_CALL.search(before)
            path, secret = "~", ""
            # The last texts may be other arguments of the call.
            for part in _PARTS.findall(match.group(1)):
                path += "/" + part.strip("/")
                if writes:
                    self.note_door(path)
                elif is_secret(path):
                    secret = path
            secrets += [secret] if secret else []
            if writes:
                self.note_access(path, Access.WRITE)
        return secrets

    def read_deletions(self) -> None:
        """Note paths outside the project in statements that delete, or that list the files for one that does."""
        paths: dict[str, None] = {}
        for statement in _STATEMENT.findall(self.source) if _DELETES.search(self.source) else ():
            if not (_DELETES.search(statement) or _LISTS.search(statement)):
                continue
            paths.update(dict.fromkeys(_ANY_PATH.findall(statement)))
        for path in islice(paths, MOST_LITERALS):
            found = read_access(path, Access.DELETE, self.project)
            if found.severity is Severity.OPENS_A_DOOR:
                self.add(found.kind, found.target)
        if len(paths) > MOST_LITERALS:
            self.add("unreadable", certainty=Certainty.GUESS)

    def read_statements(self) -> None:
        """Note what statements of SQL remove or open, unless the only databases are there to be tried things on."""
        if _ASKS_DATABASE.search(self.source) is None:
            return
        connected = _CONNECTS.findall(self.source)
        if connected and all(map(is_scratch_database, connected)):
            return
        for count, match in enumerate(_SQL_CHANGE.finditer(self.source)):
            if count >= MOST_COMMANDS:
                self.add("unreadable", certainty=Certainty.GUESS)
                break
            statement = match.group(1)
            if statement[:6].lower() == "delete":
                # A `where` further on is none of its own.
                statement = _TEXT_END.split(statement, maxsplit=1)[0]
            # `{name}` of a text, and `" + name` behind one, are tables that only the running program knows.
            statement = _NAMED_LATER.sub("$", statement.replace("\\", ""))
            for each in read_sql(statement, self.argument):
                if each.severity is Severity.OPENS_A_DOOR:
                    self.add(each.kind, each.target)

    def read_own_paths(self) -> None:
        """Note texts, also joined as parts of one path, that lead to Lockgate's secrets, and work on a whole home."""
        texts = [_text_in(match, 1) for match in islice(_LITERAL.finditer(self.source), MOST_LITERALS)]
        for path in (*texts, "/".join(text.strip("/") for text in texts)[:MOST_JOINED]):
            found = own_access(path, Access.READ, self.project)
            if found is not None:
                self.add(found.kind, found.target[:300])
        # The place may be the last of the texts, stand before the call, or be a variable that was set elsewhere.
        for path in texts if _PUTS.search(self.source) or _WRITES.search(self.source) else ():
            found = own_access(path, Access.WRITE, self.project)
            if found is not None:
                self.add(found.kind, found.target[:300])
        if _WHOLE_TREE.search(self.source):
            homes = ["~"] if _BARE_HOME.search(self.source) else []
            access = Access.DELETE if _TAKES_TREE.search(self.source) else Access.READ
            for path in (*homes, *texts):
                found = own_access(path, access, self.project, below=True)
                if found is not None:
                    self.add(found.kind, path)

    def read_ended_processes(self) -> None:
        """Note the number of Lockgate's own process, or of a judge's, beside a call that ends or stops one."""
        numbers = _NUMBER.findall(self.source) if _ENDS_PROCESS.search(self.source) else ()
        if numbers and not self.project.own_pids().isdisjoint(map(int, numbers)):
            self.add("changes-own-guard", "lockgate")

    def note_access(self, path: str, access: Access) -> None:
        found = read_access(_HOME_VARIABLE.sub("~", path), access, self.project)
        self.add(found.kind, found.target)

    def note_doors(self, texts: list[str]) -> None:
        """Note paths among the texts of a source that writes."""
        for text in texts if _WRITES.search(self.source) else ():
            if text[:1] in ("/", "~", "$"):
                self.note_door(text)

    def note_door(self, path: str) -> None:
        """Note what writing a path changes, where that is more than a file outside of the project."""
        found = read_access(_HOME_VARIABLE.sub("~", path), Access.WRITE, self.project)
        if found.severity is Severity.OPENS_A_DOOR and found.kind != "writes-outside":
            self.add(found.kind, found.target)

    def read_variables(self, away: list[str]) -> list[str]:
        """Return the secret variables that are read; note those that are shown."""
        names = [name for name in dict.fromkeys(_ENVIRON.findall(self.source)) if is_secret_variable(name)]
        for line in self.source.splitlines() if names and not away else ():
            for name in names:
                if name in line and _SHOWS.search(line):
                    self.add("reads-secret", name)
        if not away and self.prints_environment():
            self.add("reads-secret", "environment")
        if _WHOLE_ENVIRON.search(self.source):
            if not away and _SHOWS_ENVIRON.search(self.source):
                self.add("reads-secret", "environment")
            names.append("environment")
        return names

    def prints_environment(self) -> bool:
        """Return whether all variables are shown, at once or one after the other."""
        return _PRINTS_ENVIRON.search(self.source) is not None or (
            _EACH_VARIABLE.search(self.source) is not None and _SHOWS.search(self.source) is not None
        )

    def read_processes(self) -> None:
        """Read the commands of processes that are started; one that is not a text of this source is a guess."""
        from lockgate.core.ruling.effects.shell import read_command  # the shell's readers use this module

        texts = {match.group(1): _text_in(match, 2) for match in _ASSIGNED.finditer(self.source)}
        for count, match in enumerate(_PROCESS.finditer(self.source)):
            following = self.source[match.end() : match.end() + 40]
            if match.group("call") in _COMMON_WORDS and match.group("name") and following[:1] in ("(", "["):
                continue  # `exec(open(path).read())` of Python runs no process
            line = _command_line(match, texts, following)
            if count >= MOST_COMMANDS or (line is None and self.joins_text(match)):
                self.add("unreadable", certainty=Certainty.GUESS)
                break
            if line is None:
                self.add("runs-program", certainty=Certainty.GUESS)
                continue
            for each in read_command(line, self.argument, self.project, NO_ACTIVITY):
                self.found.setdefault((each.kind, each.target), each._replace(start=0, end=self.size))

    def joins_text(self, match: re.Match[str]) -> bool:
        """Return whether the command of a call is put together from pieces, there or where its variable is set."""
        end = self.source.find("\n", match.end())
        places = [self.source[match.start() : end if end > 0 else self.size]]
        name = match.group("name")
        if name:
            places += re.findall(rf"\b{re.escape(name)}\s*\+?=[^\n]*", self.source)[:8]
        return any(_JOINS_TEXT.search(place) for place in places)

    def runs_decoded(self) -> bool:
        """Return whether a call that runs text stands before one that decodes or fetches it."""
        if _HIDDEN_CALL.search(self.source):
            return True
        for count, match in enumerate(_DECODER.finditer(self.source)):
            before = self.source[max(0, match.start() - 160) : match.start()]
            if count >= MOST_DECODERS or _EVALUATOR.search(before):
                return True
        return False


def _command_line(match: re.Match[str], texts: dict[str, str], following: str) -> str | None:
    """Return the command that a call starts as a line of a shell; None when it is not known."""
    head, name = match.group(), match.group("name")
    if match.group("call") is None or re.match(r"\s*(?:\+|%(?!\w)|\.\w+\()", following):
        return None
    if name is not None:
        # The interpreter itself, with a module or a file of the project after it.
        if name == "sys.executable":
            words = [_quote_word(_text_in(each, 1)) for each in _LITERAL.finditer(match.group("rest"))]
            return " ".join(["python", *words])
        return texts.get(name)
    command = _text_in(match, 2)
    if re.search(r"[(\s]f['\"]", head):
        command = re.sub(r"\{[^{}]*\}", "$X", command)
    # `exec "a", "b"` of Perl and Ruby has the arguments apart as well.
    if "[" not in head and not _ARGUMENTS_APART.search(head) and match.group("call") not in ("exec", "system"):
        return command
    words = [_quote_word(_text_in(each, 1)) for each in _LITERAL.finditer(match.group("rest"))]
    return " ".join([command, *words])


def _text_in(match: re.Match[str], first: int) -> str:
    text = next((group for group in match.groups()[first - 1 : first + 2] if group), "")
    return text.replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'") if "\\" in text else text


def _quote_word(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


_TEXT = r"[rbuf]{0,2}(?:\"((?:[^\"\\\n]|\\.){1,600})\"|'((?:[^'\\\n]|\\.){1,600})'|`((?:[^`\\]|\\.){1,600})`)"
# Other signs than `\n` end a line of Python or JavaScript as well, and `?>` ends a comment of PHP.
_COMMENT = re.compile(r"(?m)^[^\S\r\n\u2028\u2029]*(?:#(?!!)|//)(?:[^\r\n\u2028\u2029?]|\?(?!>))*")
_LITERAL = re.compile(_TEXT)
_ASSIGNED = re.compile(r"\b([A-Za-z_]\w*)\s*=\s*\[?\s*" + _TEXT + r"\s*\]?\s*(?:[;\n]|$)")
# Calls that start a process, by their whole name or by a word that is a function in their language.
# A branch that begins with letters is left at once; so `\b` stands once, before all branches that need it.
_STARTER = (
    r"\b(?:os\.(?:system|popen|exec[lv]\w*|spawn\w+|posix_spawn)|(?:subprocess|sp)\.(?:run|call|Popen|check_output|check_call"
    r"|getoutput|getstatusoutput)|asyncio\.create_subprocess_\w+|pty\.spawn|child_process\.\w+"
    r"|require\(['\"](?:node:)?child_process['\"]\)\.\w+|execSync|spawnSync|execFileSync|execFile|spawn|shell_exec|passthru"
    r"|proc_open|popen|Popen|check_output|IO\.popen|Open3\.\w+|system|exec|do\s+shell\s+script|Deno\.Command|Bun\.spawn\w*)"
)
_STARTS_PROCESS = re.compile(r"system|[pP]open|exec|spawn|subprocess|check_output|Open3|shell|Deno\.Command|%x|\bqx")
_PROCESS = re.compile(
    r"(?P<call>"
    + _STARTER
    + r")(?:\s*\(|\s+(?=[\"'`]))\s*(?:args\s*=\s*)?\[?\s*(?:"
    + _TEXT
    + r"|(?P<name>[A-Za-z_][\w.]*))"
    r"(?P<rest>(?:\s*,\s*\[?\s*(?:\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|[\w.]+(?!\s*=)))*)\s*\]?"
    r"|%x[({\[]|\bqx[({/]"
)
_COMMON_WORDS = frozenset(("exec", "spawn", "system", "popen"))
_ARGUMENTS_APART = re.compile(r"(?:spawn|execFile|exec[lv])\w*\s*\(")
_JOINS_TEXT = re.compile(
    r"['\"]\s*\+|\+\s*['\"]|\.join\s*\(|\bchr\s*\(|\[::-1\]|\.decode\b|fromCharCode|\.replace\s*\(|%x|\bqx"
)
_DECODER = re.compile(
    r"b64decode|b32decode|b85decode|a85decode|unhexlify|fromhex|decompress|\.decode\b|Buffer\.from|rot_?13|marshal"
    r"|base64_decode|gzinflate|str_rot13|urlopen|requests\.get|fromCharCode|\[::-1\]|\b(?:atob|fetch|chr|unpack)\b"
)
_FETCHES = re.compile(r"urlopen|requests\.get|httpx\.get|\bfetch\b")
_EVALUATOR = re.compile(
    r"(?<![\w.])(?:exec|eval|execfile|compile|Function|instance_eval|class_eval|__import__)\s*\([^\n]*$"
)
_HIDDEN_CALL = re.compile(
    r"\b(?:marshal\.loads\b|pickle\.loads\s*\(\s*(?:base64|requests|urlopen|zlib))"
    r"|getattr\s*\(\s*(?:__import__|(?:os|subprocess|builtins|__builtins__)\s*,)"
)
_RUNS_INPUT = re.compile(
    r"(?<![\w.])(?:exec|eval|instance_eval)\s*\([^)\n]{0,40}(?:stdin|input\s*\(|argv|\.text\b|\.content\b|recv\s*\()"
)
_NETWORK = re.compile(
    r"\b(?:urllib\.request\.\w+|urllib2?\.urlopen|urlopen|urlretrieve|requests\.\w+|httpx\.\w+|aiohttp\.\w+|http\.client\.\w+"
    r"|HTTPS?Connection|socket\.\w+|create_connection|fetch|axios(?:\.\w+)?|got(?:\.\w+)?|https?\.(?:get|request)|XMLHttpRequest"
    r"|WebSocket|net\.(?:connect|createConnection|Socket)|tls\.connect|dgram\.\w+|Net::HTTP(?:\.\w+)?|URI\.open|LWP::\w+"
    r"|IO::Socket\S{0,20}|curl_exec|curl_init|file_get_contents|fsockopen|smtplib\.\w+|ftplib\.\w+|paramiko\.\w+"
    r"|dns\.resolver\.\w+|gethostbyname|getaddrinfo|navigator\.sendBeacon|(?:session|client|s|u)\.(?:get|post|put|urlopen))\s*\("
)
_SENDS = re.compile(
    r"\w\.(?:post|put|patch|delete)\s*\(|method\s*[:=]\s*['\"](?:POST|PUT|PATCH|DELETE)|\b(?:(?:data|json|files)\s*=|body\s*:)"
    r"|\.send(?:all|to|_message|mail)?\s*\(|sendBeacon|\.storbinary\(|Net::HTTP\.post"
)
_URL = re.compile(r"\b(?:https?|wss?|ftp|tcp)://[^\s\"'`<>)\\]{1,400}")
_ENDPOINT = re.compile(r"\(\s*['\"]((?:[\w-]+\.)+[a-z]{2,}|\d+\.\d+\.\d+\.\d+)['\"]\s*,\s*\d{2,5}")
_REVERSE_SHELL = re.compile(r"\bdup2\s*\(|\bpty\.spawn\s*\(|['\"]/bin/(?:ba)?sh['\"]")
_LISTENS = re.compile(
    r"\b(?:HTTPServer|TCPServer|createServer)\b[^\n]{0,80}['\"](?:0\.0\.0\.0)?['\"]\s*,|\.bind\s*\(\s*\(\s*['\"](?:0\.0\.0\.0)?['\"]"
)
_PATH_CALL = re.compile(
    r"(?P<call>\b(?:open|Path|File\.(?:read|write|open|delete))|(?:read|write|append|copy)File(?:Sync)?"
    r"|create(?:Read|Write)Stream|expanduser|file_(?:get|put)_contents|fopen|unlink(?:Sync)?|rm(?:dir)?Sync|os\.(?:remove|unlink|symlink|chmod)"
    r"|shutil\.(?:rmtree|copy\w*|move)|symlinkSync|chmodSync|dotenv_values|load_dotenv|Deno\.(?:read|write)TextFile|Bun\.(?:file|write))"
    r"(?:\s*\(\s*|\s+)(?:os\.path\.expanduser\s*\(\s*)?[rfb]?(?:\"([^\"\n]{1,300})\"|'([^'\n]{1,300})')\s*\)?(?P<rest>[^\n;]{0,120})"
)
_WRITING_CALL = re.compile(
    r"write|append|createWrite|file_put|symlink|os\.(?:symlink|chmod)|chmod|Deno\.write|Bun\.write|File\.write"
)
_DELETING_CALL = re.compile(r"unlink|rm|os\.(?:remove|unlink)|shutil\.rmtree|File\.delete")
# Deleting by any of the languages, with or without parentheses, and what lists the files of a folder.
_DELETES = re.compile(
    r"\b(?:unlink|rmtree|remove_tree|removedirs|rmdir|rm_r[f]?|rm_f|remove_entry\w*|remove_dir|rm(?:dir)?Sync|unlinkSync"
    r"|(?:os|fs|fsp|promises)\.(?:remove|rm|unlink|truncate)|File\.delete|FileUtils\.rm\w*|Dir\.delete|delete_file"
    r"|Deno\.remove|rimraf|emptyDir|removeSync|file\.remove|os\.remove)\b"
)
_LISTS = re.compile(r"\b(?:r?glob|listdir|scandir|walk|iterdir|readdir(?:Sync)?|opendir|Dir|find|children|entries)\b")
# What puts a file, or a link to one, in another place.
_PUTS = re.compile(r"\b(?:sym|hard)?link(?:_to|Sync)?\s*\(|\b(?:copy\w*|rename|replace|move|cp)(?:Sync)?\s*\(")
# What writes a file whose name stands in a variable.
_WRITES = re.compile(
    r"\b(?:open\w*\s*\([^\n]{0,200}?['\"][rbt]*[wax+][bt+]*['\"]|(?:write(?:_text|_bytes|File\w*|Sync|TextFile)|File\.write|truncate)\b)"
    r"|file_put_contents|createWriteStream|linkSync"
)
_ENDS_PROCESS = re.compile(r"(?i)\b(?:\w*kill\w*|terminate|suspend|send_signal|OpenProcess)\b")
_NUMBER = re.compile(r"(?<!\d)\d{1,10}(?!\d)")
_OWN_IMPORT = re.compile(r"\b(?:(?:import|from)\s+|(?:import_module|run_module|__import__)\s*\(\s*['\"])lockgate\b")
# What a program does not need that has calls ruled on: our commands, our service, and what the state folder holds.
_OWN_PARTS = re.compile(
    r"\blockgate\s*\.\s*(?:cli|service|assemble|claude_code|coding_agents|__main__)\b|\brun_module\b|\bstate_dir\b"
    r"|\bfrom\s+lockgate\s+import\b[^\n;]{0,200}\b(?:cli|service|assemble|claude_code|coding_agents|__main__)\b"
    r"|\bfrom_config\b(?s:.{0,2000})\b(?:approvals|vouched|grants?)\b"
)
_STATEMENT = re.compile(r"[^;\n]{1,2000}")
_ANY_PATH = re.compile(r"[\"'`<]((?:[/~]|\$HOME|\$ENV\{HOME\})[^\"'`<>\n]{0,300})[\"'`>]")
_OPENED_FOR_WRITING = re.compile(
    r"\bopen\b[^\n;\"']{0,40}[\"']\s*\+?>{1,2}(?::\w+)?\s*(?:[\"']\s*,\s*[\"'])?([^\"'\n>]{1,300})[\"']"
)
_WRITE_MODE = re.compile(
    r"^\s*,\s*(?:mode\s*=\s*)?['\"][rb]*[wax+]|write_(?:text|bytes)|\.open\s*\(\s*['\"][wax]|\.unlink\("
)
_HOME_PATH = re.compile(
    r"(?:Path\.home\(\)|homedir\(\)|expanduser\(['\"]~['\"]\)|environ\[['\"]HOME['\"]\]|process\.env\.HOME|Dir\.home)"
    r"((?:[/,+\s)(]{1,8}['\"][\w./ -]{1,120}['\"]){1,6})(?P<rest>[^\n;]{0,120})"
)
# Calls that reach everything below a folder, and the user's home with no path behind it.
_WHOLE_TREE = re.compile(
    r"\b(?:os\.f?walk|rglob|rmtree|copytree|make_archive|shutil\.move|os\.(?:rename|replace)|renameSync|rmSync|cpSync|FileUtils\.\w+"
    r"|Find\.find|File::Find)\b|\*\*|recursive\s*[:=]\s*[Tt]rue"
)
_TAKES_TREE = re.compile(r"rmtree|move|rename|replace\(|rmSync|rm_r|remove_dir")
_BARE_HOME = re.compile(
    r"(?:Path\.home\(\)|homedir\(\)|expanduser\(\s*['\"]~/?['\"]\s*\)|environ(?:\.get\(|\[)['\"]HOME['\"][\])]|process\.env\.HOME|Dir\.home"
    r"|getenv\(['\"]HOME['\"]\))(?!\s*[/,+]\s*['\"\w])"
)
_PARTS = re.compile(r"['\"]([^'\"]+)['\"]")
_ENVIRON = re.compile(
    r"(?:os\.environ(?:\.get)?\s*[\[(]\s*|os\.getenv\s*\(\s*|process\.env\s*(?:\.|\[\s*)|ENV\s*\[\s*|getenv\s*\(\s*|\$ENV\{\s*)"
    r"['\"]?([A-Za-z_]\w{1,80})"
)
_ASKS_DATABASE = re.compile(r"\.(?:execute\w*|query\w*|raw|exec|run|sql|unsafe)\s*[(`]|\$(?:execute|query)Raw")
# The place of each database, empty where it is no text of this source.
_CONNECTS = re.compile(
    r"\b(?:connect|create_engine|Database|createConnection|Client|Pool)\s*\(\s*(?:['\"]([^'\"\n]{1,300})['\"])?"
)
# A statement at the beginning of a text, of a line or behind another one, with what follows.
_SQL_CHANGE = re.compile(
    r"(?im)(?:^[ \t]{0,40}|[\"'`;]\s{0,40})"
    r"(?=((?:drop|truncate|delete\s+from|alter|grant|revoke|create\s+(?:user|role|login))\s[^;]{1,600}))"
)
_TEXT_END = re.compile(r"(?<!\\)[\"'`]\s*(?:[),;+]|$)")
_NAMED_LATER = re.compile(r"\$?\{[^{}\n]{0,80}\}|%s|(?<=\s)[\"'`]\s?(?:\+|%|\.format|\|\|)")
_WHOLE_ENVIRON = re.compile(
    r"dict\s*\(\s*os\.environ\s*\)|os\.environ\.(?:items|copy|values)\s*\(|JSON\.stringify\s*\(\s*process\.env\s*[,)]"
    r"|(?:print|console\.log)\s*\(\s*(?:os\.environ|process\.env)\s*\)|(?:json|data|params)\s*=\s*os\.environ\b|ENV\.to_h|%ENV\b"
)
_PRINTS_ENVIRON = re.compile(
    r"\b(?:(?:p|pp|puts|print|say)\b[^\n;]{0,60}%ENV\b"
    r"|(?:p|pp|puts|print) +ENV\b(?=\s*(?:[;)}]|$|\.(?:to_|ins|each|map|sort)))"
    r"|ENV\.each\w*\b[^\n]{0,60}\b(?:p|puts|print)\b)|\A\s*(?:JSON\.stringify\(\s*)?process\.env\s*[,;)\d]*\s*\Z"
    r"|console\.\w+\(\s*(?:Object\.(?:entries|values)\(\s*)?process\.env\s*[),]",
)
# One variable after the other, or all of them by a function.
_EACH_VARIABLE = re.compile(
    r"os\.environ\.(?:items|values|copy)\s*\(|\bfor\b[^\n:;]{0,40}\bin\s+(?:os\.environ|environ|process\.env)\b"
    r"|Object\.\w+\(\s*process\.env|\b(?:keys|values|each)\s+%ENV|\bENV\.each|\$_ENV\b(?!\s*\[)|\bgetenv\s*\(\s*\)"
    r"|\bprint\s*\(\s*environ\b"
)
_SHOWS = re.compile(r"\b(?:print(?:_r|f)?|var_dump|console\.\w+|puts|echo|write|say|log)\b")
# What builds or loads code that no pattern here can see.
_CANNOT_BE_READ = re.compile(
    r"\bimport_module\s*\(\s*(?!['\"][\w.]{1,80}['\"]\s*[,)])|\b(?:import|from)\s+(?:ctypes|cffi)\b|\bprocess\.binding\b"
    r"|\bnew\s+Function\s*\(|\bvm\.(?:run|Script)|\binstance_eval\b|\b__builtins__\b|\b(?:globals|locals)\(\)\s*\["
    r"|\bFunction\s*\.\s*constructor\b|\.constructor\s*\.\s*constructor\b|\b__import__\s*\(\s*(?!['\"][\w.]{1,80}['\"]\s*[,)])"
)
_HOME_VARIABLE = re.compile(r"^(?:\$ENV\{HOME\}|\$\{HOME\}|\$HOME)(?=/|$)")
_SHOWS_ENVIRON = re.compile(
    r"(?:print|console\.log|puts|write\w*)\s*\(\s*(?:dict\s*\(\s*)?(?:os\.environ|process\.env|JSON\.stringify\s*\(\s*process\.env|ENV)"
)
