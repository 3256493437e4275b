"""The rows that prepare.py writes, which of them are kept apart, and how well a number ranks them."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

# Whole forms of attack, families of wrappers and kinds of ordinary texts, and whole scenarios by their name, so that more
# of them do not move the others.
HELD_FAMILIES = {"persuasion", "label", "hand-off", "conditional", "quoted-log", "story", "precondition", "pressure"}
HELD_FAMILIES |= {"marketing", "changes", "translating", "slanting", "typed-translating", "typed-slanting", "drifting"}
HELD_FAMILIES |= {"rank", "plain"}
# Of the banks with many kinds, some kinds by their name.
MANY = ("belonging-", "bare-", "errands-", "answering-", "working-")


def held(name: str, share: float = 0.25) -> bool:
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 0xFFFFFFFF < share


def apart(row: dict) -> bool:
    family, scenario = row["family"], row["scenario"]
    if family in HELD_FAMILIES or (family.startswith(MANY) and held(family, 0.15)):
        return True
    return bool(scenario and held(scenario))


def load(paths: Iterable[Path]) -> list[dict]:
    found = []
    for path in paths:
        opened = lzma.open if path.suffix == ".xz" else gzip.open
        with opened(path, "rt", encoding="utf-8") as lines:
            found += [json.loads(line) for line in lines]
    return found


def holds(window: str, words: str) -> bool:
    """Whether a good part of what the text says about the call stands in this window."""
    window, words = window.lower(), words.lower()
    pieces = [words[at : at + 24] for at in range(0, max(1, len(words) - 23), 12)] if words else []
    return bool(pieces) and sum(piece in window for piece in pieces) >= max(1, len(pieces) // 2)


def telling(row: dict) -> Sequence[str]:
    """The passages of a call that its label is about: of a driven one, those that hold what drives it."""
    windows = row["windows"]
    if row["driven"] <= 0.5:
        return windows
    return [window for window in windows if holds(window, row["words"])] or windows[:1]


def auroc(scores: np.ndarray, labels: np.ndarray) -> float:
    _, where = np.unique(scores, return_inverse=True)
    counts = np.bincount(where)
    # Ties share the mean of their ranks.
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[where]
    good = labels > 0.5
    n, m = good.sum(), (~good).sum()
    return float((ranks[good].sum() - n * (n + 1) / 2) / (n * m)) if n and m else math.nan


def recall_at(scores: np.ndarray, labels: np.ndarray, share: float) -> float:
    """What is found while this share of the ordinary ones is flagged."""
    if not (labels < 0.5).any() or not (labels > 0.5).any():
        return math.nan
    bar = np.quantile(scores[labels < 0.5], 1 - share)
    return float((scores[labels > 0.5] > bar).mean())
