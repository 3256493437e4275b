"""Runs a fuzz target: guided by coverage where atheris is installed, by seeded random mutation elsewhere.

    python tests/fuzz/fuzz_trace.py [-max_total_time=SECONDS] [-seed=N]

A target takes bytes and must neither raise nor dawdle. An input that makes it is kept as `crash-…` in the working
directory, under libFuzzer's naming, and ends the run with a traceback. If the engine itself takes the process down, the
random runner leaves the input in `crash-running`.
"""

from __future__ import annotations

import faulthandler
import mmap
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from hashlib import sha1
from pathlib import Path
from random import Random
from time import monotonic, process_time

# Far above what anything linear takes for one input, far below what anything quadratic does for the longest.
MOST_S = 10.0
LONGEST = 65_536


_TELLING = (b'"', b"{", b"[" * 200, b"\\ud800", b"NaN", b"%69", b"\xe2\x80\x8b", b"\xf0\x9f\x98\x80", b"=", b"A" * 60)


def instrumented() -> AbstractContextManager[object]:
    """Imports inside are watched for coverage, where there is something to watch them with."""
    try:
        import atheris
    except ImportError:
        return nullcontext()
    watching: AbstractContextManager[object] = atheris.instrument_imports()
    return watching


def fuzz(target: Callable[[bytes], None], seeds: Sequence[bytes]) -> None:
    def timed(data: bytes) -> None:
        # CPU time: a busy machine is not the input's fault.
        began = process_time()
        target(data)
        spent = process_time() - began
        assert spent < MOST_S, f"{spent:.1f} s for {len(data):,} bytes"

    try:
        import atheris
    except ImportError:
        _randomly(timed, seeds)
        return
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(seeds):
            (Path(corpus) / f"seed-{number}").write_bytes(seed)
        atheris.Setup([*sys.argv, f"-max_len={LONGEST}", corpus], timed)
        atheris.Fuzz()


def _randomly(target: Callable[[bytes], None], seeds: Sequence[bytes]) -> None:
    options = dict(word.lstrip("-").partition("=")[::2] for word in sys.argv[1:])
    seconds = float(options.get("max_total_time", 60))
    # Integers only: the same seed gives the same inputs on every machine.
    random = Random(int(options.get("seed", 1)))
    ends = monotonic() + seconds
    done = 0
    faulthandler.enable()
    with _remembered() as running:
        for data in _inputs(random, seeds):
            running[:] = data.ljust(LONGEST, b"\0")
            try:
                target(data)
            except BaseException:
                path = Path(f"crash-{sha1(data).hexdigest()}")
                path.write_bytes(data)
                print(f"input number {done + 1} kept as {path}", file=sys.stderr)
                raise
            done += 1
            if monotonic() >= ends:
                break
    print(f"{done:,} inputs in {seconds:g} s, none of them remarkable (random, atheris is not installed)")


@contextmanager
def _remembered() -> Iterator[mmap.mmap]:
    """The input in work, in a file that outlives a process which cannot even raise."""
    path = Path("crash-running")
    path.write_bytes(bytes(LONGEST))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), LONGEST) as shared:
        yield shared
    path.unlink()


def _inputs(random: Random, seeds: Sequence[bytes]) -> Iterator[bytes]:
    yield from seeds
    while True:
        data = bytearray(random.choice(seeds))
        for _ in range(random.randint(1, 8)):
            _mutate(data, random, seeds)
        yield bytes(data[:LONGEST])


def _mutate(data: bytearray, random: Random, seeds: Sequence[bytes]) -> None:
    at = random.randint(0, len(data))
    to = min(len(data), at + random.randint(1, 32))
    move = random.randrange(6)
    if move == 0:
        data[at:to] = random.randbytes(random.randint(0, 8))
    elif move == 1:
        del data[at:to]
    elif move == 2:
        data[at:at] = data[at:to] * random.choice((2, 10, 1000))
    elif move == 3:
        other = random.choice(seeds)
        start = random.randint(0, len(other))
        data[at:at] = other[start : start + random.randint(1, 400)]
    elif move == 4 and at < len(data):
        data[at] ^= 1 << random.randrange(8)
    else:
        data[at:at] = random.choice(_TELLING)
    del data[LONGEST:]
