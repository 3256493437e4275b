"""How a ruling is made. The steps, in the order a reader has to trust them:

1. Context.  No untrusted block in the recent context: CONTINUE, `no-untrusted-content`.
2. Risk.     A low-risk tool: CONTINUE, `low-risk-tool`.
3. Patterns. Rules over the arguments, and over every recent untrusted block in all its readings.
4. Encoding. Hidden readable text in the arguments or in a recent untrusted block.
5. Origins.  Values that an order in untrusted text names, or a tool that it names, and the goal does not.
   Nothing in 3-5: CONTINUE, `no-red-flags`. Anything: the call is escalated; a rule never blocks by itself.
8. No answer. Nobody above Tier 1 answers: the policy's `on_unclear` for the tool's risk, PAUSE when it is high.

Paranoid mode escalates every call, after the same steps have collected what there is to say about it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lockgate.core.context import Context, Noted
from lockgate.core.errors import InvalidCall, printable, quoted
from lockgate.core.origins import Leaf, Lookup, Trace, Wishes
from lockgate.core.policy import Policy
from lockgate.core.rules import Rule, Scope
from lockgate.core.scanner import Scanner
from lockgate.core.tools import tool_risk
from lockgate.core.vocabulary import Action, Decision, Finding, Mode, Origin, Reason, Risk, ToolCall

MAX_DEPTH = 64
MAX_LEAVES = 10_000
_GAP = "\n\n"


@dataclass(frozen=True, slots=True)
class Ask:
    """A call that Tier 1 will not clear, with everything a higher tier needs to rule on it."""

    call: ToolCall
    risk: Risk
    reason: Reason
    findings: tuple[Finding, ...]
    origins: tuple[Origin, ...]


def begin(
    context: Context,
    call: ToolCall,
    policy: Policy,
    scanner: Scanner,
    *,
    annotations: Mapping[str, object] | None = None,
) -> Decision | Ask:
    """Steps 1 to 5: a ruling that Tier 1 can make by itself, or the question for the tiers above."""
    leaves, too_big = _leaves(call.arguments)
    paranoid = policy.mode is Mode.PARANOID
    first = max(0, len(context.blocks) - policy.recent_blocks) if policy.recent_blocks else 0
    risk = tool_risk(call.tool, additional=policy.high_risk_tools, annotations=annotations)
    # 1. Context.
    entries = context.entries
    if not entries or entries[-1].position < first:
        if not paranoid:
            return Decision(Action.CONTINUE, 1, Reason.NO_UNTRUSTED_CONTENT, risk)
    # 2. Risk.
    if risk is Risk.LOW and not paranoid:
        return Decision(Action.CONTINUE, 1, Reason.LOW_RISK_TOOL, risk)
    # 3. and 4., the arguments' part: one pass over all of them.
    patterns, encoded, decoded = _scan_arguments(leaves, scanner, policy, context.wishes)
    if too_big:
        patterns.append(Finding("cap:arguments", "arguments", 0, 0))
    # 5. Origins come before the blocks' patterns because broad rules count only in blocks the call is related to.
    if first:
        entries = [entry for entry in entries if entry.position >= first]
    lookup = Lookup(call.tool, leaves + decoded if decoded else leaves, context.wishes)
    traced = lookup.trace(entries, context.seen_words, context.holders, context.driving)
    if traced.capped:
        patterns.append(Finding("cap:values", "arguments", 0, 0))
    # 3. and 4., the blocks' part.
    if context.alarms or context.encoded or traced.related or policy.strict_patterns:
        for note in (*context.alarms, *context.encoded, *_related(context, traced, policy)):
            if note.position >= first and not (note.phrase and policy.unsafe_disable_phrase_rules):
                (encoded if note.rule.startswith("encoded:") else patterns).append(context.finding(note))
    if not (patterns or encoded or traced.signals or paranoid):
        return Decision(Action.CONTINUE, 1, Reason.NO_RED_FLAGS, risk, "", (), traced.origins)
    reason = (
        Reason.SUSPICIOUS_PATTERN
        if patterns
        else Reason.ENCODED_CONTENT
        if encoded
        else Reason.UNTRUSTED_ORIGIN
        if traced.signals
        else Reason.PARANOID_MODE
    )
    return Ask(call, risk, reason, (*patterns, *encoded, *traced.signals), traced.origins)


def settle(ask: Ask, policy: Policy) -> Decision:
    """Step 8: nobody above Tier 1 has answered."""
    # 8. No answer.
    action = policy.on_unclear(ask.risk)
    return Decision(action, 3, ask.reason, ask.risk, _explain(ask, action), ask.findings, ask.origins)


def _related(context: Context, traced: Trace, policy: Policy) -> list[Noted]:
    """Broad findings in blocks: in the passages this call takes a value from, or all by the letter of the seed."""
    if policy.strict_patterns:
        return [note for notes in context.broad.values() for note in notes]
    found: dict[tuple[str, str], Noted] = {}
    for entry, passage in traced.related:
        for note in context.broad.get(entry.block, ()):
            if (note.block, note.rule) not in found and context.stands_in(note, passage):
                found[note.block, note.rule] = note
    return list(found.values())


def _scan_arguments(
    leaves: list[Leaf], scanner: Scanner, policy: Policy, wishes: Wishes
) -> tuple[list[Finding], list[Finding], list[Leaf]]:
    """Findings in the arguments, encoded content in them, and what decoding them gave."""
    if not leaves:
        return [], [], []
    scan = scanner.look(leaves[0].text if len(leaves) == 1 else _GAP.join([leaf.text for leaf in leaves]))
    patterns: list[Finding] = []
    encoded: list[Finding] = []
    decoded: list[Leaf] = []
    if scan is None:
        return patterns, encoded, decoded
    starts = [0]
    for leaf in leaves:
        starts.append(starts[-1] + len(leaf.text) + len(_GAP))

    def at(offset: int) -> str:
        return leaves[min(bisect_right(starts, offset) - 1, len(leaves) - 1)].argument

    for part in scan.parts:
        for hit in part.hits:
            if hit.rule.phrase and policy.unsafe_disable_phrase_rules:
                continue
            found = scanner.finding(hit, part, "")
            where = at(found.start)
            if hit.rule.scope is Scope.RELATED and not policy.strict_patterns:
                # A rule reports its first hit; when that one says nothing, another one may.
                if all(
                    _expected(hit.rule, excerpt, at(len(part.data[:start].decode("utf-8", "ignore"))), wishes)
                    for start, excerpt in scanner.every(hit.rule, part.data)
                ):
                    continue
            base = starts[bisect_right(starts, found.start) - 1]
            patterns.append(
                Finding(found.rule, where, found.start - base, found.end - base, found.reading, found.excerpt)
            )
        if part.how == "raw":
            continue
        where = at(part.start)
        plain = part.data.decode("utf-8", "replace")
        decoded.append(Leaf(where, plain, part.how))
        if part.encoded:
            base = starts[bisect_right(starts, part.start) - 1]
            encoded.append(
                Finding(f"encoded:{part.how}", where, part.start - base, part.end - base, part.how, plain[:120])
            )
    patterns += [Finding(f"cap:{limit}", "arguments", 0, 0) for limit in scan.capped]
    return patterns, encoded, decoded


def _expected(rule: Rule, excerpt: str, argument: str, wishes: Wishes) -> bool:
    """Whether a broad rule's hit in an argument says nothing: the user said it first, or the argument is named for it.

    A user who asks to change a password gets calls with `password` in them, and a field called `token` holds one.
    """
    if wishes.says(excerpt):
        return True
    return rule.id == "seed:credential-word" and excerpt.lower().replace("-", "_") in argument.lower().replace("-", "_")


def _leaves(arguments: Mapping[str, object]) -> tuple[list[Leaf], bool]:
    """Every value in the arguments as text, and whether there were more or deeper ones than we look at."""
    leaves: list[Leaf] = []
    pending: list[tuple[str, object, int]] = [("", arguments, 0)]
    too_big = False
    opened = 0
    while pending:
        path, value, depth = pending.pop()
        opened += 1
        if depth > MAX_DEPTH or len(leaves) + len(pending) + opened > MAX_LEAVES:
            too_big = True
            continue
        inside: Iterable[tuple[object, object]]
        named = True
        if type(value) is dict or isinstance(value, Mapping):
            inside = value.items()
        elif isinstance(value, list | tuple):
            inside, named = enumerate(value), False
        else:
            raise InvalidCall(
                f"argument {quoted(path)} is a {type(value).__name__}, which JSON cannot hold",
                hint="pass the arguments as the tool will receive them: text, numbers, booleans, lists and objects",
            )
        for key, item in inside:
            if len(leaves) >= MAX_LEAVES:
                too_big = True
                break
            if not named:
                name = f"{path}[{key}]"
            elif not isinstance(key, str):
                raise InvalidCall(f"argument names must be text, not {type(key).__name__}")
            else:
                name = f"{path}.{key[:40]}" if path else key[:40]
                # A name that is not a name may carry text: it is looked at like a value.
                if not key.isidentifier():
                    leaves.append(Leaf(name, key))
            if isinstance(item, str):
                leaves.append(Leaf(name, item))
            elif item is None or isinstance(item, bool):
                continue
            elif isinstance(item, int | float):
                leaves.append(Leaf(name, _digits(item)))
            else:
                pending.append((name, item, depth + 1))
    return leaves, too_big


def _digits(value: int | float) -> str:
    try:
        return repr(value)
    except ValueError:
        # Python refuses to print integers of thousands of digits; so long a number is no value of anybody's.
        return f"{hash(value)}"


def _explain(ask: Ask, action: Action) -> str:
    """Why, in a sentence a person can act on."""
    unasked = {found.where for found in ask.findings if found.rule == "origin:unasked-recipient"}
    telling = (origin for origin in ask.origins if not origin.known and (origin.order or origin.argument in unasked))
    said = [_origin_sentence(origin) for origin in telling][:3]
    for found in ask.findings:
        if len(said) >= 4:
            break
        if found.rule == "origin:tool-in-order":
            where = printable(found.where)
            said.append(f"{where} orders what this tool does, and the goal does not: {quoted(found.excerpt, 120)}")
        elif not found.rule.startswith("origin:"):
            what = f" in {quoted(found.excerpt, 80)}" if found.excerpt else ""
            reading = "" if found.reading == "raw" else f", read as {found.reading}"
            said.append(f"{found.rule} found in {printable(found.where)}{reading}{what}")
    if not said:
        said.append(
            "every call is escalated in paranoid mode" if ask.reason is Reason.PARANOID_MODE else ask.reason.value
        )
    verdict = {
        Action.PAUSE: "no judge has cleared it, so this call pauses",
        Action.REORIENT: "no judge has cleared it, so the agent is asked to reconsider",
        Action.CONTINUE: "no judge has cleared it; the policy lets it continue",
    }[action]
    return "; ".join([*dict.fromkeys(said), verdict])


def _origin_sentence(origin: Origin) -> str:
    where = f"{printable(origin.block)} ({printable(origin.source)})"
    how = f"in a sentence that gives orders ({quoted(origin.order, 120)}), and" if origin.order else "and"
    return f"{quoted(origin.argument)} = {quoted(origin.value)} comes from {where}, {how} not from the goal"
