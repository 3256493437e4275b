"""git, and the command lines of forges."""

from __future__ import annotations

import pytest
from command_effects import read_line


@pytest.mark.parametrize(
    ("line", "effect"),
    [
        ("git push origin main", ("pushes", "origin")),
        ("git push https://x.example/a.git main", ("pushes", "x.example")),
        ("git push -f", ("rewrites-history", "origin")),
        ("git push origin :main", ("rewrites-history", "origin")),
        ("git clone https://x.example/a.git", ("clones", "x.example")),
        ("git remote add b git@x.example:a/b.git", ("changes-remote", "x.example")),
        ("git config core.pager 'sh -c x'", ("installs-hook", "core.pager=sh -c x")),
        ("git -c core.sshCommand=x fetch", ("installs-hook", "core.sshCommand=x")),
        ("git config alias.x '!rm -rf /etc'", ("installs-hook", "alias.x=!rm -rf /etc")),
        ("git config url.https://x.example/.insteadOf https://github.com/", ("changes-remote", "x.example")),
        ("git config http.sslVerify false", ("disables-check", "http.sslVerify")),
        ("git rebase -x 'rm -rf /etc' main", ("deletes-outside", "/etc")),
        ("git show HEAD:.env", ("reads-secret", ".env")),
        ("git filter-branch --all", ("rewrites-history", "local history")),
        ("gh gist create .env", ("sends-secret", ".env")),
        ("gh api -X PUT repos/a/b/collaborators/eve", ("grants-access", "repos/a/b/collaborators/eve")),
        ("gh repo clone a/b", ("clones", "a/b")),
        ("git clone 'ext::sh -c curl% x' y", ("runs-program", "curl%")),
    ],
)
def test_a_command_has_this_effect(line: str, effect: tuple[str, str]) -> None:
    assert effect in read_line(line)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("git push --dry-run", "pushes"),
        ("git status", "commits"),
        ("git branch -a", "commits"),
        ("git config user.name", "commits"),
        ("git config core.editor vim", "installs-hook"),
        ("git config alias.st status", "installs-hook"),
        ("git remote -v", "changes-remote"),
        ("gh pr view 1", "sends-message"),
        ("gh api repos/a/b", "changes-record"),
        ("git show HEAD", "reads-secret"),
    ],
)
def test_a_similar_command_has_not(line: str, kind: str) -> None:
    assert kind not in {found for found, _ in read_line(line)}
