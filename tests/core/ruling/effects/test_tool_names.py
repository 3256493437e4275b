"""What a tool's name says."""

from __future__ import annotations

import pytest

from lockgate.core.ruling.effects.effect import KINDS
from lockgate.core.ruling.effects.tool_names import read_tool_name

NAMES = """
looks: get_order search_mail list_files postfach_lesen procurar_email rehber_ara portfolio_summary build_status
looks: mail_latest email_unread message_recent
reads-secret: otp_latest password_recent
disables-check: block_firewall_monitoring ban_firewall_audit firewall_disable
looks: mailer_stats mcp__jira__get_issue GmailSearchEmails view_cart leer_correo
sends-message: send_email mail_senden eposta_gonder fasong_youjian reply_mail post_message add_issue_comment
sends-message: email_summary mail_status latest_mail_forward message_inbox
sends-message: invia_messaggio TwilioSendSms notify_customer forward_email
pays: send_money create_payment criar_transferencia issue_refund schedule_transaction pay zhuanzhang BankManagerPayBill
pays: update_scheduled_transaction issue_gift_card transfer_funds
orders: place_order submit_cart add_to_cart_and_pay book_flight buy_stock checkout_selected_cart
shares: share_folder invite_user add_member add_calendar_event_participants
deletes-record: delete_email remove_from_cart cancel_order contacts_delete remove_contact loeschen_nachricht
deletes-data: drop_database delete_repository terminate_instance wipe_device delete_bucket
changes-record: firewall_block block_ip_firewall add_to_cart update_cart add_to_wishlist
changes-record: update_user_info create_ticket move_desk_booking update_phone create_invoice update_preferences
changes-own-note: create_note archive_message set_category create_reminder mark_as_read create_draft
changes-own-note: create_calendar_event
changes-login: update_password reset_2fa disable_two_factor update_security_settings change_recovery_email
disables-check: disarm_alarm disable_firewall stop_monitoring disable_audit_logging
grants-access: grant_access unlock_door assign_role create_webhook open_garage_door allow_ip
makes-key: create_api_key issue_token generate_certificate
grants-access: AugustSmartLockGrantGuestAccess create_forwarding_rule
changes-permissions: set_visibility update_sharing_settings make_public create_mail_rule create_filter
changes-agent-file: save_memory remember add_observations update_instructions
schedules-job: CronCreate create_automation
instructs-agent: spawn_agent delegate_task handoff run_subagent
changes-service: deploy_app restart_server scale_deployment trigger_workflow
requests: browse_webpage download_attachment open_url
logs-in: login_account authenticate verify_account
reads-secret: get_secret read_password list_env
sends-secret: share_password
unknown-act: frobnicate ledger_match browser_click call_function
commits: git_commit git_add git_create_branch
pushes: git_push push_files
looks: generate_image text_to_speech ExitPlanMode kubectl_logs
changes-own-note: draft_email play_music start_timer
sends-message: make_call transfer_to_human_agents
pays: issue_credit waive_fee
changes-service: purge_cache
reads-secret: get_api_key
deletes-data: delete_many
publishes: schedule_post schedule_tweet reschedule_post queue_post draft_and_publish_post post_tweet social_post
changes-own-note: schedule_meeting draft_post
approves-change: merge_pull_request merge_merge_request mergePullRequest approve_merge_request accept_mr
approves-change: enable_auto_merge
changes-record: create_pull_request create_merge_request update_merge_request merge_contacts
commits: git_merge
disables-check: create_silence mute_monitor snooze_alert disable_alerting pause_alerting snooze_incident add_silence
sends-message: acknowledge_alert
changes-record: disable_price_alert
changes-own-note: snooze_email
approves-payment: approve_expense approve_invoice release_payment authorize_payout authorise_payout
approves-payment: approve_purchase_order approve_refund
pays: create_payment process_refund
changes-record: approve_ticket create_expense_claim approve_time_off
looks: get_post_queue list_scheduled_posts
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
