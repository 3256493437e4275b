"""Other scanners over the same blocks in the same run, where they are installed.

    python -m venv ../peers && ../peers/bin/pip install -r bench/peers.txt
    ../peers/bin/pip install --no-deps llamafirewall==1.0.3 prompt-armor==0.9.1
    make bench ARGS="--peers ../peers"

None is needed. One that is importable here is called here; with `--peers` this file runs itself inside that
environment, with the blocks in a file, and prints CPU seconds per block as JSON. It imports nothing of ours.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import random
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from statistics import median
from time import thread_time
from typing import Any, NamedTuple

Scan = Callable[[str], object]

# The seed's six patterns: the same loop runs in both processes, and shows whether one of them ran slower.
_YARDSTICK = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"ignore.*(previous|above|prior).*instruction",
        r"new (instruction|directive|task)",
        r"forget.*(previous|everything)",
        r"(execute|run|call).*\(",
        r"curl.*\|.*bash",
        r"(api[_-]?key|password|token|secret)",
    )
)
YARDSTICK = "plain re, the seed's six patterns"


class Peer(NamedTuple):
    name: str
    module: str
    package: str
    make: Callable[[], Scan]
    # Whether it looks for injected instructions in text; one that only looks for a range of characters does not.
    injection: bool = True


def yardstick(text: str) -> list[bool]:
    return [pattern.search(text) is not None for pattern in _YARDSTICK]


def _finished(scan: Coroutine[Any, Any, object]) -> object:
    """The result of a coroutine that never waits."""
    try:
        scan.send(None)
    except StopIteration as done:
        return done.value
    raise RuntimeError("the scanner waited for something")


def _agent_os_detector() -> Scan:
    from agent_os.prompt_injection import PromptInjectionDetector

    return PromptInjectionDetector().detect


def _agent_os_responses() -> Scan:
    from agent_os.mcp_response_scanner import MCPResponseScanner

    scanner = MCPResponseScanner()
    return lambda text: scanner.scan_response(text, "read")


def _defender_patterns() -> Scan:
    from stackone_defender.classifiers.pattern_detector import PatternDetector

    return PatternDetector().analyze


def _defender_results() -> Scan:
    from stackone_defender.core.prompt_defense import PromptDefense

    defence = PromptDefense(enable_tier2=False)
    return lambda text: defence.defend_tool_result({"body": text}, "read")


def _detector_model() -> Scan:
    from prompt_injection_detector import Scanner

    return Scanner().scan


def _llamafirewall_regex() -> Scan:
    from llamafirewall import UserMessage
    from llamafirewall.scanners.regex_scanner import RegexScanner

    scanner = RegexScanner()
    return lambda text: _finished(scanner.scan(UserMessage(content=text)))


def _llamafirewall_hidden() -> Scan:
    from llamafirewall import UserMessage
    from llamafirewall.scanners.hidden_ascii_scanner import HiddenASCIIScanner

    scanner = HiddenASCIIScanner()
    return lambda text: _finished(scanner.scan(UserMessage(content=text)))


def _prompt_armor_rules() -> Scan:
    from prompt_armor.layers.l1_regex import L1RegexLayer

    layer = L1RegexLayer()
    layer.setup()
    return layer.analyze


PEERS = (
    Peer("agent-os PromptInjectionDetector", "agent_os", "agent-os-kernel", _agent_os_detector),
    Peer("agent-os MCPResponseScanner", "agent_os", "agent-os-kernel", _agent_os_responses),
    Peer("stackone-defender patterns", "stackone_defender", "stackone-defender", _defender_patterns),
    Peer("stackone-defender tool result, patterns only", "stackone_defender", "stackone-defender", _defender_results),
    Peer("prompt-injection-detector", "prompt_injection_detector", "prompt-injection-detector", _detector_model),
    Peer("LlamaFirewall regex", "llamafirewall", "llamafirewall", _llamafirewall_regex),
    Peer("LlamaFirewall hidden ASCII", "llamafirewall", "llamafirewall", _llamafirewall_hidden, injection=False),
    Peer("prompt-armor regex layer", "prompt_armor", "prompt-armor", _prompt_armor_rules),
)


class Measured(NamedTuple):
    """CPU seconds per block for each scanner that ran, and why the others did not."""

    seconds: dict[str, float]
    absent: dict[str, str]


def available() -> tuple[dict[str, Scan], dict[str, str]]:
    """The peers that can be made here, and why the others cannot."""
    found: dict[str, Scan] = {}
    absent: dict[str, str] = {}
    for peer in PEERS:
        if importlib.util.find_spec(peer.module) is None:
            absent[peer.name] = "not installed"
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[peer.name] = peer.make()
        except Exception as error:  # noqa: BLE001  whatever a foreign package does at import is a reason, not a crash
            absent[peer.name] = f"cannot be used: {type(error).__name__}: {error}"[:120]
    return found, absent


def per_block(scans: dict[str, Scan], blocks: Sequence[str], rounds: int) -> dict[str, float]:
    """The median over the rounds of CPU per block, all scanners in a new order each round."""
    order, chance = list(scans), random.Random(4)
    taken: dict[str, list[float]] = {name: [] for name in order}
    for round_ in range(rounds + 1):
        chance.shuffle(order)
        for name in order:
            scan = scans[name]
            began = thread_time()
            for block in blocks:
                scan(block)
            if round_:
                taken[name].append((thread_time() - began) / len(blocks))
    return {name: median(figures) for name, figures in taken.items()}


def elsewhere(environment: Path, blocks: Sequence[str], rounds: int) -> Measured:
    """The same inside another virtual environment."""
    python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "blocks.json"
        file.write_text(json.dumps(list(blocks)), encoding="utf-8")
        run = subprocess.run(
            [str(python), "-I", __file__, str(file), str(rounds)], check=False, capture_output=True, text=True
        )
    if run.returncode:
        last = run.stderr.strip().splitlines()[-1:] or ["no output"]
        raise RuntimeError(f"the peers in `{environment}` could not be measured: {last[0][:200]}")
    answer = json.loads(run.stdout.splitlines()[-1])
    return Measured(answer["seconds"], answer["absent"])


def _main(file: str, rounds: str) -> None:
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    blocks = json.loads(Path(file).read_text(encoding="utf-8"))
    found, absent = available()
    seconds = per_block({YARDSTICK: yardstick, **found}, blocks, int(rounds))
    print(json.dumps({"seconds": seconds, "absent": absent}))


if __name__ == "__main__":
    _main(*sys.argv[1:])
