"""A scripted model for DSPy."""

from __future__ import annotations

import json
from typing import Any

import dspy
from dspy.utils.dummies import DummyLM


def scripted(calls: Any) -> dict[str, Any]:
    steps = [
        {"next_thought": "on", "next_tool_name": tool, "next_tool_args": json.dumps(given)}
        for tool, given in [*calls, ("finish", {})]
    ]
    dspy.configure(lm=DummyLM([*steps, {"reasoning": "read", "answer": "done"}]))
    return {}


def told_by(page: dict[str, Any], calls: Any) -> list[str]:
    trajectory = page["agent"](question="When is it open?").trajectory
    return [str(trajectory[f"observation_{number}"]) for number in range(len(calls))]
