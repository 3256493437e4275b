"""Calls that touch Lockgate itself: no spelling lets the agent make them, and ordinary work never comes near them."""

from __future__ import annotations

from functools import cache

import pytest

from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.effects.effects_of_call import own_effects_of
from lockgate.core.ruling.policy import Policy
from lockgate.core.ruling.self_protection import find_tampering, findings_from_effects, is_unrelated
from lockgate.core.text.scanner import Scanner
from lockgate.core.vocabulary import Action, ToolCall
from lockgate.gate.gate import Gate, shared_scanner


@cache
def no_rules() -> Scanner:
    return Scanner(())


def own(*values: str, looks: bool = False) -> set[str]:
    """What is found in a command and its words, by what they say and by what they do."""
    said = find_tampering([Leaf("command", value) for value in values], no_rules(), looks=looks)
    tool, name = ("Read", "file_path") if looks else ("Bash", "command")
    done = findings_from_effects(own_effects_of(ToolCall(tool, {name: " ".join(values)})))
    return {found.rule for found in (*said, *done)}


def written(path: str, content: str = "{}", name: str = "file_path") -> set[str]:
    """What is found in a call that writes a file."""
    said = find_tampering([Leaf(name, path), Leaf("content", content)], no_rules())
    done = findings_from_effects(own_effects_of(ToolCall("Write", {name: path, "content": content})))
    return {found.rule for found in (*said, *done)}


@pytest.mark.parametrize(
    "command",
    [
        "lockgate approvals approve 3f9a --yes",
        "lockgate approvals deny 3f9a",
        "LOCKGATE APPROVALS APPROVE x",
        "/usr/bin/lockgate approvals approve x",
        "python -m lockgate.cli.main approvals approve x",
        "lockgate 'approvals' 'approve' x",
        "lockgate\tapprovals\tapprove x",
        "lockgate approvals \\\n approve x",
        "lockgate approvals --reason 'looks fine' approve x --yes",
        'lockgate approvals --who ana --reason "all good" approve x --yes',
        "lockgate approvals --all --full --json --yes --config=x approve x",
        "lockgate approvals list; lockgate approvals approve x",
        "lockgate approvals a''pprove x",
        "lockgate appro''vals approve x",
        'lock""gate approvals de\\ny x',
        "lockgate approvals $(echo approve) x",
        "V=approve; lockgate approvals $V x",
        'lockgate approvals "$V" x',
        "L=lockgate; $L approvals approve x",
        "xargs lockgate approvals <<< 'approve x --yes'",
        "echo approve x --yes | xargs lockgate approvals",
        "ls | xargs -I{} lockgate approvals {} x",
        "python -c \"from lockgate.cli.main import main; main(['approvals','approve','x','--yes'])\"",
        "python -c \"from lockgate.cli.main import main; main(['approvals', '--who', 'x', 'approve', 'x'])\"",
        "python -c \"from lockgate.gate.approvals_sqlite import SqliteApprovals as S; S(p).answer('x')\"",
        'python -c "import lockgate.cli.approvals as a; a._answer(store, call, args)"',
        "lockgate approvals approve 3f9a --for always --yes",
        "lockgate approvals --for always approve 3f9a --yes",
        "lockgate approvals --for=project --yes approve 3f9a",
        "lockgate grants revoke 3f9a",
        "lockgate grants --who ana revoke 3f9a",
        "lockgate gra''nts drop-unused --older-than 0m",
        'lockgate grants "$V" x',
        "echo revoke x | xargs lockgate grants",
        "python -c \"from lockgate.cli.main import main; main(['grants', 'revoke', 'x'])\"",
        "python -c \"from lockgate.gate.approvals_sqlite import SqliteApprovals as S; S(p).revoke_grant('x')\"",
        'python -c "from lockgate.gate.grants_sqlite import insert_grant; insert_grant(db, g)"',
        "curl -X POST http://127.0.0.1:7717/v1/grants/3f9a/revoke",
        "curl -H 'authorization: Bearer lg_x' http://lockgate.internal/v1/grants",
    ],
)
def test_no_spelling_lets_an_agent_answer_for_a_person(command: str) -> None:
    assert "execution:own-approval" in own(command)


@pytest.mark.parametrize(
    "code",
    [
        "from lockgate.assemble import *; approvals_from_settings(s).answer('x')",
        "from lockgate.gate.approvals_sqlite import SqliteApprovals as S; S(p).revoke_grant('x')",
        "from lockgate.gate.approvals_sqlite import SqliteApprovals as S; S(p).add_grant(g)",
    ],
)
def test_a_few_lines_of_code_that_only_compute_are_held_as_well(code: str, scanner: Scanner) -> None:
    session = Gate(scanner=scanner).session(goal="Do the sums")
    held = session.check("Bash", {"command": f'python -c "{code}"'})
    assert held.action is Action.PAUSE
    assert "execution:own-approval" in {each.rule for each in held.findings}


def test_a_program_and_its_words_may_be_values_of_their_own() -> None:
    assert own("lockgate", "approvals", "approve", "3f9a") == {"execution:own-approval"}
    assert own("lockgate", "approvals", "list") == set()
    assert own("lockgate", "grants", "revoke", "3f9a") == {"execution:own-approval"}
    assert own("lockgate", "grants") == set()
    assert own("lockgate grants --json") == set()


@pytest.mark.parametrize(
    "command",
    [
        "sqlite3 ~/.local/state/lockgate/approvals.db \"update approvals set state='granted'\"",
        "sqlite3 approvals.db .dump",
        "rm ~/.local/state/lockgate/approvals.d''b-wal",
        "rm -rf ~/.local/state/lock*",
        "rm -rf ~/.local/state/$D",
        'cp /tmp/a.db "$XDG_STATE_HOME"/lockgate/',
        "cd ${XDG_STATE_HOME}/lockgate && cp /tmp/x .",
        "find / -path '*lockgate*' -name '*.db'",
        "truncate -s0 /home/ana/.local/state/lockgate/ledger.jsonl",
        r"del C:\Users\ana\.local\state\lockgate\approvals.db",
    ],
)
def test_the_files_of_the_gate_are_known(command: str) -> None:
    assert "execution:own-state" in own(command)


@pytest.mark.parametrize(
    "command",
    [
        "lockgate approvals list",
        "lockgate approvals list --all --json",
        "lockgate approvals --json list",
        "lockgate approvals show 3f9a --full",
        "lockgate approvals show 3f9a # then a person may approve it",
        "lockgate approvals list | xargs -n1 lockgate approvals show",
        "lockgate approvals --help",
        "lockgate rules && lockgate stats",
        "pip install lockgate && lockgate demo",
        "git clone https://code.example/x/lockgate",
        "cd lockgate && pytest tests/cli/test_approvals.py -k approve",
        "vim src/lockgate/cli/approvals.py # how it asks to approve",
        "cat docs/how-to/approvals.md | grep approve",
        "from lockgate.gate.approvals_sqlite import SqliteApprovals\ngate = Gate(approvals=SqliteApprovals(path))",
        "echo Lockgate asks a person; approvals expire after five minutes",
        "the approvals of the board: approve or deny",
        "gh pr review --approve",
        "ls ~/.local/state/nvim",
        "cat expense_approvals.dbf",
    ],
)
def test_a_command_that_answers_no_approval_is_let_be(command: str) -> None:
    assert own(command) == set()


@pytest.mark.parametrize(
    "command",
    [
        "lockgate init claude-code --remove --yes",
        "lockgate init claude-code --url http://127.0.0.1:9999 --yes",
        "lockgate init claude-code --config /tmp/evil.toml --command --yes",
        "lockgate init claude-code --http --yes",
        "python -c \"from lockgate.cli.main import main; main(['init','claude-code','--remove','--yes'])\"",
        "python - <<E\nfrom lockgate.cli.main import main\nmain(['token'])\nE",
        "XDG_STATE_HOME=/tmp/y lockgate init claude-code --yes",
        "lockgate --config x init mcp --remove",
        "lockgate service uninstall --yes",
        "lockgate --config x service install --yes",
        "python -I /opt/v/lib/lockgate/__main__.py init claude-code --remove",
        "python -I /opt/v/lib/lockgate/__main__.py token",
        "python -m lockgate.cli.start init claude-code --remove",
        "python -I -S /opt/v/lib/lockgate/hook.py claude-code < body.json",
        "lockgate token",
        "lockgate token --rotate",
        "T=$(lockgate token --agent)",
        "lock''gate to\\ken",
        "lockgate hook claude-code < body.json",
        "lockgate mcp --repin notes",
        "sleep 25 | lockgate mcp --session S --goal 'forward the report' -- cat",
        'env lockgate mcp --session=s --goal="$G" -- cat',
        'lockgate mcp --goal "$(cat goal.txt)" -- cat',
        "claude --settings /tmp/x.json -p hello",
        "lockgate gate bans --lift 10.0.0.1",
        "curl -X POST http://127.0.0.1:9001/v1/approvals/3f -H 'Authorization: Bearer x' --json '{}'",
        "curl -X POST http://127.0.0.1:9001/v1/grants/3f -H 'Authorization: Bearer x' --json '{}'",
        "curl -X POST http://127.0.0.1:9001/v1/bans/3f/lift -H 'Authorization: Bearer x' --json '{}'",
        "curl http://localhost:9001/hooks/claude-code -d @body.json",
        "pkill -f lockgate",
        "systemctl --user stop lockgate",
        "docker rm -f lockgate",
        "kill $(pgrep -f 'lockgate serve')",
        "pgrep lockgate | xargs kill -9",
        "kill $(lsof -ti:7717)",
        "pip uninstall -y lockgate",
        "uv tool uninstall lockgate",
        "sed -n 'w ~/.claude/settings.json' f",
        "cd ~/.claude && sed 's/a/b/w settings.json' f",
        "psql -c '\\\\! rm -rf ~/.claude'",
        "cd ~/.claude && rm settings.json",
        "rm ~/.claude/settings.json",
        "rm -rf .claude",
        "rm -rf ~/.claude/*",
        "mv ~/.claude /tmp/x",
        "echo '{}' > .claude/settings.local.json",
        "echo '{}' >| \"$HOME/.claude/settings.json\"",
        "jq 'del(.hooks)' a | tee ~/.claude/settings.json",
        "sed -i s/lock/x/ .claude/settings.json",
        "cp /tmp/s.json .claude/settings.json",
        "ln -sf /tmp/s.json ~/.claude/settings.json",
        "git checkout HEAD~3 -- .claude/settings.json",
        "find ~/.claude -name 'settings*' -delete",
        "python3 -c \"open('.claude/settings.json','w').write('{}')\"",
        "python3 -c \"import pathlib; (pathlib.Path.home()/'.claude'/'settings.json').write_text('{}')\"",
        "node -e \"fs.writeFileSync('.claude/settings.json','{}')\"",
        "curl -s https://x.example/s -o .claude/settings.json",
        "echo '{}' >> ~/.claude/projects/-w/4f.jsonl",
        "sudo rm /etc/claude-code/managed-settings.json",
        "claude -p x --settings '{\"disableAllHooks\":true}'",
        "claude --setting-sources '' -p 'run it'",
        "CLAUDE_CONFIG_DIR=/tmp/empty claude -p 'run it'",
        "echo 'x = 1' >> ~/.config/lockgate/config.toml",
        "rm -rf /opt/v/lib/python3.11/site-packages/lockgate",
        "pkill -f lock[g]ate",
        "ps aux | grep [l]ockgate | awk '{print $2}' | xargs kill",
        "sed -i s/lockgate/x/ ~/.claude.json",
        "jq 'del(.mcpServers)' ~/.claude.json > a && mv a ~/.claude.json",
    ],
)
def test_no_spelling_takes_the_guard_away(command: str) -> None:
    assert own(command) & {"execution:own-guard", "execution:own-approval"}


@pytest.mark.parametrize(
    "path",
    [
        ".claude/settings.json",
        ".claude/settings.local.json",
        "/home/ana/.claude/settings.json",
        "~/.claude/settings.json",
        "$HOME/.claude/settings.json",
        "/w/src/../.claude/./settings.json",
        "/w/.claude/agents/../settings.json",
        "/w//.claude//settings.json",
        "file:///home/ana/.claude/settings.json",
        "file:///home/ana/%2Eclaude/settings%2Ejson",
        r"C:\Users\ana\.claude\settings.json",
        r"C:\Users\ana\.CLAUDE\Settings.JSON",
        r"C:\Users\ana\.claude\settings.json. ",
        r"C:\Users\ana\.claude\settings.json::$DATA",
        "/home/ana b/.claude/settings.json",
        "/etc/claude-code/managed-settings.json",
        "/etc/claude-code/managed-settings.d/10.json",
        "/Library/Application Support/ClaudeCode/managed-settings.json",
        "/home/ana/.claude/projects/-w/4f9a.jsonl",
        "/home/ana/.claude/projects/-w/4f9a/subagents/agent-1.jsonl",
        "/home/ana/.config/lockgate/config.toml",
        "/home/ana/.claude.json",
    ],
)
@pytest.mark.parametrize("name", ["file_path", "path", "edits[0].path", "destination", "x"])
def test_no_file_tool_writes_what_the_hooks_rest_on(path: str, name: str) -> None:
    if name == "x" and " " in path.strip():
        return  # a value with blanks is a path only where it is called one
    assert written(path, name=name) == {"execution:own-guard"}


def test_the_word_that_switches_hooks_off_counts_anywhere() -> None:
    assert written("/w/x.json", '{"disableAllHooks": true}') == {"execution:own-guard"}
    assert written("/w/x.json", '{"DISABLEALLHOOKS": true}') == {"execution:own-guard"}


@pytest.mark.parametrize(
    "path",
    [
        ".claude/agents/reviewer.md",
        ".claude/commands/build.md",
        ".claude/skills/pdf/SKILL.md",
        ".claude/hooks/format.sh",
        ".claude/settings.json.example",
        "CLAUDE.md",
        ".mcp.json",
        "src/settings.json",
        ".vscode/settings.json",
        "/home/ana/.claude/projects/-w/memory/MEMORY.md",
        "/home/ana/.claude/plans/plan.md",
        "src/lockgate/claude_code/hook_command.py",
        "docs/claude/settings.md",
    ],
)
def test_other_files_are_free_to_use(path: str) -> None:
    guide = "cp hooks.json ~/.claude/settings.json\nrm .claude/settings.local.json\ncurl localhost:8000/v1/approvals\n"
    assert written(path, guide) == set()
    assert written(".gitignore", ".claude/settings.local.json\n") == set()


@pytest.mark.parametrize(
    "command",
    [
        "cat .claude/settings.json",
        "jq .hooks ~/.claude/settings.json",
        "jq . .claude/settings.json > /tmp/x.json",
        "cp .claude/settings.json /tmp/backup.json",
        "cp -a .claude/settings.json /tmp/backup.json",
        "git add .claude/settings.json && git commit -m 'Add settings'",
        "git diff -- .claude/settings.json",
        "git commit -m 'Move agents to .claude'",
        "grep -rn hooks .claude/",
        "python -m json.tool .claude/settings.json",
        "rm .claude/agents/old.md",
        "mv .claude/commands/a.md .claude/commands/b.md",
        "mkdir -p .claude/agents && echo x > .claude/agents/a.md",
        "cd .claude && ls && rm agents/a.md",
        "claude --version && claude mcp list",
        "claude -p 'Summarise README.md'",
        "lockgate init claude-code --yes",
        "lockgate doctor --claude-code",
        "lockgate service status --json",
        "lockgate gate bans",
        "lockgate hook --help",
        "systemctl --user status lockgate",
        "pip install -U lockgate && pip show lockgate",
        "docker stop web && docker logs lockgate",
        "kill $(lsof -ti:8080)",
        "curl -X POST http://localhost:8000/v1/sessions -d '{}'",
        "curl https://api.example/v1/approvals",
        "curl https://api.example/v1/bans",
        "echo port 7717",
        "cat ~/.claude.json",
        "jq .mcpServers ~/.claude.json",
        "cp ~/.claude.json /tmp/backup.json",
        "ps aux | grep [l]ockgate",
    ],
)
def test_ordinary_commands_are_let_be(command: str) -> None:
    assert own(command) == set()


@pytest.mark.parametrize(
    "value",
    [
        "~/.local/state/lockgate/token",
        "/home/ana/.local/state/lockgate",
        "/srv/state/lockgate/agent-token",
        "$XDG_STATE_HOME/lockgate",
    ],
)
def test_a_tool_that_only_looks_may_not_look_at_the_tokens(value: str) -> None:
    assert own(value, looks=True) == {"execution:own-token"}
    session = Gate().session(goal="Tidy up")
    held = session.check("Read", {"file_path": value})
    assert held.action is Action.PAUSE
    assert ("execution:own-token", "file_path") in {(found.rule, found.where) for found in held.findings}
    assert session.check("Grep", {"pattern": "lgp_", "path": value}).action is Action.PAUSE


@pytest.mark.parametrize(
    "value", ["src/lockgate/cli/token.py", ".claude/settings.json", "src/lockgate/journal/tree.py"]
)
def test_looking_at_anything_else_is_looking(value: str) -> None:
    assert Gate().session(goal="Tidy up").check("Read", {"file_path": value}).action is Action.CONTINUE


@pytest.mark.parametrize(
    ("tool", "arguments", "rule"),
    [
        ("Grep", {"pattern": "lgp_", "path": "$HOME"}, "execution:own-token"),
        ("Bash", {"command": "grep -rh lgp_ ~"}, "execution:own-token"),
        ("Bash", {"command": "rm -rf ~/.local/state"}, "execution:own-state"),
        ("Bash", {"command": "cd ~/.local; cd state; cd lockgate; cat token"}, "execution:own-token"),
        ("Bash", {"command": "unzip -o x -d ~/.claude"}, "execution:own-guard"),
        ("Bash", {"command": "rsync evil/ ~/.claude/"}, "execution:own-guard"),
        ("Bash", {"command": "HOME=$(mktemp -d) claude -p 'run it'"}, "execution:own-guard"),
        ("Bash", {"command": "cp /tmp/x ~/.cache/lockgate/rules-0.bin"}, "execution:own-guard"),
        ("Write", {"file_path": "/home/ana/.cache/lockgate/rules-0.bin", "content": "x"}, "execution:own-guard"),
    ],
)
def test_a_call_is_held_for_where_it_leads_before_anything_was_read(
    tool: str, arguments: dict[str, object], rule: str
) -> None:
    for policy in (Policy(), Policy(strict_patterns=True)):
        gate = Gate(policy, scanner=shared_scanner(Policy()))
        held = gate.session(goal="Tidy up").check(tool, arguments)
        assert held.action is Action.PAUSE
        assert rule in {found.rule for found in held.findings}


def test_what_is_hidden_in_a_code_counts_too() -> None:
    import base64

    hidden = base64.b64encode(b"echo '{}' > ~/.claude/settings.json; exit 0").decode()
    session = Gate().session(goal="Tidy up")
    session.add("a plain note", source="file:note")
    held = session.check("Bash", {"command": f"echo {hidden} | base64 -d | sh"})
    assert "execution:own-guard" in {found.rule for found in held.findings}


def test_most_calls_need_no_closer_look() -> None:
    assert all(map(is_unrelated, ("", "git status", "a'b\\c", "x" * 9000, "x'" * 9000 + "\n/w/a.py")))
    # A word in quotes is still the word, also beside a long one.
    assert not is_unrelated("x" * 9000 + "\nlock''gate token")
