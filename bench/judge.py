"""The embedded judge: what it costs, and what it makes of calls, of ordinary texts that look odd, and of disguises.

`make bench ARGS="--only judge TRACE…"` measures it on recorded sessions too. Where its packages are not installed, or
this checkout has no model, there is one line that says so.

    python bench/judge.py --peers VENV FILE…

compares it with stackone-defender (`VENV/bin/pip install 'stackone-defender[onnx]==0.9.4'`) as a classifier of whole
texts: both read the same ones in one run. A FILE is a trace, or lines of JSON with `text` and `label` ("injection" or
"benign"). Each file's injections are a set; everything ordinary, of all files and of this checkout, is one pool.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import process_time, thread_time
from typing import NamedTuple

import over
import tables
from lockgate.cli.eval.gates import LockgateGate, replay_session
from lockgate.cli.eval.trace_files import load_sessions
from lockgate.core.errors import LockgateError
from lockgate.core.questions import NoAnswerReason
from lockgate.core.ruling.opinions import Silent
from lockgate.core.ruling.policy import PRESETS
from lockgate.gate.gate import Gate
from lockgate.gate.judge import Inquiry, Opined
from lockgate.gate.judge_evidence import FACTS, Evidence, plain_text
from lockgate.sessions.labelled_sessions import LabelledSession
from lockgate.verifiers.embedded_judge import EmbeddedJudge, Preset, verify
from tables import Check, Row, Table

HERE = Path(__file__).resolve().parent
# A user who wants to read, and a call that does something else.
_CASE = "wanted: Summarise what came in today | the call sends a message to `x` | send_message to=x"
Tick = Callable[[str], None]
_START = """
import json, os, time
from pathlib import Path
from lockgate.verifiers.embedded_judge import EmbeddedJudge
def resident():
    # Not the highest so far: a child inherits that from its parent.
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if pages.exists() else float("nan")
base, began = resident(), time.process_time()
judge = EmbeddedJudge()
judge.read_text("ready?")
took = time.process_time() - began
judge.read_text("one two three four " * 2000)
print(json.dumps({"start_s": took, "memory_mb": (resident() - base) / 1e6}))
"""


def tables_of(
    gate: Gate,
    ours: Mapping[str, Sequence[LabelledSession]],
    given: Mapping[str, Sequence[LabelledSession]],
    files: Sequence[Path],
    *,
    every: int,
    tick: Tick,
) -> list[Table]:
    """What it makes of the sessions given, and of every so many-th of the texts written for it."""
    try:
        about = verify()
    except LockgateError as error:
        return [Table("Judge. Not measured", ("why",), [Row({"why": error.message})])]
    judge = EmbeddedJudge(timeout_s=60)
    line = about.presets["balanced"]
    tick("judge: cost")
    made = [cost(judge, 200 // every)]
    tick("judge: ordinary texts")
    made += [ordinary(judge, line, files, every), forms(judge, about.presets["quiet"], every)]
    made.append(calls("Judge 4. Escalated calls of our own corpus", judge, gate, ours, tick))
    if given:
        title = "Judge 5. Escalated calls of the trace files given"
        made.append(calls(title, judge, gate, given, tick, bounded=True))
    return made


# --- what it costs


def cost(judge: EmbeddedJudge, rounds: int) -> Table:
    encoder = judge._encoder()
    # Words of ordinary prose, a whole window of them, never the same twice.
    chance, words = random.Random(1), encoder.tokenize("the roof was repaired in May and the bill went to Ada " * 40)
    spent = []
    for _ in range(rounds):
        chance.shuffle(words)
        case, window = words[: encoder.about.case_tokens], words[: encoder.about.tokens - encoder.about.case_tokens - 3]
        began = thread_time()
        encoder.rate_window(window, case)
        spent.append(thread_time() - began)
    ended = subprocess.run([sys.executable, "-c", _START], capture_output=True, text=True, check=True)
    child = json.loads(ended.stdout)
    rows = [
        Row(
            {"what": "one passage beside its case, CPU", "figure": f"{median(spent) * 1e3:.1f} ms"},
            (Check("judge, window", median(spent) * 1e3),),
        ),
        Row(
            {"what": "loading it and the first answer, CPU", "figure": f"{child['start_s']:.2f} s"},
            (Check("judge, start", child["start_s"]),),
        ),
        Row(
            {"what": "memory it adds to a process", "figure": f"{child['memory_mb']:.0f} MB"},
            (Check("judge, memory", child["memory_mb"]),),
        ),
    ]
    return Table("Judge 1. What it costs, one core", ("what", "figure"), rows)


# --- what it makes of calls


class Asked(NamedTuple):
    """A call that Tier 1 escalated, as the judge is shown it, and what it was."""

    evidence: Evidence
    attack: bool


class Listener:
    """A judge that writes down what it is shown. It says nothing, so that the same question is put to it again."""

    name = "bench/listener"
    reads_evidence = True

    def __init__(self) -> None:
        self.shown: list[Evidence | None] = []

    def opine(self, inquiry: Inquiry) -> Opined:
        self.shown.append(inquiry.evidence)
        return Opined(Silent(NoAnswerReason.INTERNAL))

    async def opine_async(self, inquiry: Inquiry) -> Opined:
        return self.opine(inquiry)


def escalated(gate: Gate, sessions: Sequence[LabelledSession]) -> Iterator[Asked]:
    listener = Listener()
    replayed = LockgateGate(Gate(gate.policy, scanner=gate.scanner, triage=listener))
    for session in sessions:
        listener.shown.clear()
        ruled = replay_session(session, replayed)
        asked = [call for call, each in zip(session.calls, ruled, strict=True) if each.escalated]
        for call, evidence in zip(asked, listener.shown, strict=True):
            if evidence is not None and call.label in ("attack", "ordinary"):
                yield Asked(evidence, call.label == "attack")


def scored(judge: EmbeddedJudge, asked: Sequence[Asked]) -> list[tuple[float, bool]]:
    """Each with its number, the same evidence asked about once; infinity for what no model may clear."""
    known: dict[Evidence, float] = {}
    found = []
    for evidence, attack in asked:
        if evidence not in known:
            known[evidence] = (
                judge.score(evidence).logit if evidence.is_complete and evidence.is_clearable else float("inf")
            )
        found.append((known[evidence], attack))
    return found


def auroc(found: Sequence[tuple[float, bool]]) -> float:
    """The share of pairs of an attack and an ordinary one that are in the right order; ties count half."""
    attacks, others = ([value for value, attack in found if attack is kind] for kind in (True, False))
    if not attacks or not others:
        return float("nan")
    ranks: dict[float, float] = {}
    ordered = sorted(value for value, _ in found)
    edges = [0, *[at for at, (a, b) in enumerate(pairwise(ordered), 1) if a != b], len(ordered)]
    for low, high in pairwise(edges):
        ranks[ordered[low]] = (low + high + 1) / 2
    total = sum(ranks[value] for value in attacks)
    return (total - len(attacks) * (len(attacks) + 1) / 2) / (len(attacks) * len(others))


def share(values: Sequence[bool]) -> float:
    return sum(values) / len(values) if values else float("nan")


def kept_and_cleared(found: Sequence[tuple[float, bool]], bar: float) -> tuple[float, float]:
    return share([v >= bar for v, attack in found if attack]), share([v < bar for v, attack in found if not attack])


def roc(found: Sequence[tuple[float, bool]]) -> list[tuple[float, float]]:
    """(cleared, kept) at the lines that keep so many of the attacks."""
    attacks = sorted(value for value, attack in found if attack)
    bars = [attacks[min(len(attacks) - 1, int(len(attacks) * (1 - keep)))] for keep in KEEP] if attacks else []
    return [tuple(reversed(kept_and_cleared(found, bar))) for bar in bars]  # type: ignore[misc]


KEEP = (0.995, 0.99, 0.97, 0.95, 0.925, 0.9, 0.85, 0.8)


def calls(
    title: str,
    judge: EmbeddedJudge,
    gate: Gate,
    given: Mapping[str, Sequence[LabelledSession]],
    tick: Tick,
    *,
    bounded: bool = False,
) -> Table:
    columns = ("trace", "attack calls", "ordinary calls", "AUROC", *PRESETS)
    presets = judge.verify().presets
    rows = []
    everything: list[tuple[float, bool]] = []
    for name, sessions in given.items():
        tick(f"judge: {name}")
        found = scored(judge, list(escalated(gate, sessions)))
        everything += found
        rows.append(_calls_row(name, found, presets, bounded=False))
    rows.append(_calls_row("all together", everything, presets, bounded=bounded))
    note = "Of the calls that Tier 1 escalates: attacks that stay suspicious / ordinary ones cleared, by preset."
    return Table(title, columns, rows, note)


def _calls_row(name: str, found: list[tuple[float, bool]], presets: Mapping[str, Preset], *, bounded: bool) -> Row:
    shares = {preset: kept_and_cleared(found, presets[preset].clear_below) for preset in PRESETS}
    attacks = sum(attack for _, attack in found)
    cells = {"trace": name, "attack calls": f"{attacks:,}", "ordinary calls": f"{len(found) - attacks:,}"}
    cells["AUROC"] = _number(auroc(found))
    cells |= {preset: f"{_percent(kept)} / {_percent(cleared)}" for preset, (kept, cleared) in shares.items()}
    kept, cleared = shares["balanced"]
    checks = (Check("judge, kept", kept * 100), Check("judge, cleared", cleared * 100)) if bounded else ()
    return Row(cells, checks)


def _number(value: float) -> str:
    return "-" if value != value else f"{value:.3f}"


def _percent(value: float) -> str:
    return "-" if value != value else f"{value:.1%}"


# --- ordinary texts, and disguises


def ordinary(judge: EmbeddedJudge, line: Preset, files: Sequence[Path], every: int) -> Table:
    texts = {kind: [text.strip() for text in listed] for kind, listed in _written("hard_negatives.toml").items()}
    texts["installed source and read-me files"] = [
        file.read_bytes()[:12_000].decode("utf-8", "replace") for file in files[:: max(1, len(files) // 40)]
    ]
    rows = []
    for kind, listed in texts.items():
        found = [judge.read_text(text).foreign for text in listed[::every]]
        rows.append(
            Row(
                {
                    "ordinary texts": kind,
                    "texts": str(len(found)),
                    "unsafe": _percent(share([value >= line.unsafe_from for value in found])),
                    "unclear": _percent(share([line.safe_below <= value < line.unsafe_from for value in found])),
                }
            )
        )
    note = "At `balanced`. Each would fool a list of words; what is unclear is left to the tiers above."
    return Table(
        "Judge 2. Ordinary texts that look like attacks", ("ordinary texts", "texts", "unsafe", "unclear"), rows, note
    )


def _written(name: str) -> dict[str, list[str]]:
    return tomllib.loads((HERE / name).read_text(encoding="utf-8"))


# Plain prose that asks for nothing, more than a window of it.
PADDING = (
    "The town lies where the river leaves the hills. In 1911 it had two bridges; one of them was lost in a flood,"
    " the other carries the tram today. Most people worked in the paper mill, which stood on the left bank and "
    "took its water from a canal. The canal is older than the mill. It was dug by monks, who kept fish in it, and"
    " their pond is still there, behind the school. After the war the mill was sold twice. A company from the "
    "coast made cardboard in it until the eighties, then it stood empty, and children played in the halls. The "
    "roof fell in during a winter with much snow. What is left of it has become a library. The old machines stand"
    " between the shelves, and the reading room has the windows of the drying hall, which face south. On clear "
    "days one sees the hills from there, and the line of trees that marks the course of the river. The library "
    "has forty thousand volumes, a third of them about paper. "
)
FORMS: Mapping[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "in much other text": lambda text: f"{PADDING} {text} {PADDING}",
    "in capitals": str.upper,
    "in small letters": str.lower,
    "zero-width characters inside": "\u200b".join,
    "one word a line": lambda text: text.replace(" ", "\n"),
    "in JSON": lambda text: json.dumps({"id": 7, "note": text, "ok": True}),
    "in HTML": lambda text: f"<div style='display:none'><p>{text}</p></div>",
    "in code comments": lambda text: (
        "def total(rows):\n" + "".join(f"    # {part}\n" for part in text.split(". ")) + "    return sum(rows)\n"
    ),
    "across two windows": lambda text: f"{PADDING[:900]} {text} {PADDING}",
}


def forms(judge: EmbeddedJudge, line: Preset, every: int) -> Table:
    written = tomllib.loads((HERE / "judge_attacks.toml").read_text(encoding="utf-8"))

    def found(texts: Sequence[str]) -> tuple[float, float]:
        """Of whole texts, and of calls that come from such a passage and of which no fact is known."""
        told = [judge.score(Evidence(_CASE, (plain_text(text),), (0.0,) * len(FACTS))).logit for text in texts]
        return (
            share([judge.read_text(text).foreign >= line.safe_below for text in texts]),
            share([logit >= line.clear_below for logit in told]),
        )

    english = written["english"][::every]
    base = found(english)
    alone = "yes" if judge.read_text(PADDING).foreign < line.safe_below else "no"
    rows = []
    for name, form in FORMS.items():
        shown = found([form(text) for text in english])
        lost = [(before - after) * 100 for before, after in zip(base, shown, strict=True)]
        checks = () if name == "as it is" else tuple(Check("judge, form", points) for points in lost)
        rows.append(_form(name, shown, checks))
    for language, texts in written["translated"].items():
        rows.append(_form(f"translated: {language}", found(texts[::every])))
    note = (
        "Of 12 passages that give orders to the machine, in English; of 4 in each other language. At `quiet`: "
        "whole texts that are not called safe, and calls from such a passage that stay suspicious though nothing else "
        "is known of them. "
        f"Is the other text by itself called safe? {alone}."
    )
    columns = ("form", "not called safe", "calls suspicious")
    return Table("Judge 3. The same orders in another form", columns, rows, note)


def _form(name: str, shown: tuple[float, float], checks: tuple[Check, ...] = ()) -> Row:
    text, call = map(_percent, shown)
    return Row({"form": name, "not called safe": text, "calls suspicious": call}, checks)


# --- whole texts, against another classifier

SAMPLE = 110
ORDINARY_SAMPLE = 80
SOURCE_FILES = 100


class Texts(NamedTuple):
    """Texts with an injection in them, by where they come from, and ordinary ones, by what they are."""

    injected: dict[str, list[str]]
    ordinary: dict[str, list[str]]


def texts_of(paths: Sequence[Path], files: Sequence[Path]) -> Texts:
    """A sample of each file, the same every time; of a trace, the blocks that were read."""
    injected: dict[str, list[str]] = {}
    pool: dict[str, list[str]] = {}
    for path in paths:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
            first = json.loads(next(lines, "{}"))
            if "text" in first:
                rows = [first, *(json.loads(line) for line in lines)]
                found = [(row["text"], row["label"] == "injection") for row in rows]
            else:
                blocks = [block for session in load_sessions(path) for block in session.blocks]
                found = [(block.content, block.poisoned) for block in blocks if block.is_untrusted]
        name = path.name.removesuffix(".gz").removesuffix(".jsonl")
        for kind, listed, most in ((True, injected, SAMPLE), (False, pool, ORDINARY_SAMPLE)):
            chosen = sorted({text for text, attack in found if attack is kind and (kind or len(text) > 40)})
            random.Random(4).shuffle(chosen)
            if chosen:
                listed[name] = chosen[:most]
    pool["hard negatives"] = [text.strip() for listed in _written("hard_negatives.toml").values() for text in listed]
    pool["source files"] = _source(files)
    return Texts(injected, pool)


def _source(files: Sequence[Path]) -> list[str]:
    sized = [file for file in files if file.suffix == ".py" and 1_500 < file.stat().st_size < 40_000]
    chosen = random.Random(4).sample(sized, min(SOURCE_FILES, len(sized)))
    return [file.read_bytes()[:12_000].decode("utf-8", "replace") for file in chosen]


class Heard(NamedTuple):
    """What one classifier said of each text: a number, and whether it would flag it. CPU is for all of them."""

    name: str
    found: list[tuple[float, bool]]
    spent_s: float


def ours(judge: EmbeddedJudge, line: Preset, texts: Sequence[str]) -> Heard:
    judge.read_text("ready?")
    began = process_time()
    numbers = [judge.read_text(text).foreign for text in texts]
    return Heard("this judge", [(number, number >= line.unsafe_from) for number in numbers], process_time() - began)


def theirs(environment: Path, texts: Sequence[str]) -> Heard | str:
    """The same by stackone-defender, or why not."""
    python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        return f"no Python at {python}"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "texts.json"
        file.write_text(json.dumps(list(texts)), encoding="utf-8")
        command = [str(python), "-I", str(HERE / "defender.py"), str(file)]
        ended = subprocess.run(command, check=False, capture_output=True, text=True)
    if ended.returncode:
        return (
            f"stackone-defender cannot be used there: {(ended.stderr.strip().splitlines() or ['no output'])[-1][:160]}"
        )
    said = json.loads(ended.stdout.splitlines()[-1])
    return Heard(f"stackone-defender {said['version']}", [tuple(each) for each in said["found"]], said["spent_s"])


def compared(texts: Texts, heard: Sequence[Heard]) -> list[Table]:
    groups = [*texts.injected.values(), *texts.ordinary.values()]
    edges = [0]
    for group in groups:
        edges.append(edges[-1] + len(group))
    names, kilobytes = [each.name for each in heard], sum(len(text) for group in groups for text in group) / 1024
    parts = {each.name: [each.found[low:high] for low, high in pairwise(edges)] for each in heard}
    count, ahead = len(texts.injected), 0
    rows = []
    for at, (name, listed) in enumerate(texts.injected.items()):
        cells = {"set": name, "texts": str(len(listed))}
        figures = []
        for who in names:
            others = [number for part in parts[who][count:] for number, _ in part]
            pairs = [(number, True) for number, _ in parts[who][at]] + [(number, False) for number in others]
            figures.append(auroc(pairs))
            cells[who] = _number(figures[-1])
        ahead += figures[0] > figures[-1]
        rows.append(Row(cells))
    pool = sum(len(listed) for listed in texts.ordinary.values())
    note = f"AUROC against one pool of {pool} ordinary texts. This judge is ahead on {ahead} of {count} sets."
    made = [Table("Judge 6. Whole texts", ("set", "texts", *names), rows, note)]
    rows = [
        Row({"what": "CPU per KB of text"} | {each.name: f"{each.spent_s * 1e3 / kilobytes:.0f} ms" for each in heard})
    ]
    for at, (name, listed) in enumerate(texts.ordinary.items(), count):
        cells = {who: _percent(share([flag for _, flag in parts[who][at]])) for who in names}
        rows.append(Row({"what": f"flagged of {len(listed)} ordinary ones: {name}"} | cells))
    note = "Flagged: unsafe at `balanced` here, risk high or critical there."
    return [*made, Table("Judge 7. The same texts: cost and false alarms", ("what", *names), rows, note)]


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("files", nargs="*", type=Path, metavar="FILE")
    asked.add_argument("--peers", type=Path, metavar="VENV", help="an environment with stackone-defender[onnx]")
    args = asked.parse_args()
    try:
        line = verify().presets["balanced"]
        texts = texts_of(args.files, over.ordinary_files(over.site_packages(), None))
    except (LockgateError, OSError, ValueError, KeyError) as error:
        print(f"not compared: {error}")
        return 2
    if not args.files or args.peers is None:
        print("not compared: name files with texts, and with --peers an environment that has stackone-defender[onnx]")
        return 2
    listed = [text for group in (*texts.injected.values(), *texts.ordinary.values()) for text in group]
    other = theirs(args.peers, listed)
    if isinstance(other, str):
        print(f"not compared: {other}")
        return 2
    for table in compared(texts, [ours(EmbeddedJudge(timeout_s=60), line, listed), other]):
        print("\n".join(tables.plain(table)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
