"""Where compiled rules come from: this user's sealed cache, else the copy that came with the package.

A wheel brings the built-in rules as they were compiled for one platform and one version of the engine. The name of a
file says which rules and which engine it was made from, so a copy that does not fit is never found. The copy needs no
seal: who could change it could change the code beside it.
"""

from __future__ import annotations

import logging
import sysconfig
from pathlib import Path
from typing import NamedTuple

from lockgate.runtime.sealed_cache import SealedCache

SHIPPED_FOLDER = Path(__file__).resolve().parents[1] / "compiled_rules" / sysconfig.get_platform()
# The command line shows this to a person who waits.
COMPILING_LOG = logging.getLogger("lockgate.rule_cache")


class RuleCache(NamedTuple):
    """Compiled rules by name. `kept` is None for a user without a home, `shipped` a folder that need not exist."""

    kept: SealedCache | None
    shipped: Path = SHIPPED_FOLDER

    def read(self, name: str) -> bytes | None:
        """Return the rules under this name; None, and a line in the log, if they have to be compiled."""
        # The sealed copy first: it was compiled here, perhaps because this processor cannot use the shipped one.
        content = None if self.kept is None else self.kept.read(name)
        if content is not None:
            return content
        try:
            return (self.shipped / name).read_bytes()
        except OSError:
            COMPILING_LOG.info("compiling the rules, once for this user and this version: some seconds")
            return None

    def write(self, name: str, content: bytes) -> None:
        """Keep rules under this name, where there is a folder for them."""
        if self.kept is not None:
            self.kept.write(name, content)
