"""The judge's tables: figures that can be wrong are right, and where there is no model they say so."""

from __future__ import annotations

import gzip
import json
import math
import sys
import tomllib
from pathlib import Path

import detection
import judge
from lockgate import Gate
from lockgate.core.text.scanner import Scanner

BENCH = Path(judge.__file__).parent


def test_ranks_count_ties_half_and_need_both_kinds() -> None:
    assert judge.auroc([(2.0, True), (1.0, False)]) == 1.0
    assert judge.auroc([(1.0, True), (2.0, False)]) == 0.0
    assert judge.auroc([(1.0, True), (1.0, False), (0.0, False)]) == 0.75
    assert math.isnan(judge.auroc([(1.0, True)]))


def test_on_the_line_is_not_clear() -> None:
    found = [(0.0, True), (-1.0, True), (0.0, False), (-1.0, False), (-2.0, False)]
    assert judge.kept_and_cleared(found, 0.0) == (0.5, 2 / 3)


def test_the_calls_that_are_asked_about_are_those_that_were_escalated_and_are_known(scanner: Scanner) -> None:
    runs = detection.corpus(BENCH / "corpus")["office"]
    asked = list(judge.escalated(Gate(scanner=scanner), runs))
    assert {attack for _, attack in asked} == {True, False}
    assert len(asked) < sum(len(run.events) for run in runs)


def test_without_a_model_there_is_one_line_that_says_so(scanner: Scanner) -> None:
    # tests/conftest.py hides the shipped one.
    (table,) = judge.tables_of(Gate(scanner=scanner), {}, {}, [], every=12, tick=lambda _text: None)
    assert [row.cells for row in table.rows] == [{"why": "the embedded judge's model is not in this installation"}]


def test_no_text_stands_in_the_training_data_and_none_twice() -> None:
    ordinary = tomllib.loads((BENCH / "hard_negatives.toml").read_text(encoding="utf-8"))
    attacks = tomllib.loads((BENCH / "judge_attacks.toml").read_text(encoding="utf-8"))
    texts = [text.strip() for listed in ordinary.values() for text in listed] + attacks["english"]
    assert len(texts) == len(set(texts)) >= 70
    banks = "\n".join(
        path.read_text(encoding="utf-8") for path in (BENCH.parent / "training" / "banks").rglob("*.toml")
    )
    assert not [text for text in texts if text[:60] in banks]


# --- whole texts, against another classifier


def lines(path: Path, rows: list[tuple[str, str]]) -> Path:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": text, "label": label, "source": "here"}) + "\n" for text, label in rows)
    return path


def test_texts_are_sorted_into_sets_and_one_pool(tmp_path: Path) -> None:
    file = lines(tmp_path / "mail.jsonl.gz", [("drop it all", "injection"), ("x" * 41, "benign"), ("short", "benign")])
    source = tmp_path / "ordinary.py"
    source.write_text("value = 1\n" * 300)
    trace = BENCH / "corpus" / "office.jsonl"
    found = judge.texts_of([file, trace], [source])
    assert found.injected["mail"] == ["drop it all"]
    assert found.ordinary["mail"] == ["x" * 41]
    assert found.ordinary["source files"] == ["value = 1\n" * 300]
    assert len(found.ordinary["office"]) <= judge.ORDINARY_SAMPLE
    assert found.ordinary["hard negatives"]
    assert found == judge.texts_of([file, trace], [source])


def test_both_are_held_against_the_same_texts() -> None:
    texts = judge.Texts({"a": ["one", "two"]}, {"pool": ["three", "four"]})
    good = judge.Heard("this judge", [(2.0, True), (1.0, True), (0.0, False), (-1.0, False)], 0.5)
    bad = judge.Heard("other 1.0", [(0.0, False), (0.0, False), (0.0, True), (1.0, True)], 5.0)
    ranks, cost = judge.compared(texts, [good, bad])
    assert ranks.rows[0].cells == {"set": "a", "texts": "2", "this judge": "1.000", "other 1.0": "0.250"}
    assert "ahead on 1 of 1 sets" in ranks.note
    assert cost.rows[1].cells == {
        "what": "flagged of 2 ordinary ones: pool",
        "this judge": "0.0%",
        "other 1.0": "100.0%",
    }


def test_without_the_other_one_there_is_one_line_that_says_why(tmp_path: Path) -> None:
    assert str(judge.theirs(tmp_path, ["x"])).startswith("no Python at ")
    empty = tmp_path / "bin" / "python"
    empty.parent.mkdir()
    empty.symlink_to(sys.executable)
    # In isolated mode and without this environment's packages it finds nothing of the kind.
    said = str(judge.theirs(tmp_path, ["x"]))
    assert said.startswith("stackone-defender cannot be used there: ")
