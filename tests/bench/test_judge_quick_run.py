"""A quick run of the bench measures the shipped judge; with the hosts, since that needs its engine."""

from __future__ import annotations

import json

import pytest

import run
from lockgate import Gate
from lockgate.verifiers.embedded_judge import is_installed, shipped_files
from tables import BOUNDS

# Before the tests take the model away.
SHIPPED = shipped_files()


@pytest.fixture(scope="module")
def figures(gate: Gate, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    out = tmp_path_factory.mktemp("bench") / "figures.json"
    assert run.main(["--quick", "--only=judge", "--json", str(out)], gate) == 0
    return json.loads(out.read_text(encoding="utf-8"))


@pytest.mark.skipif(not is_installed(SHIPPED), reason="this checkout has no model, or not the packages for it")
def test_a_quick_run_makes_the_judges_tables_with_all_their_columns(figures: dict[str, object]) -> None:
    made = {table["title"].partition(". ")[0] for table in figures["tables"]}
    assert made == {f"Judge {number}" for number in (1, 2, 3, 4)}
    for table in figures["tables"]:
        assert table["rows"], table["title"]
        assert all(set(row["cells"]) == set(table["columns"]) for row in table["rows"]), table["title"]
    used = {check["bound"] for table in figures["tables"] for row in table["rows"] for check in row["checks"]}
    # Shares of attacks are held against a bound in trace files only.
    assert used >= {name for name in BOUNDS if name.startswith("judge,")} - {"judge, kept", "judge, cleared"}
