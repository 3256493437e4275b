"""A machine's worth of folders for settings, and what loading them says."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lockgate.core.errors import InvalidConfig
from lockgate.settings import config
from lockgate.settings.config import Settings


class Place:
    """A machine's worth of folders: a system file, a home, and a repository to stand in."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cwd = root / "repository"
        self.home = root / "home"
        self.system = root / "etc" / "config.toml"
        self.user = self.home / ".config" / "lockgate" / "config.toml"
        self.project = self.cwd / "lockgate.toml"
        self.pyproject = self.cwd / "pyproject.toml"
        self.named = root / "named.toml"
        self.cwd.mkdir()
        self.home.mkdir()

    def write(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
        return path

    def load(
        self,
        *,
        explicit: Path | None = None,
        check_pattern: Callable[[str], None] | None = None,
        **environ: str,
    ) -> Settings:
        return config.load_settings(
            explicit=explicit,
            cwd=self.cwd,
            environ=environ,
            home=self.home,
            system=self.system,
            check_pattern=check_pattern,
        )

    def refusal(self, **arguments: object) -> str:
        """What loading says, with the folders' names cut out of it."""
        with pytest.raises(InvalidConfig) as caught:
            self.load(**arguments)  # type: ignore[arg-type]
        return str(caught.value).replace(f"{self.root}{os.sep}", "")
