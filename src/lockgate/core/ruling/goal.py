"""What the user asks for, forbids, names, and hands over to a source: the only module that reads what a goal means.

It reads plain forms only, by the rows of `goal.tbl` and `effects/asked_by.txt`; whatever is finer is for the judges.
What the user forbids or only asks about is no wish: "don't delete anything", "who may write to that bucket?".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from lockgate.core.ruling.effects.effect import ASKED_BY
from lockgate.core.ruling.index import STOP_WORDS, Candidate
from lockgate.core.ruling.targets import BYTE_PATTERNS as _B
from lockgate.core.ruling.targets import PATTERNS as _P
from lockgate.core.ruling.targets import domain_of, is_open_to_all
from lockgate.core.ruling.tool_risk import canonical_tool, tool_intent, tool_words
from lockgate.core.ruling.work_budget import WorkBudget
from lockgate.core.tables import read_rows, read_table
from lockgate.core.text.imperatives import prepare, split_words
from lockgate.core.vocabulary import Effect, Severity

# A goal is as long as its user likes: wishes stand in its first pages, and what it names or hands over before that.
_MAX_GOAL, _MAX_ASKED, _MAX_NAMES = 20_000, 8_000, 64

TABLE = ("lockgate.core.ruling", "goal.tbl")
HANDS_OVER = (*TABLE, "hands-over", ("language", "pattern"))
_NAMED_WORDS = read_table(*TABLE, "words", ("name", "words"))
_ACTS = {kind: frozenset(words.split()) for kind, words in read_table(*TABLE, "acts", ("kind", "words"))}
_LISTS = {
    row.cells[0]: frozenset(" ".join([row.cells[1], *row.values]).split())
    for row in read_rows(*TABLE, "lists", ("list", "words"))
}
SMALL_WORDS = STOP_WORDS | {word.encode() for word in _LISTS["no names in sentences"]}
COMMON = frozenset(word.encode() for word in _LISTS["no names in goals"])
# What may be done because a named source says so. Where data, money or code come from or go to stays the user's to say.
WIDENED_KINDS = _LISTS["widened kinds"]


def compile_rows(*patterns: str) -> re.Pattern[str]:
    """Return the pattern that finds what any of these rows finds."""
    pattern = "|".join(patterns)
    for name, words in _NAMED_WORDS:
        pattern = pattern.replace(f"{{{name}}}", words)
    return re.compile(pattern, re.IGNORECASE)


_HANDS_OVER = compile_rows(*(pattern for _, pattern in read_table(*HANDS_OVER)))
_PATTERNS = {name: compile_rows(pattern) for name, pattern in read_table(*TABLE, "patterns", ("name", "pattern"))}
_WORD = re.compile(r"[^\W_]+")
_WRITTEN_OUT = str.maketrans({"\u2019": "'", "$": " dollar ", "\u20ac": " euro ", "\u00a3": " pound "})


def _sentences(text: str) -> list[str]:
    """Return the sentences in the first pages of a text, each with the marks at its end."""
    text = text[:_MAX_GOAL]
    ends = [match.end() for match in _P["sentence end"].finditer(text)]
    parts = (text[start:end].strip() for start, end in zip([0, *ends], [*ends, len(text)], strict=True))
    return [part for part in parts if part]


def wishes_in(text: str) -> str:
    """Return the words of a text in lower case, a line for each sentence, without what it forbids or only asks about.

    Nothing, where all that the text does is to ask questions.
    """
    sentences = _sentences(text.lower().translate(_WRITTEN_OUT))
    if all(map(_PATTERNS["question"].match, sentences)):
        return ""
    wished = (_PATTERNS["whether"].sub(" ", _PATTERNS["forbidden"].sub(" ", sentence)) for sentence in sentences)
    return "".join(f" {' '.join(words)} \n" for words in map(_WORD.findall, wished) if words)


def forbidden_after(text: str, before: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the kinds of effects that the user forbids altogether, once this text is said after others."""
    lower = text[:_MAX_GOAL].lower().translate(_WRITTEN_OUT)
    altogether = _PATTERNS["forbidden altogether"]
    bans = (match["acts"] for match in altogether.finditer(lower) if not match["told"])
    acts = {act for ban in bans for act in _WORD.findall(ban)}
    # Deleting, ordering, dropping; orders.
    stems = {act.removesuffix("ing") for act in acts}
    acts |= stems | {f"{stem}e" for stem in stems} | {stem[:-1] for stem in stems}
    # What is asked for in the same breath, or later, is not forbidden; in "don't order or buy from them" nothing is.
    rest = altogether.sub(". ", lower).replace(". or ", ". not ")
    bids = _PATTERNS["bid"].sub(" please", wishes_in(_PATTERNS["bid after comma"].sub(". ", rest)))
    bidden = {word for act in _PATTERNS["bidden"].findall(bids) for word in act}
    return frozenset(
        kind
        for kind, words in _ACTS.items()
        if bidden.isdisjoint(words) and (kind in before or not acts.isdisjoint(words))
    )


@lru_cache(maxsize=1024)
def is_asked_by(kind: str, wishes: str) -> bool:
    """Return whether wishes, as `wishes_in` gives them, have a phrase by which people ask for this kind."""
    return _pattern_of_phrases(ASKED_BY.get(kind, ())).search(wishes) is not None


def is_word_for_kind(kind: str, word: str) -> bool:
    """Return whether a word is one by which a goal asks for this kind."""
    return word.isalpha() and is_asked_by(kind, f" {word.lower()} ")


# What protects, by the phrases that speak of it.
_PROTECTIONS: dict[str, tuple[str, ...]] = {}
for _about, _phrases in read_table("lockgate.core.ruling.effects", "tools.tbl", "protections", ("about", "phrases")):
    _PROTECTIONS[_about] = (*_PROTECTIONS.get(_about, ()), *_phrases.split(", "))


def names_other_protection(wishes: str, act: str) -> bool:
    """Return whether wishes speak of something that protects, and an act of something else that does: alerts, logs."""
    texts = wishes, f" {' '.join(_WORD.findall(act.lower()))} "
    names = [(name, _pattern_of_phrases(phrases)) for name, phrases in _PROTECTIONS.items()]
    wished, switched = ({name for name, pattern in names if pattern.search(text)} for text in texts)
    # An alarm that is to be off may also be quiet for a while; a wish for quiet names no alarm.
    wished |= {"quiet"} if "alerts" in wished else set()
    return bool(wished) and bool(switched) and wished.isdisjoint(switched)


@lru_cache(maxsize=256)
def _pattern_of_phrases(phrases: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(_pattern_of_phrase, phrases)) or r"(?!)")


def _pattern_of_phrase(phrase: str) -> str:
    first, _, second = phrase.partition(" ")
    if not second:
        return _pattern_of_word(first)
    one, other = _pattern_of_word(first), _pattern_of_word(second)
    return rf"{one}(?:[^ \n]+ ){{0,4}}(?<= ){other[1:]}|{other}(?:[^ \n]+ ){{0,4}}(?<= ){one[1:]}"


def _pattern_of_word(word: str) -> str:
    """Return the pattern of a word with the blanks around it; without them in scripts that have none."""
    if word == "#":
        return r" \d+ "
    if word[0] > "\u2e80":
        return re.escape(word)
    endings = {"*": r"[^ \n]*", "!": "", "e": "(?:e|es|ed|ing)"}
    parts = (
        re.escape(part[:-1]) + endings[part[-1]] if part[-1] in endings else re.escape(part) + "(?:s|es|ed|ing)?"
        for part in word.split("-")
    )
    return f" {' '.join(parts)} "


# ---------------------------------------------------------------------------------------------------------------
# The user's words, and what every trusted or vetted block says besides

_ASKS_TO_ANSWER = (b"repl", b"answer", b"respond", b"antwort", b"beantwort", b"r\xc3\xa9pond", b"rispond")


SLOTS = {slot: _P[f"slot {slot}"] for slot in ("mailbox", "phone", "account", "amount")}
_NO_MARKS = str.maketrans("", "", ".,")


class Goal:
    """What the user asked for (goal and messages), and what every trusted or vetted block says besides."""

    def __init__(self) -> None:
        self.folded = self.asked_folded = b" "
        self.asked_text = self.wishes = ""
        # What the user forbids altogether.
        self.forbidden_kinds: frozenset[str] = frozenset()
        self.written = b""
        # The same without what is only vetted: that never asks for what opens a door.
        self.trusted_only = b""
        self.known: set[bytes] = set()
        self.asked: set[bytes] = set()
        self.proper_names: frozenset[bytes] = frozenset()
        # By slot, the values that the user's own words have for it.
        self.slots: dict[str, frozenset[str]] = {}

    def add(self, data: bytes, *, asks: bool, vetted: bool = False) -> None:
        """Take in a text; with `asks` it is the user's own, with `vetted` one that a person has vouched for."""
        prepared = prepare(data)
        words = split_words(prepared)
        self.written += prepared + b"\n"
        if not vetted:
            self.trusted_only += prepared + b"\n"
        self.folded += b" ".join(words) + b" "
        self.known.update(words)
        if asks:
            self.asked_folded += b" ".join(words) + b" "
            self.asked.update(stem for word in words for stem in _stems(word))
            text = data.decode("utf-8", "replace")
            self.wishes += wishes_in(text)
            self.forbidden_kinds = forbidden_after(text, self.forbidden_kinds)
            self.asked_text += text[:_MAX_ASKED] + "\n"
            names = _P["proper name"].findall(self.asked_text)
            self.proper_names = frozenset(name.lower().encode("utf-8", "ignore") for name in names)
            # Of all amounts only one right behind the verb is the sum to pay.
            texts = {"amount": "\n".join(_P["sum to pay"].findall(self.asked_text))}
            self.slots = {slot: frozenset(values_of_slot(slot, texts.get(slot, self.asked_text))) for slot in SLOTS}

    @property
    def asks_to_answer(self) -> bool:
        """Whether the user wants a message answered."""
        return any(word.startswith(_ASKS_TO_ANSWER) for word in self.asked)

    def asks_for_kind(self, kind: str) -> bool:
        """Return whether the user asks for this kind of effect, by the words of its row."""
        return is_asked_by(kind, self.wishes)

    def differs(self, slot: str, text: str) -> str:
        """Return a value that the user's words have for a slot, where a text has none of them but another one."""
        if slot == "payee":
            wished, values = frozenset(name.decode() for name in self.proper_names), {text.lower()}
        else:
            wished, values = self.slots.get(slot, frozenset()), set(values_of_slot(slot, text))
        return min(wished) if wished and values and wished.isdisjoint(values) else ""

    def asks_for_tool(self, tool: str) -> bool:
        """Return whether what the user asked for names what this tool does, verb and object."""
        verbs, objects = intent_of(tool)
        return not verbs.isdisjoint(self.asked) and (not objects or not objects.isdisjoint(self.asked))

    def contains_value(self, candidate: Candidate, budget: WorkBudget) -> bool:
        """Return whether the user or a trusted text says this: an address as written, other values word by word."""
        budget.take_pass(len(self.written))
        return self.contains_address(candidate.piece, budget) if candidate.is_address else candidate.is_in(self.folded)

    def contains_request(self, text: str) -> bool:
        """Return whether these words stand together in what the user asked for."""
        words = split_words(prepare(text.encode("utf-8", "ignore")))
        return bool(words) and b" " + b" ".join(words) + b" " in self.asked_folded

    def names(self, target: str, *, trusted_only: bool = False) -> bool:
        """Return whether the user writes this target, or the file name at the end of a path, as a word of its own.

        With `trusted_only`, a text that is only vetted does not count.
        A plain word is no file name: a goal about a `config` parser does not mean `~/.kube/config`.
        """
        budget = WorkBudget(len(self.written))
        # `user:ana@ours.example` is what the user calls ana@ours.example.
        kind, _, bare = target.partition(":")
        names = [*names_of(target), *([bare] if kind.isalpha() and "@" in bare else [])]
        return any(
            len(name) > 3
            and self.contains_address(name.lower().encode("utf-8", "ignore"), budget, trusted_only=trusted_only)
            for name in names
        )

    def contains_address(self, address: bytes, budget: WorkBudget, *, trusted_only: bool = False) -> bool:
        """Return whether a trusted text writes this address, and not one that is longer.

        With `trusted_only`, a text that is only vetted does not count.
        """
        # A user who wrote `mira@lind.example.org` did not mean `ra@lind.example`.
        written = self.trusted_only if trusted_only else self.written
        at = written.find(address)
        while at >= 0 and budget.take():
            before, after = written[at - 1 : at], written[at + len(address) : at + len(address) + 3]
            # Nor does who writes `/srv/builds` mean `/srv`.
            is_part = address[:1] in (b"/", b"~") and _B["goes down"].match(after)
            is_inside = _B["in address"].match(before) and not _B["login"].search(written, max(0, at - 255), at)
            if not (is_part or is_inside or _B["goes on"].match(after)):
                return True
            at = written.find(address, at + 1)
        return False

    def names_owner_of(self, address: str) -> bool:
        """Return whether a trusted text has the domain, its `www.` or a mailbox of the owner of an address.

        A domain under which anyone can have a name does not count, nor a neighbour: `ours.platform.example` says
        nothing about `theirs.platform.example`.
        """
        match = _B["place"].fullmatch(address.lower().encode("utf-8", "ignore"))
        if match is None:
            return False
        host = match[1] or match[2]
        domain = domain_of(host)
        # A pattern takes long to compile, and most domains stand in no trusted text.
        if len(domain) < 5 or domain not in self.written or is_open_to_all(domain):
            return False
        # Any of an owner's hosts names the domain, and only the domain names another host.
        start = rb"(?<![a-z0-9-])" if host == domain else rb"(?<![a-z0-9.-])(?:www\.)?"
        written = start + re.escape(domain) + rb"(?![a-z0-9_%+@-]|\.[a-z0-9])"
        return re.search(written, self.written) is not None


def values_of_slot(slot: str, text: str) -> Iterator[str]:
    """Yield the values that a text has for a slot, each written in one way."""
    for match in SLOTS[slot].finditer(text):
        value = match[0].lower()
        value = value if slot == "mailbox" else re.sub(r"[\s()/$\u20ac\u00a3'-]|[a-z]{3,}$", "", value)
        if slot == "amount":
            whole, _, cents = re.sub(r"[.,](?=\d\d?$)", "#", re.sub(r"[a-z]+", "", value)).partition("#")
            value = f"{whole.translate(_NO_MARKS)}.{cents:0<2}"
        yield value


def names_of(target: str) -> list[str]:
    """Return a target, and the name at the end of a path unless it is a plain word. A command is no path."""
    last = target.rstrip("/").rpartition("/")[2]
    return [target] if last.isalpha() or " " in target else [target, last]


def _stems(word: bytes) -> tuple[bytes, ...]:
    for ending in (b"ing", b"ed", b"es", b"s"):
        if word.endswith(ending) and len(word) - len(ending) > 2:
            stem = word[: -len(ending)]
            return (word, stem, stem + b"e")
    return (word,)


@lru_cache(maxsize=4096)
def intent_of(tool: str) -> tuple[frozenset[bytes], frozenset[bytes]]:
    """Return a tool's verbs and objects."""
    intent = tool_intent(tool)
    return frozenset(verb.encode() for verb in intent.verbs), frozenset(thing.encode() for thing in intent.objects)


# ---------------------------------------------------------------------------------------------------------------
# Goals that hand the decision to a source they name: "follow the README", "do what ticket 871 asks". Such a goal
# widens what the user said to the ordinary orders of that source, never to what opens a door, to where money or data
# go, nor to a source that the goal does not name.

# Folders of code that others wrote, and the hosts in a text.
VENDORED = re.compile(r"(?:^|[/\\\s:])(?:node_modules|site-packages|dist-packages|third[_-]party|vendor|\.venv)[/\\]")


@lru_cache(maxsize=64)
def _find_handing_over(goal: str) -> tuple[str, ...]:
    """Return the sentences in which a goal hands a decision over; a question only wants to know what a source says."""
    sentences = filter(_HANDS_OVER.search, _sentences(goal))
    is_polite = _PATTERNS["polite"].match
    return tuple(each for each in sentences if {"?", "\uff1f", "\u061f"}.isdisjoint(each[-4:]) or is_polite(each))


def hands_over(goal: str) -> bool:
    """Return whether a goal hands the decision to some text, whether or not it says to which."""
    return bool(_find_handing_over(goal))


@lru_cache(maxsize=64)
def delegated_names(goal: str) -> frozenset[str]:
    """Return the telling words, in lower case, of the sentences in which a goal hands a decision over."""
    sentences = _P["login in text"].sub("", "\n".join(_find_handing_over(goal)))
    words = _P["telling word"].findall(sentences)
    return frozenset(list(dict.fromkeys(word.lower() for word in words if _is_telling(word)))[:_MAX_NAMES])


def _is_telling(word: str) -> bool:
    lower, is_name = word.lower(), any(letter in "._-/0123456789" for letter in word)
    is_telling = is_name or len(word) > 3 or not word.isascii()
    return is_telling and lower not in _LISTS["plain"] and lower.encode("utf-8", "ignore") not in STOP_WORDS


def may_be_delegated(effect: Effect) -> bool:
    """Return whether this may be done because a source says so that the goal names."""
    # A program by its bare name is installed already, and a channel of one's own workspace is no stranger's address.
    is_installed = effect.kind == "runs-program" and "/" not in effect.target
    is_channel = effect.kind == "sends-message" and effect.target.startswith("#")
    return effect.severity < Severity.REACHES_OUT or effect.kind in WIDENED_KINDS or is_installed or is_channel


@lru_cache(maxsize=1024)
def is_delegated_to(names: frozenset[str], source: str, produced_by: str) -> bool:
    """Return whether a block is what the goal names: by its source, or by what its call was given.

    What a text says of itself does not count: every page can call itself a README. A call that read other files as
    well gave a text in which they cannot be told apart.
    """
    produced_by = _P["redirected"].sub("", produced_by)
    if not names or len(_P["path of call"].findall(produced_by)) > 1:
        return False
    place, _, tool = source.partition(":")
    if canonical_tool(tool) == "bash" and not _PATTERNS["prints one text"].match(produced_by.strip()):
        return False
    if place == "tool":
        # The tool's own name is in the goal as a verb or a noun: "Fetch the news" names no page.
        words = set(tool_words(tool))
        if words & {"glob", "grep"} or words >= {"search", "web"}:
            return False
    # A retrieved document's source is what its own metadata says.
    return _is_called(names, f" {'' if place in ('document', 'tool') else source} {produced_by} ".lower())


def _is_called(names: frozenset[str], called: str) -> bool:
    """Return whether a place is called by one of these names, and is not a stranger's."""
    if VENDORED.search(called) and not any(VENDORED.search(f"/{name}") for name in names):
        return False
    called_by = [name for name in names if re.search(rf"(?<!\w){re.escape(name)}s?(?!\w)", called) is not None]
    hosts = [host.rpartition("@")[2].partition(":")[0] for host in _P["hosts"].findall(called)]
    if {name.partition("/")[0] for name in names}.issuperset(hosts):
        return bool(called_by)
    # A file that the goal names is the user's own, and not a page of that name on a host that the goal does not name.
    return any(not _PATTERNS["file name"].search(name) for name in called_by)
