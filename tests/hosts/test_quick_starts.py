"""The quick starts do what they show: their programs and commands, in an empty home, against what stands below them."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = ROOT / "docs" / "tutorial"
PART = re.compile(r"Save this as `(?P<file>[\w.]+)`|^```(?P<language>\w+)\n(?P<body>.*?)^```", re.MULTILINE | re.DOTALL)


class Home:
    """An empty home with a folder to work in, and the commands of this installation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        self.env = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}/usr/bin{os.pathsep}/bin",
            "HOME": str(folder),
            "PYTHONPATH": str(ROOT / "src"),
            "COLUMNS": "200",
            "LANG": "C.UTF-8",
        }

    def run(self, script: str) -> str:
        own = f"lockgate() {{ '{sys.executable}' -P -m lockgate \"$@\"; }}"
        told = subprocess.run(
            ["bash", "-c", f"{own}\n{script}"],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=180,
        )
        return told.stdout + told.stderr


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def parts(page: str) -> Iterator[tuple[str, str]]:
    """The files and blocks of a page, in order; a program belongs to the file that is named before it."""
    file = ""
    for found in PART.finditer((TUTORIALS / f"{page}.md").read_text(encoding="utf-8")):
        if found["file"]:
            file = found["file"]
        elif found["language"] == "python":
            yield file, found["body"]
        else:
            yield found["language"], found["body"]


def shape(line: str) -> str:
    """A line without what differs between runs."""
    return re.sub(r"\b[0-9a-f]{8,}\b|\d+", "N", " ".join(line.partition("…")[0].split()))


@pytest.mark.parametrize("page", ["agent", "audit"])
def test_a_page_shows_what_its_commands_print(page: str, home: Home) -> None:
    printed, shown = "", 0
    for kind, body in parts(page):
        if kind.endswith(".py"):
            (home.folder / kind).write_text(body, encoding="utf-8")
        elif kind == "sh" and "pip install" not in body:
            printed = home.run(body)
        elif kind == "text":
            lines = {shape(line) for line in printed.splitlines()}
            for line in map(shape, body.splitlines()):
                assert any(each.startswith(line) for each in lines), f"{line}\n{printed}"
                shown += 1
    assert shown >= 3
    assert page != "audit" or printed.startswith("proved: ")


def test_the_api_page_lets_one_request_pass_and_refuses_the_other(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    found = list(parts("api"))
    (program,) = [body for kind, body in found if kind == "app.py"]
    (serve,) = [body for kind, body in found if kind == "sh" and body.startswith("uvicorn")]
    (ask,) = [body for kind, body in found if kind == "sh" and body.startswith("curl")]
    (home.folder / "app.py").write_text(program, encoding="utf-8")
    server = subprocess.Popen(
        [*serve.split(), "--port", str(port)],
        cwd=home.folder,
        env=home.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(600):
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        printed = home.run(ask.replace("127.0.0.1:8000", f"127.0.0.1:{port}"))
    finally:
        server.terminate()
        server.wait()
    assert re.findall(r"HTTP/1\.1 (\d+)", printed) == ["200", "403"]
    assert re.findall(r"x-guardrail-decision: (\w+)", printed) == ["allow", "deny"]
    assert '"code":"unsafe"' in printed
