"""Start the `lockgate` command. `lockgate hook`, which a host starts before every tool call, loads nothing else."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line and return its exit code."""
    if sys.argv[1:2] == ["hook"] and not {"-h", "--help"} & set(sys.argv):
        from lockgate.claude_code.hook_command import main as hook

        return hook(sys.argv[2:])
    try:
        from lockgate.cli.main import main as command

        return command()
    except KeyboardInterrupt:
        # While modules load, before `main` can answer.
        sys.stderr.write("lockgate: interrupted\n")
        return 130
