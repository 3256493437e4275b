"""The container file, where no builder is at hand: fixed bases, hashes, no root, no secrets."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Containerfile").read_text(encoding="utf-8")
LINES = [line for line in TEXT.replace("\\\n", " ").splitlines() if line.strip() and not line.lstrip().startswith("#")]


def test_bases_have_a_registry_a_version_and_a_digest_that_the_build_must_name() -> None:
    bases = [line.split()[1] for line in LINES if line.startswith("FROM ")]
    assert len(bases) == 2
    assert all(re.fullmatch(r"docker\.io/library/python:3\.\d+-slim@\$\{BASE_DIGEST\}", base) for base in bases)
    # Before the first FROM, and without a default: a build that does not name one has no valid base.
    assert LINES[0] == "ARG BASE_DIGEST"


def test_packages_are_installed_by_their_hashes_only() -> None:
    installs = [each for line in LINES for each in line.split("&&") if "pip install" in each]
    assert len(installs) == 3
    for each in installs:
        assert "--no-deps" in each
        assert "--require-hashes" in each or each.rstrip().endswith("--no-build-isolation .")
    assert not re.search(r"curl|wget|apt-get|ADD |https?://(?!127\.0\.0\.1)", TEXT)


def test_it_runs_as_a_user_and_holds_no_secret() -> None:
    last = "\n".join(LINES).rpartition("FROM ")[2]
    assert [line for line in LINES if line.startswith("USER ")] == ["USER lockgate"]
    assert last.index("USER lockgate") < last.index("CMD [")
    assert not re.search(r"(?m)^(?:ARG|ENV)\b.*(?:TOKEN|KEY|SECRET|PASSWORD)", TEXT)


def test_what_is_copied_exists() -> None:
    for line in LINES:
        words = shlex.split(line)
        if words[0] == "COPY" and not words[1].startswith("--from"):
            assert all((ROOT / name).exists() for name in words[1:-1]), line
