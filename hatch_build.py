"""Compiles the built-in rules into the wheel, so that the first start on the same platform does not have to."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledRules(BuildHookInterface[Any]):
    """Adds `lockgate/compiled_rules/PLATFORM/` to a wheel; an editable installation has none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile every set of built-in patterns, and have the files packed."""
        if version == "editable":
            return
        sys.path.insert(0, str(Path(self.root, "src")))
        from lockgate.core.text.scanner import Scanner
        from lockgate.runtime.rule_cache import SHIPPED_FOLDER

        folder, packed = Path(self.directory, "compiled_rules"), Path("lockgate", *SHIPPED_FOLDER.parts[-2:])
        folder.mkdir(parents=True, exist_ok=True)

        class Folder:
            def read(self, _: str) -> None:
                return None

            def write(self, name: str, content: bytes) -> None:
                (folder / name).write_bytes(content)
                build_data["force_include"][str(folder / name)] = str(packed / name)

        Scanner(cache=Folder()).make_ready()
        # The abuse gate's: it has readings of its own, and none of the rules for agents.
        Scanner((), Folder()).make_ready()
