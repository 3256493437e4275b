"""`audit`: a pure function over Arrow batches, however the sessions are spread over them."""

from __future__ import annotations

from typing import Any

import pytest
from paths import ROOT
from recorded_traces import session_lines

from lockgate import Gate
from lockgate.bulk import audit
from lockgate.core.errors import LockgateError

pyarrow: Any = pytest.importorskip("pyarrow")


def batch_of(*traces: object) -> Any:
    names = [f"s{at}" for at in range(len(traces))]
    return pyarrow.table({"session": names, "trace": pyarrow.array(traces, pyarrow.string())})


def test_a_row_for_every_call() -> None:
    rows = audit(batch_of("\n".join(session_lines(7)), "\n".join(session_lines(8)))).to_pylist()
    assert [(row["session"], row["call"], row["action"]) for row in rows] == [
        ("s0#1", 1, "CONTINUE"),
        ("s0#1", 2, "CONTINUE"),
        ("s0#1", 3, "PAUSE"),
        ("s1#1", 1, "CONTINUE"),
        ("s1#1", 2, "CONTINUE"),
        ("s1#1", 3, "CONTINUE"),
    ]


def test_the_result_does_not_depend_on_the_batches_or_their_order() -> None:
    gate = Gate()
    whole = batch_of(*("\n".join(session_lines(number)) for number in range(15)))
    parts = [audit(batch, gate) for batch in whole.to_batches(max_chunksize=4)]
    joined = pyarrow.concat_tables(reversed(parts)).sort_by([("session", "ascending"), ("call", "ascending")])
    assert joined == audit(whole, gate).sort_by([("session", "ascending"), ("call", "ascending")])


def test_what_cannot_be_read_is_a_row_with_an_error_and_the_rest_is_ruled_on() -> None:
    broken = "\n".join([*session_lines(1), "nonsense"])
    rows = audit(batch_of(broken, None, "", "\n".join(session_lines(2)))).to_pylist()
    errors = {row["file"]: row["error"] for row in rows if row["error"]}
    assert errors.keys() == {"s0", "s1", "s2"}
    assert errors["s0"].startswith("line 6: ")
    assert sum(row["file"] == "s0" for row in rows) == 4
    assert sum(row["file"] == "s3" for row in rows) == 3


def test_a_missing_column_is_an_error_with_a_hint() -> None:
    with pytest.raises(LockgateError, match="no column `trace`"):
        audit(pyarrow.table({"session": ["a"]}))


@pytest.mark.parametrize("names", [[1, 2], ["a", None], [None, None], [["a"], ["b"]]])
def test_a_session_whose_name_is_no_text_is_an_error(names: list[object]) -> None:
    trace = "\n".join(session_lines(1))
    with pytest.raises(LockgateError, match="column `session` holds a name that is no text"):
        audit(pyarrow.table({"session": names, "trace": [trace, trace]}))


def test_bytes_that_are_no_text_are_a_row_with_an_error() -> None:
    good = "\n".join(session_lines(1, 1)).encode()
    traces = pyarrow.array([good, b"\xff\xfe", good + b"\n\xff"], pyarrow.binary())
    # As another writer may have left them: declared as text, and none.
    for given in (traces, traces.view(pyarrow.string()), traces.view(pyarrow.string()).dictionary_encode()):
        rows = audit(pyarrow.table({"session": traces.view(pyarrow.string()), "trace": given})).to_pylist()
        assert [row["action"] or row["error"][:23] for row in rows] == [
            "CONTINUE",
            "line 1: byte 1 (0xff) i",
            "CONTINUE",
            "line 4: byte 1 (0xff) i",
        ]


def test_a_column_that_stands_twice_is_an_error() -> None:
    twice = pyarrow.Table.from_arrays([pyarrow.array(["a"])] * 3, names=["session", "session", "trace"])
    with pytest.raises(LockgateError, match="several columns `session`"):
        audit(twice)


def test_the_program_on_the_page_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "how-to" / "bulk.md").read_text(encoding="utf-8")
    exec(page.partition("```python\n")[2].partition("```")[0], {})
    assert capsys.readouterr().out == "['PAUSE']\n"
