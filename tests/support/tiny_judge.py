"""A judge's three files in small: the model looks a passage's tokens up in a table, and takes the highest numbers."""

from __future__ import annotations

import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from lockgate.verifiers.embedded_judge import INPUTS, NAMES, ModelFiles

_spec = spec_from_file_location("pack", Path(__file__).parents[2] / "training" / "pack.py")
assert _spec is not None
assert _spec.loader is not None
_path = list(sys.path)
_pack = module_from_spec(_spec)
_spec.loader.exec_module(_pack)
sys.path[:] = _path

WORDS = "[PAD] [UNK] [CLS] [SEP] a the to | ( ) [ ] . , = ##s sep pad cl".split()
WORDS += "report send wire ignore maybe summary inbox kneel limerick unchain".split()
# What a token of a passage is worth: to drive a call, as a foreign request, and as a client's attack. All else is worth
# -6 as any of them.
WORTH = {
    "wire": (4.0, 4.0, 4.0),
    "ignore": (6.0, 6.0, 6.0),
    "maybe": (0.0, 0.0, 0.0),
    "kneel": (5.0, -5.0, -5.0),
    "limerick": (-5.0, 5.0, -5.0),
    "unchain": (-5.0, -5.0, 5.0),
}
# Faults: another number of columns than three.
COLUMNS = {"one-column": 1, "two-columns": 2, "four-columns": 4}

ABOUT: dict[str, Any] = {
    "name": "tiny-1",
    "made": "2026-01-31",
    "tokens": 64,
    "case_tokens": 24,
    "names": list(NAMES),
    # The encoder's number counts as it is, before it is scaled; of the facts one, and no other.
    "weights": [4.0, *[1.0 if name == "value-in-order" else 0.0 for name in NAMES[1:]]],
    "bias": 0.0,
    "presets": {
        "cautious": {"clear_below": -5.0, "safe_below": -4.0, "unsafe_from": 3.0},
        "balanced": {"clear_below": -1.0, "safe_below": -1.0, "unsafe_from": 3.0},
        "quiet": {"clear_below": 1.5, "safe_below": 0.5, "unsafe_from": 5.0},
    },
    "suspect_request_from": 2.25,
    "measured": [
        {
            "of": "calls",
            "set": "written for a test",
            "attacks": 10,
            "ordinary": 20,
            "auroc": 0.9,
            "presets": {
                "cautious": {"kept": 1.0, "cleared": 0.25},
                "balanced": {"kept": 0.9, "cleared": 0.5},
                "quiet": {"kept": 0.8, "cleared": 0.75},
            },
            "roc": [[0.25, 1.0], [0.5, 0.9], [0.75, 0.8]],
        }
    ],
    "sources": [{"name": "made-up texts", "licence": "CC0-1.0", "what": "a table of words"}],
}


def tokenizer(words: list[str] = WORDS) -> bytes:
    specials = [word for word in words if word.startswith("[") and len(word) > 1]
    return json.dumps(
        {
            "version": "1.0",
            "truncation": {"max_length": 8, "stride": 0, "strategy": "LongestFirst", "direction": "Right"},
            "padding": None,
            "added_tokens": [
                {
                    "id": words.index(word),
                    "content": word,
                    "single_word": False,
                    "lstrip": False,
                    "rstrip": False,
                    "normalized": False,
                    "special": True,
                }
                for word in specials
            ],
            "normalizer": {
                "type": "BertNormalizer",
                "clean_text": True,
                "handle_chinese_chars": True,
                "strip_accents": None,
                "lowercase": True,
            },
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {
                "type": "BertProcessing",
                "sep": ["[SEP]", words.index("[SEP]") if "[SEP]" in words else 0],
                "cls": ["[CLS]", words.index("[CLS]") if "[CLS]" in words else 0],
            },
            "decoder": None,
            "model": {
                "type": "WordPiece",
                "unk_token": "[UNK]",
                "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 100,
                "vocab": {word: number for number, word in enumerate(words)},
            },
        }
    ).encode()


def model(*, fault: str = "") -> bytes:
    """The look-up table as a graph.

    `fault`: `shape`, `one-column`, `two-columns`, `four-columns`, `old` (one number, as the first format had it),
    `nan-driven`, `nan-foreign`, `nan-request`, `whole-numbers`, `inputs` or `two-outputs`.
    """
    columns = COLUMNS.get(fault, 3)
    table = numpy.full((len(WORDS), columns), -6.0, dtype=numpy.float32)
    for word, worth in WORTH.items():
        table[WORDS.index(word), :3] = worth[:columns]
    odd = numpy.array([[numpy.nan if fault == f"nan-{name}" else 1.0 for name in ("driven", "foreign", "request")]])
    names = ["ids", *INPUTS[1:]] if fault == "inputs" else list(INPUTS)
    low = numpy.full((1,), -100.0, dtype=numpy.float32)
    nodes = [
        helper.make_node("Gather", ["table", names[0]], ["looked"]),
        # Padding is worth nothing at all.
        helper.make_node("Cast", [names[1]], ["there"], to=TensorProto.BOOL),
        helper.make_node("Unsqueeze", ["there", "last"], ["where"]),
        helper.make_node("Where", ["where", "looked", "low"], ["shown"]),
        # Of a case and a passage, the case is worth nothing.
        helper.make_node("Cast", [names[2]], ["kinds"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMax", ["kinds", "one"], ["most"], keepdims=1),
        helper.make_node("Sub", ["kinds", "most"], ["less"]),
        helper.make_node("Mul", ["less", "hundred"], ["lost"]),
        helper.make_node("Unsqueeze", ["lost", "last"], ["taken"]),
        helper.make_node("Add", ["shown", "taken"], ["kept"]),
        helper.make_node("ReduceMax", ["kept", "one"], ["best"], keepdims=int(fault == "shape")),
    ]
    kind = TensorProto.FLOAT
    out, shape = "best", ["batch", 1, columns] if fault == "shape" else ["batch", columns]
    if fault.startswith("nan-"):
        nodes.append(helper.make_node("Mul", ["best", "odd"], ["none"]))
        out = "none"
    if fault == "old":
        nodes.append(helper.make_node("Gather", ["best", "first"], ["flat"], axis=1))
        out, shape = "flat", ["batch"]
    if fault == "whole-numbers":
        nodes.append(helper.make_node("Cast", ["best"], ["whole"], to=TensorProto.INT64))
        kind, out = TensorProto.INT64, "whole"
    outputs = [helper.make_tensor_value_info(out, kind, shape)]
    if fault == "two-outputs":
        outputs.append(helper.make_tensor_value_info("kept", TensorProto.FLOAT, ["batch", "length", columns]))
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in names],
        outputs,
        [
            numpy_helper.from_array(table, "table"),
            numpy_helper.from_array(low, "low"),
            numpy_helper.from_array(-low, "hundred"),
            numpy_helper.from_array(odd.astype(numpy.float32), "odd"),
            numpy_helper.from_array(numpy.array([1], dtype=numpy.int64), "one"),
            numpy_helper.from_array(numpy.array([-1], dtype=numpy.int64), "last"),
            numpy_helper.from_array(numpy.array(0, dtype=numpy.int64), "first"),
        ],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    made.ir_version = 9
    onnx.checker.check_model(made)
    return bytes(made.SerializeToString())


def make(folder: Path, *, fault: str = "", words: list[str] = WORDS, **changes: Any) -> ModelFiles:
    folder.mkdir(exist_ok=True)
    (folder / "judge.onnx").write_bytes(b"no model" if fault == "garbage" else model(fault=fault))
    (folder / "tokenizer.json").write_bytes(b"{}" if fault == "no-tokenizer" else tokenizer(words))
    return ModelFiles(folder, _pack.pack(folder, ABOUT | changes, folder))
