"""The pages about the abuse gate say what it does."""

from __future__ import annotations

import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from lockgate.abuse_gate.body_pool import MAX_HELD_BYTES
from lockgate.abuse_gate.middleware import AbuseGateMiddleware
from lockgate.abuse_gate.request.payload_from_body import REFUSALS
from lockgate.abuse_gate.responses import ANSWERS, DECISIONS, MODES
from lockgate.runtime.metrics import METRICS
from lockgate.settings.abuse_gate import VARIABLES
from lockgate.settings.keys import Row

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "reference" / "abuse-gate.md").read_text(encoding="utf-8")


def row(variable: Row) -> str:
    bounds = f" From {variable.least:,} to {variable.most:,.0f}." if variable.most else ""
    key = "-" if variable.secret else f"`{variable.name}`"
    default = f"`{variable.default}`" if variable.default else "-"
    return f"| `{variable.variable}` | {key} | {default} | {variable.doc}{bounds} |"


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda variable: variable.variable)
def test_every_setting_is_on_the_page_as_it_is(variable: Row) -> None:
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
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        assert f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |" in PAGE
        for label, values in metric.labels.items():
            # The tenants are the operator's own.
            listed = f"- `{label}`: {', '.join(f'`{value}`' for value in values)}"
            assert (listed if label != "tenant" else "- `tenant`: the names in `ABUSE_TENANTS`, `other`") in PAGE
    assert f"{MAX_HELD_BYTES >> 20} MiB together" in PAGE


@pytest.mark.parametrize("name", ["reference/abuse-gate.md", "how-to/fastapi.md"])
def test_the_python_on_the_pages_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lockgate import assemble
    from lockgate.core.ruling.policy import Policy
    from lockgate.gate.gate import shared_scanner

    for variable, folder in (("HOME", ""), ("XDG_CONFIG_HOME", "c"), ("XDG_CACHE_HOME", "k"), ("XDG_STATE_HOME", "s")):
        monkeypatch.setenv(variable, str(tmp_path / folder))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(assemble, "cached_scanner", lambda rules, folder: shared_scanner(Policy()))
    text = (DOCS / name).read_text(encoding="utf-8")
    examples = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    assert examples
    for example in examples:
        exec(compile(example, name, "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_the_page_s_authentication_says_who_asks_whatever_is_asked_for(kind: str) -> None:
    """An anonymous websocket passes where one of a banned client would not."""
    text = (DOCS / "how-to" / "fastapi.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(class Authentication.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    made: dict[str, Any] = {}
    exec(compile(example, "fastapi.md", "exec"), made)
    seen: list[Any] = []

    async def app(scope: Any, _: object, __: object) -> None:
        seen.append(scope["state"]["principal"])

    asyncio.run(made["Authentication"](app)({"type": kind}, None, None))
    assert len(seen) == 1


@pytest.mark.parametrize(
    "page", ["docs/how-to/fastapi.md", "docs/reference/abuse-gate.md", "README.md", "examples/fastapi_app.py"]
)
def test_a_reader_who_follows_a_page_gets_a_gate_that_reads_pdf_files(page: str) -> None:
    assert "pip install 'lockgate[api]'" in (DOCS.parent / page).read_text(encoding="utf-8")
