"""Programs that change the machine itself: services, schedules, users, keys, mounts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.paths import Access
from lockgate.core.ruling.effects.programs.options import has_option, split_options
from lockgate.core.ruling.effects.streams import EMPTY, Invocation, Origin, Stream

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

_NONE = Stream(Origin.NONE)
_PROTECTING = re.compile(
    r"(?i)audit|falco|firewall|ufw|apparmor|selinux|fail2ban|clam|defender|crowdstrike|osquery|sysmon|syslog|rsyslog|wazuh|ossec|guard|mdatp|sentinel|splunk|carbon"
)


def _systemctl(walk: Walk, call: Invocation) -> Stream:
    from lockgate.core.ruling.effects.programs.table import command_words, read_row

    words = command_words(call)
    verb = words[0] if words else ""
    if call.name == "service":
        verb, words = (
            (words[1] if len(words) > 1 else "status"),
            [words[1] if len(words) > 1 else "status", *words[:1]] if words else [],
        )
        if verb == "status" or has_option(call.arguments, "--status-all"):
            return _NONE
    if verb in ("stop", "disable", "mask", "kill") and any(_PROTECTING.search(word) for word in words[1:]):
        for unit in words[1:]:
            if _PROTECTING.search(unit):
                walk.add("disables-check", walk.plain(unit))
    if verb in ("enable", "reenable", "link", "edit", "set-environment", "import-environment"):
        for unit in words[1:] or [verb]:
            walk.add("schedules-job" if verb != "link" else "writes-startup-file", walk.plain(unit))
        return _NONE
    if call.name == "service" or verb in (
        "start",
        "stop",
        "restart",
        "reload",
        "try-restart",
        "reload-or-restart",
        "disable",
        "mask",
        "unmask",
        "kill",
    ):
        for unit in words[1:] or [verb]:
            walk.add("changes-service", walk.plain(unit))
        return _NONE
    return read_row(walk, call)


def _crontab(walk: Walk, call: Invocation) -> Stream:
    if has_option(call.arguments, "-l") and call.name == "crontab":
        return _NONE
    walk.add("schedules-job", "crontab" if call.name == "crontab" else call.name)
    if call.stdin.origin is Origin.DOWNLOAD:
        walk.add("runs-download", call.stdin.target)
    elif call.stdin.origin is Origin.TEXT and call.name != "crontab":
        walk.read_text(call.stdin.text)
    return _NONE


def _launchctl(walk: Walk, call: Invocation) -> Stream:
    verb = call.arguments[0] if call.arguments else ""
    if verb in ("list", "print", "blame", "dumpstate", "help", "version"):
        return _NONE
    walk.add("schedules-job", walk.plain(call.arguments[-1]) if call.arguments else "")
    return _NONE


def _disk(walk: Walk, call: Invocation) -> Stream:
    """`mkfs`, `fdisk` and their like; a listing only looks."""
    if call.arguments[:1] in (["list"], ["info"], ["-l"], ["--list"], ["-n"]):
        return _NONE
    walk.add("deletes-data", walk.plain(call.arguments[-1]) if call.arguments else call.name)
    return _NONE


def _firewall(walk: Walk, call: Invocation) -> Stream:
    if (
        not call.arguments
        or has_option(call.arguments, "-L", "-S", "--list", "--list-all", "--state", "-sr")
        or call.arguments[0] in ("status", "list", "show", "getenforce", "--status")
    ):
        return _NONE
    walk.add("disables-check", call.name)
    return _NONE


def _user(walk: Walk, call: Invocation) -> Stream:
    """Accounts: the account is the target."""
    rest = split_options(
        call.arguments,
        frozenset(
            "-u -g -G -s -d -c -e -f -k -p -r -b --uid --gid --groups --shell --home --comment --password --gecos --ingroup".split()
        )
        - {"-r"},
    )[1]
    walk.add(
        "grants-access", walk.plain(rest[-1] if call.name in ("useradd", "usermod") else rest[0]) if rest else call.name
    )
    return _NONE


def _password(walk: Walk, call: Invocation) -> Stream:
    rest = [argument for argument in call.arguments if argument[:1] != "-"]
    if has_option(call.arguments, "-S", "--status"):
        return _NONE
    walk.add("changes-login", walk.plain(rest[0]) if rest else call.name)
    return _NONE


def _mount(walk: Walk, call: Invocation) -> Stream:
    rest = split_options(call.arguments, frozenset("-t -o --types --options".split()))[1]
    if not rest:
        return _NONE
    walk.add("writes-outside", walk.plain(rest[-1]))
    return _NONE


def _ssh_keygen(walk: Walk, call: Invocation) -> Stream:
    """`ssh-keygen`: a new key is written; a fingerprint only looks."""
    options, _ = split_options(call.arguments, frozenset("-t -b -f -C -N -P -m -E -s -I -n -V -R -F -O -Z -D".split()))
    values = dict(options)
    if values.keys() & {"-l", "-B", "-F", "-y", "-L", "-H", "-Y"} and "-D" not in values:
        return _NONE
    if "-D" in values:
        walk.add_unreadable()
    elif "-s" in values:
        walk.add("grants-access", values.get("-I", ""))
    else:
        walk.access(values.get("-f") or "~/.ssh/id_ed25519", Access.WRITE)
    return _NONE


def _gpg(walk: Walk, call: Invocation) -> Stream:
    arguments = call.arguments
    if any(argument.startswith(("--export-secret", "--export-ssh-key")) for argument in arguments):
        walk.add("reads-secret", "gpg key")
        return Stream(Origin.SECRET, target="gpg key")
    if has_option(arguments, "-d", "--decrypt"):
        paths = [argument for argument in arguments if argument[:1] != "-"]
        if paths and call.stdin is EMPTY:
            walk.add("reads-secret", walk.plain(paths[-1]))
        return Stream(Origin.DECODED) if call.stdin.origin is not Origin.DOWNLOAD else call.stdin
    if any(
        argument
        in ("--import", "--recv-keys", "--edit-key", "--sign-key", "--lsign-key", "--import-ownertrust", "--fetch-keys")
        for argument in arguments
    ):
        walk.add("grants-access", "gpg keyring")
    return call.stdin if call.stdin.origin is Origin.DOWNLOAD else _NONE


def _keychain(walk: Walk, call: Invocation) -> Stream:
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
        return _NONE
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
        return _NONE
    if verb in ("run", "exec"):
        rest = call.arguments[call.arguments.index("--") + 1 :] if "--" in call.arguments else []
        return walk.run_program(rest, call.stdin) if rest else _NONE
    target = walk.plain(call.arguments[-1]) if call.arguments else call.name
    walk.add("reads-secret", target)
    return Stream(Origin.SECRET, target=target)


def _getfile(walk: Walk, call: Invocation) -> Stream:
    """`getent shadow` shows password hashes."""
    if "shadow" in call.arguments:
        walk.add("reads-secret", "/etc/shadow")
    return _NONE


def _setting(walk: Walk, call: Invocation) -> Stream:
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
    return _NONE


def _kill(walk: Walk, call: Invocation) -> Stream:
    names = [argument for argument in call.arguments if argument[:1] != "-"]
    for name in names:
        if _PROTECTING.search(walk.plain(name)):
            walk.add("disables-check", walk.plain(name))
    if not any(argument == "-l" for argument in call.arguments):
        walk.add("runs-project-task", call.name)
    return EMPTY


def _open(walk: Walk, call: Invocation) -> Stream:
    """`open`, `xdg-open`: an address in a browser, or a file."""
    from lockgate.core.ruling.effects.programs.network import ask_host

    for argument in call.arguments:
        if "://" in argument:
            ask_host(walk, argument, sends=False)
    return _NONE


READERS = {
    **dict.fromkeys(("systemctl", "service"), _systemctl),
    **dict.fromkeys(("crontab", "at", "batch", "anacron"), _crontab),
    "launchctl": _launchctl,
    **dict.fromkeys(
        "mkfs mkfs.ext4 mkfs.xfs mkfs.btrfs wipefs fdisk parted sgdisk sfdisk diskutil blkdiscard hdparm".split(), _disk
    ),
    **dict.fromkeys(
        "iptables ip6tables nft ufw firewall-cmd pfctl setenforce auditctl spctl csrutil tccutil semodule aa-teardown aa-disable aa-complain".split(),
        _firewall,
    ),
    **dict.fromkeys("useradd adduser usermod gpasswd groupmod groupadd addgroup createuser".split(), _user),
    **dict.fromkeys("passwd chpasswd chsh chage userdel deluser".split(), _password),
    **dict.fromkeys(("mount", "umount", "losetup"), _mount),
    "ssh-keygen": _ssh_keygen,
    **dict.fromkeys(("gpg", "gpg2"), _gpg),
    **dict.fromkeys(
        "pass op bw secret-tool security keyring doppler infisical chamber sops age ansible-vault".split(), _keychain
    ),
    "getent": _getfile,
    **dict.fromkeys(("sysctl", "defaults", "update-alternatives"), _setting),
    **dict.fromkeys(("kill", "pkill", "killall", "fuser"), _kill),
    **dict.fromkeys(("open", "xdg-open", "start"), _open),
}
