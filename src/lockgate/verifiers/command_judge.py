"""A program as a judge: one question through standard input, one answer from standard output, no shell.

The program is known by its path and digest, with the files in its arguments. On Linux the very file that was compared
is run; elsewhere a folder that is exchanged and put back meanwhile goes unseen, and everywhere what the program loads
in turn. A child of it that opens a session of its own outlives it. Each process carries a one-time token: what its
hooks ask the service with the token of a running judge is neither recorded nor let through.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from glob import glob
from hashlib import file_digest, sha256
from io import BufferedReader
from pathlib import Path
from secrets import token_hex
from shutil import rmtree, which
from socket import create_connection
from subprocess import DEVNULL, Popen, TimeoutExpired
from tempfile import TemporaryFile
from time import monotonic, time
from urllib.parse import urlsplit

from lockgate.core.errors import LockgateError
from lockgate.core.judging.judge_messages import build_question
from lockgate.core.questions import ModelText, NoAnswer, NoAnswerReason, Question
from lockgate.core.ruling.opinions import Authority, JudgeIdentity, JudgeStanding, Silent
from lockgate.gate.judge import Inquiry, Opined
from lockgate.runtime.background_loop import is_on_event_loop
from lockgate.runtime.private_files import PrivateFileKind
from lockgate.runtime.routines import Routine, run_routine, run_routine_async
from lockgate.runtime.worker_pool import Full, PoolJob, WorkerPool
from lockgate.settings.model_names import COMMAND, ProgramName
from lockgate.verifiers.command_forms import FORMS
from lockgate.verifiers.model_judge import opinion_from_answer

TIMEOUT_S, PROBE_S = 20.0, 5.0
MAX_REPLY_BYTES = 1 << 20
JUDGE_DENIAL = "Lockgate asked this program to judge a call: it calls no tools meanwhile."
# What every program gets of the service's environment.
_INHERITED = ("HOME", "PATH", "LANG", "LANGUAGE", "USER", "LOGNAME", "TZ")
# Where programs are that a service's PATH may lack.
_USUAL_FOLDERS = ("~/.local/bin", "/usr/local/bin", "/opt/homebrew/bin")
# Longer than any judge may run: an older folder is what a killed service has left.
_MAX_AGE_S = 3600.0
_SLOT = re.compile(r"\{([a-z_]+)\}")
_TOKEN = re.compile("[0-9a-f]{32}")
_KIND = PrivateFileKind("a file of the judges", "answer for the judge", "service")

_log = logging.getLogger("lockgate.verifier")
# Every judge process runs in one of these threads, so no more at once. A probe never waits for another: else those who
# keep the judges busy could make one look like an outage.
_processes, _probes = WorkerPool(2, max_jobs=32), WorkerPool(4, max_jobs=4)
_folders: set[Path] = set()


class _NoReply(Exception):
    """There is no reply; the argument is the reason."""


def is_running_judge(token: str) -> bool:
    """Return whether this is the token of a judge that is running for this installation."""
    for folder in tuple(_folders) if _TOKEN.fullmatch(token) else ():
        with suppress(OSError):
            if time() - os.stat(folder / _short_hash(token)).st_mtime < _MAX_AGE_S:
                return True
    return False


def program_files(program: ProgramName, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the program's path and the files in its arguments; empty where there is no such program."""
    path, *arguments = program.words
    if not os.path.isabs(path):
        usual = [folder.replace("~", environ.get("HOME", "~"), 1) for folder in _USUAL_FOLDERS]
        folders = [*environ.get("PATH", "").split(os.pathsep), *usual]
        path = which(path, path=os.pathsep.join(filter(os.path.isabs, folders))) or ""
    beside = os.path.dirname(os.path.realpath(path))
    started = [found for each in FORMS[program.route].started for found in glob(os.path.join(beside, each)) if path]
    path = os.path.realpath(started[0]) if len(started) == 1 else path
    return (path, *(each for each in arguments if os.path.isabs(each) and not os.path.isdir(each))) if path else ()


class CommandJudge:
    """Tier 2 or Tier 3 through a program. Its environment is what the service had when this was made.

    `endpoint` is where a host's model is asked, if not at its vendor: from our own configuration, never a variable.
    """

    # Until an exam says more.
    standing = JudgeStanding(Authority.UNEXAMINED)

    def __init__(
        self,
        program: ProgramName,
        state_dir: Path,
        *,
        timeout_s: float = TIMEOUT_S,
        endpoint: str = "",
        environ: Mapping[str, str] = os.environ,
        nonce: Callable[[], str] = lambda: token_hex(16),
    ) -> None:
        self._program, self.endpoint, self._timeout_s, self._nonce = program, endpoint, timeout_s, nonce
        self._form = FORMS[program.route]
        self._model = program.model or self._form.default_model
        names = (*_INHERITED, *self._form.login)
        self._environment = {name: environ[name] for name in environ if name in names or name.startswith("LC_")}
        self.files = program_files(program, environ)
        self._digest: tuple[object, str] = ((), "")
        self._folder = state_dir / "judge"
        self._pin = self._folder / f"{_short_hash(shlex.join([self.name, *self.files[:1]]))}.sha256"
        _folders.add(self._folder)

    @property
    def name(self) -> str:
        return str(self._program)

    @property
    def identity(self) -> JudgeIdentity:
        """What an exam holds for; `model` is the configured name, and the reply's own id comes with each opinion."""
        route, found = self.name if self._program.route == COMMAND else self._program.route, ""
        with suppress(OSError, _NoReply), self._opened() as (_, digest):
            found = digest
        return JudgeIdentity(route, self._model, self.endpoint, found)

    def confirm_program(self) -> None:
        """Take the program as it is now for the right one: for an exam that a person takes."""
        with self._opened() as (_, digest):
            _KIND.replace(self._pin, digest.encode("ascii"))

    def opine(self, inquiry: Inquiry) -> Opined:
        """Return the program's opinion of the case. From a coroutine use `opine_async`: this one cannot wait there."""
        if is_on_event_loop():
            return Opined(Silent(NoAnswerReason.CALLED_IN_LOOP))
        return run_routine(self._opinion_steps(inquiry))

    async def opine_async(self, inquiry: Inquiry) -> Opined:
        """Return the program's opinion of the case, from an event loop."""
        return await run_routine_async(self._opinion_steps(inquiry))

    def probe(self) -> bool:
        """Return whether the program is there, logged in and online; True where that cannot be told."""
        deadline = monotonic() + PROBE_S
        try:
            with self._opened() as (handle, digest):
                # A replaced program is not run, and is no outage.
                if self._is_replaced(digest) or not self._form.status:
                    return os.access(self.files[0], os.X_OK)
                logged_in = any(self._environment.get(key) for key in self._form.keys)
                if not logged_in and self._run(handle, deadline, None)[0] != 0:
                    return False
            parts, left_s = urlsplit(self.endpoint), deadline - monotonic()
            own = [(parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443))]
            servers = own if self.endpoint else [(server, 443) for server in self._form.servers]
            return bool(_probes.run(partial(_is_reachable, servers, left_s), left_s))
        except (_NoReply, Full, LockgateError):
            return True
        except OSError:
            return False

    def _opinion_steps(self, inquiry: Inquiry) -> Routine[Opined]:
        try:
            # The program ends before the caller stops waiting.
            left_s = min(self._timeout_s, inquiry.until - monotonic())
            ask = partial(self._ask, inquiry, monotonic() + left_s * 0.95)
            opined: Opined = yield PoolJob(_processes, ask, left_s)
            return opined
        except _NoReply as error:
            why = error.args[0]
        except (Full, TimeoutError) as error:
            why = NoAnswerReason.BUSY if isinstance(error, Full) else NoAnswerReason.DEADLINE
        except OSError:
            why = NoAnswerReason.NETWORK
        except Exception as error:  # noqa: BLE001  # the edge to a foreign program: there is no opinion
            why = NoAnswerReason.INTERNAL
            # The type only: the message may quote the case.
            _log.warning("no opinion: judge=%s error=%s", self.name, type(error).__name__)
        return Opined(Silent(why))

    def _ask(self, inquiry: Inquiry, deadline: float) -> Opined:
        nonce = self._nonce()
        with self._opened() as (handle, digest):
            if self._is_replaced(digest):
                raise _NoReply(NoAnswerReason.REPLACED)
            code, out = self._run(handle, deadline, build_question(inquiry.stage, inquiry.case, nonce))
        answer = self._form.read(out.decode("utf-8", "replace"))
        if isinstance(answer, ModelText) and code != 0:
            answer = NoAnswer(NoAnswerReason.MALFORMED_REPLY)
        return opinion_from_answer(inquiry, nonce, answer)

    def _run(self, handle: int, deadline: float, question: Question | None) -> tuple[int, bytes]:
        """Ask the question, or whether the program is logged in; return the exit code and the output."""
        token = token_hex(16)
        with (
            self._question_folder(token) as folder,
            TemporaryFile(dir=folder) as given,
            TemporaryFile(dir=folder) as out,
        ):
            environment = {**self._environment, **self._form.variables}
            environment |= {"TMPDIR": str(folder / "tmp"), "LOCKGATE_JUDGE": token}
            if self.endpoint and self._form.endpoint_variable:
                environment[self._form.endpoint_variable] = self.endpoint
            variable, usual, login_file = self._form.home
            login = Path(environment.get(variable) or Path(environment.get("HOME", "/"), usual), login_file)
            if variable and (login.is_file() or any(map(environment.get, self._form.keys))):
                (folder / "home" / login_file).symlink_to(login)
                environment[variable] = str(folder / "home")
            words = list(self._form.status) if question is None else self._words(folder, question)
            if question is not None:
                given.write(self._form.write(question).encode("utf-8", "replace"))
                given.seek(0)
            by_handle = os.path.exists("/proc/self/fd")
            process = Popen(  # noqa: S603  # the words are the operator's; the text is on standard input only
                [self.files[0], *self._program.words[1:], *words],
                executable=f"/proc/self/fd/{handle}" if by_handle else None,
                pass_fds=(handle,) if by_handle else (),
                stdin=given,
                stdout=out,
                stderr=DEVNULL,
                env=environment,
                cwd=folder / "empty",
                start_new_session=True,
            )
            code = _wait_for_end(process, deadline, out.fileno())
            out.seek(0)
            return code, out.read(MAX_REPLY_BYTES)

    def _words(self, folder: Path, question: Question) -> list[str]:
        form, schema = self._form, json.dumps(question.schema)
        system_file, schema_file = folder / "system.txt", folder / "schema.json"
        system_file.write_text(question.system, encoding="utf-8")
        schema_file.write_text(schema, encoding="utf-8")
        values = {"system": str(system_file), "schema": schema, "schema_file": str(schema_file), "model": self._model}
        values |= {"system_json": json.dumps(str(system_file)), "endpoint_json": json.dumps(self.endpoint)}
        words = [*form.words, *(form.with_schema if question.schema else ()), *(form.with_model if self._model else ())]
        words += form.with_endpoint if self.endpoint else ()
        return [_SLOT.sub(lambda slot: values[slot[1]], word) for word in words]

    @contextmanager
    def _question_folder(self, token: str) -> Iterator[Path]:
        """Make a folder for one question; while it is there, its token is that of a running judge."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _KIND.check(self._folder, folder=True)
        folder = self._folder / _short_hash(token)
        folder.mkdir(mode=0o700)
        try:
            for name in ("empty", "tmp", "home"):
                (folder / name).mkdir(mode=0o700)
            yield folder
        finally:
            rmtree(folder, ignore_errors=True)

    @contextmanager
    def _opened(self) -> Iterator[tuple[int, str]]:
        """Open the program and its files, which must not change meanwhile: give the program's handle and the digest."""
        if not self.files:
            raise FileNotFoundError
        with ExitStack() as stack:
            files = [stack.enter_context(open(path, "rb")) for path in self.files]
            stamp, known = _stamp(files), self._digest
            if known[0] != stamp:
                # It takes a while for a large program, so it is done once for each state of the files.
                self._digest = known = stamp, _digest_of(files)
            yield files[0].fileno(), known[1]
            if _stamp(files) != stamp:
                raise _NoReply(NoAnswerReason.REPLACED)

    def _is_replaced(self, digest: str) -> bool:
        """Return whether the program is another one than before; the first one that is asked is the right one."""
        try:
            return _KIND.read(self._pin, 100) != digest.encode("ascii")
        except FileNotFoundError:
            self.confirm_program()
            return False
        except (OSError, LockgateError):
            return True


def _wait_for_end(process: Popen[bytes], deadline: float, out: int) -> int:
    """Return the exit code of a program that ends by itself; end it and all its children in any case."""
    try:
        while True:
            with suppress(TimeoutExpired):
                return process.wait(max(0.0, min(0.1, deadline - monotonic())))
            if os.fstat(out).st_size > MAX_REPLY_BYTES:
                raise _NoReply(NoAnswerReason.REPLY_TOO_LARGE)
            if monotonic() >= deadline:
                raise _NoReply(NoAnswerReason.DEADLINE)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(TimeoutExpired):
            process.wait(1.0)


def _short_hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _stamp(files: Sequence[BufferedReader]) -> list[tuple[int, ...]]:
    found = [os.fstat(file.fileno()) for file in files]
    return [(each.st_dev, each.st_ino, each.st_size, each.st_mtime_ns, each.st_ctime_ns) for each in found]


def _digest_of(files: Sequence[BufferedReader]) -> str:
    """Return the SHA-256 of a file, or of the digests of several."""
    digests = [file_digest(file, "sha256").hexdigest() for file in files]
    return digests[0] if len(digests) == 1 else sha256(" ".join(digests).encode("ascii")).hexdigest()


def _is_reachable(servers: Sequence[tuple[str, int]], timeout_s: float) -> bool:
    for server in servers:
        with suppress(OSError), create_connection(server, max(0.1, timeout_s / len(servers))):
            return True
    return False
