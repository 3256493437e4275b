"""Puts a trained judge where the package ships it, and pins it.

    python training/pack.py --from FOLDER --about about.json [--to src/lockgate/verifiers/embedded_model]

FOLDER holds `judge.onnx` and `tokenizer.json`. `about.json` is `judge.json` without `format` and `files`: those are filled
in here, from the files themselves. What comes out has been read back and found in order.

    name      of the model, a short word with its version; rulings name it as `embedded/NAME-PRESET`
    made      the day, as 2026-01-31
    tokens    the longest window, special tokens included, and `case_tokens` of the case beside it
    names     "driven" and the facts, in the order of the weights
    weights   one for each name; `driven` is the highest of all windows, held between -8 and 8, through 4
    bias
    presets   cautious, balanced, quiet, each with three logits: `clear_below` (calls; must not fall from one preset to
              the next), `safe_below` and `unsafe_from` (whole texts, by `foreign` alone)
    suspect_request_from  the logit `request` from which on a client's request is suspected
    measured  for people, a list: `of` ("calls" or "texts"), `set`, `attacks` and `ordinary` (counts), `auroc`, `presets`
              ({"balanced": {"kept": share of attacks, "cleared": share of ordinary ones}, ...}), and, if wanted, `roc`
              (pairs of cleared, kept)
    sources   for people, a list: `name`, `licence`, `what`
    tables    for people, a list: `title`, `note`, `columns`, `rows`; the page of figures prints them as they are

The model takes `input_ids`, `attention_mask` and `token_type_ids` (int64, 1 by a multiple of 8) and gives three
logits: driven, foreign and request.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from lockgate.verifiers.embedded_judge import FORMAT, ModelFiles, verify  # noqa: E402

FILES = ("judge.onnx", "tokenizer.json")


def pack(source: Path, about: dict[str, object], target: Path) -> str:
    """The pin: the hash of the `judge.json` that was written. A target with an `__init__.py` gets it there as well."""
    made: dict[str, object] = {"format": FORMAT, **about, "files": {}}
    for name in FILES:
        if source.resolve() != target.resolve():
            shutil.copyfile(source / name, target / name)
        data = (target / name).read_bytes()
        made["files"][name] = {"sha256": sha256(data).hexdigest(), "bytes": len(data)}  # type: ignore[index]
    data = (json.dumps(made, indent=1, ensure_ascii=False) + "\n").encode()
    (target / "judge.json").write_bytes(data)
    pin = sha256(data).hexdigest()
    package = target / "__init__.py"
    if package.exists():
        text, count = re.subn(r'^PIN = "[0-9a-f]*"$', f'PIN = "{pin}"', package.read_text(encoding="utf-8"), flags=re.M)
        if count != 1:
            raise SystemExit(f"{package.name} has no line for the pin")
        package.write_text(text, encoding="utf-8")
    return pin


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--from", dest="source", type=Path, required=True)
    asked.add_argument("--about", type=Path, required=True)
    asked.add_argument(
        "--to", dest="target", type=Path, default=ROOT / "src" / "lockgate" / "verifiers" / "embedded_model"
    )
    args = asked.parse_args()
    pin = pack(args.source, json.loads(args.about.read_text(encoding="utf-8")), args.target)
    found = verify(ModelFiles(args.target, pin))
    print(f"{found.name}: {sum(size for _, size in found.files.values()):,} bytes, pinned as {pin}")


if __name__ == "__main__":
    main()
