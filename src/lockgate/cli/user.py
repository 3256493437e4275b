"""The name of the person at the command line, for the journal."""

from __future__ import annotations

import os
from contextlib import suppress


def user_name() -> str:
    """Return the name of the account this runs as, by its user id: USER and LOGNAME can be set to any name."""
    with suppress(ImportError, KeyError):
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    import getpass

    return getpass.getuser()
