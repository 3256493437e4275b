"""stackone-defender over the texts in a file, in an environment of its own: `judge.py` runs this and reads its JSON.

It imports nothing of ours. What a text is given: the number of its model, its risk and the processor time it took.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from time import process_time


def main(file: str) -> None:
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    from stackone_defender.core.prompt_defense import PromptDefense

    texts: list[str] = json.loads(Path(file).read_text(encoding="utf-8"))
    # Its model is half of the comparison: without it there is none.
    defence = PromptDefense(enable_tier2=True, require_tier2=True)
    defence.defend_tool_result({"body": "Please warm up before the first text."}, "read")
    found, began = [], process_time()
    for text in texts:
        said = defence.defend_tool_result({"body": text}, "read")
        # A text in which it finds no sentence worth asking its model about has no number: the lowest.
        found.append((said.tier2_raw_score or 0.0, said.risk_level in ("high", "critical")))
    spent = process_time() - began
    print(json.dumps({"version": version("stackone-defender"), "found": found, "spent_s": spent}))


if __name__ == "__main__":
    main(*sys.argv[1:])
