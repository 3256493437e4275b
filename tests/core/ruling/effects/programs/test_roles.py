"""Roles of operands and options that the examples of `programs.tbl` cannot show."""

from __future__ import annotations

from time import process_time

import pytest
from command_effects import kinds_in, read_line

from lockgate.core.ruling.effects.project import Project


@pytest.mark.parametrize("line", ["mkdir -pv ~/.venvs", "mkdir ../notes", "cd && mkdir notes", "mkdir /home/ada/x"])
def test_an_empty_folder_beside_the_project_changes_nothing(line: str) -> None:
    assert kinds_in(line) == {"makes-folder"}


def test_what_a_proxy_asks_is_a_request_of_its_own() -> None:
    assert ("requests", "p.example") in read_line("curl -x http://p.example:3128 http://localhost/")


def test_a_host_of_the_project_is_no_news_for_its_packages() -> None:
    project = Project(root="/w/shop", hosts=frozenset({"x.example"}))
    assert "uses-package-source" not in kinds_in("pip install -i https://x.example/simple flask", project)


@pytest.mark.parametrize("line", ["curl {}", "rm {}", "tar -xf {}", "pip install {}", "ssh x.example {}"])
def test_a_long_command_line_is_read_in_linear_time(line: str) -> None:
    times = []
    for size in (16, 64):
        start = process_time()
        kinds_in(line.format("a/" * (size * 1024 // 2 - 20)))
        times.append(process_time() - start)
    assert times[1] < 5 * times[0] + 0.02
