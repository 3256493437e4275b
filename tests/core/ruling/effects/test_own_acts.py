"""What programs do to Lockgate: each rule holds its hits and lets its misses be, also where the folder is not known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from table_examples import read_examples

from lockgate.core.ruling.effects.effects_of_call import effects_of, own_effects_of
from lockgate.core.ruling.effects.own_paths import OWN_KINDS
from lockgate.core.ruling.effects.project import NO_PROJECT, Project
from lockgate.core.tables import Example
from lockgate.core.vocabulary import ToolCall

WORK = Project(root="/home/ana/work", folder="/home/ana/work", home="/home/ana")
EXAMPLES = read_examples("lockgate.core.ruling.effects", "own_rules.tbl", "rules", ("rule", "promise"))


def own(command: str, project: Project = WORK, folder: str = "") -> set[str]:
    call = ToolCall("Bash", {"command": command}, folder=folder)
    found = {each.kind for each in own_effects_of(call, project)}
    # The glance before it must not hide anything.
    assert bool(found) is bool({each.kind for each in effects_of(call, project)} & OWN_KINDS)
    return found


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.row[0]}: {example.text}")
def test_each_rule_holds_its_hits_and_lets_its_misses_be(example: Example) -> None:
    for project in (WORK,) if example.hit else (WORK, NO_PROJECT):
        assert bool(own(example.text, project)) is example.hit


@pytest.mark.parametrize(
    "command",
    [
        "lockgate init claude-code \\\n --remove --yes",
        "/opt/v/bin/python3.12 -P -m lockgate init claude-code \\\n --remove",
        "pipx run lockgate==0.1 \\\n token",
        "nohup lockgate service \\\n uninstall &",
        "python3 - <<'END'\nimport urllib.request\nurllib.request.urlopen('http://localhost:7717/')\nEND",
        "screen -S work -X stuff 'lockgate trust CLAUDE.md --yes\n'",
    ],
)
def test_a_command_may_have_several_lines(command: str) -> None:
    assert own(command)


def test_what_a_file_is_to_hold_is_no_command() -> None:
    assert own("cat > notes.md <<'END'\nhttp://127.0.0.1:7717/\nEND") == set()
    assert own("cat > ~/.claude/plans/plan.md <<'X'\nnotes\nX") == set()


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("cat ~/.local/state/lockgate/token", "reads-own-token"),
        ("git --git-dir=/tmp/x --work-tree=$HOME/.local/state grep lgp_", "reads-own-token"),
        ("strace -f -p $(pgrep -f lockgate)", "reads-own-token"),
        ("rm -rf ~/.local/state", "changes-own-state"),
        ("rm -rf ~/.claude", "changes-own-guard"),
        ("HOME=/tmp/x claude -p hi", "changes-own-guard"),
        ("pkill -f 'lockgate serve'", "changes-own-guard"),
        ("nc -l 7717", "changes-own-guard"),
        ("lockgate token", "changes-own-guard"),
        ("lockgate approvals approve x", "asks-own-service"),
        ("curl localhost:7717", "asks-own-service"),
    ],
)
def test_what_is_done_decides_which_rule_holds_it(command: str, kind: str) -> None:
    assert own(command) == {kind}


@pytest.mark.parametrize(
    ("folder", "command"),
    [
        ("/home/ana/.local/state/lockgate", "cat token"),
        ("/home/ana/.local/state", "cat lockgate/token"),
        ("/home/ana/.local", "cat state/lockgate/agent-token"),
        ("/home/ana/.local", "rm -rf state"),
        ("/home/ana", "rm -rf .local"),
        ("/home/ana", "grep -r lgp_"),
        ("/home/ana", "grep -rh lgp_ ."),
        ("/home/ana", "tar cf - ."),
        ("/home/ana", "unzip evil.zip"),
        ("/home/ana", "git clean -fdx"),
        ("/home", "grep -r lgp_ ana"),
        ("/", "grep -r lgp_ home"),
        ("/home/ana/.claude", "mv s settings.json"),
        ("/home/ana/.claude/agents", "rm ../settings.json"),
        ("/home/ana/.cache/lockgate", "cp /tmp/x rules-a.bin"),
    ],
)
def test_the_working_folder_counts(folder: str, command: str) -> None:
    assert own(command, folder=folder)


@pytest.mark.parametrize(
    ("folder", "command"),
    [
        ("/home/ana", "ls"),
        ("/home/ana", "git status"),
        ("/home/ana", "cat notes.txt"),
        ("/home/ana", "rm -rf build"),
        ("/home/ana", "grep -r foo projects"),
        ("/home/ana/.claude", "cat settings.json"),
        ("/home/ana/.claude", "rm agents/old.md"),
        ("/home/ana/.cache", "rm -rf lockgate"),
    ],
)
def test_ordinary_work_in_such_a_folder_is_let_be(folder: str, command: str) -> None:
    assert own(command, folder=folder) == set()


def test_another_home_and_another_port_are_known_where_the_host_says_so() -> None:
    moved = Project(root="/data/ana/work", folder="/data/ana/work", home="/data/ana")
    for command in (
        "grep -rh lgp_ /data/ana",
        "rm -rf /data",
        "cat ../.local/state/lockgate/token",
        "rm -rf ../.local",
    ):
        assert own(command, moved), command
    assert own("grep -rn foo /data/ana/work", moved) == set()
    elsewhere = replace(NO_PROJECT, service_port=17717)
    for command in ("nc -l {}", "PORT={} npm start", "curl localhost:{}", "kill $(lsof -ti :{})"):
        assert own(command.format(17717), elsewhere), command
        assert own(command.format(17717)) == set(), command


def test_a_project_s_configuration_of_lockgate_is_a_part_of_it() -> None:
    written = ToolCall("Write", {"file_path": "lockgate.toml", "content": "[security]\nenforce=false"})
    assert {each.kind for each in own_effects_of(written, NO_PROJECT)} == {"changes-own-guard"}
    assert own("echo x > lockgate.toml") == {"changes-own-guard"}
    assert own("cat lockgate.toml") == set()


@pytest.mark.parametrize(
    "line",
    [
        "ps aux | grep -E '{}' | awk '{{print $2}}' | xargs kill",
        "ps aux | awk '/{}/ {{print $2}}' | xargs kill",
        "pkill -f '{}'",
    ],
)
def test_a_pattern_that_may_fit_is_one_that_fits(line: str) -> None:
    for pattern in ("[s|x]erve", "serve?", "ser.e", "(node|serve)", "(node|)", "servex{0}", r"\bserve", "a*", "x|"):
        assert own(line.format(pattern)), pattern
    for pattern in ("vite", "node|vite", "(vite|webpack).*dev", "node.*serve", r"main\.js"):
        assert own(line.format(pattern)) == set(), pattern


def test_a_filter_that_leaves_lines_out_keeps_the_service() -> None:
    assert own("ps aux | awk '!/node/ {print $2}' | xargs kill")
    assert own("ps aux | grep -v node | awk '{print $2}' | xargs kill")
    assert own("ps aux | grep -P 'node|\\x73erve' | xargs kill")


def test_hostile_lines_take_linear_time() -> None:
    for line in ("pkill -f '{}'", "find ~ -name '{}'", "rm {}", "grep -r --include='{}' x ~"):
        for part in ("(a*)*", "{a,b}", "[", "../", "*?", "$X/"):
            own(line.format(part * 4_000))


@pytest.mark.parametrize(
    "code",
    [
        "os.symlink('/bin/true', '{}')",
        "os.link('e', '{}')",
        "shutil.copy('e', '{}')",
        "Path('e').rename('{}')",
        "Path('{}').symlink_to('/bin/true')",
        "fs.copyFileSync('e', '{}')",
    ],
)
def test_no_program_on_a_command_line_puts_a_file_in_our_place(code: str) -> None:
    run = "node -e" if code.startswith("fs.") else "python3 -c"
    place = "/home/ana/.local/share/pipx/venvs/lockgate/bin/python"
    assert own(f'{run} "{code.format(place)}"') == {"changes-own-guard"}
    assert own(f'{run} "{code.format("/home/ana/code/bin/python")}"') == set()


JUDGED = replace(
    WORK,
    judge_servers={11434: ["ollama/qwen3:latest"]},
    own_folders=("/opt/judge/bin/python", "/home/ana/judge.py", "/usr/local/bin/claude", "/opt/vendor/bin/codex"),
)


@pytest.mark.parametrize(
    "command",
    [
        "ollama stop qwen3",
        "ollama stop",
        "ollama stop $M",
        "ollama cp other qwen3",
        "lms unload --all",
        "lms unload qwen3",
        "lms server stop",
        "systemctl stop ollama",
        "docker stop ollama",
        "pkill ollama",
        "claude auth logout",
        "/usr/local/bin/claude logout",
        "codex -c a.b=c logout",
        "cp evil.py ~/judge.py",
        "mv evil.py /home/ana/judge.py",
        "install -m 755 x /opt/judge/bin/python",
        "ln -sf /bin/true /usr/local/bin/claude",
    ],
)
def test_a_judge_is_neither_stopped_nor_signed_out_nor_replaced(command: str) -> None:
    assert own(command, JUDGED)


@pytest.mark.parametrize(
    "command",
    ["ollama stop llama3", "ollama list", "ollama run qwen3 hi", "lms unload phi", "lms ps", "claude auth status"],
)
def test_other_models_and_what_only_asks_are_let_be(command: str) -> None:
    assert own(command, JUDGED) == set()


@pytest.mark.parametrize(
    "command",
    ["ollama stop qwen3", "lms unload --all", "systemctl restart ollama", "claude auth logout", "codex logout"],
)
def test_without_such_a_judge_these_commands_are_no_own_acts(command: str) -> None:
    assert own(command) == set()
