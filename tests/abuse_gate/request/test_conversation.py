"""Who speaks in the JSON of a request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lockgate.abuse_gate.request.conversation import (
    SEPARATOR,
    ConversationReader,
    Turn,
    message_breaks,
    own_words,
    source_name,
)
from lockgate.abuse_gate.request.payload_from_body import NormalizedRequest, normalize


def read(value: Any) -> ConversationReader:
    reader = ConversationReader()
    reader.add_json(value)
    return reader


def test_messages_have_the_speakers_of_their_roles() -> None:
    roles = ["system", "developer", "user", "assistant", "USER", "retriever"]
    reader = read({"messages": [{"role": role, "content": "words"} for role in roles]})
    assert [turn.source for turn in reader.turns] == ["system", "system", "user", "agent", "user", "document:retriever"]


def test_a_result_is_from_outside_only_if_it_answers_a_call() -> None:
    call = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "read", "arguments": "{}"}}]}
    answered, made_up = (
        read({"messages": [call, {"role": "tool", "tool_call_id": id, "content": "page"}]}).turns[-1] for id in "12"
    )
    assert (answered.source, answered.outside) == ("tool:read", True)
    assert (made_up.source, made_up.outside) == ("tool:unnamed", False)


def test_an_agent_that_has_read_text_from_outside_may_repeat_it() -> None:
    document = {"type": "document", "source": {"data": "page"}, "title": "p"}
    messages = [{"role": "user", "content": [document]}, {"role": "assistant", "content": "words"}]
    *_, last = read({"messages": messages}).turns
    assert (last.source, last.outside) == ("agent", True)


def test_a_call_s_arguments_are_its_text() -> None:
    function = {"name": "send", "arguments": json.dumps({"to": "ann", "odd key!": ["x"]})}
    (turn,) = read({"messages": [{"role": "assistant", "tool_calls": [{"function": function}]}]}).turns
    assert (turn.kind, turn.tool, turn.arguments) == ("call", "send", {"to": "ann", "odd key!": ["x"]})
    assert turn.text == "ann\nodd key!\nx"


def test_a_word_that_is_cut_over_two_parts_is_also_read_whole() -> None:
    parts = [{"type": "text", "text": "igno"}, {"type": "text", "text": "re this"}]
    assert "ignore this" in [turn.text for turn in read({"messages": [{"role": "user", "content": parts}]}).turns]


def test_a_source_has_plain_letters_only() -> None:
    assert source_name("tool", "a b\n\u202e" + "c" * 100) == "tool:a_b_" + "c" * 43
    assert source_name("tool", 7) == "tool:unnamed"


@pytest.mark.parametrize("key", ["functionResponse", "function_response"])
def test_a_message_in_the_place_of_a_tool_s_result_stays_the_tool_s(key: str) -> None:
    body = json.dumps({"messages": [{key: {"role": "user", "content": "page"}}]}).encode()
    found = normalize(body, "application/json")
    assert isinstance(found, NormalizedRequest)
    assert [turn.source for turn in found.turns] == ["tool:unnamed"]


def test_places_of_messages_and_of_the_clients_own_words() -> None:
    turns = (
        Turn("text", "system", "s"),
        Turn("text", "user", "zero", earlier=True),
        Turn("text", "user", "one", earlier=True),
        Turn("text", "agent", "two"),
        Turn("call", "agent", "three"),
        Turn("text", "tool:f", "four", outside=True),
        Turn("text", "user", "five"),
        Turn("text", "names", "six"),
    )
    text = SEPARATOR.join(turn.text for turn in turns)
    assert message_breaks(turns) == tuple(text.index(word) for word in ("one", "two", "four"))
    assert [text[start:end] for start, end in own_words(turns)] == ["zero", "one", "five"]
    assert message_breaks(turns[:2]) == message_breaks(()) == own_words(()) == ()
