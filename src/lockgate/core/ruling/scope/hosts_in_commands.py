"""What a command line connects to: which of its words are machines, and which it fills in only when it runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum

from lockgate.core.ruling.scope.machines import (
    DOTTED_NAME,
    NO_HOST,
    ODD_NUMBER,
    QUAD,
    SCHEME,
    SeenAddress,
    address_from_authority,
    is_host_like,
    machines_from_host,
)

NETWORK_PROGRAM = re.compile(
    r"(?i)(?<![\w.-])(?:curl|wget|ssh|scp|sftp|l?ftp|tftp|rsync|nc|ncat|netcat|socat|telnet|mosh|f?ping6?|hping3|mtr"
    r"|k?dig|drill|delv|host|nslookup|getent\s+a?hosts|resolvectl|nmap|masscan|zmap|traceroute6?|tracepath|whois|http"
    r"|https|xh|aria2c|axel|lynx|w3m|links|openssl|sqlmap|nikto|ffuf|gobuster|hydra|nuclei|wpscan|sslscan|testssl"
    r"|smbclient|snmpwalk|websocat|wscat|grpcurl|yt-dlp|swaks"
    r"|iwr|irm|invoke-webrequest|invoke-restmethod|start-bitstransfer|certutil|bitsadmin|test-netconnection"
    r"|git\s+(?:clone|fetch|pull|push|remote|ls-remote|submodule))(?:\.exe)?(?=\s)"
)
_SHELL_WORD = re.compile(r"(?:[^\s\"'\\]|\\.|\"(?:[^\"\\]|\\.)*\"|'[^']*'|[\"'\\])+")
_ENDS_COMMAND = re.compile(r"[;&|\n]")
_LOCAL_PROGRAMS = frozenset(
    """
    git cat bat ls ll dir tree cp mv rm ln mkdir rmdir touch chmod chown stat file head tail less more wc sort uniq
    cut tr paste join comm diff cmp patch grep egrep fgrep rg ag find fd locate sed awk gawk jq yq xmllint tee echo
    printf test [ [[ cd pushd popd pwd export set unset alias source . which type man tar gzip gunzip zcat bzip2 xz
    zip unzip 7z sha256sum sha1sum md5sum cksum base64 xxd od hexdump strings sleep date cal kill pkill pgrep ps top
    free df du mount umount id whoami groups uname hostname nproc lscpu vim vi nano code emacs gcc g++ clang ld nm
    objdump gdb strace systemctl journalctl sysctl useradd usermod defaults gsettings chattr getfacl setfacl basename
    dirname realpath
    """.split()
)
# Programs that may connect; their dotted words are modules, keys and resources more often than machines.
_OTHER_PROGRAMS = frozenset(
    """
    python python2 python3 py ipython pytest tox nox coverage mypy ruff black isort pip pip3 pipx uv poetry conda
    mamba jupyter uvicorn gunicorn celery flask django-admin node nodejs deno bun npm npx yarn pnpm tsc eslint jest
    java javac kotlinc scala mvn gradle gradlew sbt ant cargo rustc rustup go ruby gem bundle rake rails perl cpan php
    composer artisan dotnet nuget msbuild make cmake ninja bazel meson r rscript julia ghc cabal stack mix elixir lua
    service kubectl oc helm kustomize k9s docker podman docker-compose nerdctl terraform tofu pulumi ansible
    ansible-playbook packer vagrant aws gcloud gsutil az doctl flyctl heroku gh glab hub brew apt apt-get dpkg rpm dnf
    yum apk pacman snap flatpak psql pg_dump pg_restore mysql mysqldump mariadb sqlite3 mongosh mongo mongodump
    redis-cli duckdb bq spark-submit airflow dbt new-object add-type import-module write-host select-object
    where-object crontab at logger lpadmin
    """.split()
)
# After these stands the name of a module, a script or a test.
_NAMES = {"python": ("-m",), "pytest": ("-k", "-m"), "go": ("-run", "-bench")}
_NAMES |= dict.fromkeys(("npm", "yarn", "pnpm", "bun"), ("run", "-t"))
_WRAPPERS = frozenset(
    "sudo doas env nohup time nice ionice stdbuf setsid exec command builtin then do else if while until ! { } timeout "
    "xargs watch parallel busybox".split()
)
_WRAPPER_OPTIONS = ("-u", "-g", "-n", "-I", "-P", "-s")
_SHELLS = frozenset(
    "bash sh zsh dash ksh ash fish su eval watch xargs parallel ssh mosh script tmux screen at pwsh powershell "
    "cmd".split()
)
_DATABASES = frozenset(
    "psql pg_dump pg_restore pg_isready createdb dropdb mysql mysqldump mysqladmin mariadb redis-cli mongo mongosh "
    "mongodump ldapsearch ipmitool".split()
)
_HOST_OPTION = re.compile(
    r"(?i)(--(?:host|hostname|server|remote|endpoint|endpoint-url|proxy|registry|index-url|extra-index-url|connect|address"
    r"|domain|peer|upstream|resolver|nameserver|bootstrap-servers?|broker))(?:=(.+))?",
    re.DOTALL,
)
_ATTACHED = re.compile(r"(?<!\S)(-[hHxX])((?:[\w-]{1,63}\.){1,126}[\w-]{1,63}(?::\d{1,5})?)(?![\w@-])")
_SHELL_TOKEN = re.compile(r"[;&|\n(`)]|(?:[^\s;&|()`\"'\\]|\\.|\"(?:[^\"\\]|\\.)*\"|'[^']*'|[\"'\\])+", re.DOTALL)
_SEPARATORS = (";", "&", "|", "\n", "(", "`", ")")
_QUOTED = re.compile(r"\\.|\"((?:[^\"\\]|\\.)*)\"|'([^']*)'", re.DOTALL)
_HERE = re.compile(r"<<-?\s*\\?['\"]?(\w+)")
_MAX_DEPTH = 3


class HostLevel(IntEnum):
    """How likely a dotted name is to be a machine's where it stands, and so which of them count."""

    PROSE = 0  # in a sentence: the endings that are hardly ever anything else
    CODE = 1  # in code: the same, without what attributes are called; in quotes, every ending that is registered
    WORDS = 2  # words of a program that does not connect: as in code
    LISTED = 3  # where it may as well be a module or a key: every ending that is registered
    ANY = 4  # where nothing is known: every name that does not end like a file
    CONNECTS = 5  # where something connects: the endings that files have as well


def connects(text: str) -> bool:
    """Return whether a text names a program that connects."""
    return NETWORK_PROGRAM.search(text) is not None


def shell_levels(text: str, *, fetches: bool) -> Iterator[tuple[int, HostLevel]]:
    """Yield where in a command line a level begins, in order; it lasts until the next one.

    `fetches` says that the text, or the command around it, names a program that connects.
    """
    yield from _CommandLine(text, 0, fetches=fetches, depth=0).levels()


class _CommandLine:
    """One command line, read token by token.

    `program` is the program that the words belong to, `shells` whether it is one that runs other commands, and
    `wrapped` whether a wrapper such as `sudo` stands before it.
    """

    def __init__(self, text: str, base: int, *, fetches: bool, depth: int) -> None:
        self._text = text
        self._base = base
        self._fetches = fetches
        self._depth = depth
        self._outer = HostLevel.CONNECTS if fetches else HostLevel.LISTED
        self._lost: set[str] = set()
        self._end_command("")

    def _end_command(self, program: str) -> None:
        self._program, self._previous, self._shells, self._wrapped = program, "", False, False

    def levels(self) -> Iterator[tuple[int, HostLevel]]:
        """Yield the levels of this command line and of those that it quotes."""
        at = 0
        while match := _SHELL_TOKEN.search(self._text, at):
            at, raw = match.end(), match[0]
            if raw in _SEPARATORS:
                # No shell goes on with a word after a bracket: that is code.
                self._end_command(")" if raw == ")" else "")
                yield self._base + match.start(), self._outer
                continue
            plain = re.sub(r"[\"'\\]", "", raw[:200])
            level = self._level_of_word(raw, plain)
            yield self._base + match.start(), level
            yield from self._quoted_levels(raw, match.start(), level)
            # The lines of a here-document are code, unless they are a shell's.
            if "<<" in raw and not self._shells and (here := self._here_document(raw, at)) is not None:
                begins, at = here
                yield self._base + begins, HostLevel.CODE
                yield self._base + at, self._outer
            self._previous = plain

    def _level_of_word(self, raw: str, plain: str) -> HostLevel:
        """Return the level of one word, and notice where it is the program."""
        name = re.split(r"[/\\]", plain)[-1].lower().removesuffix(".exe")
        self._shells = self._shells or name in _SHELLS
        if self._program:
            return self._outer if self._fetches else self._level_of_argument()
        if name in _WRAPPERS:
            self._wrapped = True
        elif self._wrapped and (plain[:1] in "-0123456789" or self._previous in _WRAPPER_OPTIONS):
            pass
        elif not re.match(r"\w+=", plain) and raw[0] not in "\"'$<>":
            self._program = name
            return HostLevel.WORDS
        return self._outer

    def _level_of_argument(self) -> HostLevel:
        program = self._program
        stem = re.sub(r"[\d.]+\Z", "", program) or program
        if program == ")":
            return HostLevel.CODE
        if program in _LOCAL_PROGRAMS or self._previous in _NAMES.get(stem, ()):
            return HostLevel.WORDS
        return self._outer if program in _OTHER_PROGRAMS or stem in _OTHER_PROGRAMS else HostLevel.ANY

    def _quoted_levels(self, raw: str, at: int, level: HostLevel) -> Iterator[tuple[int, HostLevel]]:
        """Yield the levels inside the quotes of a word: another command line, code, or no change."""
        for quote in _QUOTED.finditer(raw):
            inner = (quote[1] or "") if quote[2] is None else quote[2]
            start = self._base + at + quote.start() + 1
            runs = self._shells or (quote[2] is None and ("$(" in inner or "`" in inner))
            if runs and self._depth < _MAX_DEPTH:
                fetches = self._fetches or connects(inner)
                yield from _CommandLine(inner, start, fetches=fetches, depth=self._depth + 1).levels()
                yield start + len(inner), level
            elif re.search(r"[\s(=\[]", inner) and not connects(inner):
                yield start, HostLevel.CODE
                yield start + len(inner), level

    def _here_document(self, raw: str, at: int) -> tuple[int, int] | None:
        """Return where the lines of a here-document begin and end; None where they are none, or connect."""
        text = self._text
        here = _HERE.search(raw + text[at : at + 40].partition("\n")[0])
        if here is None:
            return None
        begins = text.find("\n", at)
        closes = text.find(f"\n{here[1]}", begins + 1) if begins >= 0 and here[1] not in self._lost else -1
        if closes < 0:
            self._lost.add(here[1])
            return None
        return None if NETWORK_PROGRAM.search(text, begins, closes) else (begins, closes)


# ---------------------------------------------------------------------------------------------------------------
# Machines without a dot


def option_hosts(text: str, taken: bytearray) -> Iterator[SeenAddress]:
    """Yield what stands where a program wants a machine's name, with or without a dot: `psql -h db`, `--proxy=db`."""
    for match in _ATTACHED.finditer(text):
        if not taken[match.start(2)] and is_host_like(match[2].partition(":")[0]):
            yield address_from_authority(match[2], "", match[0], match.start())
    program = previous = ""
    for match in _SHELL_TOKEN.finditer(text):
        raw = match[0]
        if raw in _SEPARATORS:
            program = previous = ""
            continue
        plain = re.sub(r"[\"'\\]", "", raw[:400])
        if not program and plain not in _WRAPPERS and not re.match(r"\w+=|-", plain):
            program = re.split(r"[/\\]", plain)[-1].lower()
        value = _host_option_value(program, plain, previous)
        if value and _is_bare_host_value(value) and not taken[match.start()] and not taken[match.end() - 1]:
            authority = re.split(r"[/\\?#,]", value, maxsplit=1)[0]
            yield address_from_authority(authority, "", value, match.start())
        previous = plain if "=" not in plain else ""


def _host_option_value(program: str, word: str, previous: str) -> str:
    """Return the machine that a word names as an option's value; empty when it names none."""
    option = _HOST_OPTION.fullmatch(word)
    is_database = program in _DATABASES
    value = (option[2] or "") if option else ""
    if is_database and word[:2] == "-h":
        value = word[2:]
    if not value and (_HOST_OPTION.fullmatch(previous) or (is_database and previous == "-h")):
        value = word if word[:1] != "-" else ""
    return value


def _is_bare_host_value(value: str) -> bool:
    # A socket is a file, and what has a scheme or a dot is read with the rest.
    return value[0] not in "/." and not (SCHEME.match(value) or DOTTED_NAME.search(value))


def asked_servers(text: str) -> Iterator[SeenAddress]:
    """Yield the server in `dig @server`; to a program that speaks HTTP the same sign names a file."""
    for start, command in _network_commands(text):
        if not re.match(r"(?i)(?:curl|wget|https?|xh|aria2c|git)\b", command):
            for match in re.finditer(rf"(?<=\s)@([^{NO_HOST}@]+)", command):
                yield address_from_authority(match[1].rstrip("."), "", match[0], start + match.start())


# Options that take a value which may look like an address. Of all others the next word may be one.
_VALUED = {
    "ping": "ciIlmMpQsStTwW",
    "nc": "iImMOpPqsTVwWxX",
    "ssh": "bcDEeFIiJLlmOopQRSWw",
    "curl": "mYyCrz",
    "wget": "tTwQO",
    "nmap": "pgmTS",
    "traceroute": "fgimpqswz",
    "rsync": "BM",
    "telnet": "lnbe",
}
_VALUED |= {"ping6": _VALUED["ping"], "fping": "BbcCHiIlmMOpqrStTxX", "ncat": _VALUED["nc"], "netcat": _VALUED["nc"]}
_VALUED |= {"scp": "cFiJloPSX", "sftp": "BbcDFiJloPRSsX", "mosh": "", "lftp": "ecpu", "ftp": "", "mtr": "cimsBQ"}
_VALUED_LONG = re.compile(
    r"--(?:max-time|connect-timeout|limit-rate|retry-delay|retry-max-time|speed-limit|speed-time|keepalive-time|max-filesize"
    r"|timeout|wait|interval|rate|min-rate|max-rate|scan-delay|host-timeout|count|size|ttl|delay|quota|bwlimit|max-size)"
)
_TAKES_ONE_HOST = frozenset("ssh mosh telnet ping ping6 fping nc ncat netcat ftp sftp lftp traceroute mtr".split())
_COPIES = ("scp", "rsync", "sftp")
_REMOTE_PATH = re.compile(r"(?:[\w.-]+@)?([\w-]{2,63}):(?!//)")
_MAX_WRITTEN = 120


def _takes_value(program: str, option: str) -> bool:
    """Return whether the next word belongs to this option. Of letters behind one dash the last one may take it."""
    if option.startswith("--"):
        return _VALUED_LONG.fullmatch(option) is not None
    return len(option) > 1 and option[0] == "-" and option[-1] in _VALUED.get(program, "")


def odd_numbers(text: str) -> Iterator[SeenAddress]:
    """Yield numbers that a program which connects takes for an address: `ping 127.1`, `nc 2130706433 80`."""
    for start, command in _network_commands(text):
        program = previous = ""
        for match in re.finditer(r"\S+", command):
            word = match[0].strip("'\"")
            is_number = program and ODD_NUMBER.fullmatch(word) is not None and not _takes_value(program, previous)
            if is_number and ("." in word or len(word) > 7) and not QUAD.fullmatch(word):
                yield SeenAddress(machines_from_host(word), 0, "", word, start + match.start())
            program = program or word.lower().removesuffix(".exe")
            previous = word


def bare_hosts(text: str, taken: bytearray) -> Iterator[SeenAddress]:
    """Yield names without a dot where a program's machine stands: `ssh db`, `scp x db:`."""
    for start, command in _network_commands(text):
        program = previous = ""
        for match in _SHELL_WORD.finditer(command):
            word, at = match[0].strip("'\""), start + match.start()
            if not program:
                program = word.lower().removesuffix(".exe")
            elif program in _COPIES and (found := _REMOTE_PATH.match(word)):
                if not taken[at]:
                    yield SeenAddress(machines_from_host(found[1]), 0, "", word[:_MAX_WRITTEN], at)
            elif program in _TAKES_ONE_HOST and word[:1] not in ("-", "<", ">") and not _takes_value(program, previous):
                bare = word.rpartition("@")[2]
                if not taken[at] and re.fullmatch(r"[\w-]{1,63}", bare) and not bare.isdecimal():
                    yield SeenAddress(machines_from_host(bare), 0, "", word[:_MAX_WRITTEN], at)
                break
            previous = word


def expansions(text: str) -> Iterator[tuple[str, int]]:
    """Yield words of a command that connects which the shell fills in later, so that their target is unknown."""
    for start, command in _network_commands(text):
        is_option = False
        for match in _SHELL_WORD.finditer(command):
            word = match[0].lstrip("\"'")
            filled = re.search(r"[$`]|%\w+%", word)
            if filled and (filled.start() == 0 or not (is_option or word[0] == "-" or _host_is_fixed(word, filled))):
                yield match[0][:_MAX_WRITTEN], start + match.start()
            is_option = word.startswith("-")


def _host_is_fixed(word: str, filled: re.Match[str]) -> bool:
    """Return whether a slash ends the host before the part that is filled in."""
    return "/" in re.sub(r"^[\w+.-]+:[/\\]*", "", word[: filled.start()])


def _network_commands(text: str) -> Iterator[tuple[int, str]]:
    """Yield each command of a text that names a program that connects, with where it begins."""
    done = 0
    for match in NETWORK_PROGRAM.finditer(text):
        if match.start() >= done:
            ends = _ENDS_COMMAND.search(text, match.end())
            done = ends.start() if ends else len(text)
            yield match.start(), text[match.start() : done]
