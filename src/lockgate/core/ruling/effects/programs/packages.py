"""Package managers: what they install, from where, and packages that run at once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.programs.addresses import host_of, is_local
from lockgate.core.ruling.effects.programs.options import has_option, split_options
from lockgate.core.ruling.effects.project import package_name
from lockgate.core.ruling.effects.streams import Invocation, Origin, Stream
from lockgate.core.word_lists import read_words

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

_NONE = Stream(Origin.NONE)
# Test runners, linters, formatters, type checkers, build front ends, editors' servers: tools, not what a product is made of.
COMMON_TOOLS = frozenset(
    package_name(name)
    for line in read_words("lockgate.core.ruling.effects.programs", "common_tools.txt")
    for name in line.split()
)
PUBLIC_SOURCES = frozenset(
    "pypi.org files.pythonhosted.org registry.npmjs.org registry.yarnpkg.com registry.yarnpkg.com. crates.io index.crates.io rubygems.org "
    "proxy.golang.org repo.maven.apache.org repo1.maven.org api.nuget.org download.pytorch.org conda.anaconda.org pypi.python.org npm.pkg.github.com".split()
)
_VALUED = frozenset(
    "-r --requirement -c --constraint -e --editable -t --target --prefix --root --python -p --platform --abi --implementation "
    "-i --index-url --extra-index-url --index --default-index -f --find-links --registry --trusted-host --group -G --only-group --extra "
    "--python-version --upgrade-strategy --progress-bar --config-settings --global-option --cache-dir --log --proxy --timeout --retries "
    "--only-binary --no-binary --report --src --cert --client-cert -w --workspace --filter -C --dir --cwd --omit --include --save-prefix "
    "-n --name --channel --manifest-path --features -F --git --branch --tag --rev --path --version -v --source -s --with --with-editable "
    "--from --spec --bin --package --userconfig --tag --loglevel --exclude-newer --resolution --link-mode --pip-args".split()
) - {"-v", "-s"}
_SOURCES = frozenset(
    "-i --index-url --extra-index-url --index --default-index -f --find-links --registry --proxy --git --trusted-host --source --channel".split()
)
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
    "hatch": (),
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
    "jsr": ("add",),
    "volta": ("install",),
    "luarocks": ("install",),
    "cpan": (),
    "cpanm": (),
    "mix": (),
    "opam": ("install",),
    "code": ("--install-extension",),
    "snap": ("install",),
    "flatpak": ("install",),
    "winget": ("install",),
    "choco": ("install",),
    "scoop": ("install",),
    "easy_install": (),
    "nix-env": ("-i", "-iA"),
    "asdf": ("plugin",),
}
# Where a manager's packages come from: a project that has a name from one registry says nothing of another.
_REGISTRIES = {
    **dict.fromkeys("pip pip3 poetry pdm rye pipenv hatch uv uvx pipx easy_install".split(), "pypi"),
    **dict.fromkeys("npm npx pnpm pnpx yarn bun bunx volta".split(), "npm"),
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


def note_package(walk: Walk, word: str, registry: str = "") -> None:
    """Note the installation of one package, as a package manager spells it, from the manager's registry."""
    plain = walk.plain(word).strip()
    if not plain:
        return
    match = re.match(
        r"(?:(?P<name>[\w.-]+)\s*@\s*)?(?:git\+|hg\+|svn\+)?(?P<url>(?:https?|ssh|git|ftp)://\S+|git@\S+)", plain
    )
    if match is not None or re.match(r"(?:github|gitlab|bitbucket|gist):", plain):
        address = match.group("url") if match else "https://" + plain.replace(":", ".com/", 1)
        host = host_of(address.removeprefix("git@").replace(":", "/", 1) if address.startswith("git@") else address)
        if walk.project.has_url(address):
            walk.add("installs-known-package")
        else:
            walk.add("uses-package-source", host)
        return
    if plain.startswith((".", "/", "~", "file:", "link:", "workspace:")) or plain.endswith(
        (".whl", ".tar.gz", ".tgz", ".zip")
    ):
        _note_local(walk, word, plain)
        return
    # npm's short form of a GitHub repository: `owner/name`.
    if "/" in plain and not plain.startswith("@") and not re.search(r"\.[a-z]+/", plain):
        walk.add("uses-package-source", "github.com")
        return
    name = package_in(plain)
    if not name:
        return
    if walk.project.has_package(name, registry) or package_name(name) in COMMON_TOOLS:
        walk.add("installs-known-package")
    else:
        walk.add("installs-package", name)


def package_in(word: str) -> str:
    """Return a package's name without version, extras and quotes."""
    if word.startswith("@"):
        return "@" + re.split(r"[@=<>~^\[; ]", word[1:], maxsplit=1)[0]
    return re.split(r"[@=<>~!^\[; :]", word.strip("'\""), maxsplit=1)[0]


def _note_local(walk: Walk, word: str, plain: str) -> None:
    path = re.sub(r"\[[\w,.\s-]*\]$", "", plain.removeprefix("file:").removeprefix("link:")) or "."
    host = walk.download_of(walk.full_path(path))
    del word
    if host:
        walk.add("runs-download", host)
    elif walk.place(path) in ("inside", "outside"):
        walk.add("installs-known-package")
    else:
        walk.add("uses-package-source", path)


def install_names(walk: Walk, call: Invocation) -> Stream | None:
    """Read an installation; None when the command installs nothing."""
    arguments = call.arguments
    verbs = _INSTALL_VERBS.get(call.name, ())
    position = next((at for at, argument in enumerate(arguments) if argument in verbs), -1)
    if position < 0 and verbs:
        return None
    words = arguments[position + 1 :]
    if (
        call.name in ("dotnet", "yarn", "composer", "asdf")
        and words[:1]
        and arguments[position] in ("global", "tool", "add", "plugin")
    ):
        words = [word for word in words if word not in ("add", "require", "install", "package", "reference")]
    options, names = split_options(words, _VALUED | ({"-p"} if call.name == "conda" else frozenset()))
    known = True
    registry = _REGISTRIES.get(call.name, "")
    for option, value in options:
        if option in _SOURCES:
            note_source(walk, value)
        elif option in ("-e", "--editable", "--path"):
            note_package(walk, value if value.startswith((".", "/", "git+", "http", "~")) else f"./{value}")
        elif option in ("-r", "--requirement", "-c", "--constraint"):
            if "://" in value:
                note_source(walk, value)
            elif walk.download_of(walk.full_path(value)):
                walk.add("runs-download", walk.download_of(walk.full_path(value)))
        elif option in ("--with", "--package"):
            note_package(walk, value, registry)
    if call.name in ("npm", "yarn", "pnpm", "bun") and has_option(words, "-g", "--global"):
        known = False
    for name in names:
        note_package(walk, name, registry)
    if not names or known:
        if not names:
            walk.add("installs-known-package")
    return _NONE


def _manager(walk: Walk, call: Invocation) -> Stream:
    """A package manager: installations here, scripts and questions by table."""
    from lockgate.core.ruling.effects.programs.table import read_row

    name, arguments = call.name, call.arguments
    if name == "pip3":
        call = call._replace(name="pip")
        name = "pip"
    if name in ("npm", "pnpm", "yarn", "bun"):
        special = _javascript(walk, call)
        if special is not None:
            return special
    if name == "uv":
        return _uv(walk, call)
    if name == "pipx" and arguments[:1] == ["run"]:
        return run_package(walk, call._replace(arguments=arguments[1:]))
    if name == "go" and arguments[:1] == ["run"] and any("@" in argument for argument in arguments):
        note_package(walk, next(argument for argument in arguments if "@" in argument))
        return _NONE
    if name == "go" and arguments[:1] in (["get"], ["install"]):
        for argument in split_options(arguments[1:], frozenset(("-tags", "-o", "-ldflags")))[1]:
            _note_go(walk, argument)
        return _NONE
    if name == "pip" and arguments[:1] == ["config"] and "set" in arguments:
        note_source(walk, arguments[-1])
        return _NONE
    installed = install_names(walk, call)
    return installed if installed is not None else read_row(walk, call)


def _note_go(walk: Walk, argument: str) -> None:
    path = argument.split("@")[0]
    if path.startswith(".") or path in ("./...", "all"):
        walk.add("installs-known-package")
    elif (
        walk.project.has_package(path, "go")
        or path.rstrip("/").rsplit("/", 1)[-1] in COMMON_TOOLS
        or path.startswith(("golang.org/x/", "google.golang.org/"))
    ):
        walk.add("installs-known-package")
    else:
        walk.add("installs-package", path)


def _javascript(walk: Walk, call: Invocation) -> Stream | None:
    name, arguments = call.name, call.arguments
    words = [argument for argument in arguments if argument[:1] != "-"]
    verb = words[0] if words else ""
    if verb in ("exec", "x", "dlx"):
        return run_package(walk, call._replace(arguments=arguments[arguments.index(verb) + 1 :]), fetched=verb == "dlx")
    if verb in ("config", "set") and "set" in arguments and "registry" in " ".join(arguments):
        note_source(walk, arguments[-1].split("=", 1)[-1])
        return _NONE
    if verb in ("create", "init") and len(words) > 1 and name != "cargo":
        run_package(walk, call._replace(arguments=[f"create-{words[1]}", *words[2:]]))
        return _NONE
    if name in ("yarn", "pnpm", "bun") and verb and verb not in _INSTALL_VERBS[name] and not verb.startswith("-"):
        from lockgate.core.ruling.effects.programs.table import has_row

        if not has_row(name, words):
            # `yarn NAME` runs a script of the project or a program it has installed.
            walk.add("runs-project-task", verb)
            return _NONE
    if not words and name in ("yarn", "pnpm", "bun"):
        walk.add("installs-known-package")
        return _NONE
    if verb in ("token", "adduser", "login", "logout", "hook") and name == "npm":
        walk.add("changes-login", "npm")
        return _NONE
    return None


def _uv(walk: Walk, call: Invocation) -> Stream:
    from lockgate.core.ruling.effects.programs.table import command_words, read_row

    words = command_words(call)
    if words[:2] == ["pip", "install"]:
        return install_names(walk, call._replace(name="pip")) or _NONE
    if words[:2] in (["tool", "install"], ["tool", "run"]):
        rest = call.arguments[call.arguments.index(words[1]) + 1 :]
        if words[1] == "run":
            return run_package(walk, call._replace(arguments=rest))
        return install_names(walk, call._replace(name="pipx", arguments=["install", *rest])) or _NONE
    if words[:1] == ["run"]:
        from lockgate.core.ruling.effects.programs.wrappers import run_in_environment

        return run_in_environment(walk, call)
    if words[:1] == ["add"]:
        return install_names(walk, call) or _NONE
    return read_row(walk, call)


def run_package(walk: Walk, call: Invocation, *, fetched: bool = False) -> Stream:
    """Run a package by name: one that the project has, or one that is fetched for it."""
    from lockgate.core.ruling.effects.programs.wrappers import program_after

    valued = frozenset(
        "-p --package -c --call --from --with --python --spec --index-url --index -w --workspace --prefix --registry --cache".split()
    )
    options, _ = split_options(call.arguments, valued)
    registry = _REGISTRIES.get(call.name, "")
    source = ""
    for option, value in options:
        if option in ("-p", "--package", "--from", "--spec"):
            source = value
            note_package(walk, value, registry)
        elif option == "--with":
            note_package(walk, value, registry)
        elif option in ("-c", "--call"):
            walk.read_text(value)
        elif option in _SOURCES:
            note_source(walk, value)
    rest = program_after(call.arguments, valued)
    if not rest:
        return _NONE
    name = package_in(walk.plain(rest[0]))
    if source:
        walk.add("runs-project-task", name)
        return _NONE
    if re.match(r"(?:https?|git\+|github:|git@)", walk.plain(rest[0])) or "/" in name and not name.startswith("@"):
        note_package(walk, rest[0])
        return _NONE
    del fetched
    if (
        name in ("tsc", "tsx", "only-allow", "husky", "create-react-app")
        or walk.project.has_package(name, registry)
        or package_name(name) in COMMON_TOOLS
    ):
        if name == "husky":
            walk.add("installs-hook", ".husky")
        walk.add("runs-project-task", name)
        return _NONE
    if name in walk.project.programs or name in walk.project.tasks:
        walk.add("runs-project-task", name)
        return _NONE
    from lockgate.core.ruling.effects.programs.table import is_task

    if is_task(name):
        walk.add("runs-project-task", name)
    else:
        walk.add("installs-package", name)
    return _NONE


def _system_manager(walk: Walk, call: Invocation) -> Stream:
    """`apt` and its like: names go into the machine; a question only looks."""
    from lockgate.core.ruling.effects.programs.table import read_row

    words = [argument for argument in call.arguments if argument[:1] != "-"]
    verb = words[0] if words else ""
    if (
        verb in ("install", "add", "in", "reinstall", "localinstall")
        or has_option(call.arguments, "-S")
        and call.name == "pacman"
    ):
        for name in words[1:] if verb not in ("",) and call.name != "pacman" else words:
            plain = walk.plain(name)
            if "://" in plain:
                walk.add("uses-package-source", host_of(plain))
            elif plain.startswith(("./", "/")) or plain.endswith((".deb", ".rpm", ".apk")):
                host = walk.download_of(walk.full_path(plain))
                walk.add("runs-download" if host else "uses-package-source", host or plain)
            elif (
                package_name(plain) in COMMON_TOOLS
                or walk.project.has_package(plain)
                or re.fullmatch(r"(?:lib[\w.+-]+|[\w.+-]+)-(?:dev|devel|doc|dbg|headers)", plain)
            ):
                walk.add("installs-known-package")
            else:
                walk.add("installs-package", package_in(plain))
        return _NONE
    if verb in (
        "update",
        "upgrade",
        "dist-upgrade",
        "full-upgrade",
        "clean",
        "autoclean",
        "autoremove",
        "check-update",
        "makecache",
        "refresh",
    ):
        walk.add("installs-known-package")
        return _NONE
    if verb in ("remove", "purge", "erase", "del", "rm"):
        for name in words[1:]:
            walk.add("changes-service", name)
        return _NONE
    if verb in ("add-repository", "config-manager", "addrepo"):
        note_source(walk, words[-1])
        walk.add("uses-package-source", walk.plain(words[-1]))
        return _NONE
    return read_row(walk, call)


def _add_repository(walk: Walk, call: Invocation) -> Stream:
    for argument in call.arguments:
        if argument[:1] != "-":
            walk.add(
                "uses-package-source", host_of(walk.plain(argument)) if "://" in argument else walk.plain(argument)
            )
    return _NONE


def _dpkg(walk: Walk, call: Invocation) -> Stream:
    if not has_option(call.arguments, "-i", "--install", "-U", "--unpack"):
        return _NONE
    for path in call.arguments:
        if path[:1] != "-":
            host = walk.download_of(walk.full_path(path)) or ("://" in path and host_of(path)) or ""
            walk.add("runs-download" if host else "uses-package-source", host or walk.plain(path))
    return _NONE


READERS = {
    **dict.fromkeys(_INSTALL_VERBS, _manager),
    **dict.fromkeys(_SYSTEM_MANAGERS, _system_manager),
    **dict.fromkeys(("add-apt-repository", "apt-add-repository"), _add_repository),
    **dict.fromkeys(("dpkg", "rpm", "installer"), _dpkg),
}
for _name in ("poetry", "pdm", "rye", "pipenv", "pixi", "hatch", "bundle", "mix", "asdf", "jsr"):
    READERS.pop(_name, None)
