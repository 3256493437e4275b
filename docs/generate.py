"""Writes the generated reference pages; with --check only says which of them are out of date (exit code 1).

python docs/generate.py [--check]
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterable
from contextlib import chdir, redirect_stdout
from enum import Enum
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import lockgate
from lockgate.cli.check import tree_printer
from lockgate.cli.judge import measured_rows
from lockgate.cli.main import make_parsers
from lockgate.cli.parser import HelpFormatter
from lockgate.cli.reasons import REASON_TEXTS
from lockgate.cli.ruling_tree import SEVERITIES
from lockgate.cli.terminal import make_visible
from lockgate.cli.trace_replay import replay_traces
from lockgate.core.redaction.secrets import KINDS
from lockgate.core.ruling.effects.effect import KINDS as EFFECT_KINDS
from lockgate.core.ruling.effects.effect import Severity
from lockgate.core.ruling.explanations import ENTRIES, CatalogueEntry
from lockgate.core.text.rules import RULESET_VERSION
from lockgate.gate.gate import Gate
from lockgate.runtime.metrics import METRICS
from lockgate.service.http import Caller
from lockgate.service.openapi import Route
from lockgate.service.routes import ROUTES
from lockgate.settings.config import KEYS
from lockgate.settings.keys import Row, as_toml
from lockgate.settings.verifiers import ADAPTERS, VARIABLES
from lockgate.verifiers.embedded_judge import NAMES, describe, shipped_files

REFERENCE = Path(__file__).resolve().parent / "reference"
_NOTE = "<!-- Written by docs/generate.py: change the code, then run `make docs`. -->"
_INTRODUCTION = (
    "everything Tier 1 can name in a finding. Nothing here blocks by itself; it escalates. Patterns are matched "
    "without regard to case, in linear time. What would be invisible is written by its number."
)
_COUNTS_IN = {
    "agent": "the arguments, and any recent untrusted block",
    "related": "the arguments, and a recent untrusted block that the call is related to",
    "arguments": "the arguments only",
    "call": "the call as a whole",
}
_FAMILIES = {
    "override": "Text that wants the agent to drop its task, or to take another.",
    "authority": "Text that claims to speak for a person the agent obeys.",
    "concealment": "Text that asks for something to be kept from the user.",
    "exfiltration": "Text and commands that carry data out.",
    "execution": "Shell and code that runs what an attacker wrote, or destroys data.",
    "credential": "Keys, passwords and where they are kept.",
    "markup": "Delimiters of prompts and chats, where no prompt or chat should be.",
    "tool": "Text that names tools and how to call them.",
    "encoded": "Text hidden from people and readable for an agent.",
    "cap": "Limits of the scanner itself.",
    "mcp": "What the MCP pump finds about a tool itself: see [MCP](../how-to/mcp.md).",
    "plug": "What a plug for an agent framework knows of its own gaps: see [frameworks](../how-to/frameworks.md).",
    "scope": "The border of a declared scope: see [supervision](supervision.md).",
    "step": "Supervised steps: see [supervision](supervision.md).",
    "flow": "Rules of this installation about where text may go: see [flow rules](../how-to/flows.md).",
    "carried": "Text that an agent wrote from untrusted text in an earlier session: see [trust](../how-to/trust.md).",
    "slot": "Values of a call that are others than the user's words give.",
    "observe": "What a ruling would have been: see [observe mode](../how-to/observe.md).",
    "effect": "What a call would do and the goal forbids or does not ask for: see [effects](effects.md).",
    "origin": "Where a call's values came from, and which order asked for them.",
}


def commands_page() -> str:
    parts = ["# Commands", _NOTE, "What `lockgate` and each of its commands print with `--help`."]
    for name, parser in make_parsers().items():
        # One width on every machine; newer versions of Python would also colour.
        parser.formatter_class = lambda prog: HelpFormatter(prog, width=100)
        parser.color = False  # type: ignore[attr-defined]  # since Python 3.14
        parts += [f"## lockgate {name}".rstrip(), _fenced(parser.format_help())]
    return "\n\n".join(parts) + "\n"


def rules_page() -> str:
    families = list(dict.fromkeys(entry.family for entry in ENTRIES))
    parts = [
        "# Rules",
        _NOTE,
        f"Rule set {RULESET_VERSION}: {_INTRODUCTION}",
        "\n".join(f"- [{family}](#{family}): {_FAMILIES[family]}" for family in families),
    ]
    for family in families:
        parts += [f"## {family}", _FAMILIES[family]]
        parts += [_entry_section(entry) for entry in ENTRIES if entry.family == family]
    return "\n\n".join(parts) + "\n"


def configuration_page() -> str:
    """The page as it is, with its list of keys written again."""
    lines: list[str] = []
    for table in dict.fromkeys(row.table for row in KEYS):
        lines += [f"### `[{table}]`", ""]
        for row in KEYS:
            if row.table == table:
                project = f"may change it {row.tightens}" if row.tightens else "may not set it"
                lines += [f"#### `{row.key}`", "", row.doc, ""]
                lines += [f"- Value: {row.allowed}", f"- Default: `{as_toml(row.default)}`"]
                lines += [f"- Project files: {project}", ""]
    return _replace_section(
        (REFERENCE / "configuration.md").read_text(encoding="utf-8"), "keys", "\n".join(lines).rstrip("\n")
    )


def trace_page() -> str:
    """The page as it is, with what its example really gives; times stay as they are, since they differ every time."""
    page = (REFERENCE / "trace.md").read_text(encoding="utf-8")
    example = re.findall(r"^```jsonl\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)[0]
    shown = re.search(r"^```console\n\$ lockgate check (\S+)\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    if shown is None:
        raise SystemExit("docs/reference/trace.md has lost its transcript")
    given = _check_output(shown[1], example)
    return (
        page
        if without_timings(given) == without_timings(shown[2])
        else page[: shown.start(2)] + given + page[shown.end(2) :]
    )


# The names of the contract that Lockgate keeps, for those who know them.
_SEED_METRICS = {
    "lockgate_verifier_requests_total": "verifier.requests_total",
    "lockgate_verifier_latency_seconds": "verifier.latency_ms",
    "lockgate_verifier_errors_total": "verifier.errors_total",
}


def verifiers_page() -> str:
    """The page as it is, with its lists written again."""
    page = (REFERENCE / "verifiers.md").read_text(encoding="utf-8")
    reasons = _table(("reason", "means", "what to do"), [(f"`{name}`", *_reason_cells(name)) for name in REASON_TEXTS])
    variables = _table(
        ("variable", "adapters", "default", "what"), [_variable_cells(each) for each in VARIABLES if not each.secret]
    )
    keys = _table(("key", "adapter", "what"), [_key_cells(each) for each in VARIABLES if each.secret])
    metrics = _table(
        ("metric", "in the contract", "kind", "labels", "counts"),
        [
            (
                f"`{metric.name}`",
                f"`{_SEED_METRICS[metric.name]}`",
                metric.kind,
                ", ".join(f"`{label}`" for label in metric.labels),
                metric.help,
            )
            for metric in METRICS.all
        ],
    )
    labels = {label: values for metric in METRICS.all for label, values in metric.labels.items()}
    listed = "\n".join(f"- `{label}`: {', '.join(f'`{each}`' for each in values)}" for label, values in labels.items())
    kinds = ", ".join(f"`{kind}`" for kind in KINDS)
    for name, text in {
        "reasons": reasons,
        "variables": f"{variables}\n\n{keys}",
        "metrics": f"{metrics}\n\n{listed}",
        "kinds": kinds,
    }.items():
        page = _replace_section(page, name, text)
    return page


def _replace_section(page: str, name: str, text: str) -> str:
    """The page with what stands between the marks of this list written again."""
    begin = re.search(rf"^<!-- {name}: .*? -->\n", page, flags=re.MULTILINE)
    end = page.find(f"<!-- end of {name} -->")
    if begin is None or end < begin.end():
        raise SystemExit(f"the page has lost its list of {name}")
    return f"{page[: begin.end()]}\n{text}\n\n{page[end:]}"


def _reason_cells(name: str) -> tuple[str, str]:
    told = REASON_TEXTS[name]
    return told.meaning, told.advice or "-"


def _variable_cells(variable: Row) -> tuple[str, str, str, str]:
    default = f"`{variable.default}`" if variable.default else "needed" if variable.needed else "-"
    bounds = f" From {variable.least:,} to {variable.most:,}." if variable.most else ""
    return f"`{variable.variable}`", _read_by(variable), default, f"{variable.doc}{bounds}"


def _key_cells(variable: Row) -> tuple[str, str, str]:
    return f"`{variable.variable}`, `{variable.variable}_FILE`", _read_by(variable), variable.doc


def _read_by(variable: Row) -> str:
    if variable.adapters == ADAPTERS:
        return "all"
    return "all but `none` and `embedded`" if len(variable.adapters) > 1 else f"`{variable.adapters[0]}`"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def judge_page() -> str:
    """All that `judge.json` says."""
    parts = ["# The embedded judge in figures", _NOTE, _JUDGE]
    if not _SHIPPED.pin:
        return "\n\n".join([*parts, "This version ships no model."]) + "\n"
    about = describe(_SHIPPED)
    size = sum(size for _, size in about.files.values()) / 1e6
    parts += [f"Model `{about.name}`, made {about.made}, {size:.1f} MB, windows of {about.tokens} tokens."]
    parts += ["\n".join(f"- `{name}`: `sha256:{digest}`" for name, (digest, _) in about.files.items())]
    cells = [
        (row.name, row.size, row.auroc, *(" / ".join(row.presets.get(name, ("-",))) for name in about.presets))
        for row in measured_rows(about)
    ]
    parts += ["## Presets", "Under each preset: the share of attacks that stay suspicious / of ordinary ones cleared."]
    parts += [_table(("measured on", "of", "AUROC", *about.presets), cells)]
    lines = [(name, *(f"{value:+.2f}" for value in line)) for name, line in about.presets.items()]
    parts += ["The lines themselves, as logits:"]
    parts += [_table(("preset", "a call is clear below", "a text is safe below", "a text is unsafe from"), lines)]
    for each in about.measured:
        if each.get("roc"):
            points = [(f"{cleared:.1%}", f"{kept:.1%}") for cleared, kept in each["roc"]]
            parts += [f"## ROC: {each['set']}", _table(("ordinary ones cleared", "attacks kept"), points)]
    for each in about.tables:
        parts += [f"## {each['title']}", *filter(None, [each.get("note")])]
        parts += [_table(tuple(each["columns"]), [tuple(map(str, row)) for row in each["rows"]])]
    weights = [(f"`{name}`", f"{value:+.3f}") for name, value in zip(NAMES, about.weights, strict=True)]
    parts += ["## Weights", "What a call's number is made of; `driven` is divided by four first."]
    parts += [_table(("part", "weight"), [*weights, ("bias", f"{about.bias:+.3f}")])]
    taught = [tuple(str(source.get(part, "")) for part in ("name", "licence", "what")) for source in about.sources]
    parts += ["## Taught with", _table(("source", "licence", "what"), taught)]
    return "\n\n".join(parts) + "\n"


_SHIPPED = shipped_files()
_JUDGE = (
    "What was measured when the model was made. [What it can and cannot see](../explanation/judge.md) says what the "
    "figures mean; `lockgate judge report` prints those of your installation."
)


_EFFECTS = """\
Provenance says where the words of a call came from; effects say what happens when it runs. Tier 1 reads them from the
tool's name, its arguments and, for shells, a parse of the command; `lockgate explain` prints them for any call.

An effect has a kind, a severity, a target (a host, path, package, recipient, account, principal), a certainty (`sure`,
`likely`, `guess`) and the place where it was read. What Lockgate does not know is never harmless: a tool is
`unknown-act`, a program `runs-program`, a text that it cannot read `unreadable`.

A hit has this effect, and a miss does not; a test runs every line. A line is the tool and its arguments."""
_SEVERITIES = {
    Severity.LOOKS: "The call passes.",
    Severity.WORKS_HERE: "The call passes, unless its own arguments carry text that speaks to an agent.",
    Severity.REACHES_OUT: (
        "The call is escalated when untrusted text names the target or orders the act, and neither the user nor the "
        "project names it. Kinds marked *by target* need no order."
    ),
    Severity.OPENS_A_DOOR: (
        "The call is escalated whenever the agent has read untrusted text and the goal does not ask for this."
    ),
}


def effects_page() -> str:
    """Every kind of effect, with a call that has it and one that does not."""
    examples = effect_examples()
    parts = ["# Effects", _NOTE, _EFFECTS]
    for severity, what in _SEVERITIES.items():
        rows = [
            (
                f"`{name}`",
                _escape_markdown(kind.does.replace("`{target}`", "its target"))
                + (" (*by target*)" if kind.by_target else ""),
                _code(examples[name]["hit"]),
                _code(examples[name]["miss"]),
            )
            for name, kind in EFFECT_KINDS.items()
            if kind.severity is severity
        ]
        parts += [f"## {int(severity)}: {SEVERITIES[severity]}", what]
        parts += [_table(("kind", "the call …", "a hit", "a miss"), rows)]
    return "\n\n".join(parts) + "\n"


def effect_examples() -> dict[str, dict[str, str]]:
    """A hit and a miss for each kind of effect, as `docs/effect_examples.txt` lists them."""
    found: dict[str, dict[str, str]] = {}
    kind: dict[str, str] = {}
    for line in (REFERENCE.parent / "effect_examples.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            kind = found[line[1:-1]] = {}
        elif line and not line.startswith("#"):
            name, _, example = line.partition(": ")
            kind[name] = example
    return found


_ROUTES = """\
Every route of `lockgate serve`, with the bodies it takes and gives. [The service](service.md) says who gets in and what
an error looks like; `/openapi.json` on the service has all of it as OpenAPI 3.1.

`{…}` in a path is one part of it, percent-encoded: a session called `a/b` is `/v1/sessions/a%2Fb`. "token" says whose
is needed; a person's can do what an agent's can. In the examples long lists and texts are cut."""
_TOKENS = {Caller.WITHOUT_TOKEN: "none", Caller.AGENT: "agent or person", Caller.PERSON: "person"}


def routes_page() -> str:
    """Every route, with what it takes and gives."""
    lists = json.loads((REFERENCE.parent / "route_examples.json").read_text(encoding="utf-8"))
    examples = {each["route"]: each for each in reversed([*lists["played"], *lists["shown"]])}
    rows = [
        (
            f"`{route.method} {route.path}`",
            _TOKENS[route.who],
            route.summary,
            ", ".join(map(str, sorted(route.statuses))),
        )
        for route in ROUTES
    ]
    parts = ["# Routes", _NOTE, _ROUTES, _table(("route", "token", "", "statuses"), rows)]
    shown: dict[str, str] = {}
    for route in ROUTES:
        if example := examples.get(f"{route.method} {route.path}"):
            parts += _route_section(route, example, shown)
    return "\n\n".join(parts) + "\n"


def _route_section(route: Route, example: dict[str, Any], shown: dict[str, str]) -> Iterable[str]:
    """One route; what another one has shown before is linked to."""
    yield f"## {route.method} {route.path}"
    yield f"{route.summary[0].upper()}{route.summary[1:]}."
    if route.query:
        yield _table(("in the query", ""), [(f"`{each.name}`", _field_text(each.schema)) for each in route.query])
    if route.body and route.body.get("properties"):
        needed = route.body.get("required", ())
        fields = route.body["properties"].items()
        told = [(f"`{name}`", "yes" if name in needed else "", _field_text(each)) for name, each in fields]
        yield _table(("in the body", "needed", ""), told)
    asked = f"{route.method} {example['path']}"
    if example["request"] is not None:
        asked += f"\n\n{json.dumps(_cut(example['request']), indent=2, ensure_ascii=False)}"
    yield _fenced(asked).replace("```text", "```http", 1)
    answers = route.answers if not isinstance(route.answers, str) else {}
    name = answers.get("$ref", "").rpartition("/")[2]
    if name in shown:
        yield f"The answer is like that of [{shown[name]}](#{_anchor(shown[name])})."
        return
    if name:
        shown[name] = f"{route.method} {route.path}"
    yield f"```json\n{json.dumps(_cut(example['answer']), indent=2, ensure_ascii=False)}\n```"


def _anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _field_text(schema: Any) -> str:
    said = _escape_markdown(schema.get("description", ""))
    words = ", ".join(f"`{word}`" for word in schema.get("enum", ()))
    return f"{said}: {words}" if said and words else said or words


def _cut(value: Any) -> Any:
    """A body for reading."""
    if isinstance(value, dict):
        return {name: _cut(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_cut(each) for each in value[:1]] if value and isinstance(value[0], dict) else [*map(_cut, value)]
    return f"{value[:90]}…" if isinstance(value, str) and len(value) > 100 else value


def api_page() -> str:
    """Every public name of the library, from its signature and its docstring."""
    said = "Every name that `lockgate` exports, from its docstring. [The library](library.md) explains them together."
    parts = ["# Names of the library", _NOTE, said]
    for name in sorted(set(lockgate.__all__) - {"__version__"}, key=str.lower):
        parts += [f"## {name}", *_described(name, getattr(lockgate, name))]
    return "\n\n".join(parts) + "\n"


def _described(name: str, found: Any) -> Iterable[str]:
    if isinstance(found, str):
        yield f"A text: {_escape_markdown(found)}"
    elif not inspect.isclass(found):
        doc = inspect.getdoc(found) if inspect.isfunction(found) else ""
        yield f"`{name}{_signature(found)}`" if doc else f"One of {', '.join(map(repr, get_args(found)))}."
        yield from (_paragraphs(doc),) if doc else ()
    else:
        is_made = not issubclass(found, BaseException | Enum) and not getattr(found, "_is_protocol", False)
        yield from (f"`{name}{_signature(found)}`",) if is_made else ()
        yield _paragraphs(found.__dict__["__doc__"])
        members = [f"- `{each.name}`" for each in found] if issubclass(found, Enum) else []
        # With what it inherits from our own classes.
        bases = [base for base in reversed(found.__mro__) if base.__module__.startswith("lockgate.")]
        for key, value in {key: each for base in bases for key, each in vars(base).items()}.items():
            doc = inspect.getdoc(value) if _is_member(key, value) else None
            if doc:
                inner = getattr(value, "__func__", value)
                shown = (
                    ""
                    if isinstance(value, property)
                    else _signature(inner).replace("(self, ", "(").replace("(self)", "()")
                )
                word = "await " if inspect.iscoroutinefunction(inner) else ""
                members.append(f"- `{word}{key}{shown}`: {' '.join(doc.split())}")
        if members:
            yield "\n".join(members)


def _is_member(name: str, value: object) -> bool:
    return not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property | classmethod))


def _paragraphs(doc: str) -> str:
    return inspect.cleandoc(doc)


def _signature(found: Any) -> str:
    """The parameters with their defaults; a default that has no plain spelling is an ellipsis."""
    shown = []
    star = False
    for each in inspect.signature(found).parameters.values():
        if each.kind is each.KEYWORD_ONLY and not star:
            shown.append("*")
            star = True
        star = star or each.kind is each.VAR_POSITIONAL
        prefix = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        plain = repr(each.default) if isinstance(each.default, str | int | float | bool | tuple | None) else "…"
        plain = plain if len(plain) <= 40 and "<" not in plain else "…"
        shown.append(f"{prefix}{each.name}" + ("" if each.default is each.empty else f"={plain}"))
    return f"({', '.join(shown)})".replace("(cls, ", "(").replace("(cls)", "()")


PAGES = {
    "api.md": api_page,
    "cli.md": commands_page,
    "configuration.md": configuration_page,
    "effects.md": effects_page,
    "judge.md": judge_page,
    "routes.md": routes_page,
    "rules.md": rules_page,
    "trace.md": trace_page,
    "verifiers.md": verifiers_page,
}


def stale_pages() -> Iterable[tuple[Path, str]]:
    """The pages that differ from what the code says, with what they should be."""
    for name, make in PAGES.items():
        path, text = REFERENCE / name, make()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            yield path, text


def without_timings(output: str) -> list[str]:
    """Output without what differs between runs."""
    return [line.rstrip() for line in re.sub(r"[\d.]+ (?:µs|ms)", "N µs", output).splitlines()]


def _check_output(name: str, trace: str) -> str:
    """What `lockgate check` prints for a trace where nothing is configured."""
    with TemporaryDirectory() as folder, chdir(folder), redirect_stdout(StringIO()) as out:
        Path(name).write_text(trace, encoding="utf-8")
        show, finish = tree_printer()
        for ruling in replay_traces(Gate(), [name]):
            show(ruling)
        finish()
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def _entry_section(entry: CatalogueEntry) -> str:
    rows = [
        ("counts in", _COUNTS_IN[entry.scope]),
        ("a hit", _code(entry.hit)),
        ("a miss", _code(entry.miss)),
        ("pattern", _code(entry.pattern)),
        ("OWASP", entry.owasp),
    ]
    listed = "\n".join(f"- {name}: {text}" for name, text in rows if text)
    return f"### {entry.id}\n\nWhat: {_escape_markdown(entry.what)}.\nWhy: {_escape_markdown(entry.why)}.\n\n{listed}"


def _escape_markdown(text: str) -> str:
    return re.sub(r"([\\*_<>\[\]#|])", r"\\\1", make_visible(text))


def _code(text: str) -> str:
    """A code span with a fence longer than any run of backticks inside it."""
    if not text:
        return ""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    gap = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{gap}{make_visible(text)}{gap}{fence}"


def _fenced(text: str) -> str:
    return "```text\n" + "\n".join(line.rstrip() for line in text.rstrip().splitlines()) + "\n```"


def main(argv: list[str]) -> int:
    found = list(stale_pages())
    for path, text in found:
        if "--check" in argv:
            print(f"docs/reference/{path.name} is out of date: run `make docs`", file=sys.stderr)
        else:
            path.write_text(text, encoding="utf-8")
            print(f"wrote docs/reference/{path.name}")
    return 1 if found and "--check" in argv else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
