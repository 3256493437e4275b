"""The embedded judge: a small encoder in this process, and the facts of a call, weighed into one number.

It reads the case (what the user wants, what the call would do) beside each passage that the call could come from
(gate/judge_evidence.py), and rates the two together: is the call driven by the passage, without the user's wish? The
highest rating is added to the facts of the call, with weights from `judge.json`. Below the preset's threshold the call
is clear; anything else is suspicious.

For a whole text the encoder has a second rating: does a passage carry a request that is foreign to it? And for what a
client sends to an application a third: does it work against the application's own prompt and rules? No facts count.

1. Described.  `judge.json` has the hash that this version was made with, and its content is valid.
2. Loaded.     The encoder and its tokenizer have the hashes in `judge.json`, and give valid answers. Loaded once per
               process, with the first question, and again in a forked child, where a parent's lock may stay closed.
3. Asked.      In a worker pool of one thread, so on one core. A late answer is no answer.

A failure is an error at the start if the configuration names this judge. Later it is silence: a damaged model clears no
call.
"""

from __future__ import annotations

import atexit
import json
import logging
import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from threading import Lock, RLock
from time import monotonic
from typing import Any, NamedTuple, cast

from lockgate.core.errors import InvalidConfig, quoted
from lockgate.core.questions import Answer, NoAnswerReason, Rating
from lockgate.core.ruling.opinions import Authority, JudgeStanding, Silent, Triage
from lockgate.core.ruling.pipeline import Stage
from lockgate.core.ruling.policy import PRESETS
from lockgate.gate.judge import Inquiry, Opined
from lockgate.gate.judge_evidence import FACTS, Evidence, plain_text
from lockgate.runtime.background_loop import is_on_event_loop
from lockgate.runtime.forks import on_fork
from lockgate.runtime.routines import Routine, run_routine, run_routine_async
from lockgate.runtime.worker_pool import Full, JobResult, PoolJob, WorkerPool
from lockgate.verifiers import embedded_model as embedded

_log = logging.getLogger("lockgate.verifier")

FORMAT = "lockgate-judge/4"
NAMES = ("driven", *FACTS)
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
PACKAGES = ("onnxruntime", "tokenizers")
INSTALL = "pip install 'lockgate[agent]'"
_REINSTALL = f"install it again: pip install --force-reinstall --no-deps lockgate; its packages: {INSTALL}"

# Logits are cut here: a single very sure passage must not outweigh everything else.
_SUREST = 8.0
_SCALE = 4.0
# Windows overlap by a sixth, some forty tokens, so that an ordinary sentence is whole in at least one of them.
_OVERLAP = 6
# At most so many windows of a text are read, spread over all of it. A text with more is never called safe.
MAX_WINDOWS = 20
_MAX_BYTES = 64 * 1024 * 1024
_MAX_CHARACTERS = 1_000_000
_MULTIPLE = 8

# How long the end of the process waits for a thread inside the engine: loading takes seconds on a busy machine.
_EXIT_WAIT_S = 60.0

# One core for all questions. Waiting counts against a question's deadline.
_pool = WorkerPool(1, max_jobs=64)
# Held by a thread inside the engine. Python ends daemon threads by unwinding their stacks, and in C++ and Rust that
# aborts the process.
_engine = RLock()


@atexit.register
def _close_engine() -> None:
    """Let no other thread into the engine any more, and wait for the one that is inside."""
    global _engine
    closed = RLock()
    closed.acquire()
    _engine, entered = closed, _engine
    entered.acquire(timeout=_EXIT_WAIT_S)


# --- 1. described


class ModelFiles(NamedTuple):
    """A folder with the model's three files, and the SHA-256 of `judge.json`; without that there is no model."""

    folder: Path
    pin: str


def shipped_files() -> ModelFiles:
    """Return the model files of this installation."""
    return ModelFiles(Path(embedded.__file__).parent, embedded.PIN)


class Preset(NamedTuple):
    """The thresholds, as logits.

    A call below `clear_below` is clear. A text below `safe_below` is safe, and from `unsafe_from` on it is unsafe.
    """

    clear_below: float
    safe_below: float
    unsafe_from: float


class JudgeDescription(NamedTuple):
    """The content of `judge.json`: `files` are name, SHA-256 and size; the fields after it are for people.

    From the logit `suspect_request_from` on a client's request is suspected, in every preset.
    """

    name: str
    made: str
    tokens: int
    case_tokens: int
    weights: tuple[float, ...]
    bias: float
    presets: Mapping[str, Preset]
    suspect_request_from: float
    files: Mapping[str, tuple[str, int]]
    measured: Sequence[Mapping[str, Any]]
    sources: Sequence[Mapping[str, Any]]
    tables: Sequence[Mapping[str, Any]] = ()


def missing_packages() -> list[str]:
    return [name for name in PACKAGES if find_spec(name) is None]


def is_installed(files: ModelFiles | None = None) -> bool:
    """Return whether an embedded judge is installed; looks at names only, and loads nothing."""
    files = files or shipped_files()
    return bool(files.pin) and (files.folder / "judge.json").exists() and not missing_packages()


def describe(files: ModelFiles | None = None) -> JudgeDescription:
    """Return the model's description; raise InvalidConfig if there is none, or it is not this version's."""
    files = files or shipped_files()
    if not files.pin:
        raise InvalidConfig(
            "the embedded judge's model is not in this installation", hint="use a release of lockgate that ships it"
        )
    data = _read(files.folder / "judge.json", files.pin)
    try:
        return _description_from_json(json.loads(data))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        why = str(error) if type(error) is ValueError else type(error).__name__
        raise InvalidConfig(
            f"the embedded judge's `judge.json` cannot be used: {quoted(why, 160)}", hint=_REINSTALL
        ) from None


def verify(files: ModelFiles | None = None) -> JudgeDescription:
    """Return the description; raise InvalidConfig unless all files and packages are present and unaltered."""
    files = files or shipped_files()
    found = describe(files)
    if absent := missing_packages():
        raise InvalidConfig(f"the embedded judge needs {' and '.join(absent)}", hint=INSTALL)
    for name, (digest, _) in found.files.items():
        _read(files.folder / name, digest)
    return found


def _read(path: Path, wanted: str) -> bytes:
    """Return the bytes that were hashed, so that a file changed later does not matter; raise InvalidConfig."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        raise InvalidConfig(f"the embedded judge's `{path.name}` is missing", hint=_REINSTALL) from None
    except OSError as error:
        said = (error.strerror or type(error).__name__).lower()
        raise InvalidConfig(f"the embedded judge's `{path.name}` cannot be read: {said}", hint=_REINSTALL) from None
    if sha256(data).hexdigest() != wanted:
        raise InvalidConfig(
            f"the embedded judge's `{path.name}` was altered or cut short: this version was made with another",
            hint=_REINSTALL,
        )
    return data


def _description_from_json(said: dict[str, Any]) -> JudgeDescription:
    if said["format"] != FORMAT:
        raise ValueError(f"its format is not {FORMAT}")
    if tuple(said["names"]) != NAMES:
        raise ValueError("it was made for other facts than this version has")
    weights = tuple(_number(value) for value in said["weights"])
    if len(weights) != len(NAMES):
        raise ValueError("it does not have a weight for each name")
    presets = {name: Preset(*(_number(said["presets"][name][field]) for field in Preset._fields)) for name in PRESETS}
    lines = [presets[name] for name in PRESETS]
    # From the most cautious to the least: a preset must mean what its name says.
    if any(a.clear_below > b.clear_below for a, b in pairwise(lines)):
        raise ValueError("a more cautious preset clears more than the next one")
    if any(line.safe_below > line.unsafe_from for line in lines):
        raise ValueError("a text would be safe and unsafe at once")
    tokens, case_tokens = _window_sizes(said)
    files = {name: (str(said["files"][name]["sha256"]), int(said["files"][name]["bytes"])) for name in _FILES}
    return JudgeDescription(
        name=_word(said["name"]),
        made=_word(said["made"]),
        tokens=tokens,
        case_tokens=case_tokens,
        weights=weights,
        bias=_number(said["bias"]),
        presets=presets,
        suspect_request_from=_number(said["suspect_request_from"]),
        files=files,
        measured=tuple(dict(each) for each in said.get("measured", ())),
        sources=tuple(dict(each) for each in said.get("sources", ())),
        tables=tuple(dict(each) for each in said.get("tables", ())),
    )


_FILES = ("judge.onnx", "tokenizer.json")


def _window_sizes(said: Mapping[str, Any]) -> tuple[int, int]:
    tokens, case_tokens = said["tokens"], said["case_tokens"]
    if type(tokens) is not int or type(case_tokens) is not int or not 32 <= 2 * case_tokens <= tokens <= 512:
        raise ValueError("its windows have an odd size")
    return tokens, case_tokens


def _number(value: object) -> float:
    if type(value) not in (int, float) or not math.isfinite(cast(float, value)):
        raise ValueError("a number in it is none")
    return float(cast(float, value))


def _word(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable() or not 0 < len(value) <= 80:
        raise ValueError("a name in it is none")
    return value


# --- 2. loaded


class WindowLogits(NamedTuple):
    """A window's three logits.

    `driven`: beside a case, is its call driven by the window? `foreign`: by itself, does the window carry a request
    that is foreign to it? `request`: as a client's request, does it work against the application's prompt and rules?
    """

    driven: float
    foreign: float
    request: float


class Encoder:
    """The model and its tokenizer, checked and ready. Several threads may ask; the engine serves one at a time."""

    def __init__(self, files: ModelFiles) -> None:
        self.about = describe(files)
        if absent := missing_packages():
            raise InvalidConfig(f"the embedded judge needs {' and '.join(absent)}", hint=INSTALL)
        model, vocabulary = (_read(files.folder / name, self.about.files[name][0]) for name in _FILES)
        try:
            with _engine:
                self._load(model, vocabulary)
            self.rate_window(self.tokenize("ready?"), self.tokenize("yes"))
        except Exception as error:
            # The type only: the library's message names files and lines of its own.
            raise InvalidConfig(
                f"the embedded judge's model cannot be used: {type(error).__name__}", hint=_REINSTALL
            ) from error

    def _load(self, model: bytes, vocabulary: bytes) -> None:
        # Importing the engine writes a device id into the user's cache folder and looks up its vendor's host. Only this
        # prevents both. It stays set, so that a child process inherits it.
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"
        # Imported here, and by name: only users of this judge pay for it.
        runtime, tokenizers = import_module("onnxruntime"), import_module("tokenizers")
        self._numpy = import_module("numpy")
        # For an application that had imported the engine before.
        getattr(runtime, "disable_telemetry_events", int)()
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        # Errors come as exceptions, which we report.
        options.log_severity_level = 4
        # A twelfth less work, for a difference in the second decimal of a logit; the model was measured with it.
        options.add_session_config_entry("optimization.enable_gelu_approximation", "1")
        self._session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        if sorted(each.name for each in self._session.get_inputs()) != sorted(INPUTS):
            raise ValueError("it takes other inputs")
        self._tokenizer = tokenizers.Tokenizer.from_str(vocabulary.decode("utf-8"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        # A `[SEP]` in a text is four characters, not a separator.
        self._tokenizer.encode_special_tokens = True
        self._begin, self._end, self._pad = (self._special(name) for name in ("[CLS]", "[SEP]", "[PAD]"))

    def _special(self, name: str) -> int:
        number = self._tokenizer.token_to_id(name)
        if type(number) is not int:
            raise ValueError("a special token is missing")
        return number

    def tokenize(self, text: str) -> list[int]:
        """Return the tokens of a text, of its first million characters."""
        with _engine:
            return list(self._tokenizer.encode(text[:_MAX_CHARACTERS], add_special_tokens=False).ids)

    def split_windows(
        self, passage: Sequence[int], case: Sequence[int] = (), most: int | None = None
    ) -> tuple[list[Sequence[int]], bool]:
        """Return the passage in windows that fit beside the case, and whether they cover all of it."""
        room = self.about.tokens - 2 - (len(case) + 1 if case else 0)
        if len(passage) <= room:
            return [passage], True
        last = len(passage) - room
        starts = [*range(0, last, room - room // _OVERLAP), last]
        if most is not None and len(starts) > most:
            kept = [starts[round(number * (len(starts) - 1) / (most - 1))] for number in range(most)]
            return [passage[at : at + room] for at in kept], False
        return [passage[at : at + room] for at in starts], True

    def rate_window(self, passage: Sequence[int], case: Sequence[int] = ()) -> WindowLogits:
        """Return the logits of one window, beside a case or by itself.

        One at a time: in a batch, windows change each other's rounding.
        """
        head = [self._begin, *case, self._end] if case else [self._begin]
        ids = [*head, *passage, self._end]
        gap = -len(ids) % _MULTIPLE
        kinds = [0] * len(head) + [int(bool(case))] * (len(ids) - len(head))
        rows = (ids + [self._pad] * gap, [1] * len(ids) + [0] * gap, kinds + [0] * gap)
        feed = {name: self._numpy.array([row], dtype=self._numpy.int64) for name, row in zip(INPUTS, rows, strict=True)}
        with _engine:
            (logits,) = self._session.run(None, feed)
        if logits.shape != (1, len(WindowLogits._fields)) or logits.dtype.kind != "f":
            raise ValueError("an answer of another shape")
        seen = WindowLogits(*(float(logit) for logit in logits[0]))
        # All must be valid, whichever is used: else this is not the model that was measured.
        if not all(map(math.isfinite, seen)):
            raise ValueError("an answer that is no number")
        return seen


class _EncoderCache:
    """One encoder per process and folder; a failed one is not tried again."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: dict[ModelFiles, Encoder | InvalidConfig] = {}

    def get(self, files: ModelFiles) -> Encoder:
        with self._lock:
            found = self._known.get(files)
            if found is None:
                try:
                    found = Encoder(files)
                except InvalidConfig as error:
                    found = error
                self._known[files] = found
        if isinstance(found, InvalidConfig):
            raise InvalidConfig(found.message, hint=found.hint)
        return found


_shared = _EncoderCache()
# Caches inherited by a forked child: not used, because a lock may stay closed, and not freed.
_inherited: list[_EncoderCache] = []


def _reset_encoders() -> None:
    global _shared, _engine
    _inherited.append(_shared)
    _shared, _engine = _EncoderCache(), RLock()


on_fork(_reset_encoders)


# --- 3. asked


class Score(NamedTuple):
    """The rating of a call: `logit` is compared with the preset's threshold, `driven` is part of it."""

    logit: float
    driven: float


class TextReading(NamedTuple):
    """The rating of a text: its windows' highest logits, how many were read, and whether that is all of it."""

    foreign: float
    request: float
    windows: int
    whole: bool


class EmbeddedJudge:
    """Tier 2 without a network. Never raises: a failure is silence, and the call goes one tier up.

    Nothing is loaded before the first question; `verify` checks beforehand whether loading can work.
    """

    reads_evidence = True
    standing = JudgeStanding(Authority.EMBEDDED)
    # Where questions wait for the encoder; adapters use the same pool.
    pool = _pool

    def __init__(self, *, preset: str = "balanced", timeout_s: float = 3.0, files: ModelFiles | None = None) -> None:
        if preset not in PRESETS:
            raise InvalidConfig(f"unknown preset {quoted(preset)}", hint=f"use one of: {', '.join(PRESETS)}")
        self.preset = preset
        self._timeout_s = timeout_s
        self._files = files or shipped_files()
        self._name = ""

    @property
    def name(self) -> str:
        """The model's name with the preset: another threshold makes another judge."""
        if not self._name:
            try:
                self._name = f"embedded/{describe(self._files).name}-{self.preset}"
            except InvalidConfig:
                return "embedded/unknown"
        return self._name

    def __repr__(self) -> str:
        return f"EmbeddedJudge({self.name})"

    def verify(self) -> JudgeDescription:
        return verify(self._files)

    def score(self, evidence: Evidence, *, until: float = math.inf) -> Score:
        """Return the call's rating, computed in this thread; raise TimeoutError past `until`."""
        encoder = self._encoder()
        case = encoder.tokenize(evidence.case)[: encoder.about.case_tokens]
        # The highest rating counts. Where nothing can be read, nothing speaks for the call.
        best = -_SUREST if evidence.windows else 0.0
        for window in evidence.windows:
            for piece in encoder.split_windows(encoder.tokenize(window), case)[0]:
                _check_deadline(until)
                best = max(best, encoder.rate_window(piece, case).driven)
        best = min(_SUREST, best)
        values = (best / _SCALE, *evidence.facts)
        about = encoder.about
        logit = math.fsum((about.bias, *(a * b for a, b in zip(about.weights, values, strict=True))))
        if not math.isfinite(logit):
            raise ValueError("a call's number is none")
        return Score(logit, best)

    def opine(self, inquiry: Inquiry) -> Opined:
        """Return the opinion of the case. From a coroutine use `opine_async`: this one cannot wait there."""
        if is_on_event_loop():
            return Opined(Silent(NoAnswerReason.CALLED_IN_LOOP))
        return run_routine(self._opinion_steps(inquiry))

    async def opine_async(self, inquiry: Inquiry) -> Opined:
        """Return the opinion of the case, from an event loop."""
        return await run_routine_async(self._opinion_steps(inquiry))

    def _opinion_steps(self, inquiry: Inquiry) -> Routine[Opined]:
        now = monotonic()
        until = min(now + self._timeout_s, inquiry.until)
        try:
            opined: Opined = yield PoolJob(self.pool, partial(self._judge, inquiry, until), until - now)
        except Exception as error:  # noqa: BLE001  # the edge to the model: without an answer there is no opinion
            return self._silent_after(error)
        return opined

    def _judge(self, inquiry: Inquiry, until: float) -> Opined:
        evidence = inquiry.evidence
        if evidence is None or inquiry.stage is Stage.SUPERVISOR:
            # It needs passages, and cannot judge as a supervisor.
            return Opined(Silent(NoAnswerReason.ODD_ANSWER))
        line = self._encoder().about.presets[self.preset].clear_below
        if not (evidence.is_complete and evidence.is_clearable):
            return Opined(Triage(suspicious=True))
        return Opined(Triage(suspicious=not self.score(evidence, until=until).logit < line))

    def read_text(self, text: str, *, until: float = math.inf, enough: float = math.inf) -> TextReading:
        """Rate a whole text; stop at the first window whose `request` reaches `enough`."""
        encoder = self._encoder()
        flat = plain_text(text[:_MAX_CHARACTERS])
        pieces, whole = encoder.split_windows(encoder.tokenize(flat), most=MAX_WINDOWS)
        whole = whole and max(len(text), len(flat)) <= _MAX_CHARACTERS
        foreign = request = -math.inf
        for number, piece in enumerate(pieces, 1):
            _check_deadline(until)
            seen = encoder.rate_window(piece)
            foreign, request = max(foreign, seen.foreign), max(request, seen.request)
            if request >= enough:
                return TextReading(foreign, request, number, whole)
        return TextReading(foreign, request, len(pieces), whole)

    def rate_text(self, text: str, *, until: float = math.inf) -> tuple[Answer, bool]:
        """Return the rating of a request in an endpoint's form, and whether all of it was read.

        A rating is a suspicion at most: one ordinary request in some fifty that sound like attacks is suspected.
        """
        line = self._encoder().about.suspect_request_from
        found = self.read_text(text, until=until, enough=line)
        suspected = found.request >= line
        # A public name from before there were several ratings.
        return Rating(False, (("order", 0.5 if suspected else 0.0),)), found.whole

    def load_in_background(self) -> Future[JobResult]:
        """Load in the background; the first question reports a failure."""
        return self.pool.submit(self._encoder)

    def _encoder(self) -> Encoder:
        return _shared.get(self._files)

    def _silent_after(self, error: Exception) -> Opined:
        why = NoAnswerReason.BUSY if isinstance(error, Full) else NoAnswerReason.INTERNAL
        why = NoAnswerReason.DEADLINE if isinstance(error, TimeoutError) else why
        # Our own messages are about the model; of any other error only the type, as its message may quote the text.
        said = error.message if isinstance(error, InvalidConfig) else type(error).__name__
        _log.warning("no opinion: judge=%s reason=%s error=%s", self.name, why.value, said)
        return Opined(Silent(why))


def _check_deadline(until: float) -> None:
    if monotonic() > until:
        raise TimeoutError
