"""Package managers: what they install, from where, and packages that run at once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.program_io import UNKNOWN_OUTPUT, Invocation, Output
from lockgate.core.ruling.effects.programs.options import has_option, plain_words, program_after, split_options
from lockgate.core.ruling.effects.programs.program_table import command_words, has_row, is_task, read_row
from lockgate.core.ruling.effects.programs.url_hosts import host_of, is_local
from lockgate.core.ruling.effects.project import package_name
from lockgate.core.tables import read_words

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

# Test runners, linters, formatters, build front ends: tools of developers, not what a product is made of. A scope of
# npm stands for all packages in it: only its makers can publish there.
COMMON_TOOLS = frozenset(
    package_name(name)
    for line in read_words("lockgate.core.ruling.effects.programs", "common_tools.txt")
    for name in line.split()
)
PUBLIC_SOURCES = frozenset(
    "pypi.org files.pythonhosted.org registry.npmjs.org registry.yarnpkg.com registry.yarnpkg.com. "
    "crates.io index.crates.io rubygems.org "
    "proxy.golang.org repo.maven.apache.org repo1.maven.org api.nuget.org download.pytorch.org "
    "conda.anaconda.org pypi.python.org npm.pkg.github.com".split()
)
_VALUED = frozenset(
    "-r --requirement -c --constraint -e --editable -t --target --prefix --root --python -p --platform "
    "--abi --implementation "
    "-i --index-url --extra-index-url --index --default-index -f --find-links --registry --trusted-host "
    "--group -G --only-group --extra "
    "--python-version --upgrade-strategy --progress-bar --config-settings --global-option --cache-dir "
    "--log --proxy --timeout --retries "
    "--only-binary --no-binary --report --src --cert --client-cert -w --workspace --filter -C --dir --cwd "
    "--omit --include --save-prefix "
    "-n --name --channel --manifest-path --features -F --git --branch --tag --rev --path --version -v "
    "--source -s --with --with-editable "
    "--from --spec --bin --package --userconfig --tag --loglevel --exclude-newer --resolution --link-mode "
    "--pip-args".split()
) - {"-v", "-s"}
_SOURCES = frozenset(
    "-i --index-url --extra-index-url --index --default-index -f --find-links --registry --proxy --git "
    "--trusted-host --source --channel".split()
)
# Conda's `-f` and `--file` are lists of packages, and its channels are names as often as addresses.
_CONDA = frozenset("conda mamba micromamba".split())
_CONDA_OPTIONS = {"-f": "--requirement", "--file": "--requirement", "-c": "--channel"}
_CONDA_CHANNELS = frozenset("defaults main anaconda conda-forge bioconda pytorch nvidia nodefaults".split())
_INSTALL_VERBS = {
    "pip": ("install",),
    "pip3": ("install",),
    "npm": ("install", "i", "add", "in", "ins", "isntall", "update", "up", "upgrade"),
    "pnpm": ("add", "install", "i", "dlx"),
    "yarn": ("add", "global", "install", "dlx"),
    "bun": ("add", "install", "i"),
    "poetry": ("add",),
    "pdm": ("add",),
    "rye": ("add",),
    "pipenv": ("install",),
    "pixi": ("add",),
    "uv": ("add",),
    "conda": ("install", "create"),
    "mamba": ("install", "create"),
    "micromamba": ("install", "create"),
    "cargo": ("add", "install", "binstall"),
    "go": ("get", "install"),
    "gem": ("install",),
    "bundle": ("add",),
    "composer": ("require", "global"),
    "dotnet": ("add", "tool"),
    "brew": ("install", "upgrade", "reinstall", "tap"),
    "pipx": ("install", "inject"),
    "deno": ("add", "install"),
    "llm": ("install",),
    "luarocks": ("install",),
    "cpan": (),
    "cpanm": (),
    "opam": ("install",),
    "code": ("--install-extension",),
    "snap": ("install",),
    "flatpak": ("install",),
    "winget": ("install",),
    "choco": ("install",),
    "scoop": ("install",),
    "easy_install": (),
    "nix-env": ("-i", "-iA"),
}
# Where a manager's packages come from: a project that has a name from one registry says nothing of another.
_REGISTRIES = {
    **dict.fromkeys("pip pip3 poetry pdm rye pipenv hatch uv uvx pipx easy_install".split(), "pypi"),
    **dict.fromkeys("npm npx pnpm pnpx yarn bun bunx".split(), "npm"),
    "cargo": "cargo",
    "gem": "gem",
    "bundle": "gem",
    "composer": "composer",
}
_SYSTEM_MANAGERS = frozenset(
    "apt apt-get aptitude dnf yum apk pacman zypper microdnf emerge xbps-install pkg port".split()
)


def note_source(walk: Walk, address: str) -> None:
    """Note that packages come from a given server, unless it is a public index or the project names it."""
    host = host_of(walk.plain(address)) if "://" in address or "." in address or ":" in address else ""
    if not host:
        return
    if is_local(host) or host in PUBLIC_SOURCES or walk.project.has_host(host):
        return
    walk.add("uses-package-source", host)


_REPOSITORY = re.compile(r"(?:[\w.-]+\s*@\s*)?(?:(?:git|hg|svn)\+)?((?:https?|ssh|git|ftp)://\S+|git@\S+)")
_FORGE = re.compile(r"(github|gitlab|bitbucket|gist):")


def note_package(walk: Walk, word: str, registry: str = "") -> None:
    """Note the installation of one package, as a package manager spells it, from the manager's registry."""
    plain = walk.plain(word).strip()
    address = repository_address(plain)
    if address:
        if walk.project.has_url(address):
            walk.add("installs-known-package")
        else:
            walk.add("uses-package-source", host_of(address))
    elif plain.startswith((".", "/", "~", "file:", "link:", "workspace:")) or plain.endswith(_ARCHIVES):
        _note_local(walk, plain)
    elif (name := package_in(plain)) and is_known(walk, name, registry):
        walk.add("installs-known-package")
    elif name:
        walk.add("installs-package", name)


_ARCHIVES = (".whl", ".tar.gz", ".tgz", ".zip")


def repository_address(plain: str) -> str:
    """Return the URL of a package that is given as an address or as a repository; empty for any other."""
    match = _REPOSITORY.match(plain)
    if match is not None:
        address = match.group(1)
        return "https://" + address[4:].replace(":", "/", 1) if address.startswith("git@") else address
    if _FORGE.match(plain):
        return "https://" + plain.replace(":", ".com/", 1)
    # npm's short form of a GitHub repository is `owner/name`.
    return f"https://github.com/{plain}" if re.fullmatch(r"[\w-]+/[\w.-]+(?:#\S*)?", plain) else ""


def is_known(walk: Walk, name: str, registry: str = "") -> bool:
    """Return whether a package is the project's own, or a tool that developers install everywhere."""
    return walk.project.has_package(name, registry) or package_name(name) in COMMON_TOOLS or _is_companion(walk, name)


def _is_companion(walk: Walk, name: str) -> bool:
    """Return whether only known makers can publish this name: those of a common tool, or of a package that is used."""
    scope, slash, _ = name.partition("/")
    if not slash or scope[:1] != "@":
        return False
    return scope in COMMON_TOOLS or any(
        package.removeprefix("npm:").startswith(f"{scope}/") for package in walk.project.packages
    )


def package_in(word: str) -> str:
    """Return a package's name without version, extras and quotes."""
    if word.startswith("@"):
        return "@" + re.split(r"[@=<>~^\[; ]", word[1:], maxsplit=1)[0]
    return re.split(r"[@=<>~!^\[; :]", word.strip("'\""), maxsplit=1)[0]


def _note_local(walk: Walk, plain: str) -> None:
    path = re.sub(r"\[[\w,.\s-]*\]$", "", plain.removeprefix("file:").removeprefix("link:")) or "."
    host = walk.download_of(walk.full_path(path))
    if host:
        walk.add("runs-download", host)
    elif walk.place(path) in ("inside", "outside"):
        walk.add("installs-known-package")
    else:
        walk.add("uses-package-source", path)


def install_names(walk: Walk, call: Invocation) -> Output | None:
    """Read an installation; None when the command installs nothing."""
    verbs = _INSTALL_VERBS.get(call.name, ())
    position = next((at for at, argument in enumerate(call.arguments) if argument in verbs), -1)
    if position < 0 and verbs:
        return None
    words = call.arguments[position + 1 :]
    if call.arguments[position] in ("global", "tool", "add") and call.name in _TWO_WORDS:
        words = [word for word in words if word not in ("add", "require", "install", "package", "reference")]
    is_conda = call.name in _CONDA
    options, names = split_options(words, _VALUED | {"--file"} if is_conda else _VALUED)
    registry = _REGISTRIES.get(call.name, "")
    for option, value in options:
        _note_option(walk, _CONDA_OPTIONS.get(option, option) if is_conda else option, value, registry)
    for name in names:
        note_package(walk, name, registry)
    if not names:
        walk.add("installs-known-package")
    return UNKNOWN_OUTPUT


_TWO_WORDS = frozenset("dotnet yarn composer".split())


def _note_option(walk: Walk, option: str, value: str, registry: str) -> None:
    if option == "--channel" and "://" not in value:
        if value not in _CONDA_CHANNELS:
            walk.add("uses-package-source", walk.plain(value))
    elif option in _SOURCES:
        note_source(walk, value)
    elif option in ("-e", "--editable", "--path"):
        note_package(walk, value if value.startswith((".", "/", "git+", "http", "~")) else f"./{value}")
    elif option in ("-r", "--requirement", "-c", "--constraint"):
        host = walk.download_of(walk.full_path(value))
        if host:
            walk.add("runs-download", host)
        elif "://" in value:
            note_source(walk, value)
    elif option in ("--with", "--package"):
        note_package(walk, value, registry)


def _manager(walk: Walk, call: Invocation) -> Output:
    """A package manager: installations here, scripts and questions by table."""
    if call.name == "pip3":
        call = call._replace(name="pip")
    if call.name == "cargo" and call.arguments and _TOOLCHAIN.fullmatch(call.arguments[0]):
        call = call._replace(arguments=call.arguments[1:])
    special = _SPECIAL.get(call.name)
    stream = special(walk, call) if special is not None else None
    if stream is None:
        stream = install_names(walk, call)
    return stream if stream is not None else read_row(walk, call)


# `cargo +nightly fmt`. A toolchain can be a path as well, which is a program of its own.
_TOOLCHAIN = re.compile(r"\+[\w.-]+")


def _pip(walk: Walk, call: Invocation) -> Output | None:
    if call.arguments[:1] == ["config"] and "set" in call.arguments:
        note_source(walk, call.arguments[-1])
        return UNKNOWN_OUTPUT
    return None


def _pipx(walk: Walk, call: Invocation) -> Output | None:
    return run_package(walk, call._replace(arguments=call.arguments[1:])) if call.arguments[:1] == ["run"] else None


def _brew(walk: Walk, call: Invocation) -> Output | None:
    """`brew bundle` gets what the project lists; its other commands and options remove or run anything."""
    if call.arguments[:1] != ["bundle"] or call.arguments[1:] not in ([], ["install"], ["check"], ["list"]):
        return None
    walk.add("runs-project-task", "brew")
    return UNKNOWN_OUTPUT


def _llm(walk: Walk, call: Invocation) -> Output | None:
    """`llm install` is `pip install`; whatever else it is given are words for a model."""
    return install_names(walk, call._replace(name="pip")) if call.arguments[:1] == ["install"] else read_row(walk, call)


def _deno(walk: Walk, call: Invocation) -> Output | None:
    """`deno run`: a file of the project, a package, or an address whose code runs at once."""
    if call.arguments[:1] != ["run"]:
        return None
    options, words = split_options(call.arguments[1:], _DENO_VALUED)
    loaded = [value for option, value in options if option in _DENO_LOADS and value]
    for address in loaded + words[:1]:
        scheme = _SCHEME.match(address)
        if scheme is None:
            walk.run_program(["node", address, *words[1:]], call.stdin)
        elif scheme[0] in ("npm:", "jsr:"):
            note_package(walk, address[4:], "npm" if scheme[0] == "npm:" else "")
        else:
            walk.add("runs-download", host_of(address) if "://" in address else scheme[0])
    # An option that is not known here may have taken the first word as its value.
    for address in filter(_SCHEME.match, words[1:]):
        walk.add("requests", host_of(address))
    return UNKNOWN_OUTPUT


_SCHEME = re.compile(r"(?:https?|file|data|blob|npm|jsr):", re.IGNORECASE)
_DENO_LOADS = frozenset("-c --config --import-map --preload --import --require".split())
_DENO_VALUED = _DENO_LOADS | frozenset("--cert --location --seed --ext -L --log-level".split())


def _go(walk: Walk, call: Invocation) -> Output | None:
    verb = call.arguments[:1]
    if verb == ["run"] and any("@" in argument for argument in call.arguments):
        _note_go(walk, next(argument for argument in call.arguments if "@" in argument))
        return UNKNOWN_OUTPUT
    if verb in (["get"], ["install"]):
        for argument in split_options(call.arguments[1:], frozenset(("-tags", "-o", "-ldflags")))[1]:
            _note_go(walk, argument)
        return UNKNOWN_OUTPUT
    return None


def _note_go(walk: Walk, argument: str) -> None:
    path = argument.split("@")[0]
    common = path.startswith((".", "golang.org/x/", "google.golang.org/")) or path == "all"
    if common or is_known(walk, path, "go") or path.rstrip("/").rsplit("/", 1)[-1] in COMMON_TOOLS:
        walk.add("installs-known-package")
    else:
        walk.add("installs-package", path)


def _javascript(walk: Walk, call: Invocation) -> Output | None:
    arguments = call.arguments
    words = plain_words(arguments)
    verb = words[0] if words else ""
    if verb in ("exec", "x", "dlx"):
        return run_package(walk, call._replace(arguments=arguments[arguments.index(verb) + 1 :]))
    if verb in ("config", "set") and "set" in arguments and "registry" in " ".join(arguments):
        note_source(walk, arguments[-1].split("=", 1)[-1])
        return UNKNOWN_OUTPUT
    if verb in ("create", "init") and len(words) > 1:
        return run_package(walk, call._replace(arguments=[f"create-{words[1]}", *words[2:]]))
    if verb in ("token", "adduser", "login", "logout", "hook"):
        # `npm token list` shows the ends of tokens only.
        if verb != "token" or words[1:] not in ([], ["list"], ["ls"]):
            walk.add("changes-login", call.name)
        return UNKNOWN_OUTPUT
    return None if call.name == "npm" else _script(walk, call, words)


def _script(walk: Walk, call: Invocation, words: list[str]) -> Output | None:
    """`yarn` alone installs; `yarn NAME` runs a script of the project or a program that it has installed."""
    if not words and not call.arguments:
        walk.add("installs-known-package")
        return UNKNOWN_OUTPUT
    if words and words[0] not in _INSTALL_VERBS[call.name] and not has_row(call.name, words):
        walk.add("runs-project-task", words[0])
        return UNKNOWN_OUTPUT
    return None


def _uv(walk: Walk, call: Invocation) -> Output | None:
    words = command_words(call)
    if words[:1] == ["run"]:
        return run_in_environment(walk, call)
    if words[:2] == ["pip", "install"]:
        return install_names(walk, call._replace(name="pip"))
    if words[:2] in (["tool", "install"], ["tool", "run"]):
        rest = call.arguments[call.arguments.index(words[1]) + 1 :]
        if words[1] == "run":
            return run_package(walk, call._replace(arguments=rest))
        return install_names(walk, call._replace(name="pipx", arguments=["install", *rest]))
    return None


_SPECIAL: dict[str, Callable[[Walk, Invocation], Output | None]] = {
    "pip": _pip,
    "pipx": _pipx,
    "go": _go,
    "brew": _brew,
    "llm": _llm,
    "deno": _deno,
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), _javascript),
    "uv": _uv,
}
_RUN_VALUED = frozenset(
    "-n --name -p --prefix --with --python --directory -e --env --project --extra --group --package -m "
    "--module --env-file "
    "--with-requirements --with-editable --index --index-url -c --only-group --no-group".split()
)
_RUN_VERBS = {"bundle": ("exec",)}


def _runner(walk: Walk, call: Invocation) -> Output:
    """`poetry run`, `pipenv run`, `bundle exec`: a program in the project's environment, or the rest by table."""
    if any(argument in _RUN_VERBS.get(call.name, ("run",)) for argument in call.arguments[:3]):
        return run_in_environment(walk, call)
    installed = install_names(walk, call) if call.name in _INSTALL_VERBS else None
    return installed or read_row(walk, call)


def run_in_environment(walk: Walk, call: Invocation) -> Output:
    """Read the program after `run`, and packages that are added for it."""
    verbs = _RUN_VERBS.get(call.name, ("run",))
    position = next(at for at, argument in enumerate(call.arguments) if argument in verbs)
    arguments = call.arguments[position + 1 :]
    rest = program_after(arguments, _RUN_VALUED)
    for option, value in split_options(arguments[: len(arguments) - len(rest)], _RUN_VALUED)[0]:
        if option == "--with":
            for name in value.split(","):
                note_package(walk, name)
        elif option in ("--index", "--index-url"):
            note_source(walk, value)
        elif option in ("-m", "--module") and value:
            return walk.run_program(["python", "-m", value, *rest], call.stdin)
    if not rest:
        return UNKNOWN_OUTPUT
    if call.name == "hatch":
        # `hatch run docs:build` runs `build` in the environment `docs`.
        rest = [re.sub(r"^[\w.-]*:", "", rest[0]) or "sh", *rest[1:]]
    return walk.run_program(["python", *rest] if rest[0].endswith(".py") else rest, call.stdin)


_PACKAGE_VALUED = frozenset(
    "-p --package -c --call --from --with --python --spec --index-url --index -w --workspace --prefix "
    "--registry --cache".split()
)


def run_package(walk: Walk, call: Invocation) -> Output:
    """Run a package by name (`npx`, `uvx`, `pipx run`): one that the project has, or one that is fetched for it."""
    options = split_options(call.arguments, _PACKAGE_VALUED)[0]
    registry = _REGISTRIES.get(call.name, "")
    named = False
    for option, value in options:
        if option in ("-p", "--package", "--from", "--spec", "--with"):
            named = named or option != "--with"
            note_package(walk, value, registry)
        elif option in ("-c", "--call"):
            walk.read_text(value)
        elif option in _SOURCES:
            note_source(walk, value)
    rest = program_after(call.arguments, _PACKAGE_VALUED)
    if not rest:
        return UNKNOWN_OUTPUT
    plain = walk.plain(rest[0])
    name = package_in(plain)
    if repository_address(plain) and not named:
        note_package(walk, rest[0])
    elif named or is_known(walk, name, registry) or name in walk.project.tasks or is_task(name):
        if name == "husky":
            walk.add("installs-hook", ".husky")
        walk.add("runs-project-task", name)
    else:
        walk.add("installs-package", name)
    return UNKNOWN_OUTPUT


_HEADERS = re.compile(r"[\w.+-]+-(?:dev|devel|doc|dbg|headers)")


def _system_manager(walk: Walk, call: Invocation) -> Output:
    """`apt` and its like: names go into the machine; a question only looks."""
    words = plain_words(call.arguments)
    verb = words[0] if words else ""
    if call.name == "pacman" and has_option(call.arguments, "-S"):
        verb, words = "install", ["install", *words]
    if any(_APT_RUNS.search(argument) for argument in call.arguments):
        walk.add_unreadable()
    if verb in ("install", "add", "in", "reinstall", "localinstall"):
        for name in words[1:]:
            _note_system_package(walk, walk.plain(name))
    elif verb in _SYSTEM_UPDATES:
        walk.add("installs-known-package")
    elif verb in ("remove", "purge", "erase", "del", "rm"):
        for name in words[1:]:
            walk.add("changes-service", walk.plain(name))
    elif verb in ("add-repository", "config-manager", "addrepo"):
        walk.add("uses-package-source", host_of(walk.plain(words[-1])))
    else:
        return read_row(walk, call)
    return UNKNOWN_OUTPUT


# Settings of `apt` that are commands, and that switch its checks off.
_APT_RUNS = re.compile(r"(?i)(?:pre|post)-invoke|::options::|dir::bin")
_SYSTEM_UPDATES = frozenset(
    "update upgrade dist-upgrade full-upgrade clean autoclean autoremove check-update makecache refresh".split()
)


def _note_system_package(walk: Walk, plain: str) -> None:
    if "://" in plain:
        walk.add("uses-package-source", host_of(plain))
    elif plain.startswith(("./", "/")) or plain.endswith((".deb", ".rpm", ".apk")):
        host = walk.download_of(walk.full_path(plain))
        walk.add("runs-download" if host else "uses-package-source", host or plain)
    elif is_known(walk, plain) or _HEADERS.fullmatch(plain):
        walk.add("installs-known-package")
    else:
        walk.add("installs-package", package_in(plain))


def _add_repository(walk: Walk, call: Invocation) -> Output:
    for argument in call.arguments:
        if argument[:1] != "-":
            walk.add(
                "uses-package-source", host_of(walk.plain(argument)) if "://" in argument else walk.plain(argument)
            )
    return UNKNOWN_OUTPUT


def _dpkg(walk: Walk, call: Invocation) -> Output:
    if not has_option(call.arguments, "-i", "--install", "-U", "--unpack"):
        return UNKNOWN_OUTPUT
    for path in call.arguments:
        if path[:1] != "-":
            host = walk.download_of(walk.full_path(path)) or ("://" in path and host_of(path)) or ""
            walk.add("runs-download" if host else "uses-package-source", host or walk.plain(path))
    return UNKNOWN_OUTPUT


READERS = {
    **dict.fromkeys(_INSTALL_VERBS, _manager),
    **dict.fromkeys(("poetry", "pipenv", "hatch", "pdm", "rye", "bundle", "pixi"), _runner),
    **dict.fromkeys(("npx", "bunx", "uvx", "pnpx"), run_package),
    **dict.fromkeys(_SYSTEM_MANAGERS, _system_manager),
    **dict.fromkeys(("add-apt-repository", "apt-add-repository"), _add_repository),
    **dict.fromkeys(("dpkg", "rpm", "installer"), _dpkg),
}
