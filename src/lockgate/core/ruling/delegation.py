"""Goals that hand the decision to a source they name: "follow the README", "do what ticket 871 asks".

Such a goal widens what the user said to the ordinary orders of that source. It never widens to what opens a door, to
where money or data go, nor to a source that the goal does not name.
"""

from __future__ import annotations

import re
from functools import lru_cache

from lockgate.core.ruling.value_pieces import STOP_WORDS
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

_HANDS_OVER = re.compile(
    r"""
      \b(?:follow|work\s+through|go\s+through|step\s+through|carry\s+out|implement|execute|address|handle|act\s+on|apply
        |complete|process|do|perform|obey|resolve|take\s+care\s+of|set\s+up)\b
        [^.!?\n]{0,80}\b(?:instructions?|steps?|guides?|readme|docs?|documentation|manual|runbook|checklist|todos?|to-dos?
        |tasks?|items?|list|tickets?|issues?|comments?|requests?|asks?|says?|wants?|described?|mails?|e-?mails?|letter|note
        |notes|wiki|page|plan|spec|migration|recipe|tutorial|contributing|install\w*|\S+\.(?:md|txt|rst|adoc|sql|pdf|docx?))\b
    | \bas\s+(?:it\s+is\s+|they\s+are\s+)?(?:described|explained|documented|requested|asked|specified|instructed|shown
        |recommended|suggested|outlined|written|stated|listed)\b
    | \bwhat(?:ever)?\s+(?!do|is|are|was)(?:[^\s,]+\s+){1,4}?(?:says?|asks?|wants?|recommends?|suggests?|requests?
        |needs?|tells?)\b
    | \b(?:according\s+to|as\s+per|per\s+the|in\s+line\s+with|recommend(?:s|ed)?|suggest(?:s|ed)?|asks?\s+for)\b
    | \b(?:folge|befolge|arbeite|wie\s+[^.!?\n]{0,60}beschrieben|laut|gemäß|nach\s+der\s+anleitung
        |suis|suivez|selon|comme\s+décrit|sigue|seg[uú]n|como\s+se\s+describe|segue|siga|conforme|segui|secondo
        |come\s+descritto|volg|volgens|zoals\s+beschreven)\b
    | 按照|根据|遵循|依照|に従っ|の通り|따라
    """,
    re.IGNORECASE | re.VERBOSE,
)
_PATH = re.compile(r"[^\s;|&'\"]*[\w~]?(?:/[\w.]|\w\.[a-zA-Z])[^\s;|&'\"]*")
_SENTENCE = re.compile(r"[^!?\n;]*?(?:[.!?](?=\s|$)|[\n;]|$)")
_WORD = re.compile(r"[\w][\w.+#@/-]*[\w]|\w", re.UNICODE)
_PLAIN = frozenset(
    "follow work through carry implement execute address handle apply complete process perform resolve instruction "
    "instructions step steps exactly described explained documented requested asked specified recommended suggested "
    "according whatever what says asks wants needs please then them their there this that with from into until works "
    "running locally local make sure tell back first then done open here file files folge befolge damit nach wie "
    "ticket tickets task tasks item items list project page note notes document customer mail email e-mail comment "
    "comments request requests dependency environment version section table setup set install "
    "und der die das den dem suis selon pour sigue según para segue conforme segui secondo volg volgens".split()
)


@lru_cache(maxsize=64)
def delegated_names(goal: str) -> frozenset[str]:
    """Return the telling words, in lower case, of the sentences in which a goal hands the decision over."""
    names: set[str] = set()
    for found in _SENTENCE.finditer(goal[:_MAX_GOAL]):
        sentence = found.group()
        if not _HANDS_OVER.search(sentence):
            continue
        for word in _WORD.findall(sentence):
            lower = word.lower()
            is_telling = any(letter in "._-/0123456789" for letter in word) or len(word) > 3 or not word.isascii()
            if is_telling and lower not in _PLAIN and lower.encode() not in STOP_WORDS and len(names) < _MAX_NAMES:
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


def is_delegated_to(names: frozenset[str], source: str, produced_by: str) -> bool:
    """Return whether a block is what the goal names: by its source, or by what its call was given.

    What a text says of itself does not count: every page can call itself a README. A call that read other files as
    well gave a text in which they cannot be told apart.
    """
    if not names:
        return False
    if len(_PATH.findall(produced_by)) > 1:
        return False
    called = f" {source} {produced_by} ".lower()
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", called) is not None for name in names)
