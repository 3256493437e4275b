"""Compiles the built-in rules into the package, so that the first start on the same platform does not have to."""

from __future__ import annotations

import shutil
import sys
import zlib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledRules(BuildHookInterface[Any]):
    """Adds `lockgate/compiled_rules/PLATFORM/` to the sources: a wheel packs it, an editable installation reads it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - the signature is hatchling's
        """Compile every set of built-in patterns, in the place of what an earlier build left."""
        sys.path.insert(0, str(Path(self.root, "src")))
        from lockgate.core.text.scanner import Scanner
        from lockgate.runtime.rule_cache import SHIPPED_FOLDER

        shutil.rmtree(SHIPPED_FOLDER.parent, ignore_errors=True)
        SHIPPED_FOLDER.mkdir(parents=True)
        # Git ignores the folder, and so would the wheel.
        build_data["artifacts"].append(f"/src/lockgate/{SHIPPED_FOLDER.parent.name}/")

        class Folder:
            def read(self, name: str) -> bytes | None:
                file = SHIPPED_FOLDER / name
                return zlib.decompress(file.read_bytes()) if file.exists() else None

            def write(self, name: str, content: bytes) -> None:
                (SHIPPED_FOLDER / name).write_bytes(zlib.compress(content, 9))

        Scanner(cache=Folder()).make_ready()
        # The abuse gate's: it has readings of its own, and none of the rules for agents.
        Scanner((), Folder()).make_ready()
