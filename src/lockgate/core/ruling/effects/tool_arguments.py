"""What the arguments of a call are for: recipients, paths, commands, and settings that open or unprotect something."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from lockgate.core.ruling.arguments import Leaf, argument_words
from lockgate.core.ruling.tool_risk import (
    EFFECTS,
    GROUPS,
    MAX_NAME,
    NOUNS,
    TABLE,
    WORDS,
    Alternatives,
    ToolName,
    gravest_act,
    read_alternatives,
    read_tool_name,
    read_words,
    split_server,
)
from lockgate.core.tables import read_table

_MAX_SCALARS = 500
_MAX_SETTING_TEXT, _MAX_DOCUMENT = 200, 16_000
# Python refuses to print integers of thousands of digits; no setting is that long.
_MAX_SETTING_BITS = 64
_CACHED_ARGUMENTS, _MOST_KEPT = 4096, 64
_PAIR = re.compile(r"([\w.-]{2,40})[\"']?\s*[=:]\s*[\"']?([\w-]{1,20})")
# `env:*` and `alertname=~".+"` state what stands last in them.
_LAST_WORD = re.compile(r"[^=:~\"' ]+$")
_STATED, _SEPARATORS, _MOST_STATED = (
    re.compile(r"(?!\w+://)[^\W\d_][\w./:-]{1,59}"),
    str.maketrans("./:- ", "_____"),
    16,
)
_MUTATION = re.compile(r"\s*mutation\b[^{]{0,400}\{\s*(?:\w{1,60}\s*:\s*)?(\w{2,60})")
METHODS = frozenset("GET POST PUT PATCH DELETE HEAD OPTIONS".split())

ROLES: Mapping[str, frozenset[str]] = read_words("argument roles", "role")
_ROLES_OF_WORD = {
    word: frozenset(role for role, words in ROLES.items() if word in words)
    for word in frozenset().union(*ROLES.values())
}
_IDS = frozenset("id ids uid uuid".split())
_PLACES = tuple("path paths file files filename uri url destination source target dest folder directory".split())
_MOST_PLACE = 4096


# By the own name: a list may have a thousand items, and all go by the list's name.
@lru_cache(maxsize=_CACHED_ARGUMENTS)
def own_name(argument: str) -> str:
    """Return the name of an argument without the path to it and without its index."""
    while argument[-1:] == "]":
        argument = argument[: argument.rfind("[")]
    return argument.rpartition(".")[2]


def name_parts(argument: str) -> frozenset[str]:
    """Return the words of an argument's own name, and that name itself."""
    return _parts_of_name(own_name(argument))


@lru_cache(maxsize=_CACHED_ARGUMENTS)
def _parts_of_name(name: str) -> frozenset[str]:
    return frozenset((*argument_words(name), name.lower()))


@lru_cache(maxsize=_CACHED_ARGUMENTS)
def all_parts(argument: str) -> frozenset[str]:
    """Return the words of an argument's name and of the names above it: `attendees[0].email` is about attendees too."""
    return frozenset[str]().union(*map(name_parts, argument.split(".")))


@lru_cache(maxsize=_CACHED_ARGUMENTS)
def roles_of(argument: str) -> frozenset[str]:
    """Return everything that an argument may be for, by its own name."""
    return _roles_of_names(frozenset((own_name(argument),)))


def roles_of_all(leaves: Sequence[Leaf]) -> frozenset[str]:
    """Return everything that some of the arguments may be for."""
    return _roles_of_names(frozenset([own_name(leaf.argument) for leaf in leaves]))


@lru_cache(maxsize=_CACHED_ARGUMENTS)
def _roles_of_names(names: frozenset[str]) -> frozenset[str]:
    if len(names) != 1:
        return frozenset[str]().union(*(_roles_of_names(frozenset((name,))) for name in names))
    parts = _parts_of_name(*names)
    roles = frozenset[str]().union(*(_ROLES_OF_WORD.get(part, ()) for part in parts))
    if "own side" in roles:
        roles -= {"account"}
    # An identifier of a letter is no address; one of a person or a channel is.
    return roles if parts.isdisjoint(_IDS) or "addressable" in roles else roles & {"thing", "states"}


def has_role(argument: str, role: str) -> bool:
    """Return whether an argument is for this, by its name."""
    return role in roles_of(argument)


@lru_cache(maxsize=_CACHED_ARGUMENTS)
def is_path_name(argument: str) -> bool:
    """Return whether an argument is named as the path of a file that its tool works on."""
    words = frozenset(argument_words(own_name(argument)))
    if words == {"new", "source"}:  # the text of a notebook's cell
        return False
    # All its words have to be such words: `repo_path` names no file that the tool works on.
    return not words.isdisjoint(ROLES["path"] | ROLES["output"]) and words <= ROLES["path"] | ROLES["beside a path"]


@lru_cache(maxsize=_CACHED_ARGUMENTS)
def names_file(argument: str) -> bool:
    """Return whether an argument, or one that holds it, is named as a file or folder that a tool takes along."""
    return not all_parts(argument).isdisjoint(ROLES["path"] - ROLES["output"] - ROLES["own side"])


def is_prose(leaf: Leaf) -> bool:
    """Return whether a value is text for people to read rather than a value that steers the tool."""
    return len(leaf.text) > 500 or "prose" in roles_of(leaf.argument) or "\n" in leaf.text.strip()


def is_content(leaf: Leaf) -> bool:
    """Return whether this is what a file is to hold: a guide may tell how settings are written, and sets none."""
    return leaf_name(leaf) in ROLES["content"]


def leaf_name(leaf: Leaf) -> str:
    """Return what a value is called; an item of a list goes by the list's name: `edits[0].new_string`, `paths[2]`."""
    return own_name(leaf.argument).lower()


def is_place(leaf: Leaf) -> bool:
    """Return whether a value may be a path or an address: it is called one, or is a single word."""
    if not 0 < len(leaf.text) <= _MOST_PLACE or is_content(leaf):
        return False
    return names_place(leaf) or len(leaf.text.split(maxsplit=1)) < 2


def names_place(leaf: Leaf) -> bool:
    """Return whether a value is called a path or an address."""
    return leaf_name(leaf).endswith(_PLACES)


def joined_values(leaves: Sequence[Leaf], role: str) -> Iterator[Leaf]:
    """Yield the values of this role, a list of words as one command line that is marked by `how`."""
    lists: dict[str, list[str]] = {}
    for leaf in leaves:
        if role not in roles_of(leaf.argument):
            continue
        if leaf.argument.endswith("]"):
            lists.setdefault(leaf.argument.rpartition("[")[0], []).append(leaf.text)
        else:
            yield leaf
    for argument, words in lists.items():
        yield Leaf(argument, " ".join(map(quote_word, words)), "words")


def quote_word(word: str) -> str:
    """Return a word as a shell takes it for one."""
    return word if re.fullmatch(r"[\w@%+=:,./-]+", word) else "'" + word.replace("'", "'\"'\"'") + "'"


def stated_name(name: ToolName, tool: str, leaves: Sequence[Leaf]) -> ToolName | None:
    """Return a tool's name together with what its arguments state: an act, or the kind of thing that it is done to.

    Only a single word or name states something: a text may mention a command. A GraphQL mutation names its act first.
    """
    stated = [text.translate(_SEPARATORS) for text in _stated_texts(name, leaves)]
    if not stated:
        return None
    readings = [read_tool_name(text) for text in stated]
    verbs = [verb for reading in readings for verb in (*reading.acting, reading.verb) if verb]
    if not verbs:
        return read_tool_name("_".join((*stated, split_server(tool)[1]))[:MAX_NAME])
    words = name.words.union(*(reading.words for reading in readings))
    verb, act = gravest_act(verbs, words)
    return name._replace(words=words, verb=verb, kind=act.kind, role=act.role)


def _stated_texts(name: ToolName, leaves: Sequence[Leaf]) -> Sequence[str]:
    # What a tool only notes has happened elsewhere: `track {"event": "purchase"}`.
    roles = ["action"] if name.verb in WORDS["notes"] else ["states", "stated thing"]
    roles += ["service"] if name.verb in ("call", "") else []
    # In `update_event` the event is what is updated.
    names = name.words & NOUNS
    stating = [leaf for role in roles for leaf in leaves if role in roles_of(leaf.argument)]
    texts = [leaf.text for leaf in stating if leaf_name(leaf) not in names and _may_state(leaf)]
    stated = list(dict.fromkeys(texts))
    stated += [match[1] for match in map(_MUTATION.match, [leaf.text for leaf in leaves]) if match]
    return stated[:_MOST_STATED]


def _may_state(leaf: Leaf) -> bool:
    # An action may be said in a few words: `drop database`.
    is_short = "action" in roles_of(leaf.argument) and len(leaf.text.split(None, 3)) < 4
    return leaf.text not in METHODS and (is_short or _STATED.fullmatch(leaf.text) is not None)


class _Row(NamedTuple):
    """What an argument does besides the tool's name; `verbs` and `words` are those of the name.

    `excludes` says that the verb must be none of these, `is_whole` that the argument's name has to consist of such
    words, `is_given` that any value does, `stems` how a value may begin.
    """

    verbs: Alternatives
    excludes: bool
    words: Alternatives
    names: Alternatives
    is_whole: bool
    values: frozenset[str]
    is_given: bool
    stems: tuple[str, ...]
    kind: str
    role: str


def _read_rows() -> Iterator[_Row]:
    columns = ("verbs", "words", "argument", "value", "kind", "target")
    groups = {role.replace(" ", "-").upper(): words for role, words in ROLES.items()}
    for verbs, words, names, values, kind, role in read_table(EFFECTS, TABLE, "acts by argument", columns):
        stated = read_alternatives(values, groups).words
        yield _Row(
            read_alternatives(verbs.removeprefix("not "), GROUPS),
            verbs.startswith("not "),
            read_alternatives(words, groups),
            read_alternatives(names.removeprefix("only "), groups),
            names.startswith("only "),
            stated,
            "given" in stated,
            tuple(value[:-1] for value in stated if len(value) > len(".*") and value.endswith("*")),
            kind,
            role,
        )


_ROWS = tuple(_read_rows())
_WRITTEN = tuple(row for row in _ROWS if row.verbs.words == {"written"})
# An argument says what such a tool does; to what another one does by its name it adds.
OPEN_KINDS = frozenset("unknown-act changes-record changes-own-note changes-permissions".split())
# A public answer is an answer; a public folder is a door.
_PUBLIC_BY_NATURE = frozenset("sends-message publishes".split())


class ArgumentAct(NamedTuple):
    """A kind of effect that the arguments add, the role of what it is aimed at, or that itself, and which argument."""

    kind: str
    role: str
    target: str = ""
    argument: str = ""


# A boolean, word or `key=value` text of the arguments: its argument, its name, its value.
_Setting = tuple[str, str, str]


def acts_by_argument(name: ToolName, arguments: Mapping[str, object], main: str = "") -> Iterator[ArgumentAct]:
    """Yield what the arguments of a tool do besides its main act; of the rows that fit one setting, the first decides.

    A new password changes a login where a record is changed; where a page or an account is asked, it is used.
    """
    main = main or name.kind
    known = {"changes-permissions"} if main in _PUBLIC_BY_NATURE else set()
    known |= set() if main in OPEN_KINDS else {"changes-login", "looks"}
    settings = list(_find_settings(arguments))
    plan = _plan if len(settings) <= _MOST_KEPT else _plan.__wrapped__
    always, by_setting = plan(name.verb, name.words, tuple([setting[:2] for setting in settings]))
    acts = [ArgumentAct(row.kind, row.role) for row in always]
    for (argument, own, value), rows in zip(settings, by_setting, strict=True):
        if rows and (row := _first_row(rows, value)) is not None:
            acts.append(ArgumentAct(row.kind, row.role, {"name": own, "value": value}.get(row.role, ""), argument))
    yield from (act for act in acts if act.kind not in known)


def weakens(name: str, value: str) -> bool:
    """Return whether a setting of this name in a file protects less with this value."""
    return _first_row([row for row in _WRITTEN if _is_named(row, "", name)], value) is not None


@lru_cache(maxsize=_CACHED_ARGUMENTS)
def _plan(
    verb: str, words: frozenset[str], settings: tuple[tuple[str, str], ...]
) -> tuple[Sequence[_Row], Sequence[Sequence[_Row]]]:
    """Return the rows that hold for a tool whatever its arguments say, and for each setting those that may fit it."""
    # The thing that is worked on may only be told by the name of its number: `approve` with `pull_number`.
    words = words.union(*(all_parts(argument) for argument, _ in settings))
    fitting = [row for row in _rows_of_verb(verb) if row.words.fit(words)]
    rows = [row for row in fitting if row.values]
    by_setting = {pair: [row for row in rows if _is_named(row, *pair)] for pair in dict.fromkeys(settings)}
    return [row for row in fitting if not row.values], [by_setting[pair] for pair in settings]


@lru_cache(maxsize=_CACHED_ARGUMENTS)
def _rows_of_verb(verb: str) -> Sequence[_Row]:
    return [row for row in _ROWS if row not in _WRITTEN and row.verbs.fit(frozenset((verb,))) is not row.excludes]


def _is_named(row: _Row, argument: str, name: str) -> bool:
    if row.is_given:
        # A whole argument, at any depth: a `key: value` in a text gives nothing.
        return name == _setting_name(argument) and row.names.fit(all_parts(argument))
    if not row.is_whole:
        return row.names.fit(name_parts(name.replace(".", "_")))
    # `post=True` is a setting, a text that says `post=true` is none.
    if has_role(argument, "prose") and not argument.endswith(name):
        return False
    own = frozenset(argument_words(name)) - ROLES["filler"]
    return bool(own) and own <= row.names.words


def _first_row(rows: Sequence[_Row], value: str) -> _Row | None:
    stated = value.strip().lower()
    match = _LAST_WORD.search(stated[-40:].strip("\"'"))
    values = (stated, match[0] if match else "")
    for row in rows:
        if row.is_given or not row.values.isdisjoint(values) or stated.startswith(row.stems):
            return row
    return None


def _find_settings(arguments: Mapping[str, object]) -> Iterator[_Setting]:
    """Yield everything in the arguments that may be a setting."""
    pending: list[tuple[str, object]] = [("", arguments)]
    count = 0
    while pending and count < _MAX_SCALARS:
        path, value = pending.pop()
        count += 1
        if isinstance(value, str):
            yield from _settings_in_text(path, value)
        elif isinstance(value, dict | Mapping):
            yield from _named_settings(path, value)
            pending += [(f"{path}.{key}" if path else f"{key}", item) for key, item in value.items()]
        elif isinstance(value, list | tuple):
            pending += [(f"{path}[{at}]", item) for at, item in enumerate(value)]
        elif text := _setting_text(value):
            yield path, _setting_name(path), text


def _setting_text(value: object) -> str:
    """Return a scalar as the value of a setting; empty for what is too long to be one."""
    if isinstance(value, int):
        return str(value) if value.bit_length() <= _MAX_SETTING_BITS else ""
    return value if isinstance(value, str) else ""


def _settings_in_text(path: str, value: str) -> Iterator[_Setting]:
    is_short = len(value) <= _MAX_SETTING_TEXT
    if is_short:
        yield path, _setting_name(path), value
    states_pairs = is_short and ("=" in value or (":" in value and not has_role(path, "prose")))
    if value[:1] == "{" or states_pairs or has_role(path, "document"):
        for match in islice(_PAIR.finditer(value[:_MAX_DOCUMENT]), _MAX_SCALARS):
            yield path, match[1], match[2]


@lru_cache(maxsize=_CACHED_ARGUMENTS)
def _setting_name(path: str) -> str:
    """Return the name of a setting; with the name above it where its own is only a state: `mfa.enabled`."""
    name = own_name(path)
    above = own_name(path[: -len(name) - 1]) if path.endswith("." + name) else ""
    return f"{above}_{name}" if above and has_role(name, "state") else name


def _named_settings(path: str, settings: Mapping[object, object]) -> Iterator[_Setting]:
    """Yield a setting that is spread over two arguments: its name is the value of one, its value that of another."""
    texts = [(roles_of(f"{key}"), _setting_text(value)) for key, value in islice(settings.items(), _MAX_SCALARS)]
    values = [text for roles, text in texts if "state" in roles and text][:4]
    names = [text for roles, text in texts if "setting" in roles and text][:4] if values else []
    yield from ((path, name, value) for name in names for value in values if len(name) <= _MAX_SETTING_TEXT)
