"""A program as a judge: what it is given, what counts as its answer, and that it never holds a caller up."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from lockgate.core.judging.case import JudgeCase
from lockgate.core.questions import NoAnswerReason
from lockgate.core.ruling.opinions import Authority, Ruling, Silent, Triage, Unreadable, standing_of
from lockgate.core.ruling.pipeline import Stage
from lockgate.core.vocabulary import Action
from lockgate.gate.judge import Inquiry, Opined
from lockgate.settings.model_names import ProgramName
from lockgate.verifiers import command_judge
from lockgate.verifiers.command_judge import CommandJudge, is_running_judge

CASE = JudgeCase(goal="Look", tool="Bash", arguments='{"command": "cat @~/.ssh/id_rsa"}', risk="high")
NONCE = "n" * 32
CLEAR = json.dumps({"suspicious": False, "nonce": NONCE})


def write_program(path: Path, code: str) -> Path:
    path.write_text(f"#!{sys.executable} -IS\nimport json, os, sys, time\n{code}\n")
    path.chmod(0o700)
    return path


def judge_by(tmp_path: Path, code: str = "", *, timeout_s: float = 20.0, **environ: str) -> CommandJudge:
    program = write_program(tmp_path / "program", code) if code else tmp_path / "program"
    words = ProgramName("command", (str(program), "first word", "--flag"))
    return CommandJudge(words, tmp_path / "state", timeout_s=timeout_s, environ=environ, nonce=lambda: NONCE)


def ask(judge: CommandJudge, stage: Stage = Stage.TRIAGE) -> Opined:
    said = judge.opine(Inquiry(stage, CASE))
    assert asyncio.run(judge.opine_async(Inquiry(stage, CASE))) == said
    return said


def why(judge: CommandJudge) -> str:
    said = judge.opine(Inquiry(Stage.TRIAGE, CASE)).opinion
    assert isinstance(said, Silent), said
    return said.why


@pytest.mark.parametrize(
    ("stage", "reply", "opinion"),
    [
        (Stage.TRIAGE, CLEAR, Triage(suspicious=False)),
        (Stage.TRIAGE, CLEAR.replace("false", "true"), Triage(suspicious=True)),
        (Stage.TRIAGE_AGAIN, "YES", Triage(suspicious=True)),
        (
            Stage.SUPERVISOR,
            json.dumps({"verdict": "PAUSE", "correction": "", "nonce": NONCE}),
            Ruling(Action.PAUSE),
        ),
        (Stage.TRIAGE, "", Unreadable()),
        (Stage.TRIAGE, f"Sure: {CLEAR}", Unreadable()),
        (Stage.TRIAGE, CLEAR.replace("n" * 32, "m" * 32), Unreadable()),
        (Stage.TRIAGE, CLEAR + CLEAR, Unreadable()),
        (Stage.TRIAGE, '{"suspicious": false}', Unreadable()),
    ],
)
def test_only_the_exact_answer_counts(tmp_path: Path, stage: Stage, reply: str, opinion: object) -> None:
    assert ask(judge_by(tmp_path, f"print({reply!r})"), stage) == Opined(opinion)  # type: ignore[arg-type]


def test_what_the_program_gets(tmp_path: Path) -> None:
    said = tmp_path / "said"
    code = (
        "seen = dict(argv=sys.argv[1:], env=dict(os.environ), cwd=os.getcwd(), inside=os.listdir(),"
        "text=sys.stdin.read(), mode=os.stat('.').st_mode & 0o777, leads=os.getsid(0) == os.getpid())\n"
        f"open({str(said)!r}, 'w').write(json.dumps(seen))"
    )
    judge = judge_by(
        tmp_path, code, HOME="/h", PATH="/p", LC_ALL="C", TMPDIR="/t", ANTHROPIC_API_KEY="k", ANTHROPIC_BASE_URL="http://e",
        OPENAI_API_KEY="o", LD_PRELOAD="/x.so", PYTHONPATH="/y", HTTPS_PROXY="http://p", LOCKGATE_TOKEN="t",
    )  # fmt: skip
    judge.opine(Inquiry(Stage.TRIAGE, CASE))
    seen = json.loads(said.read_text())
    token, own = seen["env"].pop("LOCKGATE_JUDGE"), tmp_path / "state" / "judge"
    assert Path(seen["env"].pop("TMPDIR")).parent == Path(seen["cwd"]).parent
    assert seen["env"] == {"HOME": "/h", "PATH": "/p", "LC_ALL": "C"}
    assert seen["argv"] == ["first word", "--flag"]
    assert (seen["inside"], seen["mode"], seen["leads"]) == ([], 0o700, True)
    assert own in Path(seen["cwd"]).parents
    assert seen["text"].startswith("You are the triage of a security gate")
    assert "@" not in seen["text"]
    label = f"{NONCE} arguments "
    shown = next(line for line in seen["text"].splitlines() if line.startswith(label)).removeprefix(label)
    assert json.loads(shown) == CASE.arguments
    # Nothing of the question is left, and its token has ended with it.
    assert [path.suffix for path in own.iterdir()] == [".sha256"]
    assert not is_running_judge(token)


def test_the_environment_is_that_of_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "before")
    program = write_program(tmp_path / "program", f"print({CLEAR!r} if os.environ['LANG'] == 'before' else 1)")
    judge = CommandJudge(ProgramName("command", (str(program),)), tmp_path / "state", nonce=lambda: NONCE)
    monkeypatch.setenv("LANG", "after")
    assert ask(judge).opinion == Triage(suspicious=False)


def test_a_token_is_that_of_a_judge_while_it_runs(tmp_path: Path) -> None:
    said = tmp_path / "said"
    code = f"open({str(said)!r}, 'w').write(os.environ['LOCKGATE_JUDGE'] + '.'); sys.stdin.read(); time.sleep(2)"
    judge = judge_by(tmp_path, code, timeout_s=30)

    async def look() -> str:
        asked = asyncio.create_task(judge.opine_async(Inquiry(Stage.TRIAGE, CASE)))
        while not said.exists() or not said.read_text().endswith("."):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        token = said.read_text()[:-1]
        assert is_running_judge(token)
        assert not any(map(is_running_judge, ("", "x", token[:-1], token.upper() + "0", "0" * 32, "../" + token)))
        await asked
        return token

    assert not is_running_judge(asyncio.run(look()))


FAULTS = {
    "hangs": ("time.sleep(600)", NoAnswerReason.DEADLINE),
    "reads nothing, hangs": ("sys.stdin.close(); time.sleep(600)", NoAnswerReason.DEADLINE),
    "ignores signals": (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)",
        NoAnswerReason.DEADLINE,
    ),
    "floods": ("while True: print('x' * 10000)", NoAnswerReason.REPLY_TOO_LARGE),
    "fails with an answer": (f"print({CLEAR!r}); sys.exit(1)", NoAnswerReason.MALFORMED_REPLY),
    "dies": ("os.kill(os.getpid(), 9)", NoAnswerReason.MALFORMED_REPLY),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_no_answer_in_time(tmp_path: Path, fault: str) -> None:
    code, reason = FAULTS[fault]
    began = time.monotonic()
    assert why(judge_by(tmp_path, code, timeout_s=2)) == reason
    assert time.monotonic() - began < 5


def is_gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                time.sleep(0.01)
                continue
        return True
    return False


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks processes up in /proc")
@pytest.mark.parametrize("then", ["time.sleep(600)", "sys.exit(0)"])
def test_no_child_of_the_program_is_left(tmp_path: Path, then: str) -> None:
    pids = tmp_path / "pids"
    code = (
        "child = os.fork()\nif not child: time.sleep(600)\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child}}')\n{then}"
    )
    judge_by(tmp_path, code, timeout_s=2).opine(Inquiry(Stage.TRIAGE, CASE))
    assert all(is_gone(int(pid)) for pid in pids.read_text().split())


def test_two_programs_run_at_once_and_no_third(tmp_path: Path) -> None:
    code = (
        "began = time.monotonic(); time.sleep(0.3)\n"
        f"print(began, time.monotonic(), file=open({str(tmp_path)!r} + f'/{{os.getpid()}}.times', 'w'))"
    )
    judge = judge_by(tmp_path, code, timeout_s=30)

    async def ask_five() -> None:
        await asyncio.gather(*(judge.opine_async(Inquiry(Stage.TRIAGE, CASE)) for _ in range(5)))

    asyncio.run(ask_five())
    times = [tuple(map(float, path.read_text().split())) for path in tmp_path.glob("*.times")]
    assert len(times) == 5
    assert max(sum(began <= at < ended for began, ended in times) for at, _ in times) == 2


# The program itself


@pytest.mark.parametrize("how", ["rewritten", "renamed over", "an argument's file"])
def test_a_replaced_program_is_not_asked_until_a_person_confirms_it(tmp_path: Path, how: str) -> None:
    marker, script = tmp_path / "ran", write_program(tmp_path / "script", f"print({CLEAR!r})")
    words = (sys.executable, "-IS", str(script)) if how == "an argument's file" else (str(script),)
    judge = CommandJudge(ProgramName("command", words), tmp_path / "state", nonce=lambda: NONCE)
    first = judge.identity
    assert ask(judge).opinion == Triage(suspicious=False)
    evil = write_program(tmp_path / "other", f"open({str(marker)!r}, 'w').close(); print({CLEAR!r})")
    if how == "rewritten":
        script.write_text(evil.read_text())
    else:
        evil.rename(script)
    assert why(judge) == NoAnswerReason.REPLACED
    # Neither does a restart of the service help it, nor the probe run it; and it is no outage.
    again = CommandJudge(ProgramName("command", words), tmp_path / "state", nonce=lambda: NONCE)
    assert why(again) == NoAnswerReason.REPLACED
    assert again.probe()
    assert not marker.exists()
    again.confirm_program()
    assert ask(again).opinion == Triage(suspicious=False)
    assert marker.exists()
    assert (first.route, first.model, first.endpoint) == again.identity[:3]
    assert first.program_sha256 != again.identity.program_sha256
    assert len(first.program_sha256) == 64


def test_a_program_that_changes_while_it_is_asked_has_not_answered(tmp_path: Path) -> None:
    assert why(judge_by(tmp_path, f"print({CLEAR!r}); os.chmod({str(tmp_path / 'program')!r}, 0o500)")) == "replaced"


def test_a_note_of_the_program_that_others_can_write_counts_for_nothing(tmp_path: Path) -> None:
    judge = judge_by(tmp_path, f"print({CLEAR!r})")
    assert ask(judge).opinion == Triage(suspicious=False)
    (pin,) = (tmp_path / "state" / "judge").glob("*.sha256")
    pin.chmod(0o666)
    assert why(judge) == NoAnswerReason.REPLACED


def test_a_digest_is_computed_once_per_state_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[object] = []
    real = command_judge._digest_of
    monkeypatch.setattr(command_judge, "_digest_of", lambda files: counted.append(1) or real(files))
    judge = judge_by(tmp_path, f"print({CLEAR!r})")
    assert ask(judge) == ask(judge)
    os.utime(tmp_path / "program")
    assert ask(judge).opinion == Triage(suspicious=False)
    assert len(counted) == 2


def test_a_missing_program_is_down(tmp_path: Path) -> None:
    judge = judge_by(tmp_path)
    assert why(judge) == NoAnswerReason.NETWORK
    assert not judge.probe()
    assert judge.identity.program_sha256 == ""
    write_program(tmp_path / "program", f"print({CLEAR!r})")
    assert judge.probe()
    (tmp_path / "program").chmod(0o600)
    assert not judge.probe()
    assert why(judge) == NoAnswerReason.NETWORK


def test_a_judge_called_on_a_loop_does_not_block_it(tmp_path: Path) -> None:
    judge = judge_by(tmp_path, "time.sleep(600)")

    async def inside() -> Opined:
        return judge.opine(Inquiry(Stage.TRIAGE, CASE))

    assert asyncio.run(inside()) == Opined(Silent(NoAnswerReason.CALLED_IN_LOOP))


def test_a_folder_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    judge = judge_by(tmp_path, f"print({CLEAR!r})")
    (tmp_path / "state" / "judge").mkdir(parents=True)
    (tmp_path / "state" / "judge").chmod(0o777)
    assert isinstance(judge.opine(Inquiry(Stage.TRIAGE, CASE)).opinion, Silent)


def test_a_program_is_unexamined_and_says_its_name(tmp_path: Path) -> None:
    judge = judge_by(tmp_path, "pass")
    assert standing_of(judge).authority is Authority.UNEXAMINED
    assert judge.name == f"command:{tmp_path}/program 'first word' --flag"


# Hosts, by programs that only look like them


def test_a_host_is_found_on_the_path_and_not_in_the_folder_of_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    program = write_program(tmp_path / "bin" / "claude", "pass")
    monkeypatch.chdir(tmp_path / "bin")
    words = ProgramName("host:claude-code", ("claude",))
    found = [CommandJudge(words, tmp_path, environ={"PATH": path}).files for path in (f".:{program.parent}", ".:")]
    assert found == [(str(program),), ()]
    home = tmp_path / "home" / ".local" / "bin"
    home.mkdir(parents=True)
    (home / "claude").symlink_to(program)
    assert CommandJudge(words, tmp_path, environ={"HOME": str(tmp_path / "home")}).files == (str(home / "claude"),)


def test_the_program_behind_the_script_of_a_package_is_the_one_that_is_asked(tmp_path: Path) -> None:
    script = tmp_path / "node_modules" / "@openai" / "codex" / "bin" / "codex.js"
    own = tmp_path / "node_modules" / "@openai" / "codex-linux-x64" / "vendor" / "x86_64" / "bin" / "codex"
    for path in (script, own):
        path.parent.mkdir(parents=True)
        write_program(path, "pass")
    (tmp_path / "codex").symlink_to(script)
    judge = CommandJudge(ProgramName("host:codex", ("codex",)), tmp_path, environ={"PATH": str(tmp_path)})
    assert judge.files == (str(own),)


def test_a_host_gets_its_login_and_an_endpoint_only_from_us(tmp_path: Path) -> None:
    said = tmp_path / "said"
    write_program(tmp_path / "claude", f"open({str(said)!r}, 'w').write(json.dumps([sys.argv, dict(os.environ)]))")
    environ = {
        "PATH": str(tmp_path),
        "ANTHROPIC_API_KEY": "k",
        "ANTHROPIC_BASE_URL": "http://evil",
        "CODEX_API_KEY": "c",
    }
    for endpoint in ("", "http://127.0.0.1:9"):
        words = ProgramName("host:claude-code", ("claude",), "sonnet")
        judge = CommandJudge(words, tmp_path / "state", environ=environ, endpoint=endpoint)
        assert why(judge) == NoAnswerReason.MALFORMED_REPLY
        argv, seen = json.loads(said.read_text())
        assert seen.get("ANTHROPIC_BASE_URL", "") == endpoint
        assert (seen["ANTHROPIC_API_KEY"], "CODEX_API_KEY" in seen) == ("k", False)
        assert argv[argv.index("--model") + 1] == "sonnet"
        assert judge.identity[:3] == ("host:claude-code", "sonnet", endpoint)
        assert judge.name == "host:claude-code/sonnet"


def test_a_host_that_is_logged_out_or_cannot_reach_its_vendor_is_down(tmp_path: Path) -> None:
    write_program(tmp_path / "claude", f"sys.exit(os.path.exists({str(tmp_path / 'out')!r}))")
    words = ProgramName("host:claude-code", ("claude",))

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        judge = CommandJudge(
            words, tmp_path / "state", environ={"PATH": str(tmp_path)}, endpoint=f"http://127.0.0.1:{port}"
        )
        assert judge.probe()
        (tmp_path / "out").touch()
        assert not judge.probe()
        (tmp_path / "out").unlink()
    assert not judge.probe()
