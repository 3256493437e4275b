"""The pages about the abuse gate say what it does."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from lockgate.abuse_settings import VARIABLES, Variable
from lockgate.ingress.abuse_gate import MAX_HELD_BYTES, AbuseGateMiddleware
from lockgate.ingress.answers import ANSWERS, DECISIONS, MODES
from lockgate.ingress.payload import REFUSALS
from lockgate.metrics import METRICS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "reference" / "abuse-gate.md").read_text(encoding="utf-8")


def row(variable: Variable) -> str:
    bounds = f" From {variable.least:,} to {variable.most:,.0f}." if variable.most else ""
    key = "-" if variable.secret else f"`{variable.key}`"
    default = f"`{variable.default}`" if variable.default else "-"
    return f"| `{variable.name}` | {key} | {default} | {variable.doc}{bounds} |"


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda variable: variable.name)
def test_every_setting_is_on_the_page_as_it_is(variable: Variable) -> None:
    assert row(variable) in PAGE


def test_every_answer_is_on_the_page_as_it_is() -> None:
    for code, told in ANSWERS.items():
        assert f"| `{code}` | {told.status} | {told.message} |" in PAGE
    assert all(f"`{code}`" in PAGE for code in REFUSALS)


def test_every_header_value_argument_and_metric_is_on_the_page() -> None:
    assert all(f"`{value}`" in PAGE for value in (*DECISIONS, *MODES))
    arguments = [name for name in inspect.signature(AbuseGateMiddleware).parameters if name != "app"]
    assert all(f"| `{name}` |" in PAGE for name in arguments)
    for metric in METRICS.gate:
        (label,) = metric.labels
        assert f"| `{metric.name}` | {metric.kind} | `{label}` | {metric.help} |" in PAGE
        assert f"- `{label}`: {', '.join(f'`{value}`' for value in metric.labels[label])}" in PAGE
    assert f"{MAX_HELD_BYTES >> 20} MiB together" in PAGE


@pytest.mark.parametrize("name", ["reference/abuse-gate.md", "how-to/fastapi.md"])
def test_the_python_on_the_pages_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lockgate import assemble
    from lockgate.core.policy import Policy
    from lockgate.gate import shared_scanner

    for variable, folder in (("HOME", ""), ("XDG_CONFIG_HOME", "c"), ("XDG_CACHE_HOME", "k"), ("XDG_STATE_HOME", "s")):
        monkeypatch.setenv(variable, str(tmp_path / folder))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(assemble, "cached_scanner", lambda rules, folder: shared_scanner(Policy()))
    text = (DOCS / name).read_text(encoding="utf-8")
    examples = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    assert examples
    for example in examples:
        exec(compile(example, name, "exec"), {"__name__": "__main__"})
