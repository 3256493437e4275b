"""A changed configuration in a running program: whole or not at all."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from lockgate.core.errors import InvalidConfig
from lockgate.settings.config import Settings, load_settings
from lockgate.settings.policy_reload import PolicyReload

STRICT = '[security]\nmode = "paranoid"\n'
LOOSE = "[security.verification]\nrecent_blocks = 5\n"


class Machine:
    """A home with a configuration, a project, and a program that watches them."""

    def __init__(self, folder: Path, text: str = LOOSE) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.project.mkdir()
        self.file = folder / ".config" / "lockgate" / "config.toml"
        self.file.parent.mkdir(parents=True)
        self.file.write_text(text)
        self.applied: list[Settings] = []
        self.refuses = ""

    def is_guarded(self, path: str) -> bool:
        return path == str(self.file)

    def read(self, started: Settings | None = None) -> Settings:
        frozen = None if started is None else started.project_files
        return load_settings(
            cwd=self.project, environ={"HOME": str(self.folder)}, system=self.folder / "no.toml", project=frozen
        )

    def watch(self) -> PolicyReload:
        started = self.read()

        def apply(_: Settings, new: Settings) -> None:
            if self.refuses:
                raise InvalidConfig(self.refuses)
            self.applied.append(new)

        return PolicyReload(
            started,
            lambda: self.read(started),
            apply,
            is_guarded=self.is_guarded,
            sealed=(self.folder / "exams.json",),
            clock=lambda: 7.0,
        )

    def write(self, text: str) -> None:
        """Replace the file, as editors do."""
        new = self.file.with_suffix(".new")
        new.write_text(text)
        new.replace(self.file)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_changed_file_is_taken_once_it_rests(machine: Machine) -> None:
    watch = machine.watch()
    assert not watch.look()
    machine.write(STRICT)
    assert not watch.look()
    assert machine.applied == []
    assert watch.look()
    assert machine.applied == [machine.read()]
    assert (watch.state.policy_hash, watch.state.word) == (machine.read().policy.hash, "current")
    assert not watch.look()


def test_a_changed_exam_is_put_into_force_once_without_any_other_change(machine: Machine) -> None:
    watch = machine.watch()
    (machine.folder / "exams.json").write_text("{}")
    assert watch.look()
    assert machine.applied == [machine.read()]
    assert watch.state.word == "current"
    assert not watch.look()


def test_a_file_that_is_being_written_is_left_alone(machine: Machine) -> None:
    """Each part of it is valid, and the first parts are looser than the whole."""
    watch = machine.watch()
    parts = ["", STRICT, '[[flow]]\nfrom = "web:*"\nto = "sends"\nthen = "pause"\n']
    for at in range(len(parts)):
        machine.file.write_text("".join(parts[: at + 1]) + "# " + "x" * at)
        assert not watch.look()
    assert machine.applied == []


def test_a_file_that_changes_while_it_is_read_is_left_for_later(machine: Machine) -> None:
    started = machine.read()

    def load() -> Settings:
        found = machine.read(started)
        machine.write(STRICT + f"# {len(os.listdir(machine.file.parent))}\n")
        return found

    watch = PolicyReload(started, load, lambda _, new: machine.applied.append(new), is_guarded=machine.is_guarded)
    machine.write("")
    assert not watch.reload()
    assert machine.applied == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[security\n", "not valid TOML"),
        ('[security]\nmood = "paranoid"\n', "unknown key"),
        ('[security]\nmode = "paranoid"\n[[flow]]\nform = "x"\n', "flow"),
    ],
)
def test_a_bad_file_keeps_the_old_policy_and_says_so(
    machine: Machine, text: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    watch = machine.watch()
    before = watch.state.policy_hash
    machine.write(text)
    with caplog.at_level(logging.WARNING):
        assert [watch.look() for _ in range(4)] == [False, True, False, False]
    assert machine.applied == []
    assert (watch.state.policy_hash, watch.state.word) == (before, "refused")
    assert why in watch.state.error
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "POLICY NOT RELOADED" in caplog.text
    machine.write(LOOSE)
    with caplog.at_level(logging.WARNING):
        assert [watch.look() for _ in range(2)] == [False, True]
    assert (watch.state.word, watch.state.error) == ("current", "")
    assert "can be used again" in caplog.text


def test_a_file_whose_rights_let_others_write_is_refused(machine: Machine) -> None:
    watch = machine.watch()
    machine.file.write_text(STRICT)
    machine.file.chmod(0o666)
    assert watch.reload()
    assert "switch it off" in watch.state.error
    machine.file.chmod(0o600)
    assert [watch.look() for _ in range(2)] == [False, True]
    assert watch.state.word == "current"


def test_without_its_file_the_policy_stays(tmp_path: Path) -> None:
    """A deleted file must not be a way to the defaults."""
    machine = Machine(tmp_path, STRICT)
    watch = machine.watch()
    machine.file.unlink()
    assert [watch.look() for _ in range(2)] == [False, True]
    assert machine.applied == []
    assert "is gone" in watch.state.error
    machine.write(STRICT)
    assert [watch.look() for _ in range(2)] == [False, True]
    assert (watch.state.word, machine.applied) == ("current", [])


def test_what_only_a_start_can_change_is_named(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    watch = machine.watch()
    machine.write(
        f"{STRICT}[security.audit]\nretention_days = 7\n[server]\nport = 9000\n[[notify]]\nkind = 'desktop'\n"
    )
    with caplog.at_level(logging.WARNING):
        assert watch.reload()
    assert watch.state.needs_restart == ("security.audit.retention_days", "server.port", "notify")
    assert watch.state.word == "needs-restart"
    (taken,) = machine.applied
    assert (taken.server.port, taken.audit.retention_days, taken.notify) == (7717, 0, ())
    assert taken.policy.hash == machine.read().policy.hash
    assert "needs a restart: security.audit.retention_days, server.port, notify" in caplog.text


def test_settings_that_the_program_cannot_use_change_nothing(machine: Machine) -> None:
    watch = machine.watch()
    machine.refuses = "`supervision.model` names `x`: no key"
    machine.write(STRICT)
    assert watch.reload()
    assert (watch.state.word, watch.state.error) == ("refused", machine.refuses)
    # A key that was added is no change of a file: a signal has the file read again.
    machine.refuses = ""
    assert not watch.look()
    assert watch.reload()
    assert watch.state.word == "current"
    assert len(machine.applied) == 1


def test_a_bug_in_putting_it_into_force_keeps_the_old_policy(machine: Machine) -> None:
    started = machine.read()

    def fail(_: Settings, __: Settings) -> None:
        raise RuntimeError("canary")

    watch = PolicyReload(started, lambda: machine.read(started), fail, is_guarded=machine.is_guarded)
    machine.write(STRICT)
    assert watch.reload()
    assert watch.state.error == "it could not be put into force: RuntimeError"


@pytest.mark.parametrize("now", ["", '[security]\nmode = "default"\n', "[security\n", None])
def test_what_an_agent_does_to_the_projects_file_changes_nothing(machine: Machine, now: str | None) -> None:
    """The project's file has tightened the policy; without it, a reload would loosen it."""
    own = machine.project / "lockgate.toml"
    own.write_text(STRICT)
    watch = machine.watch()
    started = watch.state.policy_hash
    if now is None:
        own.unlink()
    else:
        own.write_text(now)
    assert [watch.look() for _ in range(3)] == [False] * 3
    assert watch.reload()
    assert (watch.state.policy_hash, watch.state.word, machine.applied) == (started, "current", [])
    machine.write("[security.verification]\nstrict_patterns = true\n")
    assert watch.reload()
    (taken,) = machine.applied
    assert (taken.policy.mode.value, taken.policy.strict_patterns) == ("paranoid", True)


def test_a_file_that_an_agent_can_write_takes_a_restart(machine: Machine, tmp_path: Path) -> None:
    """Named by a path that no rule holds, or a link to one: a reload would put an agent's own words into force."""
    elsewhere = tmp_path / "policies.toml"
    elsewhere.write_text(STRICT)
    machine.file.unlink()
    machine.file.symlink_to(elsewhere)
    watch = machine.watch()
    elsewhere.write_text("[security]\nenforce = false\n")
    for read in (watch.look, watch.look, watch.reload):
        read()
    assert machine.applied == []
    assert "needs a restart" in watch.state.error
    elsewhere.unlink()
    machine.write("")
    assert watch.reload()
    assert machine.applied[0].policy.mode.value == "default"


def test_a_file_that_appears_is_found(machine: Machine) -> None:
    machine.file.unlink()
    watch = machine.watch()
    machine.write(STRICT)
    assert [watch.look() for _ in range(2)] == [False, True]
    assert machine.applied[0].policy.mode.value == "paranoid"


def test_the_thread_reads_when_asked_and_ends(machine: Machine) -> None:
    watch = machine.watch()
    watch.start()
    machine.write(STRICT)
    watch.ask()
    for _ in range(500):
        if machine.applied:
            break
        watch._ended.wait(0.01)
    assert machine.applied[0].policy.mode.value == "paranoid"
    watch.close()
