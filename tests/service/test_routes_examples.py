"""The bodies in docs/reference/routes.md are bodies that the service takes and gives.

`docs/route_examples.json` has two lists. `played` is one conversation: each request is sent to a real service, and its
answer must look like the one that is shown. `shown` are routes that need more than a service: their bodies are held
against the schemas only. A new route needs an entry in one of them. Then `LOCKGATE_WRITE_GOLDEN=1` writes the answers
of the first list, and `python docs/generate.py` writes the page.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from asking import BY_NAME, Asking

from lockgate.service.schemas import find_misfit
from lockgate.verifiers.adapters import LocalRuleAdapter

FILE = Path(__file__).resolve().parents[2] / "docs" / "route_examples.json"
EXAMPLES: dict[str, list[dict[str, Any]]] = json.loads(FILE.read_text(encoding="utf-8"))
LISTED = 2
TEXT = 600


def test_every_route_with_json_has_an_example() -> None:
    asked = {each["route"] for examples in EXAMPLES.values() for each in examples}
    wanted = {name for name, route in BY_NAME.items() if not isinstance(route.answers, str)} - {"GET /openapi.json"}
    assert asked == wanted, "the beginning of this file says how to add one"


@pytest.mark.parametrize(
    "example", [*EXAMPLES["played"], *EXAMPLES["shown"]], ids=lambda example: example["path"].replace("/", " ")
)
def test_an_example_fits_the_schema_of_its_route(example: dict[str, Any]) -> None:
    route = BY_NAME[example["route"]]
    pattern = re.sub(r"{\w+}", "[^/?]+", route.path)
    assert re.fullmatch(rf"{pattern}(\?.*)?", example["path"])
    assert (route.body is None) is (example["request"] is None)
    if route.body is not None:
        assert find_misfit(example["request"], route.body) == ""
    assert find_misfit(example["answer"], route.answers) == ""  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _no_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rulings of the examples are those of the rules alone, wherever the extras are installed."""
    monkeypatch.setattr("lockgate.verifiers.embedded_model.PIN", "")
    monkeypatch.setenv("HOME", str(tmp_path))


def test_the_service_answers_like_the_examples(make: Callable[..., Asking]) -> None:
    ask = make(adapter=LocalRuleAdapter())
    real: dict[str, str] = {}
    for example in EXAMPLES["played"]:
        method = example["route"].partition(" ")[0]
        request = replace_texts(example["request"], real)
        reply = ask(method, replace_texts(example["path"], real), request)
        assert reply.status == 200, (example["path"], reply.body)
        answer = shorten(reply.json)
        real |= {old: new for old, new in pairs(example["answer"], answer) if old != new and is_id(old) and is_id(new)}
        if os.environ.get("LOCKGATE_WRITE_GOLDEN") == "1":
            example["answer"] = replace_texts(answer, {new: old for old, new in real.items()})
        assert shape(example["answer"]) == shape(answer), example["path"]
    if os.environ.get("LOCKGATE_WRITE_GOLDEN") == "1":
        FILE.write_text(json.dumps(EXAMPLES, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def is_id(text: str) -> bool:
    # A rule's id is the same in every run; another rule in its place is another answer.
    return re.fullmatch(r"(?!(?:effect|origin|slot):)[\w:/-]{8,}", text) is not None


def shorten(value: Any) -> Any:
    """An answer with the beginning of its lists and texts."""
    if isinstance(value, dict):
        return {name: shorten(each) for name, each in value.items()}
    if isinstance(value, list):
        return [shorten(each) for each in value[:LISTED]]
    return value[:TEXT] if isinstance(value, str) else value


def shape(value: Any) -> Any:
    """What must not differ: keys, types, the first of a list, and the ruling."""
    if isinstance(value, dict):
        return {name: each if name in ("action", "state") else shape(each) for name, each in value.items()}
    if isinstance(value, list):
        return [shape(each) for each in value[:1]]
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def pairs(old: Any, new: Any) -> Iterator[tuple[str, str]]:
    """The texts that stand in the same places of two answers."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in old.keys() & new.keys():
            yield from pairs(old[name], new[name])
    elif isinstance(old, list) and isinstance(new, list):
        for left, right in zip(old, new, strict=False):
            yield from pairs(left, right)
    elif isinstance(old, str) and isinstance(new, str):
        yield old, new


def replace_texts(value: Any, known: dict[str, str]) -> Any:
    """A body or path of an example with the ids of this run."""
    if isinstance(value, dict):
        return {name: replace_texts(each, known) for name, each in value.items()}
    if isinstance(value, list):
        return [replace_texts(each, known) for each in value]
    if not isinstance(value, str):
        return value
    return "/".join(known.get(part, part) for part in value.split("/")) if "/v1/" in value else known.get(value, value)
