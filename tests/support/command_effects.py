"""What a command line does, as pairs of kind and target, for the tests of its readers."""

from __future__ import annotations

from lockgate.core.ruling.effects.activity import NO_ACTIVITY, Activity
from lockgate.core.ruling.effects.project import Project
from lockgate.core.ruling.effects.shell_walk import read_command

SHOP = Project(
    root="/w/shop",
    folder="/w/shop",
    home="/home/ada",
    packages=frozenset({"flask", "left-pad"}),
    hosts=frozenset({"pkgs.shop.example"}),
    remotes={"origin": "git@forge.example:shop/shop.git"},
)


def read_line(line: str, project: Project = SHOP, activity: Activity = NO_ACTIVITY) -> set[tuple[str, str]]:
    """Return the kinds and targets of a command line's effects."""
    return {(each.kind, each.target) for each in read_command(line, "command", project, activity)}


def kinds_in(line: str, project: Project = SHOP) -> set[str]:
    """Return the kinds of a command line's effects."""
    return {kind for kind, _ in read_line(line, project)}
