"""The border of a scope: which places its text names, alone and together with other scopes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockgate.core.errors import InvalidConfig
from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.scope.border import (
    border_from_prose,
    border_from_scope,
    combine_scopes,
    split_scopes,
)
from lockgate.core.ruling.scope.crossings import find_crossings

LAB = (
    "Our lab: *.lab.example, target.example, 10.1.0.0/16, [2001:db8::]/32, https://app.example/shop, "
    "port.example:8080 !mail.lab.example and the samples in /srv/samples"
)


def crossed(text: str, argument: str = "command", scope: str = LAB, tool: str = "") -> list[str]:
    return [found.rule for found in find_crossings(border_from_scope(scope), [Leaf(argument, text)], tool=tool)]


# --- what a scope names


@pytest.mark.parametrize(
    ("scope", "inside"),
    [
        ("our own test lab", []),
        ("e.g. malware analysis, i.e. reading samples in report.pdf", []),
        ("lab.example", ["lab.example"]),
        ("Lab.Example.", ["lab.example"]),
        ("(*.lab.example, b.example).", ["*.lab.example", "b.example"]),
        ("localhost:8080 and the like", ["localhost:8080"]),
        ("bücher.example", ["xn--bcher-kva.example"]),
        (
            "10.0.0.0/8; 192.168.1.5:8080. Also ~/lab and C:\\lab.",
            ["10.0.0.0/8", "192.168.1.5/32:8080", "~/lab", "c:/lab"],
        ),
        ("10.0.0.5/8", ["10.0.0.0/8"]),
        ("2001:db8::/32 or [::1]:80", ["2001:db8::/32", "::1/128:80"]),
        ("https://app.example/shop/?q=1", ["app.example/shop"]),
        ("https://app.example", ["app.example"]),
        ("https://app.example/", ["app.example"]),
        ("http://10.0.0.5:8000/x", ["10.0.0.5/32:8000/x"]),
        ("app.example/shop", ["app.example/shop"]),
        ("the samples in /srv/samples/.", ["/srv/samples"]),
        ("write to clerk@lab.example", []),
        ("*.lab.example, nothing else", ["*.lab.example"]),
        ("lab.example, never production", ["lab.example"]),
    ],
)
def test_what_a_scope_names(scope: str, inside: list[str]) -> None:
    assert [str(place) for place in border_from_scope(scope).inside] == inside


def test_a_mark_puts_a_place_outside() -> None:
    edge = border_from_scope(
        "*.lab.example, 10.0.0.0/8 !10.0.0.5 /srv !/srv/keys https://a.example !https://a.example/admin "
        "except !mail.lab.example"
    )
    assert [str(place) for place in edge.excluded] == [
        "10.0.0.5/32",
        "/srv/keys",
        "a.example/admin",
        "mail.lab.example",
    ]


@pytest.mark.parametrize(
    "scope",
    [
        "*.lab.example but not mail.lab.example",
        "*.lab.example except mail.lab.example",
        "mail.lab.example is out of scope",
        "b.example and c.example are not to be touched",
        "In scope:\n- a.example\nOut of scope:\n- b.example\n",
        "nothing outside 10.0.0.0/8",
        "Don't touch 10.0.0.5",
        "everything, excluding /srv/keys",
    ],
)
def test_a_scope_with_words_that_could_exclude_a_place_is_refused(scope: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        border_from_scope(scope)
    assert "is that inside?" in refused.value.message
    assert "!mail.lab.example" in refused.value.hint


def test_a_scope_without_places_has_no_border() -> None:
    assert not border_from_scope("our own test lab")
    assert crossed("curl http://anywhere.example", scope="our own test lab") == []


def test_words_that_bind_no_operator_are_not_refused() -> None:
    assert [str(place) for place in border_from_prose("all of src but not /etc, except b.example").inside] == [
        "/etc",
        "b.example",
    ]


# --- several scopes


def test_what_is_inside_two_scopes_is_inside_both() -> None:
    scope = combine_scopes("*.lab.example, 10.0.0.0/8", "a.lab.example, b.example")
    assert crossed("curl http://a.lab.example/", scope=scope) == []
    for text in ("http://c.lab.example/", "http://b.example/", "http://10.0.0.1/", "http://evil.com/"):
        assert crossed(f"curl {text}", scope=scope)


def test_a_scope_without_places_adds_no_border_and_takes_none_away() -> None:
    for scope in (combine_scopes("our own lab", "*.lab.example"), combine_scopes("*.lab.example", "our own lab")):
        assert crossed("curl http://a.lab.example/", scope=scope) == []
        assert crossed("curl http://evil.com/", scope=scope)
    assert not border_from_scope(combine_scopes("our own lab", "everything"))


def test_paths_are_inside_every_scope_that_names_some() -> None:
    scope = combine_scopes("/srv", combine_scopes("*.lab.example", "/srv/samples !/srv/samples/keys"))
    assert crossed("/srv/samples/x", "path", scope) == []
    assert crossed("/srv/x", "path", scope)
    assert crossed("/srv/samples/keys/x", "path", scope)


def test_several_scopes_are_one_text_that_says_so() -> None:
    scope = combine_scopes("*.lab.example", "only a.lab.example")
    assert scope == "*.lab.example\n\nand at the same time only within:\n\nonly a.lab.example"
    assert split_scopes(scope) == ("*.lab.example", "only a.lab.example")
    assert (
        combine_scopes(scope, "*.lab.example")
        == scope
        == combine_scopes(scope, scope)
        == combine_scopes(scope, "")
        == combine_scopes("", scope)
    )
    assert split_scopes("") == ()


def test_every_one_of_several_scopes_is_checked_for_words_that_exclude() -> None:
    with pytest.raises(InvalidConfig, match="is that inside"):
        border_from_scope(combine_scopes("*.lab.example", "b.example but not c.example"))


SCOPES = st.sampled_from(
    [
        "*.lab.example",
        "a.lab.example",
        "our own lab",
        "10.0.0.0/8",
        "10.1.0.0/16 !10.1.2.3",
        "target.example:80",
        "/srv",
    ]
)


@settings(max_examples=100, deadline=None)
@given(st.lists(SCOPES, min_size=1, max_size=4), st.sampled_from(["a.lab.example", "10.1.2.3", "10.2.0.1", "evil.com"]))
def test_a_further_scope_never_lets_more_through(scopes: list[str], host: str) -> None:
    joined = ""
    for scope in scopes:
        joined = combine_scopes(joined, scope)
    apart = any(crossed(f"http://{host}/", "url", scope) for scope in scopes)
    assert bool(crossed(f"http://{host}/", "url", joined)) == apart


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=120))
def test_no_scope_breaks_it(scope: str) -> None:
    try:
        border_from_scope(scope)
    except InvalidConfig:
        return
