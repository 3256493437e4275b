"""What a search is limited to."""

from __future__ import annotations

import shlex

import pytest
from command_effects import read_line

from lockgate.core.ruling.effects.effects_of_call import effects_of
from lockgate.core.ruling.effects.programs.search_names import find_searched_names
from lockgate.core.ruling.tool_call import ToolCall


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (". -name a", ["a"]),
        (". -type f -name a -mtime +3 -delete", ["a"]),
        (r". \( -name a -o -iname b \) -delete", ["a", "b"]),
        (r". -name a \( -type f -o -type l \) -delete", ["a"]),
        (". -path ./.git -prune -o -name a -print", ["a"]),
        (". -name a -not -path './b/*'", ["a"]),
        (". ! ! -name a", ["a"]),
        (r". -exec echo '(' {} \; -name a", ["a"]),
        (". ! -name a", []),
        (". -not -name a", []),
        (r". ! \( -name a -o -name b \)", []),
        (". -name a -o -type f", []),
        (r". \( -name a -o -type f \) -delete", []),
        (". -path ./a -prune -o -type f -delete", []),
        (". -name a -prune", []),
        (". -name", [""]),
    ],
)
def test_everything_found_fits_one_of_these(line: str, names: list[str]) -> None:
    assert find_searched_names(shlex.split(line)) == names


@pytest.mark.parametrize("how", ["! -name release", "-not -name release", r"! \( -name release -o -name x \)"])
def test_what_is_excluded_is_not_deleted_but_the_rest_of_the_folder_is(how: str) -> None:
    whole = {("deletes-outside", "/srv/builds")}
    assert read_line(f"find /srv/builds -maxdepth 1 {how} -exec rm -rf {{}} +") == whole
    assert read_line(f"find /srv/builds {how} -delete") == whole
    assert read_line(f"find /srv/builds {how} | xargs rm -rf") == whole


def test_the_folder_is_the_target_without_a_project_as_well() -> None:
    call = ToolCall("ssh", {"host": "build-1", "command": "find /srv/builds ! -name release -exec rm -rf {} +"})
    assert ("deletes-outside", "/srv/builds") in {(found.kind, found.target) for found in effects_of(call)}


def test_a_name_that_is_looked_for_is_what_is_deleted() -> None:
    assert read_line("find /srv/builds -name old -exec rm -rf {} +") == {("deletes-outside", "/srv/builds/old")}


@pytest.mark.parametrize(
    "line",
    [
        "find ~ ! -name x -exec rm -rf {} +",
        "find ~ -not -name x -delete",
        "find ~ -name x -o -type f -delete",
        r"find ~ ! \( -name x \) -exec rm -rf {} +",
    ],
)
def test_an_excluded_name_does_not_hide_what_else_is_deleted(line: str) -> None:
    assert "changes-own-state" in {kind for kind, _ in read_line(line)}


def test_a_secret_among_several_names_is_read() -> None:
    assert ("reads-secret", "~/id_rsa") in read_line(r"find ~ \( -name x -o -name id_rsa \) -exec cat {} +")
