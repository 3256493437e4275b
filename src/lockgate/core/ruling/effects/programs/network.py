"""Programs that talk to other machines: `curl`, `wget`, `ssh`, `scp`, `rsync`, `nc`, `dig`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.paths import Access
from lockgate.core.ruling.effects.program_io import NO_OUTPUT, UNKNOWN_OUTPUT, Invocation, Output, Source
from lockgate.core.ruling.effects.programs.options import has_option, split_options
from lockgate.core.ruling.effects.programs.url_hosts import METADATA_HOSTS, host_of, is_address, is_local

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

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


def ask_host(walk: Walk, address: str, *, sends: bool, whole: str = "") -> Output:
    """Note a request to an address; `whole` is everything that is sent with it."""
    plain = walk.plain(address)
    if plain.startswith("file:"):
        return walk.print_file(re.sub(r"^file:(?://)?", "", plain))
    host = host_of(plain) if plain[:2] != "$(" else plain
    if host in METADATA_HOSTS:
        walk.add("reads-secret", host)
        return Output(Source.SECRET, target=host)
    if is_local(host):
        walk.add("asks-local", host)
        return UNKNOWN_OUTPUT
    for secret in walk.secrets_in(whole or address):
        # The project's word does not count here: its files may be an attacker's.
        if not _is_home(secret, host):
            walk.add("sends-secret", secret)
            sends = True
    # A value behind the host that is computed in this line carries data out.
    if "$(" in plain[1:] and any(piece.source is not Source.VARIABLE for piece in walk.pieces_in(address)):
        sends = True
    walk.add("sends-data" if sends else "requests", host or plain)
    return Output(Source.DOWNLOAD, target=host or plain)


def _is_home(secret: str, host: str) -> bool:
    return any(
        secret.upper().startswith(prefix) and (host == home or host.endswith("." + home))
        for prefix, home in _TOKEN_HOMES
    )


_CURL_VALUED = frozenset(
    "-A -b -c -C -d -D -e -E -F -H -K -m -o -P -Q -r -t -T -u -U -w -x -X -y -Y -z --data --data-raw "
    "--data-binary --data-urlencode --data-ascii --json "
    "--form --form-string --header --output --request --user --user-agent --upload-file --url --proxy "
    "--cacert --capath --cert --key --max-time "
    "--connect-timeout --retry --retry-delay --retry-max-time --cookie --cookie-jar --referer --range "
    "--write-out --config --limit-rate --resolve "
    "--connect-to --interface --max-redirs --output-dir --dump-header --unix-socket --abstract-unix-socket "
    "--socks5 --socks5-hostname --preproxy "
    "--proxy-user --ciphers --tls-max --doh-url --dns-servers --oauth2-bearer --aws-sigv4 --speed-time "
    "--speed-limit --max-filesize --variable --expand-url --expand-data --mail-from --mail-rcpt --quote "
    "--noproxy --proto --proto-default --proto-redir --tls13-ciphers --keepalive-time".split()
)
_SENDING = frozenset(
    "-d -F -T --data --data-raw --data-binary --data-urlencode --data-ascii --json --form --form-string "
    "--upload-file --expand-data".split()
)


def _curl(walk: Walk, call: Invocation) -> Output:
    options, rest = split_options(call.arguments, _CURL_VALUED)
    addresses = [*rest, *(value for option, value in options if option in ("--url", "--expand-url"))]
    carried = [*addresses]
    sends = False
    for option, value in options:
        if option in _SENDING:
            sends = True
            carried.append(_sent_file(walk, call, option, value))
        elif option in ("-X", "--request"):
            sends = sends or value.upper() in _CHANGING
        else:
            _note_curl_option(walk, option, value)
        if option not in _NOT_SENT:
            carried.append(value)
    whole = "".join(carried)
    if has_option(call.arguments, "-G", "--get") and not walk.secrets_in(whole):
        sends = False
    result: Output = UNKNOWN_OUTPUT
    for address in addresses:
        result = ask_host(walk, address, sends=sends, whole=whole)
    return _save(walk, call, result, _curl_outputs(walk, call, options, addresses))


_CHANGING = frozenset(("POST", "PUT", "PATCH", "DELETE"))
_NOT_SENT = frozenset("-o --output -w --write-out -K --config".split())
_PROXIES = frozenset("-x --proxy --socks5 --socks5-hostname --preproxy --doh-url".split())
_DISCARDED = frozenset(("-", "/dev/null", "/dev/stdout", "NUL"))


def _note_curl_option(walk: Walk, option: str, value: str) -> None:
    """Note options that reach another server, a file, or the daemon that owns the machine."""
    if option in _PROXIES and value and not is_local(host_of(value)):
        walk.add("requests", host_of(walk.plain(value)))
    elif option == "--unix-socket" and "docker" in value:
        walk.add("runs-as-root")
    elif option in ("-c", "--cookie-jar", "-D", "--dump-header") and value not in _DISCARDED:
        walk.access(value, Access.WRITE)
    elif option in ("-K", "--config"):
        walk.run_path(value)


def _curl_outputs(walk: Walk, call: Invocation, options: list[tuple[str, str]], addresses: list[str]) -> list[str]:
    outputs = [value for option, value in options if option in ("-o", "--output")]
    if has_option(call.arguments, "-O", "--remote-name", "-J", "--remote-name-all"):
        outputs += [_last_part(walk, address) for address in addresses]
    if has_option(call.arguments, "-I", "--head"):
        outputs.append("/dev/null")
    return outputs


def _last_part(walk: Walk, address: str) -> str:
    return walk.plain(address).split("?")[0].rstrip("/").rsplit("/", 1)[-1] or "index.html"


def _save(walk: Walk, call: Invocation, stream: Output, outputs: list[str]) -> Output:
    """Write what was fetched to files; return it when it is printed instead."""
    del call
    for output in outputs:
        if output not in _DISCARDED:
            walk.write_file(output, stream)
    if not outputs or outputs == ["-"]:
        return stream
    return NO_OUTPUT


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
    if stream.source is Source.ENVIRONMENT:
        stream = Output(Source.SECRET, target="environment")
    return walk.mark(stream) if stream.source is Source.SECRET else ""


_WGET_VALUED = frozenset(
    "-O --output-document -P --directory-prefix -o --output-file -a --append-output -i --input-file -t "
    "--tries -T --timeout -U --user-agent --header "
    "--post-data --post-file --body-data --body-file --method -e --execute -Q -l --level -A -R -D -X -I "
    "--user --password --referer --load-cookies --save-cookies --ca-certificate --limit-rate -w --wait".split()
)


def _wget(walk: Walk, call: Invocation) -> Output:
    options, addresses = split_options(call.arguments, _WGET_VALUED)
    values = dict(options)
    sends = values.get("--method", "GET").upper() not in ("GET", "HEAD")
    carried = [*addresses]
    for option, value in options:
        if option in _WGET_SENDING:
            sends = sends or option != "--header"
            carried += [value, _sent_file(walk, call, "-T", value) if option.endswith("-file") else ""]
        elif option in ("-e", "--execute") and "proxy" in value:
            walk.add("requests", host_of(value.split("=", 1)[-1].strip()))
    result: Output = UNKNOWN_OUTPUT
    for address in addresses:
        result = ask_host(walk, address, sends=sends, whole="".join(carried))
        _save_page(walk, call, values, address, result)
    output = values.get("-O") or values.get("--output-document")
    return result if output in ("-", "/dev/stdout") else NO_OUTPUT


_WGET_SENDING = frozenset("--post-data --post-file --body-data --body-file --header".split())


def _save_page(walk: Walk, call: Invocation, values: dict[str, str], address: str, stream: Output) -> None:
    output = values.get("-O") or values.get("--output-document") or ""
    prefix = values.get("-P") or values.get("--directory-prefix") or ""
    name = output or _last_part(walk, address)
    if "--spider" not in call.arguments and name not in _DISCARDED:
        walk.write_file(f"{prefix}/{name}" if prefix and not output else name, stream)


def _http(walk: Walk, call: Invocation) -> Output:
    """HTTPie and its like: a method, an address, and fields that are sent."""
    rest = [argument for argument in call.arguments if argument[:1] != "-"]
    sends = any(
        re.match(r"(?:POST|PUT|PATCH|DELETE)$", argument)
        or (re.search(r"[\w\]]:?=[^=]|[\w]@", argument) and "://" not in argument)
        for argument in rest
    )
    result: Output = UNKNOWN_OUTPUT
    for address in rest:
        if address.startswith(":"):
            walk.add("asks-local", "localhost")
            break
        if is_address(walk.plain(address)) and not address.isupper():
            result = ask_host(walk, address, sends=sends or call.stdin is not NO_OUTPUT, whole="".join(rest))
            break
    return result


def _netcat(walk: Walk, call: Invocation) -> Output:
    """`nc`, `telnet`: an open pipe to another machine; with a program on it, a door."""
    options, rest = split_options(call.arguments, _NETCAT_VALUED)
    names = {option for option, _ in options}
    host = walk.plain(rest[0]) if rest else ""
    if names & {"-e", "-c", "--exec", "--sh-exec"} and call.name != "telnet":
        walk.add("grants-access", host)
    if names & {"-l", "--listen"}:
        walk.add("opens-port", rest[-1] if rest else dict(options).get("-p", ""))
        return Output(Source.DOWNLOAD, target="network")
    if not host:
        return UNKNOWN_OUTPUT
    note_sent(walk, call.stdin)
    if is_local(host):
        walk.add("asks-local", host)
        return UNKNOWN_OUTPUT
    walk.add("requests" if "-z" in names else "sends-data", host)
    return Output(Source.DOWNLOAD, target=host)


_NETCAT_VALUED = frozenset("-e -c -p -s -w -q -i -g -G -X -x --exec --sh-exec".split())


def note_sent(walk: Walk, stream: Output) -> None:
    """Note a secret that flows to another machine."""
    if stream.source in (Source.SECRET, Source.ENVIRONMENT):
        walk.add("sends-secret", stream.target or "environment")


def _socat(walk: Walk, call: Invocation) -> Output:
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
    return Output(Source.DOWNLOAD, target="network")


_SSH_VALUED = frozenset("-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -P".split())


def _ssh(walk: Walk, call: Invocation) -> Output:
    """`ssh HOST COMMAND`: another machine, and what is run there."""
    rest = _after_ssh_options(walk, call.arguments)
    if not rest:
        return UNKNOWN_OUTPUT
    host = walk.plain(rest[0]).rsplit("@", 1)[-1].removeprefix("ssh://").split(":")[0]
    walk.add("asks-local" if is_local(host) else "requests" if call.stdin is NO_OUTPUT else "sends-data", host)
    note_sent(walk, call.stdin)
    command = rest[2:] if rest[1:2] == ["--"] else rest[1:]
    if command:
        walk.run_elsewhere(" ".join(command))
    return Output(Source.DOWNLOAD, target=host)


_RUNNING_OPTION = re.compile(r"(?i)(?:proxycommand|localcommand|knownhostscommand)[\s=]+")


def _after_ssh_options(walk: Walk, arguments: list[str]) -> list[str]:
    """Read the options of `ssh`; return the host and the command."""
    index = 0
    while index < len(arguments) and arguments[index][:1] == "-":
        letter, value = arguments[index][:2], arguments[index][2:]
        index += 1
        if letter in _SSH_VALUED and not value:
            value = arguments[index] if index < len(arguments) else ""
            index += 1
        if letter == "-o" and _RUNNING_OPTION.match(value):
            walk.read_text(_RUNNING_OPTION.sub("", value, count=1))
        elif letter in ("-R", "-D", "-w"):
            walk.add("opens-port", value)
    return arguments[index:]


_RSYNC_VALUED = frozenset(
    "-e --rsh --exclude --include --exclude-from --files-from -f --filter --bwlimit --port --rsync-path "
    "--log-file --password-file "
    "--temp-dir --timeout -T --link-dest --backup-dir --max-size --chmod --chown".split()
)


# `-e ssh` of rsync, and options of ssh that run nothing.
_ORDINARY_SHELL = re.compile(r"(?i)ssh\b|(?!proxycommand|localcommand|knownhostscommand)\w+[\s=]")


def _copy(walk: Walk, call: Invocation) -> Output:
    """`scp`, `rsync`, `sftp`: files to or from another machine, or between folders."""
    rsync = call.name == "rsync"
    options, paths = split_options(call.arguments, _RSYNC_VALUED if rsync else _SSH_VALUED)
    for option, value in options:
        if option in ("-e", "--rsh", "--rsync-path", "-o") and not _ORDINARY_SHELL.match(value):
            walk.read_text(_RUNNING_OPTION.sub("", value, count=1))
    if not paths or (rsync and has_option(call.arguments, "-n", "--dry-run")):
        return UNKNOWN_OUTPUT
    sources, target = (paths[:-1], paths[-1]) if len(paths) > 1 else ([], paths[0])
    host = _remote(walk.plain(target))
    fetched = _note_sources(walk, sources, host)
    if host:
        walk.add("asks-local" if is_local(host) else "sends-data", host)
        return NO_OUTPUT
    walk.write_file(target, Output(Source.DOWNLOAD, target=fetched) if fetched else UNKNOWN_OUTPUT)
    if rsync and has_option(call.arguments, "--delete", "--delete-after", "--delete-before"):
        walk.access(target, Access.DELETE)
    return NO_OUTPUT


def _note_sources(walk: Walk, sources: list[str], host: str) -> str:
    """Note what is copied; return the host that it comes from."""
    fetched = ""
    for source in sources:
        other = _remote(walk.plain(source))
        if other:
            fetched = other
            walk.add("asks-local" if is_local(other) else "requests", other)
        elif (stream := walk.read_file(source)).source is Source.SECRET:
            walk.add("sends-secret" if host else "reads-secret", stream.target)
    return fetched


def _remote(path: str) -> str:
    match = re.match(r"(?:rsync://|sftp://|scp://)?(?:[^@/\s]+@)?(\[[^\]]+\]|[\w.-]+)(?::|$)", path)
    if "://" in path:
        return host_of(path)
    return match.group(1).strip("[]").lower() if match and ":" in path and not re.match(r"[A-Za-z]:[\\/]", path) else ""


def ask_name(walk: Walk, call: Invocation) -> Output:
    """`dig`, `host`, `ping`: a question, unless the name carries data of this machine."""
    for argument in call.arguments:
        if any(piece.source is not Source.VARIABLE for piece in walk.pieces_in(argument)) or walk.secrets_in(argument):
            for secret in walk.secrets_in(argument):
                walk.add("sends-secret", secret)
            name = re.sub(r"\$\(\)|\$\w+", "", walk.plain(argument)).lstrip(".").split("/")[0]
            walk.add("sends-data", ".".join(name.split(".")[-3:]).lstrip(".") or "dns")
    return UNKNOWN_OUTPUT


def _ftp(walk: Walk, call: Invocation) -> Output:
    rest = split_options(call.arguments, frozenset("-u -p -e -c".split()))[1]
    for address in rest[:1]:
        host = host_of(walk.plain(address))
        walk.add("asks-local" if is_local(host) else "sends-data", host)
    return UNKNOWN_OUTPUT


def _rclone(walk: Walk, call: Invocation) -> Output:
    words = [argument for argument in call.arguments if argument[:1] != "-"]
    verb = words[0] if words else ""
    if verb in ("ls", "lsd", "lsl", "lsf", "size", "version", "listremotes", "check", "about", "tree", "help"):
        return UNKNOWN_OUTPUT
    for path in words[1:]:
        plain = walk.plain(path)
        if ":" in plain:
            walk.add("deletes-data" if verb in ("delete", "purge", "deletefile") else "sends-data", plain.split(":")[0])
        else:
            stream = walk.read_file(path)
            if stream.source is Source.SECRET:
                walk.add("sends-secret", stream.target)
    return UNKNOWN_OUTPUT


def _mail(walk: Walk, call: Invocation) -> Output:
    options, rest = split_options(
        call.arguments, frozenset("-s -a -r -c -b -S -A --to --from --server --attach --body -t -f".split())
    )
    for option, value in options:
        if option in ("-a", "-A", "--attach"):
            stream = walk.read_file(value)
            if stream.source is Source.SECRET:
                walk.add("sends-secret", stream.target)
        elif option in ("--to", "-c", "-b"):
            walk.add("sends-message", walk.plain(value))
    note_sent(walk, call.stdin)
    for address in rest:
        walk.add("sends-message", walk.plain(address))
    if not rest:
        walk.add("sends-message", call.name)
    return UNKNOWN_OUTPUT


def _aria(walk: Walk, call: Invocation) -> Output:
    options, rest = split_options(call.arguments, frozenset("-o --out -d --dir -x -s -j -k -i --header".split()))
    values = dict(options)
    for address in rest:
        stream = ask_host(walk, address, sends=False, whole="".join(value for _, value in options))
        name = (
            values.get("-o") or values.get("--out") or walk.plain(address).split("?")[0].rstrip("/").rsplit("/", 1)[-1]
        )
        folder = values.get("-d") or values.get("--dir") or ""
        walk.write_file(f"{folder}/{name}" if folder else name, stream)
    return NO_OUTPUT


_OPENSSL_VALUED = frozenset(
    "-in -out -k -pass -K -iv -passin -passout -inkey -key -keyout -subj -days -newkey -config -connect".split()
)
_OPENSSL_DECODES = frozenset("enc base64 aes-256-cbc smime cms pkeyutl rsautl".split())


def _openssl(walk: Walk, call: Invocation) -> Output:
    """`openssl`: decoding, keys made and shown."""
    verb, arguments = (call.arguments[0], call.arguments[1:]) if call.arguments else ("", [])
    values = dict(split_options(arguments, _OPENSSL_VALUED)[0])
    if "-connect" in values:
        return ask_host(walk, values["-connect"], sends=False)
    for option in ("-out", "-keyout"):
        if option in values:
            walk.access(values[option], Access.WRITE)
    stream = walk.read_file(values["-in"]) if values.get("-in") else call.stdin
    if stream.source is Source.SECRET and verb not in ("x509", "verify", "crl"):
        walk.add("reads-secret", stream.target)
    if stream.source in (Source.SECRET, Source.DOWNLOAD):
        return stream
    decodes = "-decrypt" in arguments or (verb in _OPENSSL_DECODES and "-d" in arguments)
    return Output(Source.DECODED) if decodes else UNKNOWN_OUTPUT


READERS = {
    "openssl": _openssl,
    "curl": _curl,
    **dict.fromkeys(("wget", "wget2"), _wget),
    **dict.fromkeys(("http", "https", "httpie", "xh", "curlie"), _http),
    **dict.fromkeys(("nc", "ncat", "netcat", "telnet"), _netcat),
    "socat": _socat,
    **dict.fromkeys(("ssh", "mosh", "autossh", "sshpass"), _ssh),
    **dict.fromkeys(("scp", "rsync", "sftp"), _copy),
    **dict.fromkeys(
        "dig nslookup host ping ping6 drill kdig delv whois traceroute tracepath mtr resolvectl avahi-resolve".split(),
        ask_name,
    ),
    **dict.fromkeys(("ftp", "lftp", "tftp", "ncftpput"), _ftp),
    "rclone": _rclone,
    **dict.fromkeys(("mail", "mailx", "mutt", "sendmail", "msmtp", "swaks", "ssmtp", "s-nail"), _mail),
    **dict.fromkeys(("aria2c", "axel"), _aria),
}
