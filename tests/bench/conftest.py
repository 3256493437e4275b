"""The bench's modules are imported by their own names, here only: one of them is called `mcp`, like a package."""

from __future__ import annotations

import sys

from paths import ROOT

sys.path.insert(0, str(ROOT / "bench"))
