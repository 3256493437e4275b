"""Teaches the head that rates requests, and puts it into the graph of the encoder, which stays as it is.

    python training/request_head.py --rows request_rows.jsonl.gz --model FOLDER --out FOLDER

FOLDER of --model holds `judge.onnx`. The states behind three of its layers are read word piece by word piece: detectors
that see three neighbours each, the highest of each detector over the window, and one sum. Several small heads of different
seeds are averaged, which makes one head again. What comes out is a `judge.onnx` with three logits, of which the first two are
those of before. It takes a minute on one H200.

Printed for texts of the banks, with whole families, whole languages, then single texts kept apart: attacks found at
given shares of ordinary texts.
"""

from __future__ import annotations

import argparse
import gzip
import json
import zlib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn
from torch.nn import functional

LAYERS = (1, 3, 5)
STATES = tuple(f"/layers.{layer}/output/LayerNorm/LayerNormalization_output_0" for layer in LAYERS)
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
WIDTH, LONGEST, BEGIN, END = 384, 192, 101, 102
DETECTORS, SEEDS, EPOCHS, RATE, BATCH, FOLDS = 32, 2, 6, 1e-3, 128, 5
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


# --- what the encoder sees

_session: Any = None


def _open(model: bytes) -> None:
    global _session
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("optimization.enable_gelu_approximation", "1")
    _session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _states_of(window: list[int]) -> np.ndarray:
    """The states of one window as Lockgate reads it: alone, and padded to a multiple of eight."""
    ids = [BEGIN, *window, END]
    gap = -len(ids) % 8
    rows = (ids + [0] * gap, [1] * len(ids) + [0] * gap, [0] * (len(ids) + gap))
    feed = {name: np.array([row], dtype=np.int64) for name, row in zip(INPUTS, rows, strict=True)}
    return np.concatenate([found[0, : len(ids)] for found in _session.run(list(STATES), feed)], axis=1).astype(
        np.float16
    )


def read_states(path: Path, windows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """States (windows by places by 3 times 384), and how many places of each window are filled."""
    model = onnx.load(str(path))
    model.graph.output.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", "length", WIDTH]) for name in STATES
    )
    made = torch.zeros(len(windows), LONGEST, WIDTH * len(LAYERS), dtype=torch.float16, device=DEVICE)
    sizes = torch.tensor([len(window) + 2 for window in windows])
    with ProcessPoolExecutor(initializer=_open, initargs=(model.SerializeToString(),)) as pool:
        for number, found in enumerate(pool.map(_states_of, windows, chunksize=64)):
            made[number, : len(found)] = torch.from_numpy(found).to(DEVICE)
    return made, sizes


# --- the head


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.detectors = nn.Conv1d(WIDTH * len(LAYERS), DETECTORS, 3, padding=1)
        self.sum = nn.Linear(DETECTORS, 1)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        seen = functional.dropout(states.transpose(1, 2), 0.1, self.training)
        found = functional.relu(self.detectors(seen)) * mask.unsqueeze(1)
        return self.sum(functional.dropout(found.max(2).values, 0.3, self.training))[:, 0]


class Data:
    def __init__(self, rows: list[dict[str, Any]], model: Path) -> None:
        self.rows = rows
        self.states, self.sizes = read_states(model, [row["ids"] for row in rows])
        self.attack = torch.tensor([float(row["attack"]) for row in rows], device=DEVICE)
        # What a person wrote counts twice.
        self.weight = torch.tensor([2.0 if row["whole"] else 1.0 for row in rows], device=DEVICE)

    def batch(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        sizes = self.sizes[numbers]
        longest = int(sizes.max())
        longest += -longest % 8
        mask = (torch.arange(longest)[None] < sizes[:, None]).float().to(DEVICE)
        return self.states[numbers.to(DEVICE), :longest].float(), mask


def teach(data: Data, numbers: list[int], seed: int) -> Head:
    torch.manual_seed(seed)
    draw = torch.Generator().manual_seed(seed)
    head = Head().to(DEVICE).train()
    optimizer = torch.optim.AdamW(head.parameters(), lr=RATE, weight_decay=0.01)
    listed = torch.tensor(numbers)
    steps, step = EPOCHS * -(-len(listed) // BATCH), 0
    for _ in range(EPOCHS):
        # Windows of about the same size share a batch, others in each round.
        order = listed[torch.argsort(data.sizes[listed] * (1 + 0.3 * torch.rand(len(listed), generator=draw)))]
        batches = order.split(BATCH)
        for at in torch.randperm(len(batches), generator=draw).tolist():
            share = min(1.0, (step + 1) / (0.06 * steps)) * max(0.02, 1 - step / steps)
            optimizer.param_groups[0]["lr"] = RATE * share
            said = head(*data.batch(batches[at]))
            there = batches[at].to(DEVICE)
            wanted = data.attack[there] * 0.96 + 0.02
            loss = functional.binary_cross_entropy_with_logits(said, wanted, reduction="none") * data.weight[there]
            optimizer.zero_grad()
            loss.mean().backward()
            optimizer.step()
            step += 1
    return head.eval()


@torch.no_grad()
def rate(heads: list[Head], data: Data, numbers: list[int]) -> np.ndarray:
    made = [
        torch.stack([head(*data.batch(part)) for head in heads]).mean(0).cpu().numpy()
        for part in torch.tensor(numbers).split(256)
    ]
    return np.concatenate(made)


# --- how well it carries over


def folds_by(rows: list[dict[str, Any]], what: str) -> list[set[int]]:
    """Which folds each row stands in: its own, or those of the rows that it was put together from."""

    def of(attack: int, family: str, language: str, text: str) -> int:
        if what == "languages":
            # English is never kept apart.
            return -1 if language == "en" else zlib.crc32(language.encode()) % FOLDS
        # The family `languages` has texts of all kinds, so that it is not kept apart as one.
        key = f"{attack} {family}" if what == "families" and family != "languages" else text
        return zlib.crc32(key.encode()) % FOLDS

    return [
        {of(*each) for each in row["of"]} or {of(row["attack"], row["family"], row["language"], row["text"])}
        for row in rows
    ]


def keep_apart(data: Data, what: str) -> dict[tuple[int, str], float]:
    """The rating of each text of the banks by heads that did not see it: its highest window."""
    folds = folds_by(data.rows, what)
    found: dict[tuple[int, str], float] = {}
    for fold in range(FOLDS):
        seen = [number for number, each in enumerate(folds) if fold not in each]
        apart = [number for number, each in enumerate(folds) if fold in each and data.rows[number]["whole"]]
        heads = [teach(data, seen, seed) for seed in range(SEEDS)]
        for number, rating in zip(apart, rate(heads, data, apart), strict=True):
            key = (data.rows[number]["attack"], data.rows[number]["text"])
            found[key] = max(float(rating), found.get(key, -np.inf))
    return found


def report(name: str, found: dict[tuple[int, str], float], families: dict[tuple[int, str], str]) -> None:
    attacks, ordinary = (np.array([value for key, value in found.items() if key[0] == side]) for side in (1, 0))
    for share in (0.01, 0.015, 0.02, 0.03):
        line = float(np.quantile(ordinary, 1 - share))
        print(f"{name}: {share:.1%} of ordinary from {line:.3f} on, attacks {np.mean(attacks >= line):.1%}")
    line = float(np.quantile(ordinary, 0.98))
    for side in (1, 0):
        kinds = sorted({families[key] for key in found if key[0] == side})
        shares = {
            kind: np.mean([value >= line for key, value in found.items() if key[0] == side and families[key] == kind])
            for kind in kinds
        }
        print("  ", ", ".join(f"{kind} {share:.0%}" for kind, share in shares.items()))


# --- into the graph


def take_out(model: onnx.ModelProto) -> None:
    """Undo `put_into`, if it was done."""
    graph, last = model.graph, model.graph.node[-1]
    if last.name != "request":
        return
    kept = [node for node in graph.node if node is not last and not node.name.startswith("request.")]
    for node in kept:
        node.output[:] = [last.output[0] if name == "request.others" else name for name in node.output]
    tensors = [each for each in graph.initializer if not each.name.startswith("request.")]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(kept)
    graph.initializer.extend(tensors)


def put_into(model: onnx.ModelProto, heads: list[Head]) -> None:
    """Append the mean of the heads to `logits`, as a third column."""
    take_out(model)
    graph = model.graph
    weight = torch.cat([head.detectors.weight.detach().cpu() for head in heads]).numpy()
    # Half precision halves the file; the states have no more.
    tensors = {
        "request.detectors": weight.astype(np.float16),
        "request.detectors.bias": torch.cat([head.detectors.bias.detach().cpu() for head in heads]).numpy(),
        "request.sum": (torch.cat([head.sum.weight.detach().cpu()[0] for head in heads]).numpy() / len(heads))[:, None],
        "request.sum.bias": np.array([np.mean([head.sum.bias.item() for head in heads])], dtype=np.float32),
        "request.last": np.array([1], dtype=np.int64),
    }
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in tensors.items())
    (logits,) = graph.output
    for node in graph.node:
        node.output[:] = ["request.others" if name == logits.name else name for name in node.output]
    made = [
        helper.make_node("Concat", list(STATES), ["request.all"], axis=2),
        helper.make_node("Cast", ["attention_mask"], ["request.mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["request.mask", "request.last"], ["request.across"]),
        helper.make_node("Transpose", ["request.all"], ["request.turned"], perm=[0, 2, 1]),
        helper.make_node("Mul", ["request.turned", "request.across"], ["request.read"]),
        helper.make_node("Cast", ["request.detectors"], ["request.weight"], to=TensorProto.FLOAT),
        helper.make_node(
            "Conv", ["request.read", "request.weight", "request.detectors.bias"], ["request.felt"], pads=[1, 1]
        ),
        helper.make_node("Relu", ["request.felt"], ["request.found"]),
        helper.make_node("Mul", ["request.found", "request.across"], ["request.kept"]),
        helper.make_node("ReduceMax", ["request.kept"], ["request.most"], axes=[2], keepdims=0),
        helper.make_node("Gemm", ["request.most", "request.sum", "request.sum.bias"], ["request.logit"]),
        helper.make_node("Concat", ["request.others", "request.logit"], [logits.name], axis=1),
    ]
    for node in made:
        node.name = node.output[0]
    made[-1].name = "request"
    graph.node.extend(made)
    graph.output[0].CopyFrom(helper.make_tensor_value_info(logits.name, TensorProto.FLOAT, ["batch", 3]))
    onnx.checker.check_model(model)


def join(model: onnx.ModelProto, other: onnx.ModelProto) -> None:
    """Let the third column be the mean of its head and that of another model with the same encoder."""

    def head_of(one: onnx.ModelProto) -> dict[str, np.ndarray]:
        return {
            each.name: numpy_helper.to_array(each) for each in one.graph.initializer if each.name.startswith("request.")
        }

    own, others = head_of(model), head_of(other)
    for each in model.graph.initializer:
        if each.name in ("request.detectors", "request.detectors.bias"):
            made = np.concatenate([own[each.name], others[each.name]])
        elif each.name == "request.sum":
            made = np.concatenate([own[each.name], others[each.name]]) / 2
        elif each.name == "request.sum.bias":
            made = (own[each.name] + others[each.name]) / 2
        else:
            continue
        each.CopyFrom(numpy_helper.from_array(made.astype(own[each.name].dtype), each.name))
    onnx.checker.check_model(model)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--rows", type=Path, required=True)
    asked.add_argument(
        "--model", type=Path, required=True, help="the folder with an encoder, with or without such a head"
    )
    asked.add_argument("--out", type=Path, required=True)
    asked.add_argument(
        "--beside", type=Path, help="a folder whose head is kept as well: what comes out is the mean of both"
    )
    asked.add_argument("--quick", action="store_true", help="do not measure")
    args = asked.parse_args()
    with gzip.open(args.rows, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    path = args.model / "judge.onnx"
    data = Data(rows, path)
    families = {(row["attack"], row["text"]): row["family"] for row in rows}
    if not args.quick:
        for what in ("families", "languages", "texts"):
            report(f"{what} apart", keep_apart(data, what), families)
    heads = [teach(data, list(range(len(rows))), seed) for seed in range(SEEDS)]
    model = onnx.load(str(path))
    put_into(model, heads)
    if args.beside:
        join(model, onnx.load(str(args.beside / "judge.onnx")))
    args.out.mkdir(exist_ok=True, parents=True)
    onnx.save(model, str(args.out / "judge.onnx"))


if __name__ == "__main__":
    main()
