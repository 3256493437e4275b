"""No spelling ends Lockgate's processes or starts them elsewhere, and ordinary processes may be ended."""

from __future__ import annotations

import pytest

from lockgate.core.ruling.effects.effects_of_call import effects_of, own_effects_of
from lockgate.core.ruling.effects.project import NO_PROJECT
from lockgate.core.ruling.effects.protected_paths import OWN_KINDS
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
        # Other coding agents, with a home or settings in which our hooks do not stand.
        "CODEX_HOME=/tmp/q codex exec 'go on'",
        "HOME=/tmp/q codex exec x",
        "env -u CODEX_HOME /usr/local/bin/codex exec x",
        "env -i PATH=$PATH codex exec x",
        "export CODEX_HOME=$PWD; npx -y @openai/codex@latest exec x",
        "npx -y @anthropic-ai/claude-code --bare -p x",
        "claude --safe-mode -p x",
        "claude --restricted -p x",
        "CLAUDE_CODE_SIMPLE=1 claude -p x",
        "export CLAUDE_CODE_SAFE_MODE=1; claude -p x",
        "env CLAUDE_CODE_PERSONAL_HOOKS_OFF=1 claude -p x",
        "codex exec -c 'features = {hooks=false}' x",
        "codex exec --disable hooks x",
        "codex --disable=hooks exec x",
        "codex exec -c features.hooks=false x",
        "codex exec -cfeatures.hooks=false x",
        "GEMINI_CLI_HOME=/tmp/q gemini --yolo -p x",
        "GEMINI_CLI_SYSTEM_SETTINGS_PATH=/tmp/s.json gemini -p x",
        "HOME=$(mktemp -d) npx @google/gemini-cli -p x",
        "COPILOT_HOME=/tmp/q copilot -p x",
        "HOME= node /usr/lib/node_modules/@github/copilot/index.js -p x",
        "XDG_CONFIG_HOME=/tmp/q opencode run x",
        "OPENCODE_PURE=1 opencode run x",
        "opencode --pure run x",
        "XDG_CONFIG_HOME=/tmp/q bunx opencode-ai run x",
        "sudo gemini -p x",
        "XDG_STATE_HOME=/tmp/q lockgate serve",
        "LOCKGATE_TOKEN=lgp_mine_mine_mine_mine lockgate serve --port 7717",
        "export XDG_STATE_HOME=/tmp/q; python3 -P -m lockgate serve",
        "env -i lockgate mcp -- npx files",
        # Patterns that fit the service's command line.
        "pkill -f 'python.*serve'",
        "pkill -f __main__.py",
        "pkill -f 'ser[a-z]*.*ve'",
        "pkill -f '[s]erve'",
        "pkill -f 'node|serve'",
        "pkill -f '(node|serve) '",
        "pkill -f site-packages",
        "pkill -f -- '--port 7717'",
        "pkill -f 'a*b*c*'",
        "pkill -f '(x+x+)+y'",
        "pkill -f '[[:alpha:]]'",
        "pkill -f '\\<serve\\>'",
        "pkill -v node",
        "pkill -i PYTHON",
        "killall -r 'pyth.*'",
        "killall --regexp lock",
        "taskkill /F /IM python.exe",
        # Lists that may hold it.
        "kill $(pgrep -f serve)",
        "kill -9 $(pidof python3)",
        "kill `pgrep python`",
        "pgrep -f serve | xargs kill",
        "pgrep -f serve | xargs -r -n1 kill -9",
        "pgrep -f serve | xargs -I{} kill {}",
        "ps aux | grep serve | awk '{print $2}' | xargs kill",
        "ps aux | grep -v node | awk '{print $2}' | xargs kill -9",
        "ps aux | grep '[p]ython' | tr -s ' ' | cut -d' ' -f2 | xargs kill",
        "ps -eo pid,args | awk '/serve/ {print $1}' | xargs kill",
        "PID=$(pgrep -f serve); kill $PID",
        "for p in $(pgrep python); do kill $p; done",
        "pgrep python | while read p; do kill $p; done",
        "kill $(lsof -ti :7717)",
        "kill $(lsof -ti tcp:7717)",
        "lsof -ti:7000-8000 | xargs kill",
        "kill $(lsof -t -c python)",
        "kill $(fuser 7717/tcp)",
        "netstat -tlnp | grep 7717 | awk '{print $7}' | cut -d/ -f1 | xargs kill",
        "kill $(ss -tlnp | grep python | sed 's/.*pid=//')",
        "fuser -k 7717/tcp",
        "sudo fuser -k -n tcp 7717",
        # The same program with other settings.
        "lockgate serve --config /tmp/x.toml",
        "lockgate serve --config=x.toml",
        "uvx lockgate serve --config ./x.toml",
        "python3 -P -m lockgate serve --config x.toml",
    ],
)
def test_no_spelling_takes_our_processes_away(command: str) -> None:
    assert own(command) == {"changes-own-guard"}


@pytest.mark.parametrize(
    "command",
    [
        "gdb -p $(pgrep -f 'lockgate serve') -batch -ex 'info proc'",
        "strace -f -p $(pgrep -f lockgate)",
        "gcore $(pgrep lockgate)",
        "py-spy dump --pid $(pgrep python)",
        "pgrep -f serve | xargs gcore",
        "P=$(pidof python3); reptyr $P",
        "cat /proc/$(pgrep -f 'lockgate serve')/environ",
        "for p in $(pgrep python); do tr '\\0' '\\n' < /proc/$p/environ; done",
    ],
)
def test_no_program_looks_into_our_processes(command: str) -> None:
    assert own(command) == {"reads-own-token"}


@pytest.mark.parametrize(
    "command",
    [
        "strace -f -p $(pgrep -f 'node server.js')",
        "gdb -p 1234",
        "gdb ./a.out",
        "strace ls",
        "kill 1234",
        "kill -9 1234",
        "kill -1 1234",
        "kill %1",
        "kill $(lsof -ti:3000)",
        "lsof -ti :3000 | xargs kill",
        "lsof -ti tcp:5173 -sTCP:LISTEN | xargs -r kill -9",
        "kill $(lsof -t -i:8080)",
        "fuser -k 3000/tcp",
        "lsof -i :7717",
        "fuser 7717/tcp",
        "ps aux",
        "ps aux | grep python",
        "ps aux; kill $(cat server.pid)",
        "ps aux | grep node | grep -v grep | awk '{print $2}' | xargs kill",
        "ps aux | awk '/vite/ {print $2}' | xargs kill",
        "kill $(pgrep -f 'node server.js')",
        "pgrep -f webpack | xargs kill",
        "kill $(ps -C node -o pid=)",
        "netstat -tlnp | grep :3000 | awk '{print $7}' | cut -d/ -f1 | xargs kill",
        "kill -0 $PID",
        "kill $!",
        'kill $(lsof -ti :"$PORT")',
        'killall "$NAME"',
        'pkill -f "$NAME"',
        "npm start & sleep 2; kill $!",
        'pkill -f "node server.js"',
        "pkill -f main.py",
        "pkill -f 'node.*server.*--port.*3000'",
        "pkill -f '(vite|webpack).*dev'",
        "pkill -f 'uvicorn app.main:app'",
        "pkill -f 'manage.py runserver'",
        "pkill -f http.server",
        "pkill chrome",
        "killall -9 node npm",
        "taskkill /F /IM node.exe",
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
        "codex exec 'mend the tests'",
        "gemini -p 'why is features.hooks off?'",
        "copilot --version",
        "opencode run x",
        "npx @google/gemini-cli --version",
        "OPENCODE_PURE=1 make test",
        "lockgate stats",
        "XDG_STATE_HOME=/tmp/q lockgate stats",
        "lockgate serve",
        "python -m pytest -k kill",
        "grep -rn kill src",
    ],
)
def test_ordinary_processes_may_be_ended(command: str) -> None:
    assert own(command) == set()
