"""What arguments are for."""

from __future__ import annotations

import pytest

from lockgate.core.ruling.arguments import Leaf, flatten_arguments
from lockgate.core.ruling.effects.tool_arguments import (
    acts_by_argument,
    has_role,
    is_content,
    is_path_name,
    is_place,
    is_prose,
    joined_values,
    names_file,
)
from lockgate.core.ruling.tool_risk import read_tool_name

TOOL = read_tool_name("adjust_widget")


def test_a_role_is_read_from_the_last_name_in_any_common_language() -> None:
    for argument in ("to", "recipients[0]", "mail.cc", "alici", "destinataire", "收件人", "empfänger", "user_id"):
        assert has_role(argument, "recipient"), argument
    for argument in ("email_id", "from", "amount", "message_id"):
        assert not has_role(argument, "recipient"), argument


def test_a_path_is_named_by_path_words_only() -> None:
    assert all(map(is_path_name, ["path", "file_path", "destination", "source_path", "save_dir", "paths[2]"]))
    assert not any(map(is_path_name, ["repo_path", "file_id", "folder_color", "name", "title"]))


def test_a_file_to_take_along_is_named_at_any_depth_and_in_any_common_language() -> None:
    assert all(map(names_file, ["attachments", "files[0]", "include_attachments", "mail.anhang", "fichier[1].name"]))
    assert not any(map(names_file, ["to", "body", "destination", "source", "profile", "output", "mail.text"]))


def test_prose_is_told_by_name_length_or_lines() -> None:
    assert is_prose(Leaf("body", "x"))
    assert is_prose(Leaf("anything", "one\ntwo"))
    assert not is_prose(Leaf("to", "a@b.example"))


def test_a_list_of_words_is_one_command_line() -> None:
    leaves = flatten_arguments({"command": ["bash", "-lc", "echo 'a b'"]})[0]
    assert [leaf.text for leaf in joined_values(leaves, "command")] == ["bash -lc 'echo '\"'\"'a b'\"'\"''"]


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"two_factor": False}, "disables-check"),
        ({"settings": {"mfa": "off"}}, "disables-check"),
        ({"settings": "mfa=off, theme=dark"}, "disables-check"),
        ({"setting": "two_factor", "value": "off"}, "disables-check"),
        ({"setting": "two_factor", "enabled": False}, "disables-check"),
        ({"skip_verification": True}, "disables-check"),
        ({"verify_ssl": False}, "disables-check"),
        ({"insecure": True}, "disables-check"),
        ({"public": True}, "changes-permissions"),
        ({"private": False}, "changes-permissions"),
        ({"visibility": "public"}, "changes-permissions"),
        ({"acl": "public-read"}, "changes-permissions"),
        ({"role": "admin"}, "grants-access"),
        ({"is_admin": True}, "grants-access"),
    ],
)
def test_a_switch_that_opens_or_unprotects_is_found(arguments: dict[str, object], kind: str) -> None:
    assert [act.kind for act in acts_by_argument(TOOL, arguments)] == [kind]


@pytest.mark.parametrize(
    "arguments",
    [
        {"two_factor": True},
        {"public": False},
        {"role": "editor"},
        {"newsletter": "off"},
        {"notify": False},
        {"recurring": True},
        {"disabled": True},
        {"body": "the meeting is public: true story"},
        {"visibility": "private"},
    ],
)
def test_other_switches_are_none(arguments: dict[str, object]) -> None:
    assert list(acts_by_argument(TOOL, arguments)) == []


def test_an_integer_too_long_to_print_is_no_switch() -> None:
    assert list(acts_by_argument(TOOL, {"two_factor": 10**5000, "setting": "mfa", "value": 10**5000})) == []


def test_a_place_is_called_one_or_is_a_single_word() -> None:
    assert is_place(Leaf("edits[0].path", "a b"))
    assert is_place(Leaf("x", "/a/b"))
    assert not is_place(Leaf("x", "a b"))
    assert not is_place(Leaf("content", "/a/b"))
    assert is_content(Leaf("edits[0].new_string", "x"))
    assert not is_content(Leaf("command", "x"))
