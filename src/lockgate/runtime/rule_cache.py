"""Where compiled rules come from: this user's sealed cache, else the copy that came with the package.

A wheel brings the built-in rules, packed, as they were compiled for one platform and engine, which the name of a file
tells. The copy needs no seal: an attacker who could change it could change the code beside it.
"""

from __future__ import annotations

import logging
import sysconfig
import zlib
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
            return zlib.decompress((self.shipped / name).read_bytes())
        except (OSError, zlib.error):
            COMPILING_LOG.info("compiling the rules, once for this user and this version: some seconds")
            return None

    def write(self, name: str, content: bytes) -> None:
        """Keep rules under this name, where there is a folder for them."""
        if self.kept is not None:
            self.kept.write(name, content)
