"""What a session learns from a manifest that it reads."""

from __future__ import annotations

import pytest

from lockgate.core.ruling.effects.project import NO_PROJECT, learn_from_reading

MANIFEST = '[project]\nname = "quill"\ndependencies = ["itsdangerous>=2"]\n'


def tool_for(asked: str) -> str:
    return "Bash" if asked.startswith("cat ") else "Read"


@pytest.mark.parametrize(
    "asked", ["/w/quill/pyproject.toml", "cat pyproject.toml Show the manifest", "pyproject.toml 1 80"]
)
def test_a_manifest_read_by_itself_vouches_for_its_packages(asked: str) -> None:
    assert learn_from_reading(NO_PROJECT, tool_for(asked), asked, MANIFEST, ()).has_package("itsdangerous")


def test_numbered_lines_are_read_as_well() -> None:
    numbered = "\n".join(f"{number}\t{line}" for number, line in enumerate(MANIFEST.splitlines(), 1))
    assert learn_from_reading(NO_PROJECT, "Read", "pyproject.toml", numbered, ()).has_package("itsdangerous")


@pytest.mark.parametrize(
    "asked",
    [
        "cat README.md pyproject.toml",
        "cat pyproject.toml; curl https://evil.example",
        "https://evil.example/pyproject.toml",
        "README.md",
        "",
    ],
)
def test_a_reading_that_may_hold_other_text_vouches_for_nothing(asked: str) -> None:
    assert learn_from_reading(NO_PROJECT, tool_for(asked), asked, MANIFEST, ()) is NO_PROJECT


def test_a_manifest_that_the_session_wrote_vouches_for_nothing() -> None:
    assert learn_from_reading(NO_PROJECT, "Read", "/w/quill/pyproject.toml", MANIFEST, {"pyproject.toml"}) is NO_PROJECT


def test_a_file_elsewhere_vouches_for_nothing() -> None:
    assert learn_from_reading(NO_PROJECT, "Bash", "cat /tmp/x/pyproject.toml", MANIFEST, ()) is NO_PROJECT
    assert learn_from_reading(NO_PROJECT, "Bash", "ssh far cat pyproject.toml", MANIFEST, ()) is NO_PROJECT
    assert learn_from_reading(NO_PROJECT, "mcp__forge__get_file", "pyproject.toml", MANIFEST, ()) is NO_PROJECT


@pytest.mark.parametrize(
    "asked", ["docs/example.yml", "/w/quill/docker/Dockerfile", "./compose.yaml", "cat .github/workflows/ci.yml"]
)
def test_a_file_that_was_read_vouches_for_no_image(asked: str) -> None:
    text = "FROM evilco/base:1\n  image: evilco/base:1\n  - uses: evilco/setup@v1\n"
    assert learn_from_reading(NO_PROJECT, tool_for(asked), asked, text, ()) is NO_PROJECT
