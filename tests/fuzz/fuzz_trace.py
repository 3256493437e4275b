"""Fuzz target: any bytes as a line of a trace are an event or an InvalidTrace, never anything else."""

from __future__ import annotations

from driver import fuzz, instrumented

with instrumented():
    from lockgate.core.errors import InvalidTrace
    from lockgate.sessions.trace_format import decode_line, parse_line

SEEDS = [
    b'{"trace": "lockgate/1"}',
    b'{"session": {"goal": "g", "mode": "paranoid", "scope": ""}}',
    b'{"block": {"content": "c", "source": "tool:x", "trust": "untrusted", "kind": "data", "mutable": true}}',
    b'{"block": {"content": "\\ud83d\\ude00", "source": "w", "tainted_by": ["b", "goal"]}}',
    b'{"call": {"tool": "t", "arguments": {"a": [1, -2.5e3, null, true, {"b": "c"}]}, "label": "attack"}}',
    b'{"call": {"tool": "t", "arguments": {}, "annotations": {"readOnlyHint": false}}}',
    b'{"call": {"tool": "t", "arguments": {"a": 1e308, "b": 123456789012345678901234567890}}}',
]


def one_input(data: bytes) -> None:
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            parse_line(decode_line(line, number), number)
        except InvalidTrace as refused:
            said = refused.message
        else:
            continue
        assert said.startswith(f"line {number}: ")
        assert "\n" not in said


if __name__ == "__main__":
    fuzz(one_input, SEEDS)
