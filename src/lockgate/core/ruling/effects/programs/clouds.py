"""Command lines of clouds and clusters: what a verb does, whichever service it is for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.program_io import NO_OUTPUT, UNKNOWN_OUTPUT, Invocation, Output, Source
from lockgate.core.ruling.effects.programs.options import has_option, long_values, plain_words, split_options
from lockgate.core.ruling.effects.programs.program_table import command_words, read_row, target_of
from lockgate.core.ruling.effects.programs.service_settings import note_container_images, note_settings
from lockgate.core.ruling.effects.programs.url_hosts import host_of, is_local
from lockgate.core.tables import read_sections

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

_VERBS = {
    section: re.compile("|".join(lines))
    for section, lines in read_sections("lockgate.core.ruling.effects.programs", "cloud_verbs.txt").items()
}
# In this order: the gravest reading of a verb counts.
_KINDS = ("disables-check", "grants-access", "makes-key", "deletes-data")


def _has(section: str, words: list[str]) -> bool:
    return any(_VERBS[section].fullmatch(word.lower()) for word in words)


def read_verbs(walk: Walk, words: list[str], target: str, arguments: list[str]) -> Output:
    """Note what the words of a cloud's command do, and the settings that it changes; the gravest word counts."""
    if not _has("looks", words):
        note_settings(walk, arguments)
    if _has("reads-secret", words):
        walk.add("reads-secret", target)
        return Output(Source.SECRET, target=target)
    for kind in _KINDS:
        if _has(kind, words):
            walk.add(kind, target)
            return UNKNOWN_OUTPUT
    if not _has("looks", words):
        walk.add("changes-service", target)
    return UNKNOWN_OUTPUT


_AWS_VALUED = frozenset(
    "--profile --region --output --query --endpoint-url --ca-bundle --color --cli-read-timeout "
    "--cli-connect-timeout".split()
)
_S3_OPERAND = re.compile(r"[\"']?s3(?:://|[\"']?\Z)")
_NAMING = re.compile(r"name|id|bucket|user|role|group|arn|cluster|table|queue|function|stack|key")


# The options of `aws s3` that take no value, like all that begin with `--no-`; the others do.
_S3_FLAGS = frozenset(
    "--recursive --dryrun --quiet --delete --exact-timestamps --size-only --follow-symlinks --only-show-errors --force "
    "--human-readable --summarize --debug --force-glacier-transfer --ignore-glacier-warnings "
    "--validate-same-s3-paths".split()
)


def _aws(walk: Walk, call: Invocation) -> Output:
    words = split_options(call.arguments, _AWS_VALUED)[1]
    if words[:1] == ["s3"]:
        words = split_options(call.arguments, _find_s3_valued(call.arguments))[1]
    values = dict(long_values(call.arguments))
    endpoint = host_of(walk.plain(values.get("--endpoint-url", "")))
    if endpoint and not is_local(endpoint):
        walk.add("requests", endpoint)
    service, verb = [*words, "", ""][:2]
    if "--no-verify-ssl" in values:
        note_settings(walk, ["--no-verify-ssl"])
    if service == "s3":
        return _objects(walk, call, verb, words[2:])
    named = next((value for name, value in values.items() if _NAMING.search(name)), " ".join(words[:2]))
    if "--dry-run" not in call.arguments:
        return _aws_service(walk, call, service, verb, walk.plain(named))
    return UNKNOWN_OUTPUT


def _find_s3_valued(arguments: Sequence[str]) -> frozenset[str]:
    """Return the options that take the next argument, which is neither `s3` nor a bucket."""
    pairs = zip(arguments, [*arguments[1:], ""], strict=True)
    valued = {option for option, value in pairs if option.startswith("--") and not _S3_OPERAND.match(value)}
    return _AWS_VALUED | {option for option in valued - _S3_FLAGS if not option.startswith("--no-")}


def _aws_service(walk: Walk, call: Invocation, service: str, verb: str, target: str) -> Output:
    if service in ("configure", "sso"):
        if verb not in ("list", "get", "list-profiles"):
            walk.add("changes-login", "aws")
        return UNKNOWN_OUTPUT
    if service == "ssm" and verb in ("send-command", "start-session"):
        walk.add("changes-service", target)
        walk.add_unreadable()
        return UNKNOWN_OUTPUT
    if service == "ssm" and verb.startswith("get-parameter") and "--with-decryption" not in call.arguments:
        return UNKNOWN_OUTPUT
    if service == "iam":
        if not re.match(r"get|list|generate|simulate", verb):
            kinds = (kind for kind in ("deletes-data", "makes-key") if _has(kind, [verb]))
            kind = _kind_of_key_removal(walk, verb, call.arguments) or next(kinds, "grants-access")
            walk.add(kind, target)
        return UNKNOWN_OUTPUT
    if verb == "get-login-password":
        return Output(Source.SECRET, target=target)
    return read_verbs(walk, [verb], target, call.arguments)


_KEY = re.compile(r"(delete|update)-(?:access-key|ssh-public-key|service-specific-credential|signing-certificate)")


def _kind_of_key_removal(walk: Walk, verb: str, arguments: list[str]) -> str:
    """Return the kind of a command that only takes a key away or switches it off; nothing for any other."""
    match = _KEY.fullmatch(verb)
    # Behind an option, the word may be the option's value.
    if match is None or arguments[arguments.index("iam") + 1] != verb:
        return ""
    if match.group(1) == "delete":
        return "deletes-record"
    # An option may be shortened; where it is given twice, the last one counts.
    states = [walk.plain(value) for name, value in long_values(arguments) if name.startswith("--st")]
    return "changes-record" if states and all(state == "Inactive" for state in states) else ""


_BUCKET = re.compile(r"(?:s3|gs|az)://([^/]*)")
_OBJECTS_LOOK = frozenset("ls cat du stat hash version help".split())
_OBJECTS_GRANT = frozenset("acl iam defacl website cors bucketpolicyonly pap".split())


def _objects(walk: Walk, call: Invocation, verb: str, paths: list[str]) -> Output:
    """`aws s3` and `gsutil`: objects copied, moved, removed, shared."""
    names = [match.group(1) for path in paths if (match := _BUCKET.match(walk.plain(path)))]
    name = names[0] if names else verb
    if verb in ("presign", "sign", "signurl"):
        walk.add("shares", name)
    elif verb in _OBJECTS_LOOK or has_option(call.arguments, "--dryrun", "--dry-run"):
        return Output(Source.DOWNLOAD, target=name) if verb == "cat" else UNKNOWN_OUTPUT
    elif verb in ("rm", "rb"):
        walk.add("deletes-data", name)
    elif verb in _OBJECTS_GRANT or any("public-read" in argument for argument in call.arguments):
        walk.add("grants-access", name)
    elif verb in ("cp", "mv", "sync", "rsync") and len(paths) > 1:
        return _copy_objects(walk, call, paths, names)
    else:
        walk.add("changes-service", name)
    return UNKNOWN_OUTPUT


def _copy_objects(walk: Walk, call: Invocation, paths: list[str], names: list[str]) -> Output:
    if not _BUCKET.match(walk.plain(paths[-1])):
        stream = Output(Source.DOWNLOAD, target=names[0] if names else "")
        walk.add("requests", stream.target)
        if paths[-1] == "-":
            return stream
        walk.write_file(paths[-1], stream)
        return NO_OUTPUT
    for path in paths[:-1]:
        stream = call.stdin if path == "-" else walk.read_file(path)
        if stream.source is Source.SECRET:
            walk.add("sends-secret", stream.target)
    walk.add("sends-data", names[-1])
    if has_option(call.arguments, "--delete"):
        walk.add("deletes-data", names[-1])
    return NO_OUTPUT


def _gsutil(walk: Walk, call: Invocation) -> Output:
    words = plain_words(call.arguments)
    return _objects(walk, call, words[0] if words else "", words[1:])


_GRANTING_NOUNS = (["role", "assignment"], ["ad", "user"], ["ad", "sp"], ["ad", "app"])
_SECRET_NOUNS = re.compile(
    r"\b(?:secrets versions access|keyvault secret (?:show|download)|keys list|connection-string)"
)


def _gcloud(walk: Walk, call: Invocation) -> Output:
    """`gcloud`, `az` and their like: nouns first, the verb after them."""
    words = plain_words(call.arguments)
    if words[:1] == ["storage"] and call.name == "gcloud":
        return _objects(walk, call, [*words, ""][1], words[2:])
    if words[:1] in (["auth"], ["login"], ["logout"]) or words[:2] == ["account", "set"]:
        return _cloud_login(walk, call, words)
    if _SECRET_NOUNS.search(" ".join(words)):
        walk.add("reads-secret", walk.plain(words[-1]))
        return Output(Source.SECRET, target=walk.plain(words[-1]))
    position = next((at for at, word in enumerate(words) if at and _is_verb(word)), -1)
    target = walk.plain(words[position + 1]) if 0 <= position < len(words) - 1 else " ".join(words[:3])
    if words[:2] in _GRANTING_NOUNS or words[:1] == ["iam"]:
        return _gcloud_iam(walk, call, words, target)
    if words[:2] in (["compute", "ssh"], ["vm", "run-command"]):
        walk.run_elsewhere(dict(long_values(call.arguments)).get("--command", ""))
    return read_verbs(walk, words[position : position + 1] if position >= 0 else words, target, call.arguments)


_KEY_REMOVALS = {
    "iam service-accounts keys delete": "deletes-record",
    "iam service-accounts keys disable": "changes-record",
}


def _gcloud_iam(walk: Walk, call: Invocation, words: list[str], target: str) -> Output:
    if not _has("looks", words[1:]):
        kind = "makes-key" if {"keys", "create"} <= set(words) else "grants-access"
        # With an option among them, one of these words may be the option's value.
        if call.name == "gcloud" and not any(argument.startswith("--member") for argument in call.arguments):
            kind = _KEY_REMOVALS.get(" ".join(call.arguments[:4]), kind)
        walk.add(kind, target)
    return UNKNOWN_OUTPUT


def _cloud_login(walk: Walk, call: Invocation, words: list[str]) -> Output:
    if any(word.startswith("print") for word in words):
        walk.add("reads-secret", " ".join(words[:3]))
        return Output(Source.SECRET, target=" ".join(words[:3]))
    if not any(word in ("list", "show") for word in words):
        walk.add("changes-login", call.name)
    return UNKNOWN_OUTPUT


def _is_verb(word: str) -> bool:
    return _has("looks", [word]) or _has("changes-service", [word]) or any(_has(kind, [word]) for kind in _KINDS)


_KUBECTL_VALUED = frozenset(
    "-n --namespace --context --cluster --user --kubeconfig -s --server --as --token -o --output -l "
    "--selector -f --filename "
    "-c --container -p --patch --type --replicas --image --from-literal --from-file --tail --since".split()
)
_SECRETS = re.compile(r"(?:^|[\s,])secrets?(?:/|$|,|\s)")


def _kubectl(walk: Walk, call: Invocation) -> Output:
    call = call._replace(name="kubectl")
    words = command_words(call)
    if has_option(call.arguments, "--insecure-skip-tls-verify"):
        walk.add("disables-check", "TLS")
    server = host_of(walk.plain(dict(long_values(call.arguments)).get("--server", "")))
    verb = words[0] if words else ""
    if verb == "config":
        return _kubectl_config(walk, call, words, server)
    if server and not is_local(server):
        walk.add("requests", server)
    if any(argument.startswith("--dry-run") and not argument.endswith("none") for argument in call.arguments):
        return UNKNOWN_OUTPUT
    if verb in ("exec", "run", "debug", "cp"):
        return _kubectl_run(walk, call, verb, walk.plain([*words, verb][1]))
    options = split_options(call.arguments, _KUBECTL_VALUED)[0]
    if verb == "get" and _SECRETS.search(" ".join(words[1:3])):
        return _kubectl_secret(walk, call, words, options)
    if verb in ("apply", "create", "replace"):
        _note_manifests(walk, call, options)
    return _kubectl_set(walk, call, words)


def _kubectl_run(walk: Walk, call: Invocation, verb: str, target: str) -> Output:
    """Read what runs in a container after `--`, and the settings before it; looking around in one changes nothing."""
    own = call.arguments[: call.arguments.index("--")] if "--" in call.arguments else call.arguments
    note_settings(walk, own)
    inner = call.arguments[len(own) + 1 :]
    changes, printed = walk.changes_container(inner, call.stdin) if inner else (True, UNKNOWN_OUTPUT)
    if changes or verb != "exec":
        walk.add("changes-service", target)
    return printed


def _kubectl_set(walk: Walk, call: Invocation, words: list[str]) -> Output:
    if words[:2] == ["set", "image"]:
        note_container_images(walk, words[2:])
    elif words and words[0] in _KUBECTL_SETS:
        note_settings(walk, call.arguments)
    return read_row(walk, call)


_KUBECTL_SETS = frozenset("set patch annotate label create apply replace expose edit scale autoscale rollout".split())


def _kubectl_config(walk: Walk, call: Invocation, words: list[str], server: str) -> Output:
    verb = [*words, ""][1]
    if server or verb == "set-cluster":
        walk.add("changes-remote", server or walk.plain(words[-1]))
    elif verb == "set-credentials":
        walk.add("changes-login", walk.plain(words[-1]))
    elif verb in (
        "set-context",
        "set",
        "use-context",
        "use",
        "unset",
        "delete-context",
        "delete-cluster",
        "rename-context",
    ):
        walk.add("changes-service", walk.plain(words[-1]))
    else:
        return read_row(walk, call)
    return UNKNOWN_OUTPUT


def _kubectl_secret(walk: Walk, call: Invocation, words: list[str], options: list[tuple[str, str]]) -> Output:
    shown = [value for name, value in options if name in ("-o", "--output")]
    if not any(value.startswith(("yaml", "json", "go-template", "template")) for value in shown):
        return UNKNOWN_OUTPUT
    target = walk.plain(target_of(call, words[1:]))
    walk.add("reads-secret", target)
    return Output(Source.SECRET, target=target)


def _note_manifests(walk: Walk, call: Invocation, options: list[tuple[str, str]]) -> None:
    for name, value in options:
        if name not in ("-f", "--filename"):
            continue
        stream = call.stdin if value == "-" else walk.read_file(value)
        if "://" in value:
            walk.add("runs-download", host_of(walk.plain(value)))
        elif stream.source is Source.DOWNLOAD:
            walk.add("runs-download", stream.target)


def _terraform(walk: Walk, call: Invocation) -> Output:
    if {"-destroy", "--destroy"} & set(call.arguments) and "plan" not in call.arguments:
        walk.add("deletes-data", "infrastructure")
    elif "fmt" in call.arguments:
        walk.add("runs-project-task", call.name)
    elif call.arguments[:2] == ["state", "pull"]:
        walk.add("reads-secret", "state")
    else:
        if "apply" in call.arguments:
            note_settings(walk, call.arguments)
        return read_row(walk, call)
    return UNKNOWN_OUTPUT


def _vault(walk: Walk, call: Invocation) -> Output:
    words = command_words(call)
    if words[:2] == ["kv", "get"] or words[:1] == ["read"]:
        walk.add("reads-secret", walk.plain(words[-1]))
        return Output(Source.SECRET, target=walk.plain(words[-1]))
    if words[:1] in (["kv"], ["write"], ["delete"]) and words[1:2] not in (["list"], ["metadata"]):
        path = next((walk.plain(word) for word in words[1:] if "/" in word), walk.plain(words[-1]))
        if path.startswith(("auth/", "sys/policy", "sys/policies", "identity/")):
            walk.add("grants-access", path)
        else:
            walk.add("deletes-data" if {"delete", "destroy"} & set(words[:2]) else "changes-record", path)
        return UNKNOWN_OUTPUT
    if words[:2] == ["audit", "disable"]:
        walk.add("disables-check", "audit")
        return UNKNOWN_OUTPUT
    if words[:1] == ["login"]:
        walk.add("changes-login", "vault")
        return UNKNOWN_OUTPUT
    return read_row(walk, call)


def _helm(walk: Walk, call: Invocation) -> Output:
    words = command_words(call)
    if any(argument.startswith("--dry-run") for argument in call.arguments) or words[:2] == ["repo", "update"]:
        return UNKNOWN_OUTPUT
    if words[:2] == ["repo", "add"] and len(words) > 3:
        walk.add("uses-package-source", host_of(walk.plain(words[3])))
        return UNKNOWN_OUTPUT
    if words[:2] == ["plugin", "install"]:
        walk.add("installs-package", walk.plain(words[-1]))
        return UNKNOWN_OUTPUT
    if words[:1] in (["install"], ["upgrade"]):
        for address in [*words[1:], dict(long_values(call.arguments)).get("--repo", "")]:
            if "://" in address:
                walk.add("uses-package-source", host_of(walk.plain(address)))
        note_settings(walk, call.arguments)
    return read_row(walk, call)


_ANSIBLE_VALUED = frozenset("-i -l -t -e -u -m -a --limit --tags --extra-vars --inventory --module-name --args".split())


def _ansible(walk: Walk, call: Invocation) -> Output:
    if has_option(call.arguments, "--check", "--syntax-check", "--list-tasks", "--list-hosts", "--list-tags"):
        return UNKNOWN_OUTPUT
    options, rest = split_options(call.arguments, _ANSIBLE_VALUED)
    values = dict(options)
    walk.add("changes-service", walk.plain(rest[0]) if rest else call.name)
    module = values.get("-m") or values.get("--module-name") or "command"
    if module in ("command", "shell", "raw"):
        walk.run_elsewhere(values.get("-a") or values.get("--args") or "")
    return UNKNOWN_OUTPUT


def _heroku(walk: Walk, call: Invocation) -> Output:
    first = call.arguments[0] if call.arguments else ""
    if first == "run":
        walk.add("changes-service", "heroku")
        walk.run_elsewhere(" ".join(call.arguments[1:]))
        return UNKNOWN_OUTPUT
    if first in ("config:set", "secrets:set") or call.arguments[:2] in (["secrets", "set"], ["secrets", "import"]):
        walk.add("changes-record", "secrets")
        return UNKNOWN_OUTPUT
    return read_row(walk, call)


READERS = {
    "aws": _aws,
    **dict.fromkeys(("gsutil", "s3cmd"), _gsutil),
    **dict.fromkeys(("gcloud", "az", "doctl", "hcloud", "linode-cli", "oci", "ibmcloud", "aliyun", "scw"), _gcloud),
    **dict.fromkeys(("kubectl", "oc", "k", "microk8s.kubectl"), _kubectl),
    **dict.fromkeys(("terraform", "tofu", "terragrunt"), _terraform),
    "vault": _vault,
    "helm": _helm,
    **dict.fromkeys(("ansible", "ansible-playbook"), _ansible),
    **dict.fromkeys(("heroku", "fly", "flyctl"), _heroku),
}
