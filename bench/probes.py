"""What the abuse gate says of the prompts that the scanner garak sends, by family: `python bench/probes.py VENV`.

VENV is an environment with garak in it (0.17.1 was used). Without its heaviest dependencies (torch, datasets) most
probes still load; those that do not, and those that make their prompts while they run, are listed below the table. Of
each family at most `MOST` prompts are taken, the same ones in every run. The judge is asked if it is installed.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

MOST = 40
# Families that attack the prompt or the rules of an application. The others ask for content that a model should refuse,
# or for facts: a gate in front of an application does not look for these.
ATTACKS = frozenset(
    "adaptive_attacks agent_breaker badchars dan doctor dra encoding exploitation fitd goat goodside grandma "
    "latentinjection promptinject sata smuggling suffix sysprompt_extraction tap web_injection".split()
)
# Pictures and sounds, probes that download what they ask about, and what is no probe.
LEFT_OUT = frozenset("audio base fileformats test topic visual_jailbreak _tier".split())


def export() -> None:
    """Print the prompts of all probes that load, one JSON object a line; run by the environment that has garak."""
    import importlib
    import inspect
    import pkgutil
    from contextlib import redirect_stdout

    with redirect_stdout(sys.stderr):
        import garak._config
        import garak._plugins
        import garak.probes

        garak._config.load_base_config()
        for name in sorted(module.name for module in pkgutil.iter_modules(garak.probes.__path__)):
            if name in LEFT_OUT:
                continue
            try:
                module = importlib.import_module(f"garak.probes.{name}")
            except ImportError:
                print(json.dumps({"family": name}), file=sys.__stdout__)
                continue
            for probe, kind in inspect.getmembers(module, inspect.isclass):
                if kind.__module__ != module.__name__ or not hasattr(kind, "probe"):
                    continue
                try:
                    prompts = garak._plugins.load_plugin(f"probes.{name}.{probe}").prompts
                # Anything may go wrong in another's plug-in; a probe that does not load is listed.
                except Exception:  # noqa: BLE001
                    prompts = []
                texts = [text for text in map(_text_of, prompts) if text]
                print(json.dumps({"family": name, "texts": texts}), file=sys.__stdout__)


def _text_of(prompt: object) -> str:
    """Return what a client would send of a prompt: a text, or the user's turns of a conversation."""
    if isinstance(prompt, str):
        return prompt
    turns = getattr(prompt, "turns", None)
    if turns is None:
        return getattr(prompt, "text", None) or ""
    return "\n\n".join(turn.content.text or "" for turn in turns if turn.role == "user")


def read_prompts(venv: Path) -> dict[str, list[str]]:
    command = [str(venv / "bin" / "python"), str(Path(__file__).resolve()), "--export"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    found: dict[str, dict[str, None]] = {}
    for row in map(json.loads, lines):
        found.setdefault(row["family"], {}).update(dict.fromkeys(row.get("texts", ())))
    return {family: _sample(sorted(texts)) for family, texts in found.items()}


def _sample(texts: list[str]) -> list[str]:
    return random.Random(19).sample(texts, MOST) if len(texts) > MOST else texts


def assess_all(texts_by_family: Mapping[str, list[str]]) -> dict[str, dict[str, Counter[str]]]:
    """Return how often each verdict was given, by family, by the rules alone and with the judge."""
    from lockgate.core.ruling.policy import Policy
    from lockgate.gate.gate import shared_scanner
    from lockgate.runtime.metrics import Metrics
    from lockgate.verifiers.adapters import EmbeddedAdapter, LocalRuleAdapter
    from lockgate.verifiers.embedded_judge import EmbeddedJudge, is_installed

    made = {"scanner": shared_scanner(Policy()), "metrics": Metrics(), "timeout_ms": 120_000}
    adapters = {"rules": LocalRuleAdapter(**made)}
    if is_installed():
        adapters["judge"] = EmbeddedAdapter(EmbeddedJudge(), **made)
    return {
        family: {name: Counter(each.assess({"prompt_text": text}) for text in texts) for name, each in adapters.items()}
        for family, texts in texts_by_family.items()
        if texts
    }


def table_of(found: Mapping[str, Mapping[str, Counter[str]]], families: list[str]) -> list[str]:
    lines = [
        "| family | prompts | refused | suspected | not safe | not safe, with the judge |",
        "|---|---|---|---|---|---|",
    ]
    total = {
        name: sum((found[family].get(name, Counter()) for family in families), Counter()) for name in ("rules", "judge")
    }
    for family, counts in [*((f"`{family}`", found[family]) for family in families), ("**all**", total)]:
        rules, judge = counts["rules"], counts.get("judge") or Counter()
        cells = [family, rules.total(), rules["unsafe"], rules["unclear"], f"{_not_safe(rules):.0f} %"]
        cells.append(f"{_not_safe(judge):.0f} %" if judge else "-")
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def _not_safe(counts: Counter[str]) -> float:
    return 100 * (1 - counts["safe"] / counts.total())


def main(venv: Path) -> None:
    prompts = read_prompts(venv)
    found = assess_all(prompts)
    print(*table_of(found, sorted(found.keys() & ATTACKS)), sep="\n")
    print()
    print(*table_of(found, sorted(found.keys() - ATTACKS)), sep="\n")
    print("\nno prompts:", ", ".join(sorted(family for family, texts in prompts.items() if not texts)))


if __name__ == "__main__":
    export() if sys.argv[1] == "--export" else main(Path(sys.argv[1]))
