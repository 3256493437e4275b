"""Started in a hostile folder, Lockgate imports nothing of it: as a module, as a hook, and as what `init` writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from shutil import rmtree

import pytest
from rule_cache import keep_key

import lockgate
from lockgate.claude_code.service_start import service_command
from lockgate.cli.main import main
from lockgate.mcp.client_config import lockgate_command

# What the command imports early and late, and the package itself.
NAMES = ("argparse", "contextlib", "io", "json", "lockgate", "rich", "sitecustomize", "sqlite3", "tomllib", "typing")
SOURCE = Path(lockgate.__file__).parents[1]


@pytest.fixture
def hostile(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder whose modules leave a mark when they are imported."""
    folder = tmp_path / "hostile"
    for name in NAMES:
        package = folder / name
        package.mkdir(parents=True)
        for file in ("__init__.py", "__main__.py"):
            (package / file).write_text(f"open({str(tmp_path / 'marks')!r}, 'a').write('{name}\\n')\n")
    for name in ("LOCKGATE_CONFIG", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "PYTHONPATH", "PYTHONSAFEPATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    keep_key(tmp_path / ".local" / "state")
    monkeypatch.chdir(folder)
    return folder


def marks(tmp_path: Path) -> list[str]:
    file = tmp_path / "marks"
    return file.read_text().split() if file.exists() else []


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run(command, env=environment, input="{}", capture_output=True, text=True, timeout=60, check=False)


def console_script(folder: Path) -> Path:
    """The command as an installer writes it, for the source of this test run."""
    script = folder / "bin" / "lockgate"
    script.parent.mkdir()
    script.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(1, {str(SOURCE)!r})\n"
        "from lockgate.cli.start import main\nsys.exit(main())\n"
    )
    script.chmod(0o755)
    return script


def test_as_a_module_it_starts_only_with_a_safe_path(hostile: Path, tmp_path: Path) -> None:
    del hostile
    safe = run(sys.executable, "-P", "-m", "lockgate", "rules", PYTHONPATH=str(SOURCE))
    assert (safe.returncode, marks(tmp_path)) == (0, [])


def test_without_a_safe_path_it_refuses_before_it_imports_anything(hostile: Path, tmp_path: Path) -> None:
    # A package of our name, and what Python itself needs, run before any line of ours: only -P keeps them out.
    for name in ("lockgate", "contextlib"):
        rmtree(hostile / name)
    unsafe = run(sys.executable, "-m", "lockgate", "rules", PYTHONPATH=str(SOURCE))
    assert (unsafe.returncode, unsafe.stdout, marks(tmp_path)) == (2, "", [])
    assert "python -P -m lockgate" in unsafe.stderr
    for module in ("lockgate.cli.main", "lockgate.cli.start"):
        assert run(sys.executable, "-m", module, "rules", PYTHONPATH=str(SOURCE)).stdout == "", "it is no command"


@pytest.mark.skipif(os.name == "nt", reason="a script with a first line for the shell")
@pytest.mark.parametrize("scope", ["--user", "--local", "--project"])
def test_the_hooks_that_init_writes_import_nothing_of_the_folder(
    hostile: Path, tmp_path: Path, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{console_script(tmp_path).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    assert main(["init", "claude-code", scope, "--command", "--no-start", "--yes", "--url", "http://127.0.0.1:9"]) == 0
    (file,) = [*hostile.glob(".claude/*.json"), *(tmp_path / "claude").glob("settings.json")]
    hooks = json.loads(file.read_text())["hooks"]
    hook = hooks["PreToolUse"][0]["hooks"][0]
    ended = run(hook["command"], *hook["args"])
    assert (ended.returncode, marks(tmp_path)) == (2, [])
    assert ended.stderr.startswith("lockgate: there is no agent token yet")


def test_the_service_that_a_hook_starts_imports_nothing_of_the_folder(hostile: Path, tmp_path: Path) -> None:
    ended = run(*service_command("--help"), PYTHONPATH=str(hostile), PYTHONSTARTUP=str(hostile / "json/__init__.py"))
    assert (ended.returncode, marks(tmp_path)) == (0, [])
    assert "lockgate serve" in ended.stdout
    # By its path it is the package of that path, whichever other is installed.
    other = tmp_path / "other" / "lockgate"
    other.mkdir(parents=True)
    (other / "__main__.py").write_text((SOURCE / "lockgate" / "__main__.py").read_text())
    (other / "__init__.py").write_text("print('the other one'); raise SystemExit(7)")
    assert run(sys.executable, "-I", str(other / "__main__.py"), "--help").returncode == 7


@pytest.mark.skipif(os.name == "nt", reason="a script with a first line for the shell")
@pytest.mark.parametrize("started", ["script", "module"])
def test_the_mcp_command_that_init_writes_imports_nothing_of_the_folder(
    hostile: Path, tmp_path: Path, started: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = console_script(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script) if started == "script" else str(SOURCE / "lockgate/__main__.py")])
    monkeypatch.setattr(sys, "executable", str(script.with_name("python")))
    assert lockgate_command() == [str(script)]
    file = hostile / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": {"echo": {"command": "cat"}}}))
    assert main(["init", "mcp", str(file), "--yes"]) == 0
    entry = json.loads(file.read_text())["mcpServers"]["echo"]
    run(entry["command"], *entry["args"])
    assert marks(tmp_path) == []
