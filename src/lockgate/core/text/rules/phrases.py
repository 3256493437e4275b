"""Patterns for what people write: words of a sentence with a few other words in between."""

from __future__ import annotations

import re

_UNACCENTED = str.maketrans("áàâãäéèêëíìîïóòôõöúùûüçñłśżźćńąęğşı", "aaaaaeeeeiiiiooooouuuucnlszzcnaegsi")


def _any_case(letters: re.Match[str]) -> str:
    """A run of non-ASCII letters as it is, capitalised, in capitals, and without its accents."""
    run = letters[0]
    ways = dict.fromkeys((run, run[0].upper() + run[1:], run.upper(), run.translate(_UNACCENTED)))
    return f"(?:{'|'.join(ways)})" if len(ways) > 1 else run


def phrase(*parts: str | int, ascii_words: bool = True) -> str:
    """A pattern for a phrase: alternatives for a word, with `n` standing for up to n other words in between.

    A space inside an alternative is any run of white space and signs, so line ends, quotes, asterisks, underscores,
    comment marks and tags between the words make no difference; the brackets and operators of code end a sentence.
    Scripts whose letters are not ASCII have only white space between words.
    """
    between, word = (r"[^a-z0-9(){}\[\]=;@$%^&+~]+", r"[a-z0-9]+") if ascii_words else (r"\s+", r"\S+")
    pattern, gap = r"\b" if ascii_words else "", ""
    for part in parts:
        if isinstance(part, int):
            gap = f"{between}(?:{word}{between}){{0,{part}}}"
        else:
            words = part if part.isascii() else re.sub(r"[^\x00-\x7f]+", _any_case, part)
            pattern += f"{gap}(?:{words.replace(' ', between)})"
            gap = between
    return pattern


def any_of(*patterns: str) -> str:
    return "|".join(patterns)


# The reader the attacker hopes for. Bare "agent", "model" and "bot" are left out: they are ordinary words in software.
_AI_NAMES = (
    r"ai|llms?|language models?|(?:ai|virtual|coding) assistants?|chatbots?"
    r"|(?:ai|llm|autonomous) (?:agents?|models?|bots?)|artificial intelligence|chatgpt|gpt|claude|gemini|copilot"
)
AI_READER = rf"(?:{_AI_NAMES})\b"
ASSISTANT = rf"(?:{_AI_NAMES}|assistants?)\b"
