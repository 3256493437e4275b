"""A plug without its framework names the extra; what an installed framework misses passes as it is."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

MODULES = {
    "agent-framework": "agent_framework",
    "claude-agent-sdk": "claude_agent_sdk",
    "crewai": "crewai",
    "google-adk": "google.adk",
    "langchain": "langchain",
    "openai-agents": "agents",
    "pydantic-ai": "pydantic_ai",
    "strands": "strands",
}
pytestmark = pytest.mark.parametrize("extra", MODULES)


def import_plug(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Import the plug of a framework as a new process would."""
    name = f"lockgate.integrations.{extra.replace('-', '_')}"
    monkeypatch.delitem(sys.modules, name, raising=False)
    import_module(name)


def forget_framework(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if f"{each}.".startswith(f"{MODULES[extra]}.")]:
        monkeypatch.delitem(sys.modules, name)


def write_framework(extra: str, text: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a framework that consists of this text."""
    forget_framework(extra, monkeypatch)
    path = place.joinpath(*MODULES[extra].split("."), "__init__.py")
    path.parent.mkdir(parents=True)
    path.write_text(text)
    monkeypatch.syspath_prepend(place)


def test_a_missing_framework_names_its_extra(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forget_framework(extra, monkeypatch)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if "site-packages" not in each])
    with pytest.raises(ModuleNotFoundError) as caught:
        import_plug(extra, monkeypatch)
    assert str(caught.value).endswith(f"needs `{MODULES[extra]}`: pip install 'lockgate[{extra}]'")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import a_package_of_the_framework", "No module named 'a_package_of_the_framework'"),
        ("raise ImportError('broken')", "broken"),
    ],
)
def test_a_fault_of_an_installed_framework_is_not_taken_for_a_missing_one(
    extra: str, text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_framework(extra, text, tmp_path, monkeypatch)
    with pytest.raises(ImportError) as caught:
        import_plug(extra, monkeypatch)
    assert str(caught.value) == said


def test_another_version_of_a_framework_is_not_taken_for_a_missing_one(
    extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_framework(extra, "", tmp_path, monkeypatch)
    with pytest.raises(ImportError) as caught:
        import_plug(extra, monkeypatch)
    assert "lockgate[" not in str(caught.value)
