"""`python -m lockgate` is the `lockgate` command."""

from __future__ import annotations

import sys

from lockgate.cli.start import main

if __name__ == "__main__":
    sys.exit(main())
