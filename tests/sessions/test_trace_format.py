"""Lines of a trace: understood whole, or refused with their number."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockgate.core.errors import InvalidTrace
from lockgate.core.vocabulary import Kind, Mode, Trust
from lockgate.sessions.trace_format import (
    MAX_DEPTH,
    MAX_LINE_BYTES,
    BlockEvent,
    CallEvent,
    Event,
    SessionStart,
    TraceHeader,
    decode_line,
    parse_line,
)


def call(arguments: str) -> str:
    return f'{{"call": {{"tool": "t", "arguments": {arguments}}}}}'


def refusal(line: str, number: int = 7) -> InvalidTrace:
    with pytest.raises(InvalidTrace) as caught:
        parse_line(line, number)
    return caught.value


def test_each_event_becomes_a_value() -> None:
    assert parse_line('{"trace": "lockgate/1"}', 1) == TraceHeader("lockgate/1")
    assert parse_line('{"session": {}}', 1) == SessionStart()
    assert parse_line('{"session": {"goal": "g", "mode": "paranoid"}}', 1) == SessionStart("g", Mode.PARANOID)
    assert parse_line('{"block": {"content": "", "source": "web"}}', 1) == BlockEvent("", "web")
    assert parse_line(call('{"a": [1, 2.5, null, true]}'), 1) == CallEvent("t", {"a": [1, 2.5, None, True]})


def test_every_key_is_read() -> None:
    block = {
        "content": "c",
        "source": "tool:x",
        "trust": "vetted",
        "kind": "data",
        "mutable": False,
        "id": "b",
        "tainted_by": ["a"],
    }
    assert parse_line(json.dumps({"block": block}), 1) == BlockEvent(
        "c", "tool:x", Trust.VETTED, Kind.DATA, False, "b", ("a",)
    )
    asked = {"tool": "t", "arguments": {}, "annotations": {"readOnlyHint": True}, "label": "attack"}
    assert parse_line(json.dumps({"call": asked}), 1) == CallEvent("t", {}, {"readOnlyHint": True}, "attack")
    started = {"goal": "g", "mode": "research", "scope": "s"}
    assert parse_line(json.dumps({"session": started}), 1) == SessionStart("g", Mode.RESEARCH, "s")


REFUSED = {
    "nothing": ("", "not JSON"),
    "half an object": ('{"call": ', "not JSON"),
    "two objects": ('{"session": {}} {"session": {}}', "not JSON"),
    "single quotes": ("{'session': {}}", "not JSON"),
    "a raw control character": ('{"session": {"goal": "a\tb"}}', "not JSON"),
    "a list": ("[]", "must be an object, not a list"),
    "null": ("null", "must be an object, not null"),
    "no event": ("{}", "exactly one"),
    "two events": ('{"session": {}, "block": {}}', "exactly one"),
    "an unknown event": ('{"blok": {}}', "unknown event `blok`"),
    "an event beside the header": ('{"trace": "lockgate/1", "session": {}}', "exactly one"),
    "another version": ('{"trace": "lockgate/2"}', "unknown trace format `lockgate/2`"),
    "a version that is no text": ('{"trace": [[[[1]]]]}', "unknown trace format a list"),
    "a session that is text": ('{"session": "goal"}', "`session` must be an object, not text"),
    "an unknown key": ('{"call": {"tool": "t", "arguments": {}, "args": {}}}', "unknown key `args`"),
    "a goal that is a number": ('{"session": {"goal": 1}}', "`session.goal` must be text, not a number"),
    "an unknown mode": ('{"session": {"mode": "paranoic"}}', "unknown mode `paranoic`"),
    "a mode in capitals": ('{"session": {"mode": "Paranoid"}}', "unknown mode"),
    "no content": ('{"block": {"source": "web"}}', "`block` needs `content`"),
    "content that is null": ('{"block": {"source": "web", "content": null}}', "must be text, not null"),
    "no source": ('{"block": {"content": ""}}', "`block` needs `source`"),
    "an empty source": ('{"block": {"content": "", "source": ""}}', "1 to 1,000 characters"),
    "a long source": ('{"block": {"content": "", "source": "' + "s" * 1001 + '"}}', "1 to 1,000 characters"),
    "an unknown trust": ('{"block": {"content": "", "source": "w", "trust": "high"}}', "unknown trust `high`"),
    "a trust that is a number": ('{"block": {"content": "", "source": "w", "trust": 2}}', "must be text"),
    "an unknown kind": ('{"block": {"content": "", "source": "w", "kind": "file"}}', "unknown kind `file`"),
    "mutable as a word": ('{"block": {"content": "", "source": "w", "mutable": "no"}}', "true or false, not text"),
    "mutable as a number": ('{"block": {"content": "", "source": "w", "mutable": 1}}', "true or false, not a number"),
    "one parent without a list": (
        '{"block": {"content": "", "source": "w", "tainted_by": "b"}}',
        "a list of block ids",
    ),
    "a parent that is null": (
        '{"block": {"content": "", "source": "w", "tainted_by": [null]}}',
        "must be text, not null",
    ),
    "no tool": ('{"call": {"arguments": {}}}', "`call` needs `tool`"),
    "a tool that is null": ('{"call": {"tool": null, "arguments": {}}}', "must be text, not null"),
    "no arguments": ('{"call": {"tool": "t"}}', "`call` needs `arguments`"),
    "arguments as text": (call('"{}"'), "`call.arguments` must be an object, not text"),
    "arguments as a list": (call("[]"), "not a list"),
    "annotations as a list": ('{"call": {"tool": "t", "arguments": {}, "annotations": []}}', "`call.annotations`"),
    "an unknown label": ('{"call": {"tool": "t", "arguments": {}, "label": "evil"}}', "unknown label `evil`"),
    "NaN": (call('{"a": NaN}'), "`NaN` is not a JSON number"),
    "Infinity": (call('{"a": -Infinity}'), "`-Infinity` is not a JSON number"),
    "a float that does not fit": (call('{"a": 1e999}'), "number `1e999` is too large"),
    "an integer of thousands of digits": (call('{"a": ' + "9" * 5000 + "}"), "5,000 digits"),
    "a key twice": (call('{"a": 1, "a": 2}'), "key `a` stands twice"),
    "an event twice": ('{"session": {}, "session": {}}', "key `session` stands twice"),
    "half a pair in content": ('{"block": {"content": "\\ud800", "source": "w"}}', "`block.content` holds `\\ud800`"),
    "half a pair in the goal": ('{"session": {"goal": "x\\udfff"}}', "`session.goal` holds `\\udfff`"),
    "half a pair in the tool": ('{"call": {"tool": "\\udc00", "arguments": {}}}', "`call.tool` holds"),
    "half a pair in an argument": (call('{"a": [{"b": "\\ud83d"}]}'), "`call.arguments` holds"),
    "half a pair in an argument's name": (call('{"\\ud83d": 1}'), "`call.arguments` holds"),
    "half a pair in a parent": ('{"block": {"content": "", "source": "w", "tainted_by": ["\\ud800"]}}', "tainted_by"),
    "too deep": (call('{"a": ' + "[" * 100 + "]" * 100 + "}"), "more than 100 levels"),
    "ten thousand deep": (call('{"a": ' + "[" * 10_000 + "]" * 10_000 + "}"), "more than 100 levels"),
    "a million deep and never closed": ('{"a":' * 1_000_000, "more than 100 levels"),
    "deep where no depth is allowed": ('{"trace": ' + "[" * 900 + "]" * 900 + "}", "unknown trace format a list"),
    "a byte order mark in the middle": ("\ufeff{}", "not JSON"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_line_is_refused_with_its_number(name: str) -> None:
    line, said = REFUSED[name]
    error = refusal(line)
    assert error.message.startswith("line 7: ")
    assert said in error.message
    assert "\n" not in error.message
    assert len(error.message) < 300


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ('{"cal": {}}', "did you mean `call`?"),
        ('{"session": {"mod": "x"}}', "did you mean `mode`?"),
        ('{"session": {"mode": "paranoia"}}', "did you mean `paranoid`?"),
        ('{"block": {"content": "", "source": "w", "trust": "untrustd"}}', "did you mean `untrusted`?"),
        ('{"call": {"xyzzy": 1}}', "known: tool, arguments, annotations, label, effect"),
        ('{"format": "x"}', "use session, block or call"),
    ],
)
def test_a_refusal_says_what_was_probably_meant(line: str, hint: str) -> None:
    assert refusal(line).hint == hint


def test_a_whole_pair_is_a_character() -> None:
    event = parse_line('{"block": {"content": "\\ud83d\\ude00", "source": "w"}}', 1)
    assert isinstance(event, BlockEvent)
    assert event.content == "😀"


def test_arguments_may_be_as_deep_as_the_limit() -> None:
    event = parse_line(call('{"a": ' + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1) + "}"), 1)
    assert isinstance(event, CallEvent)


def test_a_byte_order_mark_before_the_first_line_is_no_matter() -> None:
    assert parse_line('\ufeff{"session": {}}\r\n', 1) == SessionStart()


def test_a_line_longer_than_the_limit_is_refused_before_it_is_parsed() -> None:
    assert f"longer than {MAX_LINE_BYTES:,} bytes" in refusal("[" * (MAX_LINE_BYTES + 1)).message


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (b"\x1f\x8b\x08\x00", "gzip -dc"),
        (b"\xff\xfe{\x00", "UTF-16"),
        (b"\x89PNG\r\n", "UTF-8 text"),
        (b'{"session": {"goal": "\xed\xa0\x80"}}', "UTF-8 text"),
    ],
)
def test_bytes_that_are_no_text_are_refused_with_a_hint(data: bytes, hint: str) -> None:
    with pytest.raises(InvalidTrace, match=r"line 3: byte [\d,]+ \(0x[0-9a-f]{2}\) is not UTF-8") as caught:
        decode_line(data, 3)
    assert hint in caught.value.hint


# A machine that does other things as well is slow now and then, and that proves nothing.
patiently = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def parsed(line: str) -> Event | None:
    """What the parser makes of a line: anything but an event or a refusal fails the test that asked."""
    try:
        return parse_line(line, 1)
    except InvalidTrace as refused:
        said = refused.message
    assert said.startswith("line 1: ")
    return None


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
_WITH_HALF_PAIRS = st.text(st.characters(exclude_categories=()), max_size=200)
_JSON = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)
_NAMES = st.sampled_from(
    "trace session block call goal mode scope content source trust kind mutable id tainted_by tool arguments x".split()
)
_NEAR_MISSES = st.dictionaries(_NAMES, st.dictionaries(_NAMES, _JSON, max_size=4) | _JSON, max_size=2)


@patiently
@given(st.binary(max_size=200))
def test_any_bytes_are_an_event_or_refused(data: bytes) -> None:
    with suppress(InvalidTrace):
        parsed(decode_line(data, 1))


@patiently
@given(_WITH_HALF_PAIRS)
def test_any_text_is_an_event_or_refused(line: str) -> None:
    parsed(line)


@patiently
@given(_NEAR_MISSES)
def test_any_json_is_an_event_or_refused(value: object) -> None:
    parsed(json.dumps(value))


@patiently
@given(st.text(), st.text(min_size=1, max_size=50), st.dictionaries(st.text(), _JSON, max_size=4))
def test_what_is_written_is_what_is_read(content: str, name: str, arguments: dict[str, object]) -> None:
    assert parsed(json.dumps({"block": {"content": content, "source": name}})) == BlockEvent(content, name)
    asked = parsed(json.dumps({"call": {"tool": name, "arguments": arguments}}))
    # What JSON cannot hold (NaN) is refused; nothing is ever read as something else.
    assert asked in (None, CallEvent(name, arguments))
