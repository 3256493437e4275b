"""Programs that start another program: `env`, `timeout`, `xargs`, `sudo`, `docker exec`, `npx`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.own_acts import HOME_VARIABLES
from lockgate.core.ruling.effects.paths import Access
from lockgate.core.ruling.effects.program_io import NO_OUTPUT, UNKNOWN_OUTPUT, Invocation, Output, Source
from lockgate.core.ruling.effects.programs.options import has_option, program_after, split_options
from lockgate.core.ruling.effects.programs.program_table import command_words, read_row

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

# Options of each wrapper that take the next argument; `skip` is how many arguments stand before the program.
_VALUED: dict[str, tuple[frozenset[str], int]] = {
    "timeout": (frozenset("-s --signal -k --kill-after".split()), 1),
    "gtimeout": (frozenset("-s --signal -k --kill-after".split()), 1),
    "nice": (frozenset(("-n", "--adjustment")), 0),
    "ionice": (frozenset("-c -n -p -t --class --classdata".split()), 0),
    "stdbuf": (frozenset("-i -o -e".split()), 0),
    "taskset": (frozenset(("-c",)), 1),
    "chrt": (frozenset(), 1),
    "flock": (frozenset("-w --timeout -E".split()), 1),
    "strace": (frozenset("-e -o -p -s -u".split()), 0),
    "ltrace": (frozenset("-e -o -p".split()), 0),
    "exec": (frozenset(("-a",)), 0),
    "numactl": (frozenset("-N -m -C".split()), 0),
    "script": (frozenset(("-c", "--command")), 0),
    "dotenv": (frozenset("-f -e --file".split()), 0),
    "ssh-agent": (frozenset("-a -E -O -P -t".split()), 0),
    "valgrind": (frozenset(), 0),
    "chroot": (frozenset(), 1),
    "time": (frozenset("-f -o".split()), 0),
    "systemd-run": (frozenset("-u --unit -p --property --uid --on-calendar --on-boot --on-active -H -M".split()), 0),
    "cross-env": (frozenset(), 0),
    "watch": (frozenset("-n --interval".split()), 0),
    "fakeroot": (frozenset("-l --lib --faked -s -i -b".split()), 0),
}


def _wrap(walk: Walk, call: Invocation) -> Output:
    valued, skip = _VALUED.get(call.name, (frozenset(), 0))
    rest = program_after(call.arguments, valued, skip)
    if call.name == "dotenv" and rest[:1] in (["run"], ["list"], ["get"], ["set"], ["unset"]):
        return _dotenv(walk, call, rest)
    if call.name in ("flock", "script", "su"):
        # Also as the last of several: `script -qc`.
        flags = [at for at, word in enumerate(call.arguments[:-1]) if re.fullmatch("-[a-zA-Z]*c|--command", word)]
        if flags:
            walk.read_text(call.arguments[flags[0] + 1])
            return UNKNOWN_OUTPUT
    if call.name in ("chroot", "systemd-run"):
        walk.add("runs-as-root" if call.name == "chroot" else "schedules-job")
    while rest and re.match(r"[A-Za-z_]\w*=", rest[0]):
        name, _, value = rest.pop(0).partition("=")
        walk.assign(name, value)
    if call.name == "watch" and len(rest) == 1:
        return walk.read_text(rest[0])
    return walk.run_program(rest, call.stdin) if rest else NO_OUTPUT


def _dotenv(walk: Walk, call: Invocation, words: list[str]) -> Output:
    """`dotenv run PROGRAM`, and commands that show or change the file of settings."""
    path = dict(split_options(call.arguments, _VALUED["dotenv"][0])[0]).get("-f", ".env")
    if words[0] == "run":
        rest = program_after(words[1:], frozenset())
        return walk.run_program(rest, call.stdin) if rest else NO_OUTPUT
    if words[0] in ("set", "unset"):
        walk.access(path, Access.WRITE)
        return NO_OUTPUT
    return walk.print_file(path)


def _env(walk: Walk, call: Invocation) -> Output:
    rest = list(call.arguments)
    while rest:
        argument = rest[0]
        if argument in ("-u", "--unset", "-C", "--chdir"):
            walk.assigned.update(rest[1:2] if "u" in argument else ())
            del rest[:2]
        elif argument in ("-S", "--split-string") or argument.startswith(("-S", "--split-string=")):
            text = (
                rest[1]
                if argument in ("-S", "--split-string") and len(rest) > 1
                else argument.removeprefix("-S").removeprefix("--split-string=")
            )
            return walk.read_text(text)
        elif re.match(r"[A-Za-z_]\w*=", argument):
            name, _, value = rest.pop(0).partition("=")
            walk.assign(name, value)
        elif argument[:1] == "-":
            if argument in ("-", "--ignore-environment") or re.match(r"-[0v]*i", argument):
                walk.assigned |= HOME_VARIABLES
            walk.assigned.add(argument.removeprefix("--unset=").removeprefix("-u"))
            del rest[0]
        else:
            return walk.run_program(rest, call.stdin)
    return Output(Source.ENVIRONMENT)


def _unset(walk: Walk, call: Invocation) -> Output:
    walk.assigned.update(call.arguments)
    return NO_OUTPUT


def _command(walk: Walk, call: Invocation) -> Output:
    if call.arguments[:1] in (["-v"], ["-V"]):
        return walk.run_program(["which", call.arguments[-1]], call.stdin)
    rest = program_after(call.arguments, frozenset())
    return walk.run_program(rest, call.stdin) if rest else NO_OUTPUT


def _sudo(walk: Walk, call: Invocation) -> Output:
    """`sudo`, `doas`, `su`: another user's rights, and what is done with them; alone they start a shell."""
    if call.name == "su":
        options, _ = split_options(call.arguments, frozenset(("-c", "--command", "-s", "--shell", "-g")))
        walk.add("runs-as-root")
        for option, value in options:
            if option in ("-c", "--command"):
                walk.read_text(value)
        return UNKNOWN_OUTPUT
    arguments = call.arguments
    if arguments[:1] in (["-l"], ["-v"], ["-V"], ["-k"]) and len(arguments) == 1:
        return UNKNOWN_OUTPUT
    rest = program_after(
        arguments, frozenset("-u -g -U -h -p -C -D -R -T -r -t --user --group --prompt --chdir --host".split())
    )
    while rest and re.match(r"[A-Za-z_]\w*=", rest[0]):
        name, _, value = rest.pop(0).partition("=")
        walk.assign(name, value)
    if not rest and has_option(arguments, "-k", "-K", "-v", "-l"):
        return UNKNOWN_OUTPUT
    return walk.run_as_root(rest or ["sh"], call.stdin)


_XARGS_VALUED = frozenset(
    "-n -I -P -L -d -E -s -a -i -j --max-args --max-procs --replace --delimiter --arg-file --max-lines "
    "--max-chars --jobs "
    "--colsep".split()
)
_SHELLS = frozenset("sh bash zsh dash".split())


def _xargs(walk: Walk, call: Invocation) -> Output:
    """`xargs` and `parallel`: the program with what flows in as further arguments."""
    rest = program_after(call.arguments, _XARGS_VALUED)
    stream = call.stdin
    replaced = dict(split_options(call.arguments, _XARGS_VALUED)[0]).get("-I", "")
    if call.name == "parallel":
        replaced = "{}"
        if ":::" in rest:
            index = rest.index(":::")
            stream, rest = Output(Source.TEXT, " ".join(rest[index + 1 :])), rest[:index]
    values = _arguments_from(walk, stream)
    if not rest:
        return walk.run_program(["sh"], stream) if call.name == "parallel" else stream
    if call.name == "parallel" and " " in rest[0]:
        return walk.read_text(" ".join(rest).replace("{}", " ".join(values)))
    if replaced and replaced in " ".join(rest):
        for value in values:
            walk.run_program([argument.replace(replaced, value) for argument in rest], NO_OUTPUT)
        return UNKNOWN_OUTPUT
    if rest[0] in _SHELLS and rest[1:] == ["-c"]:
        return walk.run_program(rest[:1], stream if stream is not NO_OUTPUT else UNKNOWN_OUTPUT)
    return walk.run_program([*rest, *values], NO_OUTPUT)


def _arguments_from(walk: Walk, stream: Output) -> list[str]:
    """Return the arguments that a stream is split into; a list of files stands for the path that it was made of."""
    if stream.source is Source.TEXT:
        return stream.text.split()[:64]
    if stream.source is Source.NONE and stream.target:
        return [stream.target]
    return [walk.mark(UNKNOWN_OUTPUT if stream.source is Source.FILE else stream)]


_DOCKER_RUN_VALUED = frozenset(
    "-v --volume -e --env --env-file -p --publish -w --workdir --name -u --user --network --net -m "
    "--memory --cpus --mount --entrypoint "
    "--platform -l --label --add-host --device --hostname -h --ip --link --pid --ipc --restart --cap-add "
    "--cap-drop --security-opt --shm-size "
    "--gpus --tmpfs --ulimit --volumes-from --log-driver --pull --userns --detach-keys -c --context "
    "--index -f --file --profile -n --namespace --container".split()
)


def _docker(walk: Walk, call: Invocation) -> Output:
    """`docker` and its like: containers that run commands, mounts of the whole machine, and the rest by table."""
    call = call._replace(
        name="docker",
        arguments=(
            ["compose", *call.arguments] if call.name in ("docker-compose", "podman-compose") else call.arguments
        ),
    )
    words = command_words(call)
    verb = next((word for word in words[:3] if word in ("run", "exec")), "")
    if not verb or verb not in words[:2] + (words[2:3] if words[:1] == ["compose"] else []):
        return _docker_other(walk, call, words)
    arguments = call.arguments[call.arguments.index(verb) + 1 :]
    options, rest = split_options(_own_part(arguments), _DOCKER_RUN_VALUED)
    _note_mounts(walk, options)
    tail = program_after(arguments, _DOCKER_RUN_VALUED)
    if verb == "run" and words[:1] != ["compose"]:
        note_image(walk, tail[0] if tail else "")
    else:
        walk.add("runs-project-task", f"docker {verb} {tail[0] if tail else ''}".strip())
    del rest
    inner = tail[1:]
    if inner and not inner[0].startswith("-"):
        # What happens in a container stays there, but what it sends and fetches does not.
        return walk.run_contained(inner, call.stdin)
    return UNKNOWN_OUTPUT


def _docker_other(walk: Walk, call: Invocation, words: list[str]) -> Output:
    if words[:1] == ["pull"] and len(words) > 1:
        note_image(walk, words[1])
    elif (words[:2] == ["system", "prune"] and has_option(call.arguments, "--volumes")) or (
        "down" in words[:2] and has_option(call.arguments, "-v", "--volumes")
    ):
        walk.add("deletes-data", "docker volumes")
    else:
        if "cp" in words[:2]:
            for path in words[words.index("cp") + 1 :]:
                walk.print_file(path)
        return read_row(walk, call)
    return UNKNOWN_OUTPUT


def note_image(walk: Walk, image: str) -> None:
    """Note that an image is fetched and run: one with an owner or a host in its name is a package like any other."""
    name = re.sub(r"(?:@sha256:\w+|:[\w.-]+)$", "", walk.plain(image))
    if (
        "/" not in name
        or name.startswith(("library/", "docker.io/library/"))
        or walk.project.has_package(name, "image")
        or walk.project.has_host(name.split("/")[0])
    ):
        walk.add("runs-project-task", f"docker run {name}".strip())
    else:
        walk.add("installs-package", name)


def _own_part(arguments: list[str]) -> list[str]:
    tail = program_after(arguments, _DOCKER_RUN_VALUED)
    return arguments[: len(arguments) - len(tail)]


def _note_mounts(walk: Walk, options: list[tuple[str, str]]) -> None:
    for option, value in options:
        source = re.sub(r".*(?:source|src)=([^,]+).*", r"\1", value) if option == "--mount" else value.split(":", 1)[0]
        if (
            option == "--privileged"
            or (option == "--pid" and value == "host")
            or (option == "--cap-add" and value.upper() in ("ALL", "SYS_ADMIN"))
        ):
            walk.add("runs-as-root")
        elif option in ("-v", "--volume", "--mount") and ":" in value + ("=" in value) * ":":
            plain = walk.plain(source)
            if plain == "/" or "docker.sock" in plain or plain.startswith(("/etc", "/root", "/var/run")):
                walk.add("runs-as-root")
            elif plain.rstrip("/") in ("~", "~/.ssh", "~/.aws", "~/.kube"):
                walk.add("reads-secret", plain)


def _runs_texts(walk: Walk, call: Invocation) -> Output:
    """`tmux`, `screen`, `hyperfine`, `concurrently`: an argument with blanks is a command."""
    walk.add("runs-project-task", call.name)
    for argument in call.arguments:
        if " " in argument.strip() and not re.match(r"[\w.:#{}-]*#\{", argument):
            walk.read_text(argument)
    if call.name in ("screen", "entr", "dtach") and not any(" " in argument for argument in call.arguments):
        rest = program_after(call.arguments, frozenset("-S -t -n -dmS -dm -A -c".split()))
        if rest and rest[0] not in ("-ls", "-r", "-x"):
            walk.run_program(rest, NO_OUTPUT)
    return UNKNOWN_OUTPUT


def _make(walk: Walk, call: Invocation) -> Output:
    """`make`: a task of the project, unless its file lies elsewhere or a variable holds a command."""
    options, words = split_options(
        call.arguments, frozenset("-f --file --makefile -C --directory -o -W -I --eval".split())
    )
    for option, value in options:
        if option in ("-f", "--file", "--makefile", "-C", "--directory"):
            walk.run_path(value)
        elif option == "--eval":
            walk.add_unreadable()
    for word in words:
        name, equals, value = word.partition("=")
        if equals and re.search(r"[;|&`]|\$\(", value):
            walk.read_text(value)
        elif equals and name == "SHELL":
            walk.run_path(value)
    if not ("-n" in call.arguments or "--dry-run" in call.arguments):
        walk.add("runs-project-task", next((word for word in words if "=" not in word), call.name))
    return UNKNOWN_OUTPUT


def _busybox(walk: Walk, call: Invocation) -> Output:
    return walk.run_program(call.arguments, call.stdin) if call.arguments else UNKNOWN_OUTPUT


def _nix_shell(walk: Walk, call: Invocation) -> Output:
    options, _ = split_options(call.arguments, frozenset("--run --command -p --packages -c".split()))
    for option, value in options:
        if option in ("--run", "--command"):
            walk.read_text(value)
    walk.add("runs-project-task", call.name)
    return UNKNOWN_OUTPUT


READERS = {
    **dict.fromkeys(
        "timeout gtimeout nohup nice ionice stdbuf setsid unbuffer caffeinate time exec builtin taskset "
        "chrt flock strace ltrace "
        "numactl script dotenv chroot systemd-run xvfb-run fakeroot chronic catchsegv cross-env watch "
        "ccache sccache noglob nocorrect winpty ssh-agent valgrind".split(),
        _wrap,
    ),
    "env": _env,
    "unset": _unset,
    "command": _command,
    **dict.fromkeys(("sudo", "doas", "su", "pkexec", "gosu", "runuser"), _sudo),
    **dict.fromkeys(("xargs", "gxargs", "parallel", "rush"), _xargs),
    **dict.fromkeys(("docker", "podman", "nerdctl", "docker-compose", "podman-compose"), _docker),
    **dict.fromkeys(("busybox", "toybox"), _busybox),
    **dict.fromkeys(("nix-shell",), _nix_shell),
    **dict.fromkeys(
        "tmux screen hyperfine concurrently entr nodemon tsp dtach wsl vagrant multipass".split(), _runs_texts
    ),
    **dict.fromkeys(("make", "gmake", "bmake"), _make),
}
