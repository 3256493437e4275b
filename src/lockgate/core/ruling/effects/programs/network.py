"""Programs that talk to other machines: `curl`, `wget`, `ssh`, `scp`, `rsync`, `nc`, `dig`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.paths import Access
from lockgate.core.ruling.effects.programs.addresses import METADATA_HOSTS, host_of, is_address, is_local
from lockgate.core.ruling.effects.programs.options import has_option, split_options
from lockgate.core.ruling.effects.streams import EMPTY, MARK, Invocation, Origin, Stream

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

_NONE = Stream(Origin.NONE)
# A token sent to the service that issued it is its ordinary use.
_TOKEN_HOMES = (
    ("GITHUB", "github.com"),
    ("GH_", "github.com"),
    ("GITLAB", "gitlab.com"),
    ("NPM", "npmjs.org"),
    ("PYPI", "pypi.org"),
    ("OPENAI", "openai.com"),
    ("ANTHROPIC", "anthropic.com"),
    ("SLACK", "slack.com"),
    ("HF_", "huggingface.co"),
    ("DIGITALOCEAN", "digitalocean.com"),
    ("CLOUDFLARE", "cloudflare.com"),
    ("STRIPE", "stripe.com"),
)


def ask_host(walk: Walk, address: str, *, sends: bool, whole: str = "") -> Stream:
    """Note a request to an address; `whole` is everything that is sent with it."""
    plain = walk.plain(address)
    host = host_of(plain)
    if plain.startswith("file:"):
        return walk.print_file(re.sub(r"^file:(?://)?", "", plain))
    for secret in walk.secrets_in(whole or address):
        # The project's word does not count here: its files may be an attacker's.
        if not _is_home(secret, host) and not is_local(host):
            walk.add("sends-secret", secret)
            sends = True
    # A value in the address that is computed in this line carries data out.
    if any(piece.origin is not Origin.VARIABLE for piece in walk.pieces_in(address)) and "$()" in plain:
        sends = True
    if host in METADATA_HOSTS:
        walk.add("reads-secret", host)
        return Stream(Origin.SECRET, target=host)
    if is_local(host):
        walk.add("asks-local", host)
        return _NONE
    walk.add("sends-data" if sends else "requests", host or plain)
    return Stream(Origin.DOWNLOAD, target=host or plain)


def _is_home(secret: str, host: str) -> bool:
    return any(
        secret.upper().startswith(prefix) and (host == home or host.endswith("." + home))
        for prefix, home in _TOKEN_HOMES
    )


_CURL_VALUED = frozenset(
    "-A -b -c -C -d -D -e -E -F -H -K -m -o -P -Q -r -t -T -u -U -w -x -X -y -Y -z --data --data-raw --data-binary --data-urlencode --data-ascii --json "
    "--form --form-string --header --output --request --user --user-agent --upload-file --url --proxy --cacert --capath --cert --key --max-time "
    "--connect-timeout --retry --retry-delay --retry-max-time --cookie --cookie-jar --referer --range --write-out --config --limit-rate --resolve "
    "--connect-to --interface --max-redirs --output-dir --dump-header --unix-socket --abstract-unix-socket --socks5 --socks5-hostname --preproxy "
    "--proxy-user --ciphers --tls-max --doh-url --dns-servers --oauth2-bearer --aws-sigv4 --speed-time --speed-limit --max-filesize --variable --expand-url --expand-data --mail-from --mail-rcpt --quote --noproxy".split()
)
_SENDING = frozenset(
    "-d -F -T --data --data-raw --data-binary --data-urlencode --data-ascii --json --form --form-string --upload-file --expand-data".split()
)


def _curl(walk: Walk, call: Invocation) -> Stream:
    options, rest = split_options(call.arguments, _CURL_VALUED)
    addresses = [*rest, *(value for option, value in options if option in ("--url", "--expand-url"))]
    method = next((value.upper() for option, value in options if option in ("-X", "--request")), "")
    carried = [
        value for option, value in options if option not in ("-o", "--output", "-w", "--write-out", "-K", "--config")
    ]
    sends = method in ("POST", "PUT", "PATCH", "DELETE")
    outputs: list[str] = []
    for option, value in options:
        if option in _SENDING:
            if not (value == "" and option not in ("-d", "--data")):
                sends = True
            carried.append(_sent_file(walk, call, option, value))
        elif option in ("-o", "--output"):
            outputs.append(value)
        elif option in ("-x", "--proxy", "--socks5", "--socks5-hostname", "--preproxy", "--doh-url") and value:
            if not is_local(host_of(value)):
                walk.add("requests", host_of(value))
        elif option == "--unix-socket" and "docker" in value:
            walk.add("runs-as-root")
        elif option in ("-c", "--cookie-jar", "-D", "--dump-header") and value not in ("-", "/dev/null"):
            walk.access(value, Access.WRITE)
        elif option in ("-K", "--config"):
            walk.add_unreadable() if call.stdin.origin is not Origin.NONE and value == "-" else None
    get = any(option in ("-G", "--get") for option, _ in options)
    whole = "".join([*addresses, *carried])
    result: Stream = _NONE
    for address in addresses:
        if (
            MARK in address
            and address.startswith(MARK)
            and not any(piece.origin is Origin.VARIABLE for piece in walk.pieces_in(address))
        ):
            result = Stream(Origin.DOWNLOAD, target=walk.plain(address))
            walk.add("requests", walk.plain(address))
            continue
        result = ask_host(walk, address, sends=sends and not (get and not walk.secrets_in(whole)), whole=whole)
    remote_name = has_option(call.arguments, "-O", "--remote-name", "-J", "--remote-name-all")
    if remote_name:
        outputs += [
            walk.plain(address).split("?")[0].rstrip("/").rsplit("/", 1)[-1] or "index.html" for address in addresses
        ]
    outputs = [output for output in outputs if output not in ("-", "/dev/null", "/dev/stdout", "NUL")]
    for output in outputs:
        walk.write_file(output, result)
    if outputs:
        return EMPTY
    return (
        _NONE
        if "/dev/null" in [value for option, value in options if option in ("-o", "--output")]
        or has_option(call.arguments, "-I", "--head")
        else result
    )


def _sent_file(walk: Walk, call: Invocation, option: str, value: str) -> str:
    """Return the value that is sent: a file after `@` or for an upload, the input for `-`."""
    path = ""
    if option in ("-T", "--upload-file"):
        path = value
    elif option in ("-F", "--form"):
        match = re.search(r"=[@<]([^;]+)", value)
        path = match.group(1) if match else ""
    elif value.startswith("@"):
        path = value[1:]
    elif option == "--data-urlencode" and "@" in value:
        path = value.split("@", 1)[1]
    if not path:
        return ""
    stream = call.stdin if path == "-" or path == "." else walk.read_file(path)
    if stream.origin is Origin.ENVIRONMENT:
        stream = Stream(Origin.SECRET, target="environment")
    return walk.mark(stream) if stream.origin is Origin.SECRET else ""


_WGET_VALUED = frozenset(
    "-O --output-document -P --directory-prefix -o --output-file -a --append-output -i --input-file -t --tries -T --timeout -U --user-agent --header "
    "--post-data --post-file --body-data --body-file --method -e --execute -Q -l --level -A -R -D -X -I --user --password --referer --load-cookies --save-cookies --ca-certificate --limit-rate -w --wait".split()
)


def _wget(walk: Walk, call: Invocation) -> Stream:
    options, rest = split_options(call.arguments, _WGET_VALUED)
    output, prefix, sends, whole = "", "", False, "".join(rest)
    for option, value in options:
        if option in ("-O", "--output-document"):
            output = value
        elif option in ("-P", "--directory-prefix"):
            prefix = value
        elif (
            option in ("--post-data", "--post-file", "--body-data", "--body-file")
            or option == "--method"
            and value.upper() not in ("GET", "HEAD")
        ):
            sends = True
            if option.endswith("-file"):
                stream = walk.read_file(value)
                whole += walk.mark(stream) if stream.origin is Origin.SECRET else ""
            whole += value
        elif option == "--header":
            whole += value
        elif option in ("-e", "--execute") and "proxy" in value:
            walk.add("requests", host_of(value.split("=", 1)[-1].strip()))
    result: Stream = _NONE
    for address in rest:
        result = ask_host(walk, address, sends=sends, whole=whole)
        if "--spider" in call.arguments or output in ("-", "/dev/stdout"):
            continue
        name = output or walk.plain(address).split("?")[0].rstrip("/").rsplit("/", 1)[-1] or "index.html"
        if name != "/dev/null":
            walk.write_file(f"{prefix}/{name}" if prefix and not output else name, result)
    return result if output in ("-", "/dev/stdout") or has_joined_dash(call.arguments) else EMPTY


def has_joined_dash(arguments: list[str]) -> bool:
    """Return whether `wget` was told to print: `-qO-`."""
    return any(re.fullmatch(r"-[a-zA-Z]*O-", argument) for argument in arguments)


def _http(walk: Walk, call: Invocation) -> Stream:
    """HTTPie and its like: a method, an address, and fields that are sent."""
    rest = [argument for argument in call.arguments if argument[:1] != "-"]
    sends = any(
        re.match(r"(?:POST|PUT|PATCH|DELETE)$", argument)
        or re.search(r"[\w\]]:?=[^=]|[\w]@", argument)
        and "://" not in argument
        for argument in rest
    )
    result: Stream = _NONE
    for address in rest:
        if address.startswith(":"):
            walk.add("asks-local", "localhost")
            break
        if is_address(walk.plain(address)) and not address.isupper():
            result = ask_host(walk, address, sends=sends or call.stdin is not EMPTY, whole="".join(rest))
            break
    return result


def _netcat(walk: Walk, call: Invocation) -> Stream:
    """`nc`, `socat`, `telnet`: an open pipe to another machine; with a program on it, a door."""
    arguments = call.arguments
    if call.name == "socat":
        return _socat(walk, call)
    options, rest = split_options(arguments, frozenset("-e -c -p -s -w -q -i -g -G -X -x --exec --sh-exec".split()))
    names = {option for option, _ in options}
    for option, value in options:
        if option in ("-e", "-c", "--exec", "--sh-exec") and call.name != "telnet":
            walk.add("grants-access", walk.plain(rest[0]) if rest else value)
    if "-z" in names:
        host = walk.plain(rest[0]) if rest else ""
        walk.add("asks-local" if is_local(host) else "requests", host)
        return _NONE
    if names & {"-l", "--listen"}:
        walk.add("opens-port", rest[-1] if rest else dict(options).get("-p", ""))
        return Stream(Origin.DOWNLOAD, target="network")
    if rest:
        host = walk.plain(rest[0])
        if call.stdin.origin in (Origin.SECRET, Origin.ENVIRONMENT):
            walk.add("sends-secret", call.stdin.target or "environment")
        if is_local(host):
            walk.add("asks-local", host)
            return _NONE
        walk.add("sends-data", host)
        return Stream(Origin.DOWNLOAD, target=host)
    return _NONE


def _socat(walk: Walk, call: Invocation) -> Stream:
    for argument in call.arguments:
        kind, _, rest = argument.partition(":")
        kind = kind.upper()
        if kind in ("EXEC", "SYSTEM"):
            walk.add("grants-access", walk.plain(rest))
        elif "LISTEN" in kind:
            walk.add("opens-port", rest.split(",")[0])
        elif kind.startswith(("TCP", "UDP", "OPENSSL", "SSL")):
            host = host_of(rest)
            walk.add("asks-local" if is_local(host) else "sends-data", host)
    return Stream(Origin.DOWNLOAD, target="network")


_SSH_VALUED = frozenset("-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -P".split())


def _ssh(walk: Walk, call: Invocation) -> Stream:
    """`ssh HOST COMMAND`: another machine, and what is run there."""
    arguments = call.arguments
    index = 0
    host = ""
    while index < len(arguments):
        argument = arguments[index]
        index += 1
        if argument[:1] != "-":
            host = walk.plain(argument).rsplit("@", 1)[-1].removeprefix("ssh://").split(":")[0]
            break
        value = argument[2:]
        if argument[:2] in _SSH_VALUED and not value:
            value = arguments[index] if index < len(arguments) else ""
            index += 1
        if argument[:2] == "-o" and re.match(
            r"(?i)(?:proxycommand|localcommand|permitlocalcommand|knownhostscommand)\s*=?", value
        ):
            command = re.sub(r"^\w+[\s=]+", "", value)
            if command.lower() not in ("yes", "no", "none"):
                walk.read_text(command)
        elif argument[:2] in ("-R", "-D", "-w"):
            walk.add("opens-port", value)
    if not host:
        return _NONE
    walk.add("asks-local" if is_local(host) else "sends-data" if call.stdin is not EMPTY else "requests", host)
    if call.stdin.origin in (Origin.SECRET, Origin.ENVIRONMENT):
        walk.add("sends-secret", call.stdin.target or "environment")
    rest = arguments[index:]
    if rest and rest[0] == "--":
        rest = rest[1:]
    if rest:
        walk.run_elsewhere(" ".join(rest))
        return Stream(Origin.DOWNLOAD, target=host)
    return Stream(Origin.DOWNLOAD, target=host)


def _copy(walk: Walk, call: Invocation) -> Stream:
    """`scp`, `rsync`, `sftp`: files to or from another machine, or between folders."""
    valued = (
        _SSH_VALUED
        if call.name != "rsync"
        else frozenset(
            "-e --rsh --exclude --include --exclude-from --files-from -f --filter --bwlimit --port --rsync-path --log-file --password-file --temp-dir --timeout -T --link-dest --backup-dir --max-size --chmod --chown".split()
        )
    )
    options, paths = split_options(call.arguments, valued)
    for option, value in options:
        if option in ("-e", "--rsh", "--rsync-path") and call.name == "rsync" and not re.match(r"ssh\b", value):
            walk.read_text(value)
        elif option == "-o" and "proxycommand" in value.lower():
            walk.read_text(re.sub(r"^\w+[\s=]+", "", value))
    if call.name == "rsync" and has_option(call.arguments, "-n", "--dry-run"):
        return _NONE
    if not paths:
        return _NONE
    target, sources = paths[-1], paths[:-1]
    if call.name == "sftp" or len(paths) == 1:
        target, sources = paths[0], []
    host = _remote(walk.plain(target))
    for source in sources:
        other = _remote(walk.plain(source))
        if other:
            walk.add("asks-local" if is_local(other) else "requests", other)
        else:
            stream = walk.read_file(source)
            if stream.origin is Origin.SECRET:
                walk.add("sends-secret" if host else "reads-secret", stream.target)
    if host:
        walk.add("asks-local" if is_local(host) else "sends-data", host)
    elif sources:
        remote = next((_remote(walk.plain(source)) for source in sources if _remote(walk.plain(source))), "")
        walk.write_file(target, Stream(Origin.DOWNLOAD, target=remote) if remote else _NONE)
        if has_option(call.arguments, "--delete", "--delete-after", "--delete-before") and call.name == "rsync":
            walk.access(target, Access.DELETE)
    return EMPTY


def _remote(path: str) -> str:
    match = re.match(r"(?:rsync://|sftp://|scp://)?(?:[^@/\s]+@)?(\[[^\]]+\]|[\w.-]+)(?::|$)", path)
    if "://" in path:
        return host_of(path)
    return match.group(1).strip("[]").lower() if match and ":" in path and not re.match(r"[A-Za-z]:[\\/]", path) else ""


def _lookup(walk: Walk, call: Invocation) -> Stream:
    """`dig`, `host`, `ping`: a question, unless the name carries data of this machine."""
    for argument in call.arguments:
        if any(piece.origin is not Origin.VARIABLE for piece in walk.pieces_in(argument)) or walk.secrets_in(argument):
            for secret in walk.secrets_in(argument):
                walk.add("sends-secret", secret)
            name = re.sub(r"\$\(\)|\$\w+", "", walk.plain(argument)).lstrip(".").split("/")[0]
            walk.add("sends-data", ".".join(name.split(".")[-3:]).lstrip(".") or "dns")
    return _NONE


def _ftp(walk: Walk, call: Invocation) -> Stream:
    rest = split_options(call.arguments, frozenset("-u -p -e -c".split()))[1]
    for address in rest[:1]:
        host = host_of(walk.plain(address))
        walk.add("asks-local" if is_local(host) else "sends-data", host)
    return _NONE


def _rclone(walk: Walk, call: Invocation) -> Stream:
    words = [argument for argument in call.arguments if argument[:1] != "-"]
    verb = words[0] if words else ""
    if verb in ("ls", "lsd", "lsl", "lsf", "size", "version", "listremotes", "check", "about", "tree", "help"):
        return _NONE
    for path in words[1:]:
        plain = walk.plain(path)
        if ":" in plain:
            walk.add("deletes-data" if verb in ("delete", "purge", "deletefile") else "sends-data", plain.split(":")[0])
        else:
            stream = walk.read_file(path)
            if stream.origin is Origin.SECRET:
                walk.add("sends-secret", stream.target)
    return _NONE


def _mail(walk: Walk, call: Invocation) -> Stream:
    options, rest = split_options(
        call.arguments, frozenset("-s -a -r -c -b -S -A --to --from --server --attach --body -t -f".split())
    )
    for option, value in options:
        if option in ("-a", "-A", "--attach"):
            stream = walk.read_file(value)
            if stream.origin is Origin.SECRET:
                walk.add("sends-secret", stream.target)
        elif option in ("--to", "-c", "-b"):
            walk.add("sends-message", walk.plain(value))
    if call.stdin.origin in (Origin.SECRET, Origin.ENVIRONMENT):
        walk.add("sends-secret", call.stdin.target or "environment")
    for address in rest:
        walk.add("sends-message", walk.plain(address))
    if not rest:
        walk.add("sends-message", call.name)
    return _NONE


def _aria(walk: Walk, call: Invocation) -> Stream:
    options, rest = split_options(call.arguments, frozenset("-o --out -d --dir -x -s -j -k -i --header".split()))
    values = dict(options)
    for address in rest:
        stream = ask_host(walk, address, sends=False, whole="".join(value for _, value in options))
        name = (
            values.get("-o") or values.get("--out") or walk.plain(address).split("?")[0].rstrip("/").rsplit("/", 1)[-1]
        )
        folder = values.get("-d") or values.get("--dir") or ""
        walk.write_file(f"{folder}/{name}" if folder else name, stream)
    return EMPTY


READERS = {
    "curl": _curl,
    **dict.fromkeys(("wget", "wget2"), _wget),
    **dict.fromkeys(("http", "https", "httpie", "xh", "curlie"), _http),
    **dict.fromkeys(("nc", "ncat", "netcat", "socat", "telnet"), _netcat),
    **dict.fromkeys(("ssh", "mosh", "autossh", "sshpass"), _ssh),
    **dict.fromkeys(("scp", "rsync", "sftp"), _copy),
    **dict.fromkeys(("dig", "nslookup", "host", "ping", "ping6", "drill", "kdig", "whois", "traceroute"), _lookup),
    **dict.fromkeys(("ftp", "lftp", "tftp", "ncftpput"), _ftp),
    "rclone": _rclone,
    **dict.fromkeys(("mail", "mailx", "mutt", "sendmail", "msmtp", "swaks", "ssmtp", "s-nail"), _mail),
    **dict.fromkeys(("aria2c", "axel"), _aria),
}
