"""No spelling ends Lockgate's processes or starts them elsewhere, and ordinary processes may be ended."""

from __future__ import annotations

import pytest

from lockgate.core.ruling.effects.own_paths import OWN_KINDS
from lockgate.core.ruling.effects.project import NO_PROJECT
from lockgate.core.ruling.effects.reading import effects_of, own_effects_of
from lockgate.core.ruling.tool_call import ToolCall


def own(command: str) -> set[str]:
    call = ToolCall("Bash", {"command": command})
    found = {each.kind for each in own_effects_of(call, NO_PROJECT)}
    # The glance before it must not hide anything.
    assert bool(found) is bool({each.kind for each in effects_of(call, NO_PROJECT)} & OWN_KINDS)
    return found


@pytest.mark.parametrize(
    "command",
    [
        "killall python3",
        "killall -9 python",
        "killall -q /usr/bin/python3.11",
        "pkill -f lock[g]ate",
        "pkill lockg",
        "pkill -9 python",
        "pkill -f 'python3?'",
        "pkill .",
        "pkill -f '.*'",
        "pkill -u ana",
        "killall -u ana",
        "pkill -f serve",
        "kill -9 -1",
        "kill -s KILL -- -1",
        "sudo killall python3",
        "ls | xargs pkill python",
        "env -i PATH=$PATH claude -p x",
        "env - claude -p x",
        "env -u CLAUDE_CONFIG_DIR claude -p x",
        "env --unset=HOME claude -p x",
        "env -uHOME claude -p x",
        "unset HOME; claude -p x",
        "unset CLAUDE_CONFIG_DIR && npx @anthropic-ai/claude-code -p x",
        "XDG_STATE_HOME=/tmp/q lockgate serve",
        "LOCKGATE_TOKEN=lgp_mine_mine_mine_mine lockgate serve --port 7717",
        "export XDG_STATE_HOME=/tmp/q; python3 -P -m lockgate serve",
        "env -i lockgate mcp -- npx files",
    ],
)
def test_no_spelling_takes_our_processes_away(command: str) -> None:
    assert own(command) == {"changes-own-guard"}


@pytest.mark.parametrize(
    "command",
    [
        "kill 1234",
        "kill -9 1234",
        "kill -1 1234",
        "kill %1",
        "kill $(lsof -ti:3000)",
        "killall node",
        "pkill -f 'python app.py'",
        "pkill -9 -f gunicorn",
        "pkill -P 4321",
        "pkill -u www-data nginx",
        "pkill -f vite",
        "pkill -f 'npm run serve'",
        "kill -l",
        "env -i make test",
        "env -u HOME make test",
        "unset HOME; make test",
        "unset DEBUG; claude -p x",
        "env FOO=1 claude -p x",
        "claude --version",
        "lockgate stats",
        "XDG_STATE_HOME=/tmp/q lockgate stats",
        "lockgate serve",
        "python -m pytest -k kill",
        "grep -rn kill src",
    ],
)
def test_ordinary_processes_may_be_ended(command: str) -> None:
    assert own(command) == set()
