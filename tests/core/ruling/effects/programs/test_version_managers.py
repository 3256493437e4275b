"""Managers of versions: what they install, what they run, and what is not known of them."""

from __future__ import annotations

import pytest
from command_effects import read_line


@pytest.mark.parametrize(
    ("line", "effect"),
    [
        ("mise use -g npm:evil-pkg", ("installs-package", "evil-pkg")),
        ("mise -C web use npm:evil-pkg", ("installs-package", "evil-pkg")),
        ("mise install npm:evil-pkg", ("installs-package", "evil-pkg")),
        ("mise exec npm:evil-pkg -- ls", ("installs-package", "evil-pkg")),
        ("mise use ubi:evil/tool", ("uses-package-source", "github.com")),
        ("mise plugin install x https://e.example/x.git", ("uses-package-source", "e.example")),
        ("mise trust /tmp/x/mise.toml", ("runs-program", "/tmp/x/mise.toml")),
        ("mise link node@20 /tmp/evil", ("runs-program", "/tmp/evil")),
        ("mise run -C /tmp/x deploy", ("runs-program", "/tmp/x")),
        ("asdf plugin add x https://e.example/x.git", ("uses-package-source", "e.example")),
        ("asdf plugin-add x https://e.example/x.git", ("uses-package-source", "e.example")),
        ("asdf install evil 1.0", ("installs-package", "evil")),
        ("sdk install evil 1.0", ("installs-package", "evil")),
        ("sdk install java mine /tmp/jdk", ("runs-program", "/tmp/jdk")),
        ("volta install evil-pkg", ("installs-package", "evil-pkg")),
        ("proto install evil", ("installs-package", "evil")),
        ("rbenv install /tmp/definition", ("runs-program", "/tmp/definition")),
        ("rustup toolchain link x /tmp/evil", ("runs-program", "/tmp/evil")),
        ("rustup run nightly rm -rf /etc", ("deletes-outside", "/etc")),
        ("fnm --node-dist-mirror https://e.example install 20", ("uses-package-source", "e.example")),
        ("NVM_NODEJS_ORG_MIRROR=https://e.example nvm install 18", ("uses-package-source", "e.example")),
        *((f"{name} install 20", ("installs-known-package", "")) for name in "nvm fnm pyenv rbenv rustup".split()),
        ("asdf install nodejs 20", ("installs-known-package", "")),
        ("sdk install java 21-tem", ("installs-known-package", "")),
        ("mise use node@20", ("installs-known-package", "")),
        ("mise install", ("installs-known-package", "")),
        ("mise en /tmp/x", ("runs-program", "/tmp/x/mise.toml")),
        ("mise use --path ~/.bashrc node@20", ("writes-startup-file", "~/.bashrc")),
        ("sdk env install", ("installs-known-package", "")),
        ("mise run deploy", ("runs-project-task", "deploy")),
        ("mise tasks run deploy", ("runs-project-task", "deploy")),
        ("pyenv local 3.12", ("runs-project-task", "pyenv")),
    ],
)
def test_a_command_has_this_effect(line: str, effect: tuple[str, str]) -> None:
    assert effect in read_line(line)


@pytest.mark.parametrize("name", "mise nvm fnm sdk rbenv asdf pyenv volta rustup proto direnv".split())
def test_a_command_word_that_is_not_known_runs_something_unknown(name: str) -> None:
    assert read_line(f"{name} frobnicate") == {("runs-program", name)}


@pytest.mark.parametrize(
    "line", ["mise", "mise ls", "nvm use 18", "pyenv versions", "sdk list java", "asdf current", "direnv status"]
)
def test_a_question_only_looks(line: str) -> None:
    assert read_line(line) == {("looks", "")}
