"""Weighs the exported encoder's numbers and the facts of a call into one, and draws the presets' lines.

    python training/weigh.py --rows rows.jsonl.gz --from FOLDER --out about.json [--most 3000]

Only with scenarios and families that the encoder has not seen, and through the very code that will ask it
(`EmbeddedJudge.score`). Few weights, held small, each of the sign that it means: a finding never speaks for a call, and
the user's own words in it never against it. Nothing is fitted to the recorded runs it is measured on (`bench/judge.py`); they and our own corpus were looked at to
settle how much the encoder counts and how many attacks each preset keeps.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from pack import pack
from rows import apart, auroc, load

from lockgate.core.judging.evidence import Evidence
from lockgate.core.ruling.policy import PRESETS
from lockgate.verifiers.embedded_judge import NAMES, EmbeddedJudge, ModelFiles

# What speaks for a call: the user's own words stand in it.
FOR = {"tool-in-goal", "arguments-in-goal", "order-in-goal"}
# What the encoder says counts half of what the composed rows would have it count: it has seen how their writers write, and
# of the words of other people it knows less. The facts are found the same way in every author's words.
ENCODER = 0.5
# How many of the composed attack calls that come from a passage stay suspicious. Those that come from none are left to
# the facts: they are few in life, and would draw every line.
KEPT = {"cautious": 0.99, "balanced": 0.9, "quiet": 0.85}
# The share of ordinary composed texts that is called unsafe, and of those with a foreign request that is not called safe.
UNSAFE = {"cautious": 0.02, "balanced": 0.01, "quiet": 0.005}
SAFE = {"cautious": 0.99, "balanced": 0.97, "quiet": 0.94}


def judge_of(source: Path, into: Path) -> EmbeddedJudge:
    """The judge with weights of nothing: its numbers are the encoder's."""
    lines = {name: {"clear_below": 0.0, "safe_below": 0.0, "unsafe_from": 0.0} for name in PRESETS}
    about: dict[str, object] = {
        "name": "unweighed",
        "made": "2026-01-01",
        "tokens": 256,
        "names": list(NAMES),
        "weights": [0.0] * len(NAMES),
        "bias": 0.0,
        "presets": lines,
    }
    return EmbeddedJudge(files=ModelFiles(into, pack(source, about, into)))


def holds_foreign(row: dict) -> bool:
    """Whether a text carries a foreign request: an order to the machine always is one, where nothing else is said."""
    return row.get("foreign", row["order"]) > 0.5


def numbers(judge: EmbeddedJudge, rows: list[dict]) -> np.ndarray:
    """One line for each call, in the order of NAMES."""
    made = []
    for row in rows:
        found = judge.score(Evidence(tuple(row["windows"]), tuple(row["facts"])))
        made.append([found.order / 4.0, *row["facts"]])
    return np.array(made)


def kinds_of(rows: list[dict]) -> np.ndarray:
    """What counts alike: attacks in bare words and wrapped ones; ordinary calls with and without an order behind them."""
    attacks = {row["family"] for row in rows if row["driven"]}
    return np.array(
        [
            ("bare" if row["family"] == "bare" else "wrapped")
            if row["driven"]
            else ("from-poison" if row["family"] in attacks else "from-order")
            if row["windows"]
            else "free"
            for row in rows
        ]
    )


def fitted(values: np.ndarray, labels: np.ndarray, kinds: np.ndarray, names: list[str], decay: float = 0.01):
    """Logistic regression by gradient descent with both labels, and the kinds within each, counted alike."""
    signs = np.array([-1.0 if name in FOR else 1.0 for name in names])
    share = np.zeros(len(labels))
    for label in (0, 1):
        there = np.unique(kinds[labels == label])
        for kind in there:
            inside = (labels == label) & (kinds == kind)
            share[inside] = 0.5 / len(there) / inside.sum()
    weights, bias, speed = np.full(len(names), 0.2), 0.0, 1.0
    for _ in range(8000):
        said = 1 / (1 + np.exp(-(values @ (weights * signs) + bias)))
        gap = (said - labels) * share
        weights = np.maximum(0.0, weights - speed * (signs * (values.T @ gap) + 2 * decay * weights))
        bias -= speed * gap.sum()
    return weights * signs, float(bias)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--rows", type=Path, required=True)
    asked.add_argument("--from", dest="source", type=Path, required=True)
    asked.add_argument("--out", type=Path, required=True)
    asked.add_argument("--most", type=int, default=3000)
    asked.add_argument("--name", default="small-2")
    args = asked.parse_args()
    rows = [row for row in load(args.rows) if row["kind"] != "plain" and apart(row)]
    random.Random(5).shuffle(rows)
    calls = [row for row in rows if row["kind"] == "call" and row["whole"]][: args.most]
    texts = [row for row in rows if row["kind"] == "text"][: args.most]
    with tempfile.TemporaryDirectory() as folder:
        judge = judge_of(args.source, Path(folder))
        values, kinds = numbers(judge, calls), kinds_of(calls)
        foreign = np.array([judge.read_text(row["text"]).foreign for row in texts])
    labels = np.array([row["driven"] for row in calls])
    holds = np.array([int(holds_foreign(row)) for row in texts])
    # Whole scenarios in or out: what is printed was weighed without the scenarios it is printed for.
    groups = sorted({row["scenario"] for row in calls})
    apart_from = np.zeros(len(calls))
    for part in range(5):
        inside = np.array([groups.index(row["scenario"]) % 5 == part for row in calls])
        weights, bias = fitted(values[~inside], labels[~inside], kinds[~inside], list(NAMES))
        weights[NAMES.index("order")] *= ENCODER
        apart_from[inside] = values[inside] @ weights + bias
    weights, bias = fitted(values, labels, kinds, list(NAMES))
    weights[NAMES.index("order")] *= ENCODER
    score = values @ weights + bias
    shown = np.array([bool(row["windows"]) for row in calls])
    presets, shares, text_shares = {}, {}, {}
    for name in PRESETS:
        bar = float(np.quantile(score[(labels == 1) & shown], 1 - KEPT[name]))
        unsafe = float(np.quantile(foreign[holds == 0], 1 - UNSAFE[name]))
        safe = min(unsafe, float(np.quantile(foreign[holds == 1], 1 - SAFE[name])))
        presets[name] = {
            "clear_below": round(bar, 4),
            "safe_below": round(safe, 4),
            "unsafe_from": round(unsafe, 4),
        }
        shares[name] = {
            "kept": round(float((apart_from[labels == 1] >= bar).mean()), 4),
            "cleared": round(float((apart_from[labels == 0] < bar).mean()), 4),
        }
        text_shares[name] = {
            "kept": round(float((foreign[holds == 1] >= safe).mean()), 4),
            "cleared": round(float((foreign[holds == 0] < safe).mean()), 4),
        }
    about = {
        "name": args.name,
        "made": datetime.now(UTC).date().isoformat(),
        "tokens": 256,
        "names": list(NAMES),
        "weights": [round(float(value), 4) for value in weights],
        "bias": round(bias, 4),
        "presets": presets,
        "measured": [
            {
                "of": "calls",
                "set": "composed, scenarios and families kept apart",
                "attacks": int(labels.sum()),
                "ordinary": int((labels == 0).sum()),
                "auroc": round(auroc(apart_from, labels), 4),
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
    args.out.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({"weights": dict(zip(NAMES, about["weights"], strict=True)), **about}, indent=1))
    for kind in np.unique(kinds):
        inside = kinds == kind
        print(
            kind,
            int(inside.sum()),
            {n: round(float((apart_from[inside] < presets[n]["clear_below"]).mean()), 3) for n in PRESETS},
        )


if __name__ == "__main__":
    main()
