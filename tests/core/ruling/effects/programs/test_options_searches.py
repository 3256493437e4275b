"""What a search is limited to."""

from __future__ import annotations

import shlex

import pytest
from command_effects import read_line

from lockgate.core.ruling.effects.effects_of_call import effects_of
from lockgate.core.ruling.effects.programs.options import read_search
from lockgate.core.vocabulary import ToolCall


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (". -name a", ["a"]),
        (". -type f -name a -mtime +3 -delete", ["a"]),
        (r". \( -name a -o -iname b \) -delete", ["a", "b"]),
        (r". -name a \( -type f -o -type l \) -delete", []),
        (". -path ./.git -prune -o -name a -print", ["a"]),
        (". -name a -not -path './b/*'", ["a"]),
        (r". -name a -exec echo '(' {} \; -name b", ["a", "b"]),
        (r". -exec echo '(' {} \; -name a", []),
        (". -delete -name a", []),
        (r". \( -name a -o -name b \) \( -type f -o -name c \) -delete", ["a", "b", "c"]),
        (r". \( -type f -o -name a \) -name b -delete", []),
        (". ! -name a", []),
        (". -not -name a", []),
        (r". ! \( -name a -o -name b \)", []),
        (". -name a -o -type f", []),
        (r". \( -name a -o -type f \) -delete", []),
        (". -path ./a -prune -o -type f -delete", []),
        (". -name a -prune", ["a"]),
        (". -name a -prune -o -name b", ["a", "b"]),
        (". -name a -prune -exec cat {} + -o -name b -print", ["a", "b"]),
        (r". \( -name a -prune \) -o -name b -print", ["a", "b"]),
        (r". \( -name a -prune -o -name b -print \) -exec cat {} +", ["a", "b"]),
        (". -iname a -name b", ["a", "b"]),
        (". -regex ) -o -name a", []),
        (r". ! \( ! -name a \)", []),
        (". -name", [""]),
    ],
)
def test_everything_found_fits_one_of_these(line: str, names: list[str]) -> None:
    search = read_search(shlex.split(line))
    assert (search.wanted if search.is_limited else []) == names


@pytest.mark.parametrize(
    "how",
    [
        "-name id_rsa -prune -exec cat {} + -o -name '*.zzz'",
        "-iname '*' -name id_rsa -exec cat {} +",
        "-type d -o -name id_rsa -exec cat {} +",
        r"! \( ! -name id_rsa \) -exec cat {} +",
        r"-regex \) -o -name id_rsa -exec cat {} +",
        "-name id_rsa -prune -o -name '*.zzz' | xargs cat",
    ],
)
def test_a_secret_that_is_looked_for_is_read(how: str) -> None:
    assert ("reads-secret", "~/id_rsa") in read_line(f"find ~ {how}")


@pytest.mark.parametrize(
    "how",
    [
        "-path '*lockgate*' -prune -exec cat {} + -o -name '*.zzz'",
        "-name '*lockgate*' -prune -o -name '*.zzz' | xargs cat",
        "-name '*.zzz' -path '*lockgate*' -exec cat {} +",
    ],
)
def test_a_search_for_files_of_lockgate_reads_them(how: str) -> None:
    assert "reads-own-token" in {kind for kind, _ in read_line(f"find ~ {how}")}


def test_a_file_that_starts_programs_is_written_whatever_name_stands_before_it() -> None:
    line = "find ~ -iname '*' -name .bashrc -exec sed -i s/a/b/ {} +"
    assert ("writes-startup-file", "~/.bashrc") in read_line(line)


@pytest.mark.parametrize("name", [".env", "id_rsa", "'*lockgate*'"])
def test_what_is_left_out_of_a_search_is_not_read(name: str) -> None:
    kinds = {kind for kind, _ in read_line(f"find . -name {name} -prune -o -name '*.zzz' -exec cat {{}} +")}
    assert kinds == {"looks"}


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


def test_a_command_is_run_in_every_folder_that_is_searched() -> None:
    both = {("deletes-outside", "/srv/builds"), ("deletes-outside", "/srv/data")}
    assert read_line("find /srv/builds /srv/data ! -name release -exec rm -rf {} +") == both


def test_a_name_that_stands_behind_the_action_limits_nothing() -> None:
    assert read_line("find /srv/builds -name old -delete") == {("deletes-outside", "/srv/builds/old")}
    assert read_line("find /srv/builds -delete -name old") == {("deletes-outside", "/srv/builds")}


def test_a_search_in_many_folders_for_many_names_cannot_be_read() -> None:
    names = "-name a -o " * 15
    assert read_line(f"find {'/srv/a ' * 8}{names}-name b -delete") == {
        ("deletes-outside", "/srv/a/a"),
        ("deletes-outside", "/srv/a/b"),
    }
    assert read_line(f"find {'/srv/a ' * 900}{names}-name b -delete") == {("unreadable", "")}


def test_brackets_may_be_nested_as_deep_as_they_like() -> None:
    assert read_line("find /srv " + r"\( " * 300 + "-name a " + r"\) " * 300 + "-delete") == {
        ("deletes-outside", "/srv/a")
    }
    assert not read_search(["/srv", *["("] * 5_000, "-type", "f"]).is_limited


def test_many_names_and_many_words_together_cannot_be_read() -> None:
    names = " -o ".join(f"-name x{number}" for number in range(120))
    assert read_line(f"find /srv {names} -exec cp {'{} ' * 1500}/tmp +") == {("unreadable", "")}
    assert read_line(f"find /srv {names} {'-delete ' * 800}") == {("unreadable", "")}
