"""Paths that mean more than a file."""

from __future__ import annotations

import pytest
from command_effects import SHOP

from lockgate.core.ruling.effects.paths import Access, is_secret, is_secret_variable, read_access
from lockgate.core.ruling.effects.project import Project


@pytest.mark.parametrize(
    "path",
    "~/.ssh/id_rsa|~/.ssh|.env|.env.production|prod.env|config/secrets.yml|server.key|~/.aws/credentials|~/.netrc|~/.npmrc"
    "|/etc/shadow|/proc/self/environ|terraform.tfstate|~/.kube/config|~/.docker/config.json|credentials.json|service-account.json"
    "|~/.config/gh/hosts.yml|deploy_token.txt|/run/secrets/db|~/.bash_history|vault.kdbx|~/.git-credentials".split("|"),
)
def test_a_secret_is_read(path: str) -> None:
    assert read_access(path, Access.READ, SHOP).kind == "reads-secret"


@pytest.mark.parametrize(
    "path",
    ".env.example|.env.sample|.env.template|~/.ssh/id_rsa.pub|~/.ssh/authorized_keys|src/token.py|tests/fixtures/a.key|docs/secrets.md|/etc/passwd"
    "|~/.ssh/config|README.md|certs/ca.pem|src/secrets/store.go|node_modules/a/test.pem|.gitignore|Dockerfile|.npmrc".split(
        "|"
    ),
)
def test_what_is_named_alike_is_none(path: str) -> None:
    assert read_access(path, Access.READ, SHOP).kind == "looks"


def test_a_relative_path_is_read_from_its_folder() -> None:
    assert is_secret("id_rsa", "~/.ssh")
    assert is_secret("credentials", "/home/ada/.aws")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("src/a.py", "edits-project"),
        ("Dockerfile", "edits-project"),
        ("Makefile", "edits-project"),
        (".env", "edits-project"),
        ("/tmp/x", "writes-scratch"),
        ("/srv/x", "writes-outside"),
        ("~/notes.txt", "writes-outside"),
        ("~/.bashrc", "writes-startup-file"),
        ("/home/ada/.zshrc", "writes-startup-file"),
        ("/usr/local/bin/git", "writes-startup-file"),
        ("/etc/systemd/system/x.service", "writes-startup-file"),
        ("/etc/cron.d/x", "schedules-job"),
        ("~/.ssh/authorized_keys", "changes-login"),
        ("/etc/sudoers", "changes-login"),
        (".git/hooks/pre-commit", "installs-hook"),
        (".husky/pre-push", "installs-hook"),
        (".git/config", "installs-hook"),
        (".vscode/tasks.json", "installs-hook"),
        (".github/workflows/ci.yml", "changes-pipeline"),
        ("CLAUDE.md", "changes-agent-file"),
        (".cursor/rules/a.mdc", "changes-agent-file"),
        (".mcp.json", "changes-agent-file"),
        (".npmrc", "uses-package-source"),
        ("dotfiles/.bashrc", "edits-project"),
    ],
)
def test_a_path_is_written(path: str, kind: str) -> None:
    assert read_access(path, Access.WRITE, SHOP).kind == kind


@pytest.mark.parametrize(
    ("path", "kind"),
    [("src/a.py", "edits-project"), ("/srv/x", "deletes-outside"), (".", "deletes-data"), (".git", "rewrites-history")],
)
def test_a_path_is_deleted(path: str, kind: str) -> None:
    assert read_access(path, Access.DELETE, SHOP).kind == kind


def test_a_path_is_run() -> None:
    assert read_access("x.sh", Access.RUN, SHOP).kind == "runs-project-task"
    assert read_access("/tmp/x.sh", Access.RUN, SHOP).kind == "runs-program"


@pytest.mark.parametrize(
    "name", "GITHUB_TOKEN AWS_SECRET_ACCESS_KEY DB_PASSWORD OPENAI_API_KEY DATABASE_URL npm_token".split()
)
def test_a_variable_holds_a_secret(name: str) -> None:
    assert is_secret_variable(name)


@pytest.mark.parametrize("name", "PATH HOME PWD CI NODE_ENV SSH_AUTH_SOCK CACHE_KEY TOKEN_FILE KEYBOARD".split())
def test_a_variable_holds_none(name: str) -> None:
    assert not is_secret_variable(name)


@pytest.mark.parametrize(
    "path", ["~/.cache/yarn", "/home/ada/.npm/_cacache", "~/.cache/a/tmp*", "/var/lib/apt/lists/*"]
)
def test_caches_may_be_deleted_and_not_written(path: str) -> None:
    project = Project(root="/w/shop", home="/home/ada")
    assert read_access(path, Access.DELETE, project).kind == "writes-scratch"
    assert read_access(path, Access.WRITE, project).kind == "writes-outside"


@pytest.mark.parametrize("path", ["~/.cache/../work", "~/Documents/.cache-old", "~", "/var/lib/postgresql"])
def test_what_is_near_a_cache_is_none(path: str) -> None:
    assert read_access(path, Access.DELETE, Project(root="/w/shop", home="/home/ada")).kind == "deletes-outside"


@pytest.mark.parametrize(
    "path",
    [
        ".en?",
        ".e*",
        ".[e]nv",
        "~/.ss*/id_*",
        "~/.??h/*",
        "/home/ada/.aw*/cred*",
        "/etc/sh*",
        "cred*.js*",
        "se*.y*ml",
        "cr*.j*",
        "s*cr*ts.y*ml",
    ],
)
def test_a_pattern_that_fits_a_secret_is_one(path: str) -> None:
    assert is_secret(path)


@pytest.mark.parametrize(
    "path",
    ["*", "*.py", "*.json", ".github/workflows/*.y*ml", "src/*.ts", ".git*", ".env.ex*", "~/notes/*", "/etc/*release"],
)
def test_a_pattern_of_ordinary_files_is_none(path: str) -> None:
    assert not is_secret(path)
