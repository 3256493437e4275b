"""Goals that hand the decision to a source they name: "follow the README", "do what ticket 871 asks".

Such a goal widens what the user said to the ordinary orders of that source. It never widens to what opens a door, to
where money or data go, nor to a source that the goal does not name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain

from lockgate.core.ruling.tool_risk import canonical_tool, tool_words
from lockgate.core.ruling.value_pieces import STOP_WORDS
from lockgate.core.tables import read_table
from lockgate.core.vocabulary import Effect, Severity

# What may be done because a named source says so. Where data, money or code come from or go to stays the user's to say.
WIDENED_KINDS = frozenset(
    {
        "adds-dependency",
        "changes-record",
        "changes-service",
        "clones",
        "installs-package",
        "opens-port",
        "orders",
        "requests",
        "unknown-act",
    }
)
_MAX_GOAL = 20_000
_MAX_NAMES = 64

# "Turn the minutes into issues" hands over what the issues say, and nothing but issues.
_TURNS_INTO = re.compile(
    r"\b(?:turn|convert|transform|break)\b[^.!?\n]{0,120}\binto\s+(?:[\w'-]+\s+){0,2}?"
    r"(task|issue|ticket|todo|event|reminder|card|appointment)s?\b",
    re.IGNORECASE,
)

_PACKAGE, _TABLE = "lockgate.core.ruling", "delegation.tbl"
HANDS_OVER = (_PACKAGE, _TABLE, "hands-over", ("language", "pattern"))
_NAMED_WORDS = read_table(_PACKAGE, _TABLE, "words", ("name", "words"))
_PLAIN = frozenset(word for [line] in read_table(_PACKAGE, _TABLE, "plain", ("words",)) for word in line.split())


def compile_rows(*patterns: str) -> re.Pattern[str]:
    """Return the pattern that finds what any of these rows finds."""
    pattern = "|".join(patterns)
    for name, words in _NAMED_WORDS:
        pattern = pattern.replace(f"{{{name}}}", words)
    return re.compile(pattern, re.IGNORECASE)


_HANDS_OVER = compile_rows(*(pattern for _, pattern in read_table(*HANDS_OVER)))
# "Could you do what it says?" is no question; "Could you tell me what it says?" is one.
_POLITE = re.compile(
    r"(?:\s*(?:hi|hello|hey|please|and|also|so|then|now)\b,?)*\s*(?:can|could|will|would)\s+you\b"
    r"(?![^.!?\n]{0,200}\b(?:tell|show|explain|summari[sz]e|describe|list|know|say|find\s+out|give\s+me|quote)\b)"
    r"[^.!?\n]{0,200}?\b(?:follow|work\s+through|carry\s+out|implement|execute|act\s+on|apply|complete|perform|obey|resolve"
    r"|fulfill?|do|take\s+care\s+of|set\s+up)\b",
    re.IGNORECASE,
)
_PATH = re.compile(r"[^\s;|&'\"]*[\w~]?(?:/[\w.]|\w\.[a-zA-Z])[^\s;|&'\"]*")
# Programs that print the files they are given, with how many words a script of theirs takes before the files.
_PRINTS = {
    **dict.fromkeys("cat bat batcat less more head tail nl tac type view".split(), 0),
    **dict.fromkeys("awk grep jq rg sed yq".split(), 1),
}
# What a command line may begin with: a folder, or the names of the files beside the one that is printed.
_FIRST = re.compile(r"cd\s+[^\s;&|]+\s*&&\s*|(?:(?:ls(?:\s+-[al1]+)?|pwd)\s*(?:&&|;)\s*)+(?=[^/]*\Z)")
_REDIRECTED = re.compile(r"\s*(?:2>&1|[12]?>\s*/dev/null)")
# Folders of code that others wrote, and the hosts in a text.
VENDORED = re.compile(r"(?:^|[/\\\s:])(?:node_modules|site-packages|dist-packages|third[_-]party|vendor|\.venv)[/\\]")
_FILE_NAME = re.compile(
    r"\.(?:md|txt|rst|adoc|org|html?|pdf|docx?|ya?ml|toml|json|sql|ipynb)$|^(?:readme|contributing|changelog)$"
)
_HOSTS = re.compile(r"://([^/?#\s]*)")
_LOGIN = re.compile(r"(?<=://)[^/?#@\s\\]{1,255}@")
# A second command, a substitution, or a pattern that may fit many files.
_MORE_THAN_ONE = re.compile(r"[;&<>`$\n*?\[{]")
# Words of commands that print pieces of many texts, whatever they are asked for.
_MANY_TEXTS = frozenset("blame diff find list log ls search".split())
_SENTENCE = re.compile(r"[^!?\n;]*?(?:[.!?](?=\s|$)|[\n;]|$)")
_WORD = re.compile(r"[\w][\w.+#@/-]*[\w]|\w", re.UNICODE)


def _sentences_that(does: re.Pattern[str], goal: str) -> Iterator[str]:
    """Yield the sentences of a goal in which this pattern is found."""
    for found in _SENTENCE.finditer(goal[:_MAX_GOAL]):
        sentence = found.group()
        # A question wants to know what a source says, not to see it done.
        is_question = sentence.rstrip().endswith(("?", "？", "؟")) and not _POLITE.match(sentence)
        if not is_question and does.search(sentence):
            yield sentence


@lru_cache(maxsize=64)
def hands_over(goal: str) -> bool:
    """Return whether a goal hands the decision to some text, whether or not it says to which."""
    return any(_sentences_that(_HANDS_OVER, goal))


@lru_cache(maxsize=64)
def delegated_names(goal: str, tool: str = "") -> frozenset[str]:
    """Return the telling words, in lower case, of the sentences in which a goal hands a decision over to this tool."""
    words = tool_words(tool)
    turned = _sentences_that(_TURNS_INTO, goal)
    makes = (each for each in turned if any(found[1].lower() in words for found in _TURNS_INTO.finditer(each)))
    return _telling_words(chain(_sentences_that(_HANDS_OVER, goal), makes))


def _telling_words(sentences: Iterable[str]) -> frozenset[str]:
    names: set[str] = set()
    for sentence in sentences:
        for word in _WORD.findall(_LOGIN.sub("", sentence)):
            lower = word.lower()
            is_telling = any(letter in "._-/0123456789" for letter in word) or len(word) > 3 or not word.isascii()
            if (
                is_telling
                and lower not in _PLAIN
                and lower.encode("utf-8", "ignore") not in STOP_WORDS
                and len(names) < _MAX_NAMES
            ):
                names.add(lower)
    return frozenset(names)


def may_be_delegated(effect: Effect) -> bool:
    """Return whether this may be done because a source says so that the goal names."""
    if effect.severity < Severity.REACHES_OUT or effect.kind in WIDENED_KINDS:
        return True
    # A program by its bare name is installed already.
    if effect.kind == "runs-program" and "/" not in effect.target:
        return True
    # A channel of one's own workspace is no stranger's address.
    return effect.kind == "sends-message" and effect.target.startswith("#")


def may_go_to_judge_if_delegated(effect: Effect) -> bool:
    """Return whether a judge may weigh that such a source says so: a message, and what stays among the user's own.

    A file, a repository or money that goes to an address waits for a person, whatever the goal follows.
    """
    return effect.kind in ("deletes-record", "sends-message") or (effect.kind == "shares" and "@" not in effect.target)


def is_delegated_to(names: frozenset[str], source: str, produced_by: str) -> bool:
    """Return whether a block is what the goal names: by its source, or by what its call was given.

    What a text says of itself does not count: every page can call itself a README. A call that read other files as
    well gave a text in which they cannot be told apart.
    """
    if not names:
        return False
    produced_by = _REDIRECTED.sub("", produced_by)
    if len(_PATH.findall(produced_by)) > 1:
        return False
    if canonical_tool(source.partition(":")[2]) == "bash" and not _prints_one_source(produced_by):
        return False
    place, _, tool = source.partition(":")
    if place == "document":
        # A retrieved document's source is what its own metadata says.
        source = ""
    if place == "tool":
        # The tool's own name is in the goal as a verb or a noun: "Fetch the news" names no page.
        words = set(tool_words(tool))
        if words & {"glob", "grep"} or words >= {"search", "web"}:
            return False
        source = ""
    return _is_called(names, f" {source} {produced_by} ".lower())


def _is_called(names: frozenset[str], called: str) -> bool:
    """Return whether a place is called by one of these names, and is not a stranger's."""
    if VENDORED.search(called) and not any(VENDORED.search(f"/{name}") for name in names):
        return False
    called_by = [name for name in names if re.search(rf"(?<!\w){re.escape(name)}s?(?!\w)", called) is not None]
    if all(any(_names_host(name, host) for name in names) for host in _HOSTS.findall(called)):
        return bool(called_by)
    # A file that the goal names is the user's own, and not a page of that name on a host that the goal does not name.
    return any(not _FILE_NAME.search(name) for name in called_by)


def _names_host(name: str, host: str) -> bool:
    return name.partition("/")[0] == host.rpartition("@")[2].partition(":")[0]


def _prints_one_source(command: str) -> bool:
    """Return whether a command line runs one program for its text, and gives it no second file to print."""
    command = _FIRST.sub("", command.strip(), count=1)
    if _MORE_THAN_ONE.search(command):
        return False
    first, *filters = [part.split() or [""] for part in command.split("|")]
    is_filtered = all(part[0] in _PRINTS and _count_files(part) == 0 for part in filters)
    prints_one = _count_files(first) == 1 if first[0].rpartition("/")[2] in _PRINTS else _MANY_TEXTS.isdisjoint(first)
    return is_filtered and prints_one


def _count_files(words: list[str]) -> int:
    """Return how many files a program that prints files is given; 0 for every other program."""
    program = words[0].rpartition("/")[2]
    if program not in _PRINTS:
        return 0
    return len([word for word in words[1:] if word[0] != "-" and not word.isdigit()]) - _PRINTS[program]
