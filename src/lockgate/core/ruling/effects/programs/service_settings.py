"""Settings that a command hands to a running service: those that switch a protection off, and images from elsewhere.

The section `settings` of `programs.tbl` says which names these settings have, with `_` between the parts of a name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.programs.program_rows import PACKAGE, TABLE, WORDS
from lockgate.core.ruling.effects.programs.url_hosts import host_of
from lockgate.core.tables import read_table

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

MOST_SETTING = 2_000
_NAMES = {kind: re.compile(names) for kind, names in read_table(PACKAGE, TABLE, "settings", ("setting", "pattern"))}
_VALUES = {kind: WORDS[f"values {kind}"] for kind in ("off", "on", "zero")}
_PAIR = re.compile(r"(?<![\w.-])(-{0,2}[A-Za-z][\w.-]*)[\"']?\s*[=:]\s*[\"']?(?=([\w./:@-]*))")
_BORDERS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[.-]")
# Options whose value stands behind them.
_VALUED = ("--image", "--registry", "--backup-retention-period")


def note_settings(walk: Walk, arguments: list[str]) -> None:
    """Note what the settings among these arguments weaken, and where the images that they name come from."""
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        plain = walk.plain(argument)[:MOST_SETTING]
        if _NAMES["flag"].fullmatch(plain):
            walk.add("disables-check", plain.partition("=")[0])
            continue
        setting = f"{plain}={walk.plain(following)}" if plain in _VALUED else plain.removeprefix("--")
        for name, value in _PAIR.findall(setting):
            _note_setting(walk, name, value)
        if "=" in setting or ":" in setting or setting.replace("-", "").isalpha():
            for match in _NAMES["open"].finditer(setting):
                walk.add("disables-check", match.group())


def _note_setting(walk: Walk, name: str, value: str) -> None:
    parts = _BORDERS.sub("_", name).strip("_").lower()
    if any(value.lower() in values and _NAMES[kind].search(parts) for kind, values in _VALUES.items()):
        walk.add("disables-check", name)
    if _NAMES["image"].search(parts):
        note_image_source(walk, value)


def note_image_source(walk: Walk, image: str) -> None:
    """Note that a service runs an image: its host tells, or its owner and name where there is no host."""
    first, slash, _ = image.partition("/")
    if "." in first and not re.fullmatch(r"v?\d[\w.-]*", first):
        host = host_of(image) if "://" in image else first.partition(":")[0].lower()
        if not walk.project.has_host(host):
            walk.add("changes-service", host)
    elif slash:
        walk.add("changes-service", re.sub(r"(?:@sha256:\w+|:[\w.-]+)$", "", image))


def note_container_images(walk: Walk, words: list[str]) -> None:
    """Note the images that `kubectl set image` gives containers: `web=host.example/shop/web:2`."""
    for word in words:
        name, equals, image = walk.plain(word).partition("=")
        if name and equals:
            note_image_source(walk, image)
