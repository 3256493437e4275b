"""The rows that prepare.py writes, which of them are kept apart, and how well a number ranks them."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import math
from pathlib import Path

import numpy as np

# Whole families of wrappers and kinds of ordinary texts, and whole scenarios by their name, so that more of them do not
# move the others.
HELD_FAMILIES = {"story", "precondition", "pressure", "marketing", "changes"}
# The same for the question about whole texts: kinds of errands, of prompts that work on a model and of ordinary ones.
HELD_FAMILIES |= {"translating", "slanting", "typed-translating", "typed-slanting", "drifting", "rank", "plain"}


# Of the banks with many kinds, some kinds by their name.
MANY = ("belonging-", "bare-", "errands-", "answering-", "working-")


def held(name: str, share: float = 0.3) -> bool:
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 0xFFFFFFFF < share


def apart(row: dict) -> bool:
    family, scenario = row["family"], row["scenario"]
    if family in HELD_FAMILIES or (family.startswith(MANY) and held(family, 0.15)):
        return True
    return bool(scenario and held(scenario))


def load(path: Path) -> list[dict]:
    opened = lzma.open if path.suffix == ".xz" else gzip.open
    with opened(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


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
