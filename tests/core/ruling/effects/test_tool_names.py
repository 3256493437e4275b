"""What a tool's name says."""

from __future__ import annotations

import pytest

from lockgate.core.ruling.effects.effect import KINDS
from lockgate.core.ruling.effects.tool_names import read_tool_name

NAMES = """
looks: get_order search_mail list_files postfach_lesen procurar_email rehber_ara portfolio_summary build_status
looks: mail_latest email_unread message_recent mailer_stats mcp__jira__get_issue GmailSearchEmails view_cart
looks: leer_correo ExitPlanMode kubectl_logs get_post_queue list_scheduled_posts
reads-secret: otp_latest password_recent get_secret read_password list_env get_api_key
unknown-act: frobnicate ledger_match browser_click call_function
"""
CASES = [(line.split(":")[0], name) for line in NAMES.split("\n") if line for name in line.split(": ")[1].split()]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_name_comes_to_its_kind(kind: str, name: str) -> None:
    assert read_tool_name(name).kind == kind


@pytest.mark.parametrize(
    "name", ["gеt_order", "get_order\u200b", "get-weather!", "查询", "", "_", "x" * 300, "get_order; send"]
)
def test_a_name_that_may_only_imitate_is_never_one_that_looks(name: str) -> None:
    assert KINDS[read_tool_name(name).kind].severity >= 2


def test_a_half_translated_name_is_not_one_that_looks() -> None:
    assert read_tool_name("lesen_kwyjibo").kind == "unknown-act"
    assert read_tool_name("leer_y_reenviar").kind == "sends-message"


def test_two_verbs_count_by_the_graver() -> None:
    assert read_tool_name("create_and_grant_access").kind == "grants-access"
