"""Plays one attack with a framework's own driver, and writes what became of it as JSON: `attack_row.py strands`.

The driver is the one in the tests of the framework's plug, so that the same agent meets the same page in all of them.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from lockgate import Gate
from lockgate.testing.plug_suite import ADD, PlugKit

TESTS = Path(__file__).parents[1] / "integrations"


def driver_in(path: Path) -> Any:
    """Return the class in a test module that drives its framework."""
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    (driver,) = (each for name, each in vars(module).items() if name.endswith("Driver") and hasattr(each, "modes"))
    return driver


def row_of(name: str, package: str) -> dict[str, str]:
    """Return the cells of one framework."""
    driver, gate = driver_in(TESTS / f"test_{name}.py"), Gate()
    mode = driver.modes[0]
    cells = {"version": version(package)}
    calm = PlugKit(driver, gate)
    calm.start([ADD], "5", goal="Add 2 and 3", mode=mode)
    cells["ordinary call"] = "runs" if calm.added == [(2, 3)] else "does not run"
    kits = [calm]
    for answer in ("yes", "no"):
        kit = PlugKit(driver, gate)
        kits.append(kit)
        outcome = kit.hijack(mode)
        cells["hijacked call"] = "held" if not kit.sent and outcome.questions else "runs"
        (question,) = outcome.questions
        kit.driver.resume(outcome, [question.yes("ana") if answer == "yes" else question.no("ana")], mode=mode)
        cells[f"after a {answer}"] = {0: "does not run", 1: "runs once"}.get(len(kit.sent), "runs more than once")
    for kit in kits:
        kit.close()
    return cells


if __name__ == "__main__":
    sys.stdout.write(json.dumps(row_of(*sys.argv[1:])) + "\n")
