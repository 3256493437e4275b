"""Which model a name in the configuration means: the table of short names, and `provider/model` spelled out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from lockgate.core.errors import InvalidConfig, quoted, suggest_closest
from lockgate.core.tables import read_table

# Who can be asked; the names of the adapters, without `none` and `embedded`.
PROVIDERS = ("anthropic", "openai", "azure", "compatible")
# Names of no provider's model: the judge that comes with Lockgate, no judge at all, and whichever has passed its exam.
EMBEDDED, NO_JUDGE, AUTO = "embedded", "none", "auto"
# Programs that are asked: any by its path, and the coding agents whose own model judges, with the names of theirs.
COMMAND, HOST = "command", "host"
# A server on this machine, by its port: `local:11434/MODEL`.
LOCAL = "local"
HOST_PROGRAMS = {"claude-code": "claude", "codex": "codex"}
MAX_ALIASES = 100

_ALIAS = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?", re.ASCII)
_MODEL = re.compile(r"[!-~](?:[ -~]{0,198}[!-~])?")
_LOCAL_MODEL = re.compile(rf"{LOCAL}:([1-9][0-9]{{0,4}})/({_MODEL.pattern})")


class ModelName(NamedTuple):
    """A provider and what it calls the model. `endpoint` is where it stands, when the name says that as well."""

    provider: str
    model: str
    endpoint: str = ""

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"


class ProgramName(NamedTuple):
    """A program that judges: the route, the program with its arguments, and the model it is to ask (empty: its own).

    The program is an absolute path; that of a host may be a name, which is looked up.
    """

    route: str
    words: tuple[str, ...]
    model: str = ""

    def __str__(self) -> str:
        if self.route == COMMAND:
            return f"{COMMAND}:{shlex.join(self.words)}"
        return f"{self.route}/{self.model}" if self.model else self.route


_ROWS = read_table(__package__, "models.tbl", "aliases", ("name", "provider", "model", "endpoint"))
ALIASES = {name: ModelName(provider, model, endpoint.strip("-")) for name, provider, model, endpoint in _ROWS}
# As people write them.
_SPOKEN = {row[0]: row[1] for row in read_table(__package__, "models.tbl", "spoken", ("spoken", "name"))}

# A name without a provider is not guessed at: the same name stands behind many gateways. But a guess makes a good hint.
_USUAL = (("claude-", "anthropic"), ("gpt-", "openai"), ("gemini-", "compatible"))


def resolve_model(name: str, overrides: Mapping[str, str] = MappingProxyType({})) -> ModelName:
    """Return the model that a name means; `overrides` are short names of one's own, each for a `provider/model`.

    Short names may be written as people write them: `GPT-4o-mini`, `Gemini Flash`, `Haiku`.
    """
    if name not in overrides and (alias := _find_alias(name)):
        return alias
    if name not in overrides and (local := _LOCAL_MODEL.fullmatch(name)):
        return ModelName("compatible", local[2], f"http://127.0.0.1:{local[1]}/v1")
    return _parse_model(overrides.get(name, name), overrides)


def _find_alias(name: str) -> ModelName | None:
    spoken = name.lower().replace(" ", "-")
    return ALIASES.get(_SPOKEN.get(spoken, spoken))


def parse_program(name: str) -> ProgramName | None:
    """Return the program that `command:PROGRAM ARGS`, `host:AGENT` or `host:AGENT/MODEL` means; None for any other."""
    route, _, rest = name.partition(":")
    if not is_program(name):
        return None
    if route == COMMAND:
        return _parse_command(name, rest)
    agent, _, model = rest.partition("/")
    if agent not in HOST_PROGRAMS or (model and (_MODEL.fullmatch(model) is None or model[0] == "-")):
        agents = " or ".join(f"`{HOST}:{agent}`" for agent in HOST_PROGRAMS)
        raise InvalidConfig(f"{quoted(name)} names no model", hint=f"write {agents}, with /MODEL for another model")
    return ProgramName(f"{HOST}:{agent}", (HOST_PROGRAMS[agent],), model)


def is_program(name: str) -> bool:
    """Return whether a name is that of a program, right or wrong, and not of a provider's model."""
    return name == HOST or name.startswith((f"{COMMAND}:", f"{HOST}:"))


def _parse_command(name: str, rest: str) -> ProgramName:
    try:
        words = tuple(shlex.split(rest))
    except ValueError:
        words = ()
    if not words or words[0][:1] != "/":
        raise InvalidConfig(f"{quoted(name)} names no program", hint="write `command:/PATH/TO/PROGRAM ARGUMENTS`")
    agent = next((agent for agent, own in HOST_PROGRAMS.items() if words[0].rpartition("/")[2] == own), "")
    if agent and len(words) > 1:
        # Its plain form reads files that the judged text names.
        raise InvalidConfig(f"{quoted(words[0])} takes no arguments here", hint=f"write `{HOST}:{agent}`")
    return ProgramName(f"{HOST}:{agent}", words) if agent else ProgramName(COMMAND, words)


def name_at_provider(provider: str, name: str, endpoint: str) -> str:
    """Return what a provider calls a model that may be named by a short name of ours: `Haiku` at Anthropic."""
    meant = _find_alias(name)
    # Any other server may have a model of its own by such a name.
    is_elsewhere = provider == "compatible" and meant is not None and endpoint.rstrip("/") != meant.endpoint
    return name if meant is None or meant.provider != provider or is_elsewhere else meant.model


def parse_aliases(lines: Iterable[str]) -> dict[str, str]:
    """Return short names from lines like `fast = openai/gpt-6-luna`, each checked."""
    aliases: dict[str, str] = {}
    for line in lines:
        alias, equals, meant = (part.strip() for part in line.partition("="))
        if not equals or _ALIAS.fullmatch(alias) is None:
            hint = 'write it as "NAME = provider/model", the name in small letters'
            raise InvalidConfig(f"{quoted(line)} names no model", hint=hint)
        if alias in (EMBEDDED, NO_JUDGE, AUTO, HOST, COMMAND, LOCAL):
            raise InvalidConfig(f"the model name {quoted(alias)} is taken", hint="choose another short name")
        if alias in aliases:
            raise InvalidConfig(f"the model name {quoted(alias)} is given twice", hint="remove one of them")
        _parse_model(meant, {})
        aliases[alias] = meant
    if len(aliases) > MAX_ALIASES:
        raise InvalidConfig(f"more than {MAX_ALIASES} names for models")
    return aliases


def _parse_model(name: str, overrides: Mapping[str, str]) -> ModelName:
    provider, slash, model = name.partition("/")
    if name == EMBEDDED:
        raise InvalidConfig("the embedded judge triages, and cannot supervise", hint="name a provider's model here")
    if not slash:
        raise InvalidConfig(f"unknown model {quoted(name)}", hint=_hint(name, overrides))
    if provider not in PROVIDERS:
        hint = f"use {', '.join(PROVIDERS)}; `compatible/…` is any other server that speaks OpenAI's chat completions"
        raise InvalidConfig(f"unknown provider {quoted(provider)} in model {quoted(name)}", hint=hint)
    if _MODEL.fullmatch(model) is None:
        hint = "after the slash comes the model's name as the provider lists it, 1 to 200 ASCII characters"
        raise InvalidConfig(f"{quoted(name)} names no model of `{provider}`", hint=hint)
    return ModelName(provider, model)


def _hint(name: str, overrides: Mapping[str, str]) -> str:
    known = sorted({*overrides, *ALIASES})
    near = suggest_closest(name.lower()[:60], known)
    provider = next((usual for start, usual in _USUAL if name.startswith(start) and _MODEL.fullmatch(name)), "")
    if provider:
        return f"{near} if that is the provider's own name for it, write `{provider}/{name}`".strip()
    return f"{near} known: {', '.join(known[:20])}, or write provider/model".strip()
