"""Source text that a call would run or write (Python, JavaScript, …) to its effects."""

from __future__ import annotations

import re

from lockgate.core.ruling.effects.activity import NO_ACTIVITY
from lockgate.core.ruling.effects.effect import Certainty, Effect, Severity, effect
from lockgate.core.ruling.effects.paths import Access, is_secret, is_secret_variable, read_access
from lockgate.core.ruling.effects.programs.addresses import METADATA_HOSTS, host_of, is_local
from lockgate.core.ruling.effects.project import Place, Project

MOST_CHARACTERS = 64 * 1024
MOST_COMMANDS = 16

_TEXT = r"(?:[rbuf]{0,2})(?:\"((?:[^\"\\\n]|\\.){1,600})\"|'((?:[^'\\\n]|\\.){1,600})'|`((?:[^`\\]|\\.){1,600})`)"
# Calls that start a process, with the command as a text or as a list of texts.
_PROCESS = re.compile(
    r"\b(?:os\.(?:system|popen|exec\w+|spawn\w+)|subprocess\.\w+|commands\.getoutput|pty\.spawn|(?:child_process|cp|require\(['\"](?:node:)?child_process['\"]\))\.\w+"
    r"|execSync|exec(?:File)?(?:Sync)?|spawn(?:Sync)?|(?:check_(?:output|call)|Popen|getoutput|create_subprocess_\w+)|system|shell_exec|passthru|popen|proc_open|IO\.popen|Open3\.\w+|Kernel\.system|do\s+shell\s+script|Bun\.spawn|Deno\.Command|\$\s*(?=`))"
    r"\s*[(\s]\s*(?:\[\s*)?(?:args\s*=\s*)?(?:\[\s*)?"
    + _TEXT
    + r"((?:\s*,\s*\[?\s*"
    + r"(?:\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|[\w.]+))*)"
)
_PROCESS_CALL = re.compile(
    r"\b(?:os\.(?:system|popen|exec[lv]\w*|spawn\w+|posix_spawn)|subprocess\.(?:run|call|Popen|check_output|check_call|getoutput|getstatusoutput)|pty\.spawn|(?:child_process|require\(['\"](?:node:)?child_process['\"]\))\.\w+|execSync|spawnSync|execFileSync|shell_exec|passthru|proc_open|IO\.popen|Open3\.\w+|do\s+shell\s+script|Deno\.Command|Bun\.spawn)\s*[(\s]"
)
_BACK_QUOTED_RUBY = re.compile(r"%x[({\[]|\bqx[({/]")
_DECODER = re.compile(
    r"b64decode|b32decode|b85decode|a85decode|unhexlify|fromhex|decompress|\.decode\b|\batob\b|Buffer\.from|rot_?13"
    r"|marshal|base64_decode|gzinflate|str_rot13|urlopen|requests\.get|\bfetch\b|\bchr\b|fromCharCode|\[::-1\]|\bunpack\b"
)
_EVALUATOR = re.compile(
    r"(?<![\w.])(?:exec|eval|execfile|compile|Function|instance_eval|class_eval|__import__)\s*\([^\n]*$"
)
_HIDDEN_CALL = re.compile(
    r"\bmarshal\.loads\b|\bpickle\.loads\s*\(\s*(?:base64|requests|urlopen|zlib)"
    r"|getattr\s*\(\s*(?:__import__|(?:os|subprocess|builtins|__builtins__)\s*,)"
)
MOST_DECODERS = 100
_EVALUATES = re.compile(
    r"(?<![\w.])(?:exec|eval|execfile|instance_eval)\s*\(\s*(?P<what>[^)\s][^)\n]{0,60})|\bnew\s+Function\s*\(|\bvm\.runIn\w+\("
)
_NETWORK = re.compile(
    r"\b(?:urllib\.request\.\w+|urllib2?\.urlopen|urlopen|urlretrieve|requests\.(?P<method>\w+)|httpx\.(?P<method2>\w+)|aiohttp\.\w+|http\.client\.\w+|HTTPS?Connection|socket\.\w+|create_connection|fetch|axios(?:\.(?P<method3>\w+))?|got(?:\.\w+)?|https?\.(?:get|request)|XMLHttpRequest|WebSocket|net\.(?:connect|createConnection|Socket)|tls\.connect|dgram\.\w+|Net::HTTP(?:\.\w+)?|open-uri|URI\.open|LWP::\w+|IO::Socket\S*|curl_exec|curl_init|file_get_contents|fsockopen|smtplib\.\w+|ftplib\.\w+|paramiko\.\w+|dns\.resolver\.\w+|gethostbyname|getaddrinfo|boto3\.\w+|navigator\.sendBeacon)\s*\("
)
_SENDS = re.compile(
    r"\b(?:requests|httpx|axios|session|client|s)\.(?:post|put|patch|delete)\s*\(|method\s*[:=]\s*['\"](?:POST|PUT|PATCH|DELETE)|\bdata\s*=|\bjson\s*=|\bfiles\s*=|\bbody\s*:|\.send(?:all|to|_message|mail)?\s*\(|sendBeacon|\.storbinary\(|\bPOST\b"
)
_URL = re.compile(r"\b(?:https?|wss?|ftp|tcp)://[^\s\"'`<>)\\]{1,400}")
_ENDPOINT = re.compile(r"\(\s*\(?\s*['\"]((?:[\w-]+\.)+[a-z]{2,}|\d+\.\d+\.\d+\.\d+)['\"]\s*,\s*\d{2,5}")
_REVERSE_SHELL = re.compile(
    r"\bdup2\s*\(|\.connect\s*\(.{0,200}(?:subprocess|pty\.spawn|os\.system|/bin/(?:ba)?sh)", re.DOTALL
)
_PATH_CALL = re.compile(
    r"(?P<call>\bopen|\bPath|readFileSync|readFile|writeFileSync|writeFile|appendFileSync|appendFile|createReadStream|createWriteStream|read_text|write_text|expanduser|\bFile\.(?:read|write|open)|file_get_contents|file_put_contents|fopen|unlinkSync|unlink|rmSync|rmdirSync|os\.remove|os\.unlink|shutil\.(?:rmtree|copy\w*|move)|symlinkSync|os\.symlink|os\.chmod|chmodSync|copyFileSync|readdirSync|dotenv_values|load_dotenv|Deno\.(?:readTextFile|writeTextFile)|Bun\.(?:file|write))\s*\(\s*(?:os\.path\.expanduser\s*\(\s*)?(?:r|f|b)?(?:\"([^\"\n]{1,300})\"|'([^'\n]{1,300})')\s*\)?(?P<rest>[^\n;]{0,120})"
)
_JOINED_PATH = re.compile(
    r"(?:Path\.home\(\)|homedir\(\)|expanduser\(['\"]~['\"]\)|environ\[['\"]HOME['\"]\]|process\.env\.HOME|Dir\.home)[\s/,+)(]*((?:[/,+\s)(]*['\"][\w./ -]{1,120}['\"]){1,6})(?P<rest>[^\n;]{0,120})"
)
_ENVIRON = re.compile(
    r"(?:os\.environ(?:\.get)?\s*[\[(]\s*|os\.getenv\s*\(\s*|process\.env\s*(?:\.|\[\s*)|ENV\s*\[\s*|getenv\s*\(\s*|\$ENV\{\s*)['\"]?([A-Za-z_]\w{1,80})"
)
_WHOLE_ENVIRON = re.compile(
    r"(?:dict\s*\(\s*os\.environ\s*\)|os\.environ\.(?:items|copy|values)\s*\(|JSON\.stringify\s*\(\s*process\.env\s*[,)]|print\s*\(\s*os\.environ\s*\)|console\.log\s*\(\s*process\.env\s*\)|(?:json|data|params)\s*=\s*(?:dict\()?os\.environ\b|ENV\.to_h|%ENV\b)"
)
_SHOWN = re.compile(r"\b(?:print|console\.\w+|puts|echo|write|sys\.stdout|say|p|log)\b")
_WRITES = re.compile(r"^\s*,\s*(?:mode\s*=\s*)?['\"][rb]*[wax+]|write_(?:text|bytes)|\.open\s*\(\s*['\"][wax]")
_COMMENT = re.compile(r"(?m)^\s*(?:#(?!!)|//).*$")
_INSTALL_SERVER = re.compile(
    r"\b(?:HTTPServer|TCPServer|socketserver|createServer)\b[^\n]{0,80}['\"](?:0\.0\.0\.0|)['\"]|\.bind\s*\(\s*\(\s*['\"](?:0\.0\.0\.0|)['\"]"
)


def read_code(text: str, argument: str, project: Project) -> list[Effect]:
    """Return what running this source text would do, by what it names: hosts, processes, secrets, paths outside."""
    span = (0, len(text))
    if len(text) > MOST_CHARACTERS:
        return [effect("unreadable", certainty=Certainty.GUESS, argument=argument, span=span)]
    source = _COMMENT.sub("", text)
    found: dict[tuple[str, str], Effect] = {}

    def add(kind: str, target: str = "", certainty: Certainty = Certainty.LIKELY) -> None:
        found.setdefault((kind, target), effect(kind, target, certainty=certainty, argument=argument, span=span))

    hosts = _read_network(source, project, add)
    secrets = _read_secrets(source, project, add, away=hosts)
    _read_processes(source, argument, project, found)
    if _runs_decoded(source):
        fetched = hosts and re.search(r"urlopen|requests\.get|fetch", source)
        add("runs-download" if fetched else "runs-decoded", hosts[0] if fetched else "")
    else:
        _read_evaluation(source, add)
    if _REVERSE_SHELL.search(source):
        add("grants-access", hosts[0] if hosts else "")
    if _INSTALL_SERVER.search(source):
        add("opens-port", "0.0.0.0")  # noqa: S104 - a name, not a bind
    del secrets
    if not any(each.severity > Severity.LOOKS for each in found.values()):
        add("computes", certainty=Certainty.SURE)
    return sorted(found.values(), key=lambda each: -each.severity)


def _runs_decoded(source: str) -> bool:
    """Return whether a call that runs text stands before one that decodes or fetches it."""
    if _HIDDEN_CALL.search(source):
        return True
    for count, match in enumerate(_DECODER.finditer(source)):
        if count >= MOST_DECODERS or _EVALUATOR.search(source[max(0, match.start() - 160) : match.start()]):
            return True
    return False


def _read_network(source: str, project: Project, add) -> list[str]:  # type: ignore[no-untyped-def]
    """Note the hosts of a source that calls a network function; return those that are not this machine."""
    if not _NETWORK.search(source):
        return []
    sends = _SENDS.search(source) is not None
    hosts = [host_of(match.group()) for match in _URL.finditer(source)]
    hosts += [match.group(1).lower() for match in _ENDPOINT.finditer(source)]
    away: list[str] = []
    for host in dict.fromkeys(hosts):
        if host in METADATA_HOSTS:
            add("reads-secret", host)
        elif is_local(host):
            add("asks-local", host)
        else:
            away.append(host)
            add("sends-data" if sends else "requests", host)
    del project
    return away


def _read_secrets(source: str, project: Project, add, *, away: list[str]) -> list[str]:  # type: ignore[no-untyped-def]
    """Note secret files and variables that are read and shown or sent, and files written outside the project."""
    secrets: list[str] = []
    for match in _PATH_CALL.finditer(source):
        path = match.group(2) or match.group(3)
        call = match.group("call")
        writes = (
            call.startswith(
                (
                    "write",
                    "append",
                    "createWrite",
                    "file_put",
                    "unlink",
                    "rm",
                    "os.remove",
                    "os.unlink",
                    "shutil.rmtree",
                    "symlink",
                    "os.symlink",
                    "os.chmod",
                    "chmod",
                    "Deno.write",
                    "Bun.write",
                    "File.write",
                )
            )
            or _WRITES.search(match.group("rest")) is not None
        )
        _note_path(
            path,
            project,
            add,
            secrets,
            writes=writes,
            deletes=call.startswith(("unlink", "rm", "os.remove", "os.unlink", "shutil.rmtree")),
            loads=call.startswith(("dotenv", "load_dotenv")),
        )
    for match in _JOINED_PATH.finditer(source):
        path = "~/" + "/".join(part.strip("/") for part in re.findall(r"['\"]([^'\"]+)['\"]", match.group(1)))
        _note_path(
            path,
            project,
            add,
            secrets,
            writes=_WRITES.search(match.group("rest")) is not None,
            deletes=False,
            loads=False,
        )
    variables = [name for name in _ENVIRON.findall(source) if is_secret_variable(name)]
    if variables and (away or _SHOWN.search(source)):
        for name in dict.fromkeys(variables):
            shown = re.search(r"(?:print|console\.\w+|puts|write)\s*\([^\n]*" + re.escape(name), source)
            if away:
                add("sends-secret", name)
            elif shown:
                add("reads-secret", name)
    if _WHOLE_ENVIRON.search(source):
        if away:
            add("sends-secret", "environment")
        elif re.search(
            r"(?:print|console\.log|puts|write\w*)\s*\(\s*(?:dict\s*\(\s*)?(?:os\.environ\s*\)|process\.env\s*\)|JSON\.stringify\s*\(\s*process\.env)",
            source,
        ):
            add("reads-secret", "environment")
    if secrets and away:
        for secret in secrets:
            add("sends-secret", secret)
    return secrets


def _note_path(
    path: str, project: Project, add, secrets: list[str], *, writes: bool, deletes: bool, loads: bool
) -> None:  # type: ignore[no-untyped-def]
    if writes:
        access = read_access(path, Access.DELETE if deletes else Access.WRITE, project)
        add(access.kind, access.target)
    elif is_secret(path) and not loads:
        inside = project.locate(path) is Place.INSIDE
        secrets.append(path)
        del inside
        add("reads-secret", path)


def _read_processes(source: str, argument: str, project: Project, found: dict[tuple[str, str], Effect]) -> None:
    from lockgate.core.ruling.effects.shell import read_command

    calls = 0
    read = 0
    for match in _PROCESS.finditer(source):
        command = match.group(1) or match.group(2) or match.group(3) or ""
        rest = re.findall(r"\"((?:[^\"\\\n]|\\.)*)\"|'((?:[^'\\\n]|\\.)*)'|([\w.]+)", match.group(4) or "")
        head = source[match.start() : match.end()]
        if "{" in command and re.search(r"[(\s]f['\"]", head):
            command = re.sub(r"\{[^{}]*\}", "$X", command)
        as_list = "[" in head or re.search(r"(?:spawn|execFile|exec[lv])\w*\s*\(", head) is not None
        words = [
            _quoted(first or second or "") if first or second else '"$X"'
            for first, second, third in rest
            if not third
            or not re.fullmatch(
                r"\w+=?|shell|check|text|stdout|stderr|cwd|env|True|False|None|capture_output|encoding|\w+\.\w+", third
            )
        ]
        line = " ".join([command, *words]) if as_list else command
        read += 1
        if read > MOST_COMMANDS:
            break
        for each in read_command(
            line.replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'"), argument, project, NO_ACTIVITY
        ):
            found.setdefault((each.kind, each.target), each._replace(start=0, end=len(source)))
    calls = sum(1 for _ in _PROCESS_CALL.finditer(source))
    if calls > read or _BACK_QUOTED_RUBY.search(source):
        # A process whose command is not a text of this source: a variable, or the interpreter itself.
        if (
            re.search(r"(?:subprocess\.\w+|Popen|check_\w+)\s*\(\s*\[\s*sys\.executable\b", source)
            and calls <= read + 1
        ):
            found.setdefault(("computes", ""), effect("computes", argument=argument, span=(0, len(source))))
        else:
            found.setdefault(
                ("runs-program", ""),
                effect("runs-program", "", certainty=Certainty.GUESS, argument=argument, span=(0, len(source))),
            )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _read_evaluation(source: str, add) -> None:  # type: ignore[no-untyped-def]
    match = _EVALUATES.search(source)
    if match is None:
        return
    what = match.group("what") or ""
    if re.match(r"(?:open|compile\s*\(\s*open|Path)\b|['\"]", what):
        return
    if re.search(r"stdin|input\s*\(|argv|\.read\s*\(|\.text\b|\.content\b|recv\s*\(", what):
        add("unreadable", "", Certainty.GUESS)
