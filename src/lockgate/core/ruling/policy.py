"""Policy: everything that may change a ruling, as one validated value with a hash."""

# ruff: noqa: RUF009  # what `_checked` makes is a dataclass field, and no default that policies share

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from functools import cached_property, partial
from operator import add, and_, or_
from typing import Any

from lockgate.core.errors import InvalidConfig, has_half_pair, quoted
from lockgate.core.vocabulary import WOULD_BE, Action, Decision, Finding, Mode, Reason, Risk, Trust

# A policy file may come with a repository: these and `core/text/rules.py` bound what compiling its patterns can cost.
MAX_PATTERNS, MAX_PATTERN_LENGTH = 500, 1_000
MAX_WINDOW, MAX_ATTEMPTS, MAX_SCOPE_LENGTH, MAX_MODEL_LENGTH = 1_000_000, 100, 4_000, 200
# The embedded judge's thresholds by name, the most cautious first.
PRESETS = ("cautious", "balanced", "quiet")
# Which calls are asked about (`decide.py`): a project's file may only set `wide`.
ESCALATE = ("narrow", "auto", "wide")


# The checks of values. What they import is for installations that set such a value: only these pay for it.


def _choice(choices: Iterable[object], value: object, name: str) -> object:
    for member in choices:
        words = (member.value, member.name.lower()) if isinstance(member, Enum) else (member,)
        if value is member or (isinstance(value, str) and value in words):
            return member
    known = ", ".join(member.word if isinstance(member, Trust) else str(member) for member in choices)
    raise InvalidConfig(f"unknown {name} {quoted(value)}", hint=f"use one of: {known}")


def _flag(value: object, name: str) -> object:
    if not isinstance(value, bool):
        raise InvalidConfig(f"{name} must be true or false")
    return value


def _whole_number(most: int, value: object, name: str) -> object:
    # True is an int to Python; an operator who wrote `true` did not mean a window of one block.
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise InvalidConfig(f"{name} must be a whole number from 0 to {most:,}")
    return value


def _text(most: int, value: object, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidConfig(f"{name} must be text, not {type(value).__name__}")
    if len(value) > most:
        raise InvalidConfig(f"{name} has {len(value):,} characters, the limit is {most:,}")
    return value.strip()


def _model(value: object, name: str) -> str:
    model = _text(MAX_MODEL_LENGTH, value, name)
    if not model.isprintable():
        raise InvalidConfig(f"{name} {quoted(model)} has characters that no model's name has")
    return model


def _scope(value: object, name: str) -> str:
    scope = _text(MAX_SCOPE_LENGTH, value, name)
    if scope:
        from lockgate.core.ruling.scope.border import border_from_scope

        border_from_scope(scope)
    return scope


def _texts(values: object, name: str) -> tuple[str, ...]:
    # A single text is iterable as well, and would become one pattern per letter.
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidConfig(f"{name} must be a list of texts")
    items = tuple(values)
    for item in items:
        if not isinstance(item, str):
            raise InvalidConfig(f"{name} must hold texts, not {type(item).__name__}")
    return items


def _patterns(values: object, name: str) -> tuple[str, ...]:
    patterns = tuple(sorted(set(_texts(values, name))))
    if len(patterns) > MAX_PATTERNS:
        hint = "join patterns that belong together with |"
        raise InvalidConfig(f"{len(patterns):,} additional patterns, the limit is {MAX_PATTERNS}", hint=hint)
    for pattern in patterns:
        what, size = f"pattern {quoted(pattern)}", len(pattern)
        limit = f"{what} has {size:,} characters, the limit is {MAX_PATTERN_LENGTH:,}"
        for is_wrong, fault, hint in (
            (not pattern.strip(), "an empty pattern would match everything", "remove it"),
            (size > MAX_PATTERN_LENGTH, limit, "split it into several patterns"),
            # The engine reads a pattern up to its first NUL: what follows would silently not be looked for.
            ("\0" in pattern, f"{what} holds a NUL character", r"write it as \x00"),
            (has_half_pair(pattern), f"{what} holds half a surrogate pair, which is no character", ""),
        ):
            if is_wrong:
                raise InvalidConfig(fault, hint=hint)
    if patterns:
        # Imported here: only installations with patterns of their own pay for it.
        from lockgate.core.text.rules import check_budget

        check_budget(patterns)
    return patterns


def _rows(values: object, name: str) -> tuple[str, ...]:
    rows = tuple(sorted(set(_texts(values, name))))
    if rows:
        from lockgate.core.ruling import flow_rules
        from lockgate.core.ruling.effects.operator_rows import check_row

        if len(rows) > flow_rules.MAX_ROWS:
            raise InvalidConfig(f"{len(rows):,} {name}, the limit is {flow_rules.MAX_ROWS}")
        checks: dict[str, Callable[[str], object]] = {"flows": flow_rules.parse_flow, "labels": flow_rules.parse_label}
        for row in rows:
            checks.get(name, check_row)(row)
    return rows


def _tool_names(values: object, name: str) -> tuple[str, ...]:
    # Letter case stays: `tool_risk` reads the words of `sendEmail` from it, and folds both sides itself.
    tools = tuple(sorted({tool.strip() for tool in _texts(values, name)}))
    if "" in tools:
        raise InvalidConfig(f"an empty tool name in {name}", hint="remove it")
    return tools


# What the operator's own places look like, each with an example. None is written with a port, a login or a star.
_HOST = r"(?:[a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}"
_OWN = {
    "own_hosts": (rf"{_HOST}|[0-9a-f:]{{2,39}}", "build.our.example"),
    "own_domains": (rf"(?:[a-z0-9_-]{{1,63}}\.)+{_HOST}", "our.example"),
    "own_addresses": (rf"[^\s@]{{1,64}}@{_HOST}", "ops@our.example"),
    "own_registries": (rf"{_HOST}(?:/[\w./-]{{1,100}})?", "registry.our.example"),
    "own_accounts": (r"[^\s@/]{4,100}", "DE89 3704 0044 0532 0130 00"),
}


def _fold_own(text: str, name: str) -> str:
    return (re.sub(r"[\s-]", "", text) if name == "own_accounts" else text.strip()).lower()


def _own(values: object, name: str) -> tuple[str, ...]:
    entries = tuple(sorted({_fold_own(text, name) for text in _texts(values, name)}))
    pattern, example = _OWN[name]
    if len(entries) > MAX_PATTERNS:
        raise InvalidConfig(f"{len(entries):,} entries of {name}, the limit is {MAX_PATTERNS}")
    for entry in entries:
        if len(entry) > 253 or not re.fullmatch(pattern, entry):
            raise InvalidConfig(f"{quoted(entry)} is no entry of {name}", hint=f"write it like `{example}`")
        if name == "own_domains":
            from lockgate.core.ruling.targets import is_shared

            if is_shared(entry.encode()):
                fault = f"{quoted(entry)} is no domain of your own: anyone can have a host there"
                raise InvalidConfig(fault, hint="name your own hosts there under `hosts`")
    return entries


# The stricter of two values


def _last_of(*order: object) -> Callable[[object, object], object]:
    return lambda a, b: max(a, b, key=order.index)


def _in_both(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(entry for entry in a if entry in b)


def _both_scopes(a: str, b: str) -> str:
    if b in ("", a):
        return a
    from lockgate.core.ruling.scope.border import combine_scopes

    return combine_scopes(a, b)


def _checked(default: object, check: Callable[..., object], strictest: Callable[[Any, Any], object]) -> Any:
    """Return a field of the policy with how a value is checked, and which of two is the stricter one."""
    return field(default=default, metadata={"check": check, "strictest": strictest})


@dataclass(frozen=True)
class Policy:
    """What is in force for a session; equal policies have equal hashes, and any change gives another.

    Lists are kept sorted and without repetitions, words given as text become members of their enumeration: a mode
    that only compares equal to `paranoid` would be missed by every `is`. What is weaker than the defaults
    allow is a field of its own, with a name that starts with `unsafe_`.
    """

    mode: Mode = _checked(Mode.DEFAULT, partial(_choice, Mode), _last_of(Mode.DEFAULT, Mode.RESEARCH, Mode.PARANOID))
    # What research mode is for, in the operator's words: the judges read it, so only the operator may write it.
    # It may hold several scopes (`combine_scopes`), and then what is inside all of them is inside.
    research_scope: str = _checked("", _scope, _both_scopes)
    # False is observe mode: everything is ruled on and recorded, and next to nothing is stopped (`observe`).
    enforce: bool = _checked(True, _flag, or_)
    user_trust: Trust = _checked(Trust.TRUSTED, partial(_choice, Trust), min)
    additional_patterns: tuple[str, ...] = _checked((), _patterns, add)
    additional_high_risk_tools: tuple[str, ...] = _checked((), _tool_names, add)
    # Rows of `flow_rules.py`, each as a text that only one row has.
    flows: tuple[str, ...] = _checked((), _rows, add)
    labels: tuple[str, ...] = _checked((), _rows, add)
    # The operator's own rows of programs and tools (`operator_rows.py`): no project file has any.
    effect_rows: tuple[str, ...] = _checked((), _rows, add)
    # What is the operator's own counts as named by the project (`is_own`): no project file has any.
    own_hosts: tuple[str, ...] = _checked((), _own, _in_both)
    own_domains: tuple[str, ...] = _checked((), _own, _in_both)
    own_addresses: tuple[str, ...] = _checked((), _own, _in_both)
    own_registries: tuple[str, ...] = _checked((), _own, _in_both)
    own_accounts: tuple[str, ...] = _checked((), _own, _in_both)
    strict_patterns: bool = _checked(False, _flag, or_)
    # How many of the latest blocks count as recent context; 0 means everything since the session began.
    recent_blocks: int = _checked(0, partial(_whole_number, MAX_WINDOW), lambda a, b: max(a, b) if a and b else 0)
    on_unclear_low: Action = _checked(Action.CONTINUE, partial(_choice, Action), _last_of(*Action))
    on_unclear_high: Action = _checked(Action.PAUSE, partial(_choice, Action), _last_of(*Action))
    max_reorient_attempts: int = _checked(3, partial(_whole_number, MAX_ATTEMPTS), min)
    triage_model: str = _checked("", _model, lambda a, b: a or b)
    supervisor_model: str = _checked("", _model, lambda a, b: a or b)
    # Where the embedded judge draws its line, one of `PRESETS`; no other judge has one.
    judge_preset: str = _checked("balanced", partial(_choice, PRESETS), _last_of(*PRESETS[::-1]))
    # How much is asked about, one of `ESCALATE`. Not in the hash: rulings record the width that was in force.
    escalate: str = _checked("auto", partial(_choice, ESCALATE), lambda a, b: "wide" if b == "wide" else a)
    unsafe_continue_on_unclear: bool = _checked(False, _flag, and_)
    unsafe_disable_phrase_rules: bool = _checked(False, _flag, and_)

    def __post_init__(self) -> None:
        for name, (check, _) in _RULES.items():
            object.__setattr__(self, name, check(getattr(self, name), name))
        if self.mode is Mode.RESEARCH and not self.research_scope:
            hint = 'say what the research is about, e.g. scope = "our own test lab"'
            raise InvalidConfig("mode `research` needs a scope", hint=hint)
        if self.on_unclear_high is Action.CONTINUE:
            hint = "use PAUSE or REORIENT; to fail open all the same, set unsafe_continue_on_unclear"
            raise InvalidConfig("a high-risk call cannot continue without an answer", hint=hint)

    @cached_property
    def high_risk_tools(self) -> frozenset[str]:
        """The tools that the operator calls high-risk, as a set: it is asked for on every call."""
        return frozenset(self.additional_high_risk_tools)

    @property
    def hash(self) -> str:
        """`sha256:` and 64 hexadecimal digits, the same in every process and on every version of Python."""
        return self._hash

    @cached_property
    def _hash(self) -> str:
        from hashlib import sha256

        members = {name: getattr(self, name) for name in FIELDS if name != "escalate"}
        # Fields that are newer than the hash count only where they are set: older policies keep their hash.
        newer = {"enforce": True, **dict.fromkeys(("flows", "labels", "effect_rows", *_OWN), ())}
        lines = sorted(f"{name}={_canonical(value)}" for name, value in members.items() if value != newer.get(name))
        digest = sha256("\n".join(["lockgate policy/1", *lines]).encode("ascii")).hexdigest()
        return f"sha256:{digest}"

    def is_own(self, target: str) -> bool:
        """Return whether a target is the operator's own: an exact mailbox or account, a host or a place in a registry.

        What may lead elsewhere than it seems is not: a mailbox never counts by its domain, nor does a host by a login.
        """
        if not any(getattr(self, name) for name in _OWN):
            return False
        from lockgate.core.ruling.targets import host_from_value

        text = target.strip().lower()
        if "@" in text:
            return text in self.own_addresses
        if _fold_own(text, "own_accounts") in self.own_accounts:
            return True
        host = host_from_value(text).removesuffix(".") or text
        is_below = any(f".{host}".endswith(f".{domain}") for domain in self.own_domains)
        is_owned = is_below or host in (*self.own_hosts, *self.own_registries)
        is_owned = is_owned or any(f"{text}/".startswith(f"{place}/") for place in self.own_registries)
        return is_owned and re.fullmatch(_OWN["own_hosts"][0], host) is not None

    def on_unclear(self, risk: Risk) -> Action:
        """Return what happens to a flagged call that no judge could settle."""
        if self.unsafe_continue_on_unclear:
            return Action.CONTINUE
        return self.on_unclear_low if risk is Risk.LOW else self.on_unclear_high


_RULES = {each.name: (each.metadata["check"], each.metadata["strictest"]) for each in fields(Policy)}
FIELDS = tuple(_RULES)


def combine_strictest(a: Policy, b: Policy) -> Policy:
    """The more restrictive of each field of two whole policies.

    Of two scopes both hold. `a` keeps its own models and takes those of `b` only where it has none. Fields that `b`
    left at their defaults count too: to change a few fields of a policy use `tighten`.
    """
    return Policy(**{name: strictest(getattr(a, name), getattr(b, name)) for name, (_, strictest) in _RULES.items()})


def tighten(base: Policy, **asked: object) -> Policy:
    """The base with these fields at least as strict as asked; what was not asked for stays as it is.

    Listed patterns and tools are added to those of the base, and a scope holds besides that of the base. A field that
    would come out weaker keeps the base's value: `find_loosened` says which those are.
    """
    if asked.get("research_scope") == "":
        del asked["research_scope"]  # an empty scope leaves the base's as it is
    return combine_strictest(base, change_policy(base, **asked))


def find_loosened(base: Policy, **asked: object) -> tuple[str, ...]:
    """The names of the asked fields that would be weaker than the base, or no longer comparable with it."""
    wanted = change_policy(base, **asked)
    merged = combine_strictest(base, wanted)
    return tuple(name for name in FIELDS if getattr(merged, name) != getattr(wanted, name))


def session_hashes(policy: Policy) -> frozenset[str]:
    """The hashes under which sessions run: the policy as it is, and in each mode that a session may ask for.

    Not those of sessions with a scope of their own: there is one for each scope.
    """
    modes = [Mode.DEFAULT, Mode.PARANOID, *([Mode.RESEARCH] if policy.research_scope else [])]
    policies = (change_policy(policy, enforce=False), *(tighten(policy, mode=mode) for mode in modes))
    return frozenset(variant.hash for variant in policies)


def change_policy(base: Policy, **asked: object) -> Policy:
    """The base with these fields as asked, stricter or not; lists are added to the base's."""
    for name in ("additional_patterns", "additional_high_risk_tools", "flows", "labels", "effect_rows", *_OWN):
        if name in asked:
            asked[name] = (*getattr(base, name), *_texts(asked[name], name))
    return replace(base, **asked)  # type: ignore[arg-type]  # __post_init__ checks every value


_WOULD = {Action.PAUSE: "would have paused", Action.REORIENT: "would have asked the agent to reconsider"}


def observe(decision: Decision, policy: Policy) -> Decision:
    """Return the ruling as it stands, or, where the policy does not enforce, a CONTINUE that says what it would be."""
    if policy.enforce or decision.action is Action.CONTINUE or is_always_enforced(decision):
        return decision
    explanation = f"Observing only, this {_WOULD[decision.action]}: {decision.explanation}"
    findings = (Finding(f"{WOULD_BE}{decision.action.value}", "call", 0, 0), *decision.findings)
    return decision._replace(
        action=Action.CONTINUE, explanation=explanation, findings=findings, correction="", approval=""
    )


def is_always_enforced(decision: Decision) -> bool:
    """Return whether a ruling holds in observe mode as well: a person's no, and what would change Lockgate itself.

    A trial must not be the moment in which an agent prepares for the time after it.
    """
    # Imported here: a policy is read by processes that have no use for the rules.
    from lockgate.core.text.rules import SELF_PROTECTION_RULES

    own = {rule.id for rule in SELF_PROTECTION_RULES}
    return decision.reason is Reason.DENIED or any(finding.rule in own for finding in decision.findings)


def _canonical(value: object) -> str:
    """A value as text that no other value of its field has; `ascii`, as what `repr` escapes changes with Unicode."""
    if isinstance(value, tuple):
        return "".join(f"{item!a}," for item in value)
    if isinstance(value, Trust):
        return value.word
    return ascii(str(value)) if isinstance(value, str) else str(value)
