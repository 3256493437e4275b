"""A `lockgate serve` in a home of its own, for a test that asks it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from rule_cache import keep_rules

from lockgate.core.ruling.policy import Policy
from lockgate.gate.gate import shared_scanner
from lockgate.integrations.plug import Plug
from lockgate.integrations.plug_service import ServiceHost

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 120


class RunningService:
    """A `lockgate serve` in a home of its own."""

    def __init__(self, home: Path) -> None:
        keep_rules(shared_scanner(Policy()), home / "cache", home / "state")
        folders = {f"XDG_{name.upper()}_HOME": str(home / name) for name in ("state", "cache", "config")}
        self.environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src"), "HOME": str(home), **folders}
        command = [sys.executable, "-P", "-m", "lockgate", "serve", "--port", "0"]
        self.process = subprocess.Popen(command, env=self.environment, cwd=home, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        found = re.match(r"lockgate serve: http://127\.0\.0\.1:(\d+)", self.process.stdout.readline())
        assert found
        self.port = int(found[1])
        self.token = (home / "state" / "lockgate" / "token").read_text().strip()

    def plug(self, **options: Any) -> Plug:
        url = f"http://127.0.0.1:{self.port}"
        return Plug("suite", host=ServiceHost(url, deadline_s=WAIT_S, environment=self.environment), **options)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        client = HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        client.request(method, path, None if body is None else json.dumps(body), headers)
        reply = client.getresponse()
        data = reply.read()
        client.close()
        assert reply.status == 200, data
        return json.loads(data)

    def end(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=WAIT_S)
