"""Programs that change the machine itself: services, schedules, users, keys, mounts."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.paths import Access
from lockgate.core.ruling.effects.program_io import NO_OUTPUT, UNKNOWN_OUTPUT, Invocation, Output, Source
from lockgate.core.ruling.effects.programs.options import has_option, program_after, split_options
from lockgate.core.ruling.effects.programs.program_table import command_words, read_row
from lockgate.core.ruling.effects.programs.roles import ask_host, is_foreign

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

_PROTECTING = re.compile(
    r"(?i)audit|falco|firewall|ufw|apparmor|selinux|fail2ban|clam|defender|crowdstrike|osquery|sysmon|syslog|rsyslog|wazuh|ossec|guard|mdatp|sentinel|splunk|carbon"
)


_STARTS = frozenset("start stop restart reload try-restart reload-or-restart disable mask unmask kill".split())
_KEEPS = frozenset("enable reenable link edit set-environment import-environment".split())


def _note_stopped(walk: Walk, names: list[str]) -> None:
    """Note those of some services or programs that protect the machine."""
    for name in names:
        if _PROTECTING.search(walk.plain(name)):
            walk.add("disables-check", walk.plain(name))


def _systemctl(walk: Walk, call: Invocation) -> Output:
    words = command_words(call)
    verb, units = (words[0], words[1:]) if words else ("", [])
    if call.name == "service":
        verb, units = [*words, "", "status"][1] or "status", words[:1]
        if verb == "status":
            return UNKNOWN_OUTPUT
    if verb in ("stop", "disable", "mask", "kill"):
        _note_stopped(walk, units)
    if verb in _KEEPS:
        for unit in units or [verb]:
            walk.add("writes-startup-file" if verb == "link" else "schedules-job", walk.plain(unit))
    elif call.name == "service" or verb in _STARTS:
        for unit in units or [verb]:
            walk.add("changes-service", walk.plain(unit))
    else:
        return read_row(walk, call)
    return UNKNOWN_OUTPUT


def _crontab(walk: Walk, call: Invocation) -> Output:
    if has_option(call.arguments, "-l") and call.name == "crontab":
        return UNKNOWN_OUTPUT
    jobs: list[str] = []
    if call.stdin.source is Source.DOWNLOAD:
        walk.add("runs-download", call.stdin.target)
    elif call.stdin.source is Source.TEXT:
        jobs = _JOB.findall(call.stdin.text) if call.name == "crontab" else [call.stdin.text]
        walk.read_text("\n".join(jobs))
    for job in jobs[:_MOST_JOBS] or [call.name]:
        walk.add("schedules-job", walk.plain(job).strip()[:_MOST_OF_JOB] or call.name)
    return UNKNOWN_OUTPUT


_MOST_JOBS, _MOST_OF_JOB = 8, 200
# What stands behind the five fields of a time, or behind its name, in a line of a crontab.
_JOB = re.compile(r"(?m)^[ \t]*(?:@\w+|(?:[\d*/,A-Za-z-]+[ \t]+){4}[\d*/,A-Za-z-]+)[ \t]+(.+)$")


def _launchctl(walk: Walk, call: Invocation) -> Output:
    verb = call.arguments[0] if call.arguments else ""
    if verb in ("list", "print", "blame", "dumpstate", "help", "version"):
        return UNKNOWN_OUTPUT
    walk.add("schedules-job", walk.plain(call.arguments[-1]) if call.arguments else "")
    return UNKNOWN_OUTPUT


def _disk(walk: Walk, call: Invocation) -> Output:
    """`mkfs`, `fdisk` and their like; a listing only looks."""
    if call.arguments[:1] in (["list"], ["info"], ["-l"], ["--list"], ["-n"]):
        return UNKNOWN_OUTPUT
    walk.add("deletes-data", walk.plain(call.arguments[-1]) if call.arguments else call.name)
    return UNKNOWN_OUTPUT


def _user(walk: Walk, call: Invocation) -> Output:
    """Accounts: the account is the target."""
    rest = split_options(
        call.arguments,
        frozenset(
            "-u -g -G -s -d -c -e -f -k -p -r -b --uid --gid --groups --shell --home --comment --password "
            "--gecos --ingroup".split()
        )
        - {"-r"},
    )[1]
    walk.add(
        "grants-access", walk.plain(rest[-1] if call.name in ("useradd", "usermod") else rest[0]) if rest else call.name
    )
    return UNKNOWN_OUTPUT


def _password(walk: Walk, call: Invocation) -> Output:
    rest = [argument for argument in call.arguments if argument[:1] != "-"]
    if has_option(call.arguments, "-S", "--status"):
        return UNKNOWN_OUTPUT
    walk.add("changes-login", walk.plain(rest[0]) if rest else call.name)
    return UNKNOWN_OUTPUT


def _mount(walk: Walk, call: Invocation) -> Output:
    rest = split_options(call.arguments, frozenset("-t -o --types --options".split()))[1]
    if not rest:
        return UNKNOWN_OUTPUT
    walk.add("writes-outside", walk.plain(rest[-1]))
    return UNKNOWN_OUTPUT


def _ssh_keygen(walk: Walk, call: Invocation) -> Output:
    """`ssh-keygen`: a new key is written; a fingerprint only looks."""
    options, _ = split_options(call.arguments, frozenset("-t -b -f -C -N -P -m -E -s -I -n -V -R -F -O -Z -D".split()))
    values = dict(options)
    if values.keys() & {"-l", "-B", "-F", "-y", "-L", "-H", "-Y"} and "-D" not in values:
        return UNKNOWN_OUTPUT
    if "-D" in values:
        walk.add_unreadable()
    elif "-s" in values:
        walk.add("grants-access", values.get("-I", ""))
    else:
        walk.access(values.get("-f") or "~/.ssh/id_ed25519", Access.WRITE)
    return UNKNOWN_OUTPUT


def _gpg(walk: Walk, call: Invocation) -> Output:
    arguments = call.arguments
    if any(argument.startswith(("--export-secret", "--export-ssh-key")) for argument in arguments):
        walk.add("reads-secret", "gpg key")
        return Output(Source.SECRET, target="gpg key")
    if has_option(arguments, "-d", "--decrypt"):
        paths = [argument for argument in arguments if argument[:1] != "-"]
        if paths and call.stdin is NO_OUTPUT:
            walk.add("reads-secret", walk.plain(paths[-1]))
        return Output(Source.DECODED) if call.stdin.source is not Source.DOWNLOAD else call.stdin
    if any(
        argument
        in ("--import", "--recv-keys", "--edit-key", "--sign-key", "--lsign-key", "--import-ownertrust", "--fetch-keys")
        for argument in arguments
    ):
        walk.add("grants-access", "gpg keyring")
    return call.stdin if call.stdin.source is Source.DOWNLOAD else UNKNOWN_OUTPUT


def _keychain(walk: Walk, call: Invocation) -> Output:
    """Password stores: a listing looks, all else shows secrets."""
    verb = call.arguments[0] if call.arguments else ""
    if verb in (
        "ls",
        "list",
        "status",
        "find",
        "search",
        "--version",
        "whoami",
        "account",
        "vault",
        "generate",
        "git",
        "list-keychains",
        "default-keychain",
        "verify-cert",
        "find-certificate",
        "find-identity",
    ):
        return UNKNOWN_OUTPUT
    if verb in (
        "insert",
        "edit",
        "rm",
        "add-generic-password",
        "import",
        "set-key-partition-list",
        "add-trusted-cert",
        "store",
        "encrypt",
        "create",
        "--encrypt",
        "-e",
    ):
        walk.add("changes-record", walk.plain(call.arguments[-1]))
        return UNKNOWN_OUTPUT
    if verb in ("run", "exec"):
        rest = call.arguments[call.arguments.index("--") + 1 :] if "--" in call.arguments else []
        return walk.run_program(rest, call.stdin) if rest else UNKNOWN_OUTPUT
    target = walk.plain(call.arguments[-1]) if call.arguments else call.name
    walk.add("reads-secret", target)
    return Output(Source.SECRET, target=target)


def _setting(walk: Walk, call: Invocation) -> Output:
    """`sysctl`, `defaults`, `update-alternatives`: settings of the machine, when they are set."""
    if call.name == "sysctl" and (
        has_option(call.arguments, "-w", "--write", "-p", "--load")
        or any("=" in argument for argument in call.arguments)
    ):
        walk.add("changes-service", walk.plain(call.arguments[-1]))
    elif call.name == "defaults" and call.arguments[:1] in (["write"], ["delete"], ["import"]):
        walk.add("writes-outside", walk.plain(call.arguments[1]) if len(call.arguments) > 1 else "")
    elif call.name == "update-alternatives" and not has_option(call.arguments, "--list", "--display", "--query"):
        walk.add("writes-outside", walk.plain(call.arguments[-1]))
    return UNKNOWN_OUTPUT


_IP_LOOKS = ("show", "list", "lst", "ls", "get", "monitor", "help", "identify", "pids")
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")


def _ip(walk: Walk, call: Invocation) -> Output:
    """`ip OBJECT VERB`: it takes the beginning of a verb for the verb, and what is no question changes the network."""
    words = program_after(call.arguments, frozenset("-b -batch -n -netns -f -family -l -loops -rc".split()))
    for option, value in pairwise(call.arguments):
        if option in ("-b", "-batch"):
            walk.run_path(value)
    if words[:2] == ["netns", "exec"]:
        return walk.run_program(words[3:] or ["sh"], call.stdin)
    if len(words) > 1 and not any(verb.startswith(words[1]) for verb in _IP_LOOKS):
        address = ["ip", *(each for each in words if _ADDRESS.match(each))][-1]
        walk.add("changes-service", address.partition("/")[0])
    return UNKNOWN_OUTPUT


def _ldd(walk: Walk, call: Invocation) -> Output:
    """`ldd`: it may start the program that it is asked about."""
    for path in call.arguments:
        if is_foreign(walk, path):
            walk.run_path(path)
    return UNKNOWN_OUTPUT


def _kill(walk: Walk, call: Invocation) -> Output:
    _note_stopped(walk, [argument for argument in call.arguments if argument[:1] != "-"])
    if not any(argument == "-l" for argument in call.arguments):
        walk.add("runs-project-task", call.name)
    return NO_OUTPUT


def _open(walk: Walk, call: Invocation) -> Output:
    """`open`, `xdg-open`: an address in a browser, or a file."""
    for argument in call.arguments:
        if "://" in argument:
            ask_host(walk, argument, sends=False)
    return UNKNOWN_OUTPUT


READERS = {
    **dict.fromkeys(("systemctl", "service"), _systemctl),
    **dict.fromkeys(("crontab", "at", "batch", "anacron"), _crontab),
    "launchctl": _launchctl,
    **dict.fromkeys(
        "mkfs mkfs.ext4 mkfs.xfs mkfs.btrfs wipefs fdisk parted sgdisk sfdisk diskutil blkdiscard hdparm".split(), _disk
    ),
    **dict.fromkeys("useradd adduser usermod gpasswd groupmod groupadd addgroup createuser".split(), _user),
    **dict.fromkeys("passwd chpasswd chsh chage userdel deluser".split(), _password),
    **dict.fromkeys(("mount", "umount", "losetup"), _mount),
    "ssh-keygen": _ssh_keygen,
    **dict.fromkeys(("gpg", "gpg2"), _gpg),
    **dict.fromkeys(
        "pass op bw secret-tool security keyring doppler infisical chamber sops age ansible-vault".split(), _keychain
    ),
    "ip": _ip,
    "ldd": _ldd,
    **dict.fromkeys(("sysctl", "defaults", "update-alternatives"), _setting),
    **dict.fromkeys(("kill", "pkill", "killall", "fuser"), _kill),
    **dict.fromkeys(("open", "xdg-open", "start"), _open),
}
