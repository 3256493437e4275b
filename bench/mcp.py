"""What `lockgate mcp` adds to a call: the same call straight to a server and through us, in turn, in one run.

    python bench/mcp.py [--calls 400] [-- COMMAND...]

Without a command a small server of our own answers. Everything is as a user has it: rules, session, approvals and the
journal on disk. Prints medians of wall time with their difference, and processor time per call of our process alone.
Ends with 1 where the median of what is added, with a short pause between calls, is over the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SERVER = """
import json, os, sys
for line in sys.stdin.buffer:
    asked = json.loads(line)
    if asked.get("method") == "tools/call":
        text = "Echo: " + str(asked["params"]["arguments"].get("message", ""))
        result = {"content": [{"type": "text", "text": text}]}
    else:
        result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "echo", "version": "1"}}
    if "id" in asked:
        os.write(1, json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode() + b"\\n")
"""
LIMIT_MS = 2.0
# An agent thinks between calls, for longer than this.
PAUSE_S = 0.005
WARM = 20


class Client:
    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        began = time.perf_counter()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env=environment,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.to, self.by = self.process.stdin.fileno(), self.process.stdout.fileno()
        self.left = b""
        self.number = 0
        who = {"name": "bench", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who})
        self.start_s = time.perf_counter() - began
        os.write(self.to, b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def ask(self, method: str, params: object) -> float:
        self.number += 1
        said = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        data = json.dumps(said).encode() + b"\n"
        began = time.perf_counter()
        os.write(self.to, data)
        while True:
            while b"\n" not in self.left:
                more = os.read(self.by, 1 << 16)
                if not more:
                    raise SystemExit("a server has ended")
                self.left += more
            line, _, self.left = self.left.partition(b"\n")
            answer = json.loads(line)
            if answer.get("id") == self.number:
                took = time.perf_counter() - began
                assert not answer.get("result", {}).get("isError"), answer
                return took

    def end(self) -> float:
        """Seconds of processor time that the process took, without its children's."""
        os.close(self.to)
        _, _, used = os.wait4(self.process.pid, 0)
        self.process.returncode = 0
        os.close(self.by)
        return used.ru_utime + used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("server", nargs="*", help="another server with a tool `echo`")
    args = parser.parse_args()
    server = args.server or [sys.executable, "-S", "-c", SERVER]
    with tempfile.TemporaryDirectory() as home:
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": home,
            "PYTHONPATH": str(Path(__file__).resolve().parents[1] / "src"),
        }
        through = [sys.executable, "-P", "-m", "lockgate", "mcp", "--name", "echo", "--", *server]
        # Once for nothing: rules are compiled at the first start of an installation.
        warm = Client(through, environment)
        warm.ask("tools/call", {"name": "echo", "arguments": {"message": "warm"}})
        warm.end()
        idle = Client(through, environment)
        idle.ask("tools/call", {"name": "echo", "arguments": {"message": "once"}})
        once_s = idle.end()
        print(f"{args.calls} calls each, straight and through in turn")
        added_ms = [measured(args.calls, pause_s, server, through, environment) for pause_s in (PAUSE_S, 0.0)]
        twice = Client(through, environment)
        for number in range(args.calls):
            twice.ask("tools/call", {"name": "echo", "arguments": {"message": f"call {number}"}})
        used_ms = (twice.end() - once_s) / (args.calls - 1) * 1e3
    print(f"  processor time of lockgate: {used_ms:.2f} ms per call, journal and session included")
    return 0 if added_ms[0] <= LIMIT_MS else 1


def measured(calls: int, pause_s: float, server: list[str], through: list[str], environment: dict[str, str]) -> float:
    """Milliseconds that a call takes longer through us, at the median."""
    clients = {"straight": Client(server, environment), "through": Client(through, environment)}
    took: dict[str, list[float]] = {name: [] for name in clients}
    for number in range(calls + WARM):
        for name, client in clients.items():
            time.sleep(pause_s)
            seconds = client.ask("tools/call", {"name": "echo", "arguments": {"message": f"call {number}"}})
            if number >= WARM:
                took[name].append(seconds * 1e3)
    for client in clients.values():
        client.end()
    straight, with_us = took["straight"], took["through"]
    added, least = statistics.median(with_us) - statistics.median(straight), min(with_us) - min(straight)
    print(f"  {pause_s * 1e3:.0f} ms between calls:" if pause_s else "  without a pause:")
    print(f"    straight   median {statistics.median(straight):5.2f} ms, least {min(straight):5.2f}")
    print(f"    through    median {statistics.median(with_us):5.2f} ms, least {min(with_us):5.2f}")
    print(f"    added      median {added:5.2f} ms, least {least:5.2f}")
    start = clients["through"].start_s - clients["straight"].start_s
    print(f"    the first answer comes {start * 1e3:.0f} ms later than straight")
    return added


if __name__ == "__main__":
    sys.exit(main())
