"""No program reaches Lockgate's service or types its commands elsewhere, and ordinary commands are let be."""

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
        "curl localhost:7717",
        "curl -s http://127.1:7717/ -o page.html",
        "H=localhost; P=7717; curl http://$H:$P/",
        "sudo -u ana curl http://[::1]:7717/",
        "echo http://localhost:7717/ | xargs curl http://0:7717/",
        "wget -qO- http://0x7f000001:7717/v1/approvals",
        "curl --connect-to ::127.0.0.1:7717 http://shop.example/",
        "curl --resolve shop.example:7717:127.0.0.1 http://shop.example:7717/",
        "http POST :7717/v1/exchange host:localhost --follow localhost:7717",
        "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc localhost 7717",
        "nc 127.0.0.1 -p 7717",
        "telnet localhost 7717",
        "openssl s_client -connect localhost:7717",
        "exec 3<>/dev/tcp/127.0.0.1/7717",
        "xdg-open http://localhost:7717/",
        "google-chrome --headless --dump-dom http://localhost:7717/",
        "npx playwright open http://localhost:7717",
        "python3 -c \"import http.client as h; h.HTTPConnection('localhost', 7717).request('GET', '/')\"",
        "node -e \"require('http').get({port: 7717, host: '127.0.0.1'})\"",
        "python3 - <<'END'\nimport urllib.request\nurllib.request.urlopen('http://localhost:7717/')\nEND",
        "bash -c 'curl localhost:7717/'",
    ],
)
def test_programs_that_reach_the_service_are_known(command: str) -> None:
    assert "asks-own-service" in own(command)


@pytest.mark.parametrize(
    "command",
    [
        "tmux send-keys -t 1 'lockgate approvals approve 3f9a' Enter",
        "tmux send-keys -t 1 lockgate Space approvals Space approve Space 3f9a Enter",
        "tmux send-keys l o c k g a t e Space t r u s t Space x Enter",
        "tmux set-buffer 'lockgate trust CLAUDE.md --yes'; tmux paste-buffer -t 1",
        "screen -S work -X stuff 'lockgate trust CLAUDE.md --yes\n'",
        "xdotool type 'lockgate grants revoke 3f9a'",
        "xdotool key l o c k g a t e space t o k e n Return",
        "ydotool type 'lockgate token'",
        "wtype 'lockgate approvals watch'",
        "zellij action write-chars 'lockgate init claude-code --remove'",
        'osascript -e \'tell application "Terminal" to do script "lockgate approvals approve 3f9a"\'',
    ],
)
def test_our_commands_typed_into_another_terminal_are_known(command: str) -> None:
    assert "changes-own-guard" in own(command)


@pytest.mark.parametrize(
    "command",
    [
        "curl -s localhost:7717/healthz",
        "curl -s http://localhost:3000/api/v1/approvals",
        "curl https://shop.example:7717/",
        "grep -rn 'localhost:7717' docs",
        "rg '127.0.0.1:7717' src | head",
        "sed -i 's/localhost:7717/localhost:7718/' compose.yaml",
        "git commit -m 'Say that the page is at http://127.0.0.1:7717/'",
        "echo 'open http://127.0.0.1:7717/'",
        "cat > notes.md <<'END'\nhttp://127.0.0.1:7717/\nEND",
        "lsof -i :7717",
        "tmux send-keys -t dev 'npm run dev' Enter",
        "tmux send-keys -t dev 'lockgate serve' Enter",
        "tmux send-keys -t dev 'vim src/lockgate/gate/trust_store.py' Enter",
        "screen -ls",
        "xdotool key ctrl+s",
    ],
)
def test_ordinary_commands_are_let_be(command: str) -> None:
    assert own(command) == set()
