"""What the rules say about the text of one document: injections, hidden texts, and text that no rule could see."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from lockgate.abuse_gate.documents.extracted_text import BY_STRETCH, HIDING_WAYS
from lockgate.abuse_gate.request.content_kinds import MEDIA
from lockgate.abuse_gate.request.payload_from_body import UNREAD, InspectedUpload, Upload
from lockgate.abuse_gate.request.xml_text import has_own_entities, is_xml
from lockgate.core.requests.request_signs import grade_scan
from lockgate.core.text.rules import Scope
from lockgate.core.text.scanner import Scan, Scanner

# These broad rules flag every other text: they count where a call is judged, not for a whole document.
TOO_BROAD: Final = frozenset({"seed:call-syntax", "seed:credential-word"})
# Families of rules that speak to an agent: in a hidden text each of them counts, however broad it is.
_AGENT_FAMILIES: Final = frozenset({"override", "authority", "concealment", "tool", "markup", "custom"})
# Source code is full of words that a rule might find, and no reader sees it; only text that speaks to an agent counts.
_NOT_READ: Final = frozenset({"script"})


class DocumentText(NamedTuple):
    """The text of a document: visible texts, hidden texts with their ways, and whether that is all of it."""

    visible: tuple[str, ...]
    hidden: tuple[tuple[str, str], ...]
    stats: Mapping[str, int]
    complete: bool


class _Findings:
    """What the rules say so far."""

    def __init__(self, answer: DocumentText) -> None:
        self.hits: list[str] = []
        self.texts = list(answer.visible)
        self.hidden: list[str] = []
        self.complete = answer.complete


def judge_document(
    upload: Upload, kind: str, answer: DocumentText, scanner: Scanner, bare: str = ""
) -> InspectedUpload:
    """Return what the rules say about a document; `bare` is its bytes as an application may read them as a text."""
    found = _Findings(answer)
    pieces_by_way: dict[str, list[str]] = {}
    for way, text in answer.hidden:
        pieces_by_way.setdefault(way, []).append(text)
    for way, pieces in pieces_by_way.items():
        _judge_hidden(found, kind, way, pieces, scanner)
    _judge_visible(found, kind, answer, scanner, bare)
    if kind == "pdf" and found.complete and _is_unreadable_pdf(answer.visible):
        # Drawn or scanned, or letters in no order: a model that looks at pages reads text that no rule has seen.
        found.hits.append("pdf:no_text")
    if kind == "docx" and answer.stats.get("attachments"):
        # It embeds a file of another kind, which is not opened.
        found.hits.append("docx:embedded")
    if kind == "text" and any(is_xml(text) and has_own_entities(text) for text in answer.visible):
        found.hits.append("xml:entities")
    if not found.complete:
        found.hits.append(UNREAD)
    if kind in MEDIA and not found.hits:
        return InspectedUpload(upload.name, kind, stats={"bytes": len(upload.data)})
    stats = {
        "bytes": len(upload.data),
        "characters": sum(map(len, answer.visible)),
        "hidden_characters": sum(map(len, found.hidden)),
        "spans_count": len(found.hidden),
        **answer.stats,
    }
    hits = tuple(dict.fromkeys(found.hits))
    return InspectedUpload(upload.name, kind, tuple(found.texts), tuple(found.hidden), hits, stats, found.complete)


def _judge_hidden(found: _Findings, kind: str, way: str, pieces: list[str], scanner: Scanner) -> None:
    joined = "\n".join(pieces)
    scan = scanner.scan(joined)
    families, loud = _families_in(scan)
    found.complete = found.complete and not scan.capped
    letters = max(map(_count_letters, pieces)) if way in BY_STRETCH else _count_letters(joined)
    least = HIDING_WAYS[way]
    # A text that no reader can see and that speaks to an agent was put there for the agent.
    if loud or (families and least is not None):
        found.hits += [f"{kind}:hidden", *map(_injection_rule, families)]
    elif families or (least is not None and letters >= least):
        found.hits.append(f"{kind}:hidden")
    if families or least is not None:
        found.hidden.append(joined)
    elif way not in _NOT_READ:
        found.texts.append(joined)


def _judge_visible(found: _Findings, kind: str, answer: DocumentText, scanner: Scanner, bare: str) -> None:
    hits, read = hits_in_outside_text("\n".join(answer.visible), scanner)
    found.complete = found.complete and read
    if bare:
        hits += hits_in_outside_text(bare, scanner)[0]
        # A file that is no document after all is shown to a model as the text that it may be.
        if kind in ("pdf", "docx", "html") and not answer.visible and not answer.complete:
            found.texts.append(bare)
    found.hits += dict.fromkeys(hits)


def _is_unreadable_pdf(pages: tuple[str, ...]) -> bool:
    return not any(map(str.strip, pages)) or any(map(_is_scattered, pages))


def _families_in(scan: Scan) -> tuple[list[str], list[str]]:
    """Return the families of hits that could speak to an agent, and those that surely do."""
    families: dict[str, None] = {}
    loud: dict[str, None] = {}
    for part in scan.parts:
        for hit in part.hits:
            rule = hit.rule
            if rule.id in TOO_BROAD or rule.scope is Scope.ARGUMENTS:
                continue
            if rule.scope is Scope.AGENT:
                loud[rule.family] = None
            if rule.scope is Scope.AGENT or rule.family in _AGENT_FAMILIES:
                families[rule.family] = None
    return list(families), list(loud)


def hits_in_outside_text(text: str, scanner: Scanner) -> tuple[list[str], bool]:
    """Return the rule hits of a visible text from outside, and whether all of it was read.

    One family of the rules for agents is a suspicion, as ordinary documents say `new task` and `forget`. Two support
    each other, and so do the signs of an attack on a prompt.
    """
    scan = scanner.scan(text)
    _, loud = _families_in(scan)
    if len(loud) > 1 or (loud and grade_scan(text, scan).sure):
        return [_injection_rule(family) for family in loud], not scan.capped
    return [f"text:{family}" for family in loud], not scan.capped


def _injection_rule(family: str) -> str:
    return "inj:override_safety" if family == "override" else f"inj:{family}"


def _count_letters(text: str) -> int:
    return sum(map(str.isalnum, text))


def _is_scattered(page: str) -> bool:
    """Return whether only the places of the letters on a page make words of them."""
    words = [len(word) for word in re.findall("[A-Za-z]+", page[:20_000])]
    return len(words) >= 20 and sum(words) < 2.6 * len(words)
