"""Command lines of clouds and clusters: what a verb does, whichever service it is for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.paths import Access
from lockgate.core.ruling.effects.programs.addresses import host_of, is_local
from lockgate.core.ruling.effects.programs.options import has_option, split_options
from lockgate.core.ruling.effects.streams import EMPTY, Invocation, Origin, Stream

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

_NONE = Stream(Origin.NONE)
_LOOKS = re.compile(
    r"(?:describe|list|get|show|ls|head|wait|help|view|search|test|validate|check|estimate|preview|lookup|query|scan|select|filter|info|status|export|diff|version|tail|read|batch-get|generate-(?!access|token)|simulate|detect|detail|history|logs?)(?:-.*)?$"
)
_DELETES = re.compile(
    r"(?:delete|terminate|remove|rm|rb|purge|destroy|drop|deregister|empty|wipe|deprovision|flush|truncate|release|cancel)(?:-.*)?$"
)
_GRANTS = re.compile(
    r"(?:attach|put|create|add|set|update|grant|allow|authorize|assign|replace|modify|enable)-?(?:.*-)?(?:polic(?:y|ies)|acl|role|roles|permission|permissions|iam|user|group|login-profile|access-key|access-keys|key-pair|ingress|egress|binding|bindings|grant|trust|member|members|principal|credentials?|mfa.*)(?:-.*)?$"
    r"|assume-role.*|get-session-token|get-federation-token|share-.*|modify-.*-attribute"
)
_WEAKENS = re.compile(
    r"(?:disable|deactivate|stop-logging|delete|suspend|delete-trail|put-public-access-block|delete-public-access-block)-?.*(?:mfa|trail|logging|guard|protection|encryption|alarm|audit|config(?:uration)?-recorder|detector|flow-logs|waf|block|shield|policy)|stop-logging|delete-public-access-block|put-public-access-block"
)
_SECRET = re.compile(
    r"get-secret-value|get-parameters?(?:-by-path)?|get-password-data|get-login-password|access-secret|print-access-token|print-identity-token|get-access-token|decrypt|get-credentials-report|list-keys|show-connection-string|get-random-password"
)


def read_verbs(walk: Walk, words: list[str], target: str) -> Stream:
    """Note what the words of a cloud's command do; the gravest word counts."""
    joined = [word.lower() for word in words]
    if any(_SECRET.fullmatch(word) for word in joined):
        return Stream(Origin.SECRET, target=target)
    verbs = [word for word in joined if _LOOKS.fullmatch(word) or _DELETES.fullmatch(word) or _GRANTS.fullmatch(word)]
    kind = "changes-service"
    if any(_WEAKENS.fullmatch(word) for word in joined):
        kind = "disables-check"
    elif any(_GRANTS.fullmatch(word) for word in joined):
        kind = "grants-access"
    elif any(_DELETES.fullmatch(word) for word in joined):
        kind = "deletes-data"
    elif verbs:
        return _NONE
    walk.add(kind, target)
    return _NONE


_AWS_VALUED = frozenset(
    "--profile --region --output --query --endpoint-url --ca-bundle --color --cli-read-timeout --cli-connect-timeout".split()
)


def _aws(walk: Walk, call: Invocation) -> Stream:
    options, words = split_options(call.arguments, _AWS_VALUED)
    values = dict(_long_values(call.arguments))
    if "--no-verify-ssl" in values:
        walk.add("disables-check", "TLS")
    if "--endpoint-url" in values and not is_local(host_of(values["--endpoint-url"])):
        walk.add("requests", host_of(values["--endpoint-url"]))
    del options
    service, verb = (words[0] if words else ""), (words[1] if len(words) > 1 else "")
    if service == "s3":
        return _s3(walk, call, verb, words[2:])
    if service in ("configure", "sso"):
        if verb in ("list", "get", "list-profiles"):
            return _NONE
        walk.add("changes-login", "aws")
        return _NONE
    target = walk.plain(
        next(
            (
                value
                for name, value in values.items()
                if re.search(r"name|id|bucket|user|role|group|arn|cluster|table|queue|function|stack|key", name)
            ),
            " ".join(words[:2]),
        )
    )
    if service == "ssm" and verb in ("send-command", "start-session"):
        walk.add("changes-service", target)
        walk.add_unreadable()
        return _NONE
    if service == "ssm" and verb.startswith("get-parameter") and "--with-decryption" not in call.arguments:
        return _NONE
    if service == "iam" and re.match(r"(?:get|list|generate|simulate)", verb):
        return _NONE
    if service == "iam" and not _DELETES.match(verb):
        walk.add("grants-access", target)
        return _NONE
    if "--dry-run" in call.arguments:
        return _NONE
    result = read_verbs(walk, [verb], target)
    if result.origin is Origin.SECRET and verb != "get-login-password":
        walk.add("reads-secret", target)
    return result


def _long_values(arguments: list[str]) -> list[tuple[str, str]]:
    pairs = []
    for index, argument in enumerate(arguments):
        if argument.startswith("--"):
            name, equals, value = argument.partition("=")
            following = arguments[index + 1] if index + 1 < len(arguments) else ""
            pairs.append((name, value if equals else "" if following.startswith("--") else following))
    return pairs


def _s3(walk: Walk, call: Invocation, verb: str, paths: list[str]) -> Stream:
    """`aws s3` and `gsutil`: objects copied, moved, removed, shared."""
    buckets = [walk.plain(path) for path in paths if re.match(r"(?:s3|gs|az)://", walk.plain(path))]
    names = [re.sub(r"^\w+://([^/]*).*", r"\1", bucket) for bucket in buckets]
    if has_option(call.arguments, "--dryrun", "--dry-run") or verb in (
        "ls",
        "cat",
        "du",
        "stat",
        "hash",
        "version",
        "help",
        "presign",
        "sign",
    ):
        if verb in ("presign", "sign", "signurl"):
            walk.add("shares", names[0] if names else "")
        return Stream(Origin.DOWNLOAD, target=names[0]) if verb == "cat" and names else _NONE
    if verb in ("rm", "rb"):
        walk.add("deletes-data", names[0] if names else verb)
        return _NONE
    if verb in ("acl", "iam", "defacl", "website", "cors", "bucketpolicyonly", "pap"):
        walk.add("grants-access", names[0] if names else verb)
        return _NONE
    if any("public" in argument for argument in call.arguments if argument[:1] == "-" or argument.startswith("public")):
        walk.add("grants-access", names[0] if names else verb)
    if verb in ("cp", "mv", "sync", "rsync") and len(paths) >= 2:
        if re.match(r"(?:s3|gs|az)://", walk.plain(paths[-1])):
            for path in paths[:-1]:
                stream = walk.read_file(path) if path != "-" else call.stdin
                if stream.origin is Origin.SECRET:
                    walk.add("sends-secret", stream.target)
            walk.add("sends-data", names[-1] if names else "")
            if has_option(call.arguments, "--delete"):
                walk.add("deletes-data", names[-1])
        elif paths[-1] == "-":
            return Stream(Origin.DOWNLOAD, target=names[0] if names else "")
        else:
            walk.write_file(paths[-1], Stream(Origin.DOWNLOAD, target=names[0] if names else ""))
            walk.add("requests", names[0] if names else "")
        return EMPTY
    walk.add("changes-service", names[0] if names else verb)
    return _NONE


def _gsutil(walk: Walk, call: Invocation) -> Stream:
    words = [argument for argument in call.arguments if argument[:1] != "-"]
    return _s3(walk, call, words[0] if words else "", words[1:])


def _gcloud(walk: Walk, call: Invocation) -> Stream:
    """`gcloud` and `az`: nouns first, the verb after them."""
    words = [argument for argument in call.arguments if argument[:1] != "-"]
    if call.name == "gcloud" and words[:1] == ["storage"] and len(words) > 1:
        return _s3(walk, call, words[1], words[2:])
    if words[:1] in (["auth"], ["login"], ["logout"]) or words[:2] == ["account", "set"]:
        if any(word in ("list", "show") for word in words):
            return _NONE
        if any(word.startswith("print") for word in words):
            walk.add("reads-secret", " ".join(words[:3]))
            return Stream(Origin.SECRET, target=" ".join(words[:3]))
        walk.add("changes-login", call.name)
        return _NONE
    if words[:1] == ["config"] and words[1:2] in (["list"], ["get"], ["get-value"], ["configurations"]):
        return _NONE
    if re.search(
        r"(?:^|\s)(?:secrets versions access|keyvault secret (?:show|download)|keys list|connection-string)",
        " ".join(words),
    ):
        walk.add("reads-secret", words[-1])
        return Stream(Origin.SECRET, target=words[-1])
    position = next((at for at, word in enumerate(words) if at and _is_verb(word)), -1)
    target = walk.plain(words[position + 1]) if 0 <= position < len(words) - 1 else " ".join(words[:3])
    if (
        words[:2] in (["role", "assignment"], ["ad", "user"], ["ad", "sp"], ["ad", "app"])
        or words[:1] == ["iam"]
        and not any(_LOOKS.fullmatch(word) for word in words)
    ):
        if not any(_LOOKS.fullmatch(word) for word in words[2:]):
            walk.add("grants-access", target)
            return _NONE
    if words[:2] in (["compute", "ssh"], ["vm", "run-command"]):
        walk.add("changes-service", target)
        command = dict(_long_values(call.arguments)).get("--command", "")
        if command:
            walk.run_elsewhere(command)
        return _NONE
    return read_verbs(walk, words[position : position + 1] if position >= 0 else words, target)


def _is_verb(word: str) -> bool:
    return bool(
        _LOOKS.fullmatch(word)
        or _DELETES.fullmatch(word)
        or _GRANTS.fullmatch(word)
        or re.fullmatch(
            r"create|update|set|deploy|start|stop|restart|reset|add|run|invoke|resize|patch|import|submit|upload|scale|apply|enable|disable|move|clone|restore|rollback|promote|failover|attach|detach|call|publish",
            word,
        )
    )


_KUBECTL_VALUED = frozenset(
    "-n --namespace --context --cluster --user --kubeconfig -s --server --as --token -o --output -l --selector -f --filename -c --container -p --patch --type --replicas --image --from-literal --from-file --tail --since".split()
)


def _kubectl(walk: Walk, call: Invocation) -> Stream:
    from lockgate.core.ruling.effects.programs.table import command_words, read_row, target_of

    call = call._replace(name="kubectl")
    words = command_words(call)
    arguments = call.arguments
    if has_option(arguments, "--insecure-skip-tls-verify"):
        walk.add("disables-check", "TLS")
    server = next((value for name, value in _long_values(arguments) if name == "--server"), "")
    verb = words[0] if words else ""
    if verb == "config" and words[1:2] in (["set-cluster"], ["set-credentials"], ["set-context"], ["set"]):
        if server or words[1] == "set-cluster":
            walk.add("changes-remote", host_of(walk.plain(server)) or walk.plain(words[-1]))
        else:
            walk.add("changes-login" if words[1] == "set-credentials" else "changes-service", walk.plain(words[-1]))
        return _NONE
    if verb == "config" and words[1:2] in (["use-context"],):
        walk.add("changes-service", walk.plain(words[-1]))
        return _NONE
    if server and not is_local(host_of(server)):
        walk.add("requests", host_of(walk.plain(server)))
    if verb in ("exec", "run", "debug"):
        inner = arguments[arguments.index("--") + 1 :] if "--" in arguments else []
        walk.add("changes-service", walk.plain(words[1]) if len(words) > 1 else verb)
        if inner:
            walk.run_contained(inner, call.stdin)
        return _NONE
    if verb == "cp" and len(words) > 2:
        walk.add("changes-service", walk.plain(words[2]))
        return _NONE
    if any(argument.startswith("--dry-run") and not argument.endswith("none") for argument in arguments):
        return _NONE
    if verb == "get" and re.search(r"(?:^|[\s,])secrets?(?:/|$|,|\s)", " ".join(words[1:3])):
        shows = [value for name, value in split_options(arguments, _KUBECTL_VALUED)[0] if name in ("-o", "--output")]
        if any(value.startswith(("yaml", "json", "go-template", "template")) for value in shows):
            name = target_of(call, words[1:])
            walk.add("reads-secret", name)
            return Stream(Origin.SECRET, target=name)
        return _NONE
    if verb in ("apply", "create", "replace"):
        for name, value in split_options(arguments, _KUBECTL_VALUED)[0]:
            if name in ("-f", "--filename") and "://" in value:
                walk.add("runs-download", host_of(walk.plain(value)))
            elif name in ("-f", "--filename") and value == "-" and call.stdin.origin is Origin.DOWNLOAD:
                walk.add("runs-download", call.stdin.target)
    return read_row(walk, call)


def _terraform(walk: Walk, call: Invocation) -> Stream:
    from lockgate.core.ruling.effects.programs.table import read_row

    if "-destroy" in call.arguments or "--destroy" in call.arguments:
        if "plan" not in call.arguments:
            walk.add("deletes-data", "infrastructure")
            return _NONE
    if "fmt" in call.arguments:
        walk.add("runs-project-task", call.name)
        return _NONE
    if call.arguments[:2] == ["state", "pull"]:
        walk.add("reads-secret", "state")
        return _NONE
    return read_row(walk, call)


def _vault(walk: Walk, call: Invocation) -> Stream:
    from lockgate.core.ruling.effects.programs.table import command_words, read_row

    words = command_words(call)
    if words[:2] in (["kv", "get"], ["kv", "list"]) and words[1] == "get" or words[:1] == ["read"]:
        walk.add("reads-secret", walk.plain(words[-1]))
        return Stream(Origin.SECRET, target=walk.plain(words[-1]))
    if words[:1] in (["kv"], ["write"], ["delete"]) and words[1:2] not in (["list"], ["metadata"]):
        path = next((walk.plain(word) for word in words[1:] if "/" in word), walk.plain(words[-1]))
        if path.startswith(("auth/", "sys/policy", "sys/policies", "identity/")):
            walk.add("grants-access", path)
        else:
            walk.add("deletes-data" if "delete" in words[:2] or "destroy" in words[:2] else "changes-record", path)
        return _NONE
    if words[:2] in (["audit", "disable"],):
        walk.add("disables-check", "audit")
        return _NONE
    if words[:1] == ["login"]:
        walk.add("changes-login", "vault")
        return _NONE
    return read_row(walk, call)


def _helm(walk: Walk, call: Invocation) -> Stream:
    from lockgate.core.ruling.effects.programs.table import command_words, read_row

    words = command_words(call)
    if words[:2] == ["repo", "add"] and len(words) > 3:
        walk.add("uses-package-source", host_of(walk.plain(words[3])))
        return _NONE
    if words[:2] == ["repo", "update"]:
        return _NONE
    if any(argument.startswith("--dry-run") for argument in call.arguments):
        return _NONE
    if words[:1] in (["install"], ["upgrade"]):
        for argument in [*words[1:], *(value for name, value in _long_values(call.arguments) if name == "--repo")]:
            if "://" in argument:
                walk.add("uses-package-source", host_of(walk.plain(argument)))
    if words[:2] == ["plugin", "install"]:
        walk.add("installs-package", walk.plain(words[-1]))
        return _NONE
    return read_row(walk, call)


def _ansible(walk: Walk, call: Invocation) -> Stream:
    if has_option(call.arguments, "--check", "--syntax-check", "--list-tasks", "--list-hosts", "--list-tags"):
        return _NONE
    options, rest = split_options(
        call.arguments,
        frozenset("-i -l -t -e -u -m -a -b --limit --tags --extra-vars --inventory --module-name --args -k".split())
        - {"-b", "-k"},
    )
    values = dict(options)
    walk.add("changes-service", walk.plain(rest[0]) if rest else call.name)
    command = values.get("-a") or values.get("--args") or ""
    if command and (values.get("-m") or values.get("--module-name") or "command") in ("command", "shell", "raw"):
        walk.run_elsewhere(command)
    return _NONE


def _heroku(walk: Walk, call: Invocation) -> Stream:
    from lockgate.core.ruling.effects.programs.table import read_row

    if "run" in call.arguments[:1]:
        walk.add("changes-service", "heroku")
        walk.run_elsewhere(" ".join(call.arguments[1:]))
        return _NONE
    if (
        call.arguments[:1]
        and re.match(r"(?:secrets|config)(?::set|$)", call.arguments[0])
        and "set" in " ".join(call.arguments[:2])
    ):
        walk.add("changes-record", "secrets")
        return _NONE
    return read_row(walk, call)


def _deploy_file(walk: Walk, call: Invocation) -> Stream:
    del call
    walk.access(".", Access.WRITE)
    return _NONE


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
