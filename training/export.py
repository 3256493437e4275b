"""Exports what train.py has taught, in whole numbers (int8).

python training/export.py --made FOLDER --base FOLDER
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))

from train import encoder_of

INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def export(model: torch.nn.Module, folder: Path) -> Path:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    plain, small = folder / "plain.onnx", folder / "judge.onnx"
    one = torch.ones(1, 64, dtype=torch.long)
    torch.onnx.export(
        model.float().cpu().eval(),
        (one, one, one),
        str(plain),
        input_names=list(INPUTS),
        output_names=["logits"],
        opset_version=17,
        dynamo=False,
        dynamic_axes={name: {0: "batch", 1: "length"} for name in INPUTS} | {"logits": {0: "batch"}},
    )
    quantize_dynamic(str(plain), str(small), weight_type=QuantType.QInt8)
    plain.unlink()
    return small


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--made", type=Path, required=True, help="the folder that train.py wrote")
    asked.add_argument("--base", type=Path, required=True)
    args = asked.parse_args()
    model = encoder_of(args.base, attention="eager")
    model.load_state_dict(torch.load(args.made / "made.pt"), strict=False)
    export(model, args.made)
    shutil.copyfile(args.base / "tokenizer.json", args.made / "tokenizer.json")


if __name__ == "__main__":
    main()
