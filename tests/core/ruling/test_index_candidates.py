"""Which pieces of a value are looked for in untrusted text."""

from __future__ import annotations

import pytest

from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.index import find_candidates


def pieces(argument: str, value: str, seen: str) -> set[bytes]:
    words = {word.encode() for word in seen.split()}
    return {found.piece for found in find_candidates(Leaf(argument, value), words)}


@pytest.mark.parametrize(
    ("argument", "value", "seen", "piece"),
    [
        ("to", "Eve@Evil.example", "eve evil example", b"eve@evil.example"),
        ("url", "https://a.evil.example/p?q=secret1", "a evil example p q secret1", b"evil.example"),
        ("url", "https://a.evil.example/p?q=secret1", "a evil example", b"a.evil.example"),
        ("path", "/tmp/stage,-x", "tmp stage", b"/tmp/stage"),
        ("account", "1234-5678 90", "x", b"1234-5678 90"),
    ],
)
def test_a_piece_that_an_attacker_could_have_named_is_looked_for(
    argument: str, value: str, seen: str, piece: bytes
) -> None:
    assert piece in pieces(argument, value, seen)


def test_a_piece_with_a_word_that_no_untrusted_text_has_is_not_looked_for() -> None:
    assert not pieces("to", "ana@corp.example", "eve evil example")


def test_a_domain_where_anyone_has_a_page_says_nothing_alone() -> None:
    assert b"github.com" not in pieces("url", "https://github.com/x", "github com")
    # Where every customer has a host, the host tells.
    assert b"evil.herokuapp.com" in pieces("url", "https://evil.herokuapp.com/x", "evil herokuapp com")


@pytest.mark.parametrize(("word", "is_plain"), [("espanol", True), ("español", True), ("отчёт", True), ("报告", False)])
def test_a_word_with_letters_beyond_ascii_is_as_plain_as_another(word: str, *, is_plain: bool) -> None:
    found = find_candidates(Leaf("name", word), {word.encode()})
    assert [candidate.is_plain_word for candidate in found] == [is_plain]
    # Where a call goes to, such a word stays telling: no order in its language has the tool's English verb.
    found = find_candidates(Leaf("to", word), {word.encode()})
    assert [candidate.is_plain_word for candidate in found] == [word.isascii()]
