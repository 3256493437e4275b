"""Policy: everything that may change a ruling, as one validated value with a hash."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from enum import Enum

from lockgate.core.errors import InvalidConfig, quoted
from lockgate.core.vocabulary import Action, Mode, Risk, Trust

# A policy file may come with a repository: these and `pattern_cost.py` bound what compiling its patterns can cost.
MAX_PATTERNS = 500
MAX_PATTERN_LENGTH = 1_000
MAX_WINDOW = 1_000_000
MAX_ATTEMPTS = 100
MAX_SCOPE_LENGTH = 4_000
MAX_MODEL_LENGTH = 200
# The embedded judge's thresholds by name, the most cautious first.
PRESETS = ("cautious", "balanced", "quiet")
# Which calls are asked about (`widths.py`): a project's file may only set `wide`.
ESCALATE = ("narrow", "auto", "wide")

_STRICTNESS_OF_MODE = {Mode.DEFAULT: 0, Mode.RESEARCH: 1, Mode.PARANOID: 2}
_STRICTNESS_OF_ACTION = {Action.CONTINUE: 0, Action.REORIENT: 1, Action.PAUSE: 2}


@dataclass(frozen=True, slots=True)
class Policy:
    """What is in force for a session; equal policies have equal hashes, and any change gives another.

    Lists are kept sorted and without repetitions, words given as text become members of their enumeration: a mode
    that only compares equal to `paranoid` would be missed by every `is`. What is weaker than the defaults
    allow is a field of its own, with a name that starts with `unsafe_`.
    """

    mode: Mode = Mode.DEFAULT
    # What research mode is for, in the operator's words: the judges read it, so only the operator may write it.
    # It may hold several scopes (`combine_scopes`), and then what is inside all of them is inside.
    research_scope: str = ""
    # False is observe mode: everything is ruled on and recorded, and next to nothing is stopped (`observe_mode.py`).
    enforce: bool = True
    user_trust: Trust = Trust.TRUSTED
    additional_patterns: tuple[str, ...] = ()
    additional_high_risk_tools: tuple[str, ...] = ()
    # Rows of `flow_rules.py`, each as a text that only one row has.
    flows: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    strict_patterns: bool = False
    # How many of the latest blocks count as recent context; 0 means everything since the session began.
    recent_blocks: int = 0
    on_unclear_low: Action = Action.CONTINUE
    on_unclear_high: Action = Action.PAUSE
    max_reorient_attempts: int = 3
    triage_model: str = ""
    supervisor_model: str = ""
    # Where the embedded judge draws its line, one of `PRESETS`; no other judge has one.
    judge_preset: str = "balanced"
    # How much is asked about, one of `widths.ESCALATE`. Not in the hash: rulings record the width that was in force.
    escalate: str = "auto"
    unsafe_continue_on_unclear: bool = False
    unsafe_disable_phrase_rules: bool = False
    # Made from the fields above: the set is asked for on every call, the hash goes into every record.
    _tools: frozenset[str] = field(default=frozenset(), init=False, repr=False, compare=False)
    _hash: str = field(default="", init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "mode", _member(Mode, self.mode, "mode"))
        put(self, "user_trust", _member(Trust, self.user_trust, "user_trust"))
        put(self, "on_unclear_low", _member(Action, self.on_unclear_low, "on_unclear_low"))
        put(self, "on_unclear_high", _member(Action, self.on_unclear_high, "on_unclear_high"))
        put(self, "additional_patterns", _patterns(self.additional_patterns))
        put(self, "additional_high_risk_tools", _tool_names(self.additional_high_risk_tools))
        put(self, "_tools", frozenset(self.additional_high_risk_tools))
        put(self, "flows", _rows(self.flows, "flows"))
        put(self, "labels", _rows(self.labels, "labels"))
        put(self, "research_scope", _text(self.research_scope, "research_scope", MAX_SCOPE_LENGTH).strip())
        if self.research_scope:
            # Here and not above: a scope is rare, and reading one needs most of the core.
            from lockgate.core.ruling.scope.border import border_from_scope

            border_from_scope(self.research_scope)
        put(self, "triage_model", _model(self.triage_model, "triage_model"))
        put(self, "supervisor_model", _model(self.supervisor_model, "supervisor_model"))
        if self.judge_preset not in PRESETS:
            raise InvalidConfig(
                f"unknown judge_preset {quoted(self.judge_preset)}", hint=f"use one of: {', '.join(PRESETS)}"
            )
        if self.escalate not in ESCALATE:
            raise InvalidConfig(f"unknown escalate {quoted(self.escalate)}", hint=f"use one of: {', '.join(ESCALATE)}")
        _whole_number(self.recent_blocks, "recent_blocks", MAX_WINDOW)
        _whole_number(self.max_reorient_attempts, "max_reorient_attempts", MAX_ATTEMPTS)
        for name in ("enforce", "strict_patterns", "unsafe_continue_on_unclear", "unsafe_disable_phrase_rules"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidConfig(f"{name} must be true or false")
        if self.mode is Mode.RESEARCH and not self.research_scope:
            raise InvalidConfig(
                "mode `research` needs a scope", hint='say what the research is about, e.g. scope = "our own test lab"'
            )
        if self.on_unclear_high is Action.CONTINUE:
            raise InvalidConfig(
                "a high-risk call cannot continue without an answer",
                hint="use PAUSE or REORIENT; to fail open all the same, set unsafe_continue_on_unclear",
            )

    @property
    def hash(self) -> str:
        """`sha256:` and 64 hexadecimal digits, the same in every process and on every version of Python."""
        if not self._hash:
            from hashlib import sha256

            hashed = [name for name in FIELDS if not self._is_left_out(name)]
            lines = sorted(f"{name}={_canonical(getattr(self, name))}" for name in hashed)
            digest = sha256("\n".join(["lockgate policy/1", *lines]).encode("ascii")).hexdigest()
            object.__setattr__(self, "_hash", f"sha256:{digest}")
        return self._hash

    def _is_left_out(self, name: str) -> bool:
        """Whether a field is newer than the hash, and at its default: older policies keep their hash."""
        return name == "escalate" or bool(getattr(self, name) == {"enforce": True, "flows": (), "labels": ()}.get(name))

    @property
    def high_risk_tools(self) -> frozenset[str]:
        """The tools that the policy names as high-risk."""
        return self._tools

    def on_unclear(self, risk: Risk) -> Action:
        """Return what happens to a flagged call that no judge could settle."""
        if self.unsafe_continue_on_unclear:
            return Action.CONTINUE
        return self.on_unclear_low if risk is Risk.LOW else self.on_unclear_high


FIELDS = tuple(each.name for each in fields(Policy) if each.init)


def combine_strictest(a: Policy, b: Policy) -> Policy:
    """The more restrictive of each field of two whole policies.

    Of two scopes both hold. Models have no order: `a` keeps its own and takes those of `b` only where it has none.
    Fields that `b` left at their defaults count too, and a default can be the strictest value there is: to change a
    few fields of a policy use `tighten`.
    """
    scope = a.research_scope
    if b.research_scope not in ("", scope):
        from lockgate.core.ruling.scope.border import combine_scopes

        scope = combine_scopes(scope, b.research_scope)
    return Policy(
        mode=max(a.mode, b.mode, key=_STRICTNESS_OF_MODE.__getitem__),
        research_scope=scope,
        enforce=a.enforce or b.enforce,
        user_trust=min(a.user_trust, b.user_trust),
        additional_patterns=a.additional_patterns + b.additional_patterns,
        additional_high_risk_tools=a.additional_high_risk_tools + b.additional_high_risk_tools,
        flows=a.flows + b.flows,
        labels=a.labels + b.labels,
        strict_patterns=a.strict_patterns or b.strict_patterns,
        recent_blocks=max(a.recent_blocks, b.recent_blocks) if a.recent_blocks and b.recent_blocks else 0,
        on_unclear_low=max(a.on_unclear_low, b.on_unclear_low, key=_STRICTNESS_OF_ACTION.__getitem__),
        on_unclear_high=max(a.on_unclear_high, b.on_unclear_high, key=_STRICTNESS_OF_ACTION.__getitem__),
        max_reorient_attempts=min(a.max_reorient_attempts, b.max_reorient_attempts),
        triage_model=a.triage_model or b.triage_model,
        supervisor_model=a.supervisor_model or b.supervisor_model,
        judge_preset=min(a.judge_preset, b.judge_preset, key=PRESETS.index),
        escalate="wide" if "wide" in (a.escalate, b.escalate) else a.escalate,
        unsafe_continue_on_unclear=a.unsafe_continue_on_unclear and b.unsafe_continue_on_unclear,
        unsafe_disable_phrase_rules=a.unsafe_disable_phrase_rules and b.unsafe_disable_phrase_rules,
    )


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
    return frozenset(each.hash for each in policies)


def change_policy(base: Policy, **asked: object) -> Policy:
    """The base with these fields as asked, stricter or not; listed patterns and tools are added to the base's."""
    for name in ("additional_patterns", "additional_high_risk_tools", "flows", "labels"):
        if name in asked:
            asked[name] = (*getattr(base, name), *_texts(asked[name], name))
    return replace(base, **asked)  # type: ignore[arg-type]  # __post_init__ checks every value


def _member(kind: type[Enum], value: object, name: str) -> Enum:
    if isinstance(value, kind):
        return value
    for member in kind:
        if isinstance(value, str) and value in (member.value, member.name.lower()):
            return member
    words = ", ".join(str(member.value) if isinstance(member, str) else member.name.lower() for member in kind)
    raise InvalidConfig(f"unknown {name} {quoted(value)}", hint=f"use one of: {words}")


def _text(value: object, name: str, most: int) -> str:
    if not isinstance(value, str):
        raise InvalidConfig(f"{name} must be text, not {type(value).__name__}")
    if len(value) > most:
        raise InvalidConfig(f"{name} has {len(value):,} characters, the limit is {most:,}")
    return value


def _model(value: object, name: str) -> str:
    model = _text(value, name, MAX_MODEL_LENGTH).strip()
    if not model.isprintable():
        raise InvalidConfig(f"{name} {quoted(model)} has characters that no model's name has")
    return model


def _whole_number(value: object, name: str, most: int) -> None:
    # True is an int to Python; an operator who wrote `true` did not mean a window of one block.
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise InvalidConfig(f"{name} must be a whole number from 0 to {most:,}")


def _texts(values: object, name: str) -> tuple[str, ...]:
    # A single text is iterable as well, and would become one pattern per letter.
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidConfig(f"{name} must be a list of texts")
    items = tuple(values)
    for item in items:
        if not isinstance(item, str):
            raise InvalidConfig(f"{name} must hold texts, not {type(item).__name__}")
    return items


def _patterns(values: object) -> tuple[str, ...]:
    patterns = tuple(sorted(set(_texts(values, "additional_patterns"))))
    if len(patterns) > MAX_PATTERNS:
        raise InvalidConfig(
            f"{len(patterns):,} additional patterns, the limit is {MAX_PATTERNS}",
            hint="join patterns that belong together with |",
        )
    for pattern in patterns:
        if not pattern.strip():
            raise InvalidConfig("an empty pattern would match everything", hint="remove it")
        if len(pattern) > MAX_PATTERN_LENGTH:
            raise InvalidConfig(
                f"pattern {quoted(pattern)} has {len(pattern):,} characters, the limit is {MAX_PATTERN_LENGTH:,}",
                hint="split it into several patterns",
            )
        # The engine reads a pattern up to its first NUL: what follows would silently not be looked for.
        if "\0" in pattern:
            raise InvalidConfig(f"pattern {quoted(pattern)} holds a NUL character", hint=r"write it as \x00")
        if any("\ud800" <= character <= "\udfff" for character in pattern):
            raise InvalidConfig(f"pattern {quoted(pattern)} holds half a surrogate pair, which is no character")
    if patterns:
        # Imported here: only installations with patterns of their own pay for it.
        from lockgate.core.text.pattern_cost import check_budget

        check_budget(patterns)
    return patterns


def _rows(values: object, name: str) -> tuple[str, ...]:
    rows = tuple(sorted(set(_texts(values, name))))
    if rows:
        # Imported here: only installations with flow rules pay for it.
        from lockgate.core.ruling import flow_rules

        if len(rows) > flow_rules.MAX_ROWS:
            raise InvalidConfig(f"{len(rows):,} {name}, the limit is {flow_rules.MAX_ROWS}")
        for row in rows:
            (flow_rules.parse_flow if name == "flows" else flow_rules.parse_label)(row)
    return rows


def _tool_names(values: object) -> tuple[str, ...]:
    # Letter case stays: `tool_risk` reads the words of `sendEmail` from it, and folds both sides itself.
    names = tuple(sorted({name.strip() for name in _texts(values, "additional_high_risk_tools")}))
    if "" in names:
        raise InvalidConfig("an empty tool name in additional_high_risk_tools", hint="remove it")
    return names


def _canonical(value: object) -> str:
    """A value as text that no other value of its field has; `ascii`, as what `repr` escapes changes with Unicode."""
    if isinstance(value, tuple):
        return "".join(f"{item!a}," for item in value)
    if isinstance(value, Trust):
        return value.word
    return ascii(str(value)) if isinstance(value, str) else str(value)
