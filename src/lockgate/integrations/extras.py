"""The extras that bring the frameworks: each plug imports its framework inside of `naming_extra`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def naming_extra(extra: str, module: str) -> Iterator[None]:
    """Import a framework in here: if its `module` is not installed, the error names the extra that brings it.

    Every other error passes as it is: a package that an installed framework misses is not mended by the extra.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        # `google` is missing where nothing of Google's is installed, `google.adk` where only that is missing.
        if not error.name or not f"{module}.".startswith(f"{error.name}."):
            raise
        said = f"lockgate.integrations.{extra.replace('-', '_')} needs `{module}`: pip install 'lockgate[{extra}]'"
        raise ModuleNotFoundError(said, name=error.name) from None
