"""No program reaches the service, types our commands elsewhere, takes its port or has it stopped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lockgate.core.ruling.effects.effects_of_call import effects_of, own_effects_of
from lockgate.core.ruling.effects.project import NO_PROJECT, Project
from lockgate.core.ruling.effects.protected_paths import OWN_KINDS
from lockgate.core.ruling.tool_call import ToolCall


def own(command: str, project: Project = NO_PROJECT) -> set[str]:
    call = ToolCall("Bash", {"command": command})
    # What only asks the service is another effect.
    found = {each.kind for each in effects_of(call, project)} & OWN_KINDS - {"asks-own-service"}
    # The glance before it must not hide anything.
    if project is NO_PROJECT:
        assert found <= {each.kind for each in own_effects_of(call, project)}
    return found


TAKES = [
    "nc -lkp {}",
    "nc -l {}",
    "ncat -l 127.0.0.1 {}",
    "python3 -m http.server {}",
    "python3 -m http.server --bind 127.0.0.1 {}",
    "socat TCP-LISTEN:{},fork -",
    "socat TCP4-LISTEN:{} EXEC:cat",
    "ssh -L {}:evil:80 host",
    "ssh -D {} host",
    "npx serve -l {}",
    "npx kill-port {}",
    "docker run -p {}:80 nginx",
    "kubectl port-forward svc/x {}:80",
    "php -S 127.0.0.1:{}",
    "uvicorn app:app --port {}",
    "uvicorn app:app --port={}",
    "PORT={} npm start",
    "export PORT={}; npm start",
    "setsid nohup python3 srv.py --port {} &",
    "python3 -c \"import socket;s=socket.socket();s.bind(('127.0.0.1',{}));s.listen()\"",
    "node -e 'require(\"http\").createServer().listen({})'",
    "bash -c 'nc -l {}'",
    "sudo iptables -A INPUT -p tcp --dport {} -j DROP",
    "iptables -t nat -A OUTPUT -p tcp --dport {} -j REDIRECT --to 9999",
    "nft add rule inet filter output tcp dport {} drop",
    "ufw deny {}/tcp",
    "ss -K dport = {}",
]


@pytest.mark.parametrize("command", TAKES)
def test_no_program_takes_the_port_of_the_service(command: str) -> None:
    assert own(command.format(7717)) == {"changes-own-guard"}
    # The host says on which port it listens.
    elsewhere = replace(NO_PROJECT, service_port=17717)
    assert own(command.format(17717), elsewhere) == {"changes-own-guard"}
    assert own(command.format(17717)) == set()


@pytest.mark.parametrize(
    "command",
    [
        "systemctl --user stop lockgate",
        "systemctl --user stop 'lock*'",
        "systemctl --user mask lockgate.service",
        "systemctl --user edit lockgate",
        "systemctl --user disable --now lockgate",
        "systemctl --user kill lockgate",
        "systemctl --user revert lockgate.service",
        "systemctl --user set-property lockgate.service CPUQuota=0%",
        "systemctl --user set-environment LOCKGATE_CONFIG=/tmp/x",
        "systemctl --user set-environment XDG_STATE_HOME=/tmp/x",
        "systemctl --user import-environment",
        "systemctl --user exit",
        "loginctl terminate-user ana",
        "launchctl unload ~/Library/LaunchAgents/lockgate.plist",
        "launchctl bootout gui/501/lockgate",
        "launchctl bootout gui/501",
        "launchctl remove lockgate",
        "launchctl setenv LOCKGATE_CONFIG /tmp/x",
        "schtasks /end /tn lockgate",
    ],
)
def test_the_system_is_not_told_to_stop_or_change_the_service(command: str) -> None:
    assert "changes-own-guard" in own(command)


@pytest.mark.parametrize(
    "command",
    [
        "python3 -m http.server 8000",
        "nc -l 9000",
        "nc -z 127.0.0.1 7717",
        "curl http://127.0.0.1:7717/healthz",
        "lsof -i :7717",
        "ss -tlnp | grep 7717",
        "grep -rn 7717 docs",
        "sed -n 7717p log.txt",
        "gh issue view 7717",
        "git show abc7717",
        "git log --grep '#7717'",
        "head -n 7717 big.csv",
        "timeout 7717 make test",
        "sleep 7717",
        "pytest tests/test_7717.py",
        "pip install foo==1.7717",
        "echo 7717 > port.txt",
        "bash -c 'curl 127.0.0.1:7717/readyz'",
        "npx serve -l 5000",
        "docker run -p 8080:80 nginx",
        "PORT=3000 npm start",
        "ssh -L 5432:db:5432 host",
        "systemctl --user status lockgate",
        "systemctl --user restart myapp",
        "systemctl stop nginx",
        "systemctl --user set-environment DEBUG=1",
        "launchctl list",
        "launchctl unload ~/Library/LaunchAgents/my.app.plist",
        "lockgate serve --port 7717",
    ],
)
def test_ordinary_servers_may_be_started(command: str) -> None:
    assert own(command) == set()


def test_a_project_s_configuration_of_lockgate_is_a_part_of_it() -> None:
    written = ToolCall("Write", {"file_path": "lockgate.toml", "content": "[security]\nenforce=false"})
    assert {each.kind for each in own_effects_of(written, NO_PROJECT)} == {"changes-own-guard"}
    assert own("echo x > lockgate.toml") == {"changes-own-guard"}
    assert own("cat lockgate.toml") == set()


def all_own(command: str) -> set[str]:
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
    assert "asks-own-service" in all_own(command)


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
    assert "changes-own-guard" in all_own(command)


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
    assert all_own(command) == set()
