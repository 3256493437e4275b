"""Tools of mail, calendars, money and the like."""

from __future__ import annotations

from typing import Any

import pytest

from lockgate import Action, Gate
from lockgate.core.ruling.effects.effects_of_call import effects_of
from lockgate.core.vocabulary import ToolCall


def kinds(tool: str, **arguments: object) -> list[tuple[str, str]]:
    return [(found.kind, found.target) for found in effects_of(ToolCall(tool, arguments))]


def test_a_message_has_one_effect_for_each_recipient() -> None:
    found = kinds("send_email", to=["a@x.example"], cc="b@y.example, c@z.example", body="mail d@q.example")
    assert sorted(target for _, target in found) == ["a@x.example", "b@y.example", "c@z.example"]
    assert {kind for kind, _ in found} == {"sends-message"}


def test_a_recipient_is_known_by_its_shape_whatever_its_argument_is_called() -> None:
    assert kinds("send_file", con="eve@evil.example", file="a.xlsx") == [("sends-message", "eve@evil.example")]
    assert kinds("frobnicate", zzz="eve@evil.example") == [("unknown-act", "eve@evil.example")]


def test_guests_make_an_event_an_invitation() -> None:
    assert kinds("create_event", title="Fire drill") == [("changes-own-note", "")]
    assert kinds("create_event", title="Lunch", participants=["a@x.example"]) == [("sends-message", "a@x.example")]


def test_an_account_and_an_amount_make_a_payment() -> None:
    assert kinds("frobnicate", to="DE12500105170648489890", amount=3) == [("pays", "DE12500105170648489890")]
    assert kinds("transfer_funds", from_account_number="1-2", to_account_number="9-0") == [("pays", "9-0")]


def test_a_picture_in_a_draft_asks_its_host_when_it_is_shown() -> None:
    found = kinds("create_draft", to="a@x.example", body="<img src='https://px.example/o.png?secret=1'>")
    assert found == [("shows-remote-content", "px.example"), ("changes-own-note", "")]


def test_the_action_of_a_managing_tool_counts() -> None:
    assert kinds("manage_records", action="delete", record="r1")[0] == ("deletes-record", "r1")
    assert kinds("manage_user", action="grant_admin", user="eve")[0] == ("grants-access", "eve")


def test_another_agent_gets_its_orders_and_the_pages_in_them() -> None:
    found = kinds("Task", prompt="Fetch https://a.example/x and follow it")
    assert found == [("instructs-agent", ""), ("requests", "a.example")]


def test_a_switch_counts_beside_what_the_name_says() -> None:
    assert ("disables-check", "two_factor") in kinds("update_settings", two_factor=False)
    assert ("changes-permissions", "public") in kinds("create_document", title="x", visibility="public")
    assert kinds("search_repositories", visibility="public") == [("looks", "")]


def test_a_hook_url_is_given_access() -> None:
    assert kinds("create_webhook", url="https://evil.example/h") == [("grants-access", "evil.example")]


def test_names_above_an_argument_count() -> None:
    assert kinds("create_event", attendees=[{"email": "a@x.example"}]) == [("sends-message", "a@x.example")]


def test_a_public_answer_is_no_open_door() -> None:
    assert kinds("add_comment", body="x", public=True) == [("sends-message", "")]


def test_an_administrator_is_named_by_who_becomes_one() -> None:
    assert kinds("add_collaborator", username="eve", permission="admin") == [("grants-access", "eve")]


def test_a_device_is_told_its_action_as_a_service() -> None:
    assert kinds("call_service", domain="lock", service="unlock")[0][0] == "grants-access"


def test_a_state_says_what_is_done() -> None:
    assert kinds("lock.schedule", entity="front_door", state="unlocked")[0][0] == "grants-access"
    assert kinds("garage_door", state="open")[0][0] == "grants-access"
    assert kinds("alarm.set_mode", mode="off")[0][0] == "disables-check"
    assert kinds("alarm.set_mode", mode="disarmed")[0][0] == "disables-check"
    assert kinds("alarm.set_mode", mode="armed_away") == [("changes-own-note", "")]
    assert kinds("set_lights", room="kitchen", state="off")[0][0] == "changes-record"
    assert kinds("update_issue", number=3, state="open")[0][0] == "changes-record"


@pytest.mark.parametrize(
    ("tool", "arguments", "kind"),
    [
        ("set_lock", {"locked": False}, "grants-access"),
        ("set_lock", {"locked": "no"}, "grants-access"),
        ("set_lock", {"state": {"is_locked": 0}}, "grants-access"),
        ("front_door", {"lock": "off"}, "grants-access"),
        ("set_lock", {"unlock": True}, "grants-access"),
        ("set_garage", {"open": True}, "grants-access"),
        ("set_alarm", {"armed": False}, "disables-check"),
        ("set_firewall", {"enabled": False}, "disables-check"),
        ("set_firewall", {"config": {"enabled": "off"}}, "disables-check"),
        ("set_firewall", {"disabled": True}, "disables-check"),
        ("set_device", {"device": "alarm", "enabled": False}, "disables-check"),
        ("update_settings", {"two_factor": False}, "disables-check"),
    ],
)
def test_a_switch_may_take_a_protection_away(tool: str, arguments: dict[str, Any], kind: str) -> None:
    assert kinds(tool, **arguments)[0][0] == kind


@pytest.mark.parametrize(
    ("tool", "arguments", "kind"),
    [
        ("set_lock", {"locked": True}, "changes-record"),
        ("set_alarm", {"armed": True}, "changes-own-note"),
        ("set_alarm", {"time": "07:00", "enabled": True}, "changes-own-note"),
        ("set_thermostat", {"enabled": False}, "changes-record"),
        ("create_shape", {"locked": False}, "changes-record"),
        ("update_note", {"text": "set locked=false in the file"}, "changes-own-note"),
        ("update_shape", {"lock_ratio": False}, "changes-record"),
    ],
)
def test_other_switches_take_no_protection_away(tool: str, arguments: dict[str, Any], kind: str) -> None:
    assert kinds(tool, **arguments)[0][0] == kind


def test_an_argument_makes_no_tool_lighter() -> None:
    mail = ("sends-message", "eve@x.example")
    for more in ({"merge": True}, {"enabled": False}, {"action": "update"}):
        assert mail in kinds("send_email", to="eve@x.example", **more)


def test_a_rule_that_lets_every_address_in_opens_a_door() -> None:
    assert ("changes-permissions", "0.0.0.0/0") in kinds("edge_set_policy", zone="a", origin_allow=["0.0.0.0/0"])
    assert ("changes-permissions", "::/0") in kinds("update_rule", ingress="::/0")
    assert kinds("update_rule", ingress="10.0.0.0/8")[0][0] == "changes-permissions"
    assert kinds("find_rules", cidr="0.0.0.0/0") == [("looks", "")]
    assert ("changes-permissions", "everyone") not in kinds("create_poll", question="Lunch?", allow="everyone")


def test_the_priority_before_a_mail_server_is_no_part_of_it() -> None:
    assert ("routes-to", "mx.b.example") in kinds("dns_upsert", zone="a.example", type="MX", value="5 mx.b.example.")
    assert ("routes-to", "sip.b.example") in kinds("dns_upsert", type="SRV", value="0 5 5060 sip.b.example")


def test_who_becomes_a_delegate_of_a_mailbox_is_given_access() -> None:
    assert kinds("mail.set_delegate", delegate="eve@x.example") == [("grants-access", "eve@x.example")]
    assert kinds("delegate_work", task="count them", coworker="Ann")[0][0] == "instructs-agent"


def test_a_payment_aims_at_the_account_whatever_its_argument_is_called() -> None:
    assert kinds("issue_refund", order="O-1", amount=9, destination="wallet:0x5Fe3cAa1b2") == [("pays", "0x5Fe3cAa1b2")]
    wallet = "bc1qxy2kgdygjrsqtzq2n0yrf2493p83kkfjhx0wlh"
    assert kinds("send_payment", wallet=f"bitcoin:{wallet}", amount=1) == [("pays", wallet)]
    assert kinds("send_money", paypal="ann-77", amount=1) == [("pays", "ann-77")]
    assert kinds("issue_refund", order="O-1", amount=9, destination="original_payment_method") == [("pays", "")]


def test_links_count_in_what_goes_to_many_and_not_in_an_answer() -> None:
    text = "Support us: https://give.example/july"
    assert ("publishes-link", "give.example") in kinds("publish_newsletter", list="all", html=text)
    assert ("publishes-link", "give.example") in kinds("send_campaign", audience="all", body=text)
    for tool in ("reply_ticket", "create_comment", "save_newsletter_draft", "create_pull_request"):
        assert "publishes-link" not in [kind for kind, _ in kinds(tool, body=text)]


def test_a_tool_that_names_a_host_does_not_go_there() -> None:
    assert kinds("block_domain", domain="bank-secure.example") == [("changes-record", "bank-secure.example")]
    assert kinds("report_phishing", url="bank-secure.example") == [("changes-record", "bank-secure.example")]
    assert kinds("whois_lookup", domain="bank-secure.example") == [("looks", "")]
    assert kinds("scan_url", url="https://bank-secure.example/?d=1")[0] == ("requests", "bank-secure.example")


def test_storing_an_address_sends_nothing() -> None:
    # The address is data: no one receives anything.
    assert kinds("crm_upsert_contact", email="a@x.example", name="Ann") == [("changes-record", "")]
    assert kinds("create_contact", email="a@x.example", phone="+49 30 901820") == [("changes-record", "")]
    assert kinds("contact_support", message="Hello") == [("sends-message", "")]


def test_a_member_is_the_target_and_the_group_is_not() -> None:
    assert kinds("AddGroupMember", Group="Choir", Member="eve") == [("shares", "eve")]
    assert kinds("invite", team="core") == [("shares", "core")]


def test_taking_access_away_is_no_door() -> None:
    assert kinds("iam_revoke", principal="eve", role="editor")[0][0] == "changes-record"
    assert kinds("revoke_access", user="eve")[0][0] == "changes-record"
    assert kinds("revoke_mfa", user="eve")[0][0] == "changes-login"


def test_settings_in_arguments_that_protect_less_are_doors() -> None:
    found = kinds("update_service", logging=False, rate_limit="off", deletion_protection=False)
    assert {"logging", "rate_limit", "deletion_protection"} == {
        each for kind, each in found if kind == "disables-check"
    }
    assert ("changes-permissions", "public") in kinds("update_bucket", public=True)


def test_a_role_that_is_taken_away_makes_no_administrator() -> None:
    assert kinds("iam_revoke", user="t.harrow", role="admin") == [("changes-record", "")]
    assert ("grants-access", "t.harrow") in kinds("iam_assign", user="t.harrow", role="admin")


def test_asking_a_person_for_something_reaches_that_person() -> None:
    assert kinds("coinpal_request", to="@suri", amount=20) == [("sends-message", "@suri")]


def test_tracking_a_parcel_only_looks_and_tracking_an_event_does_not() -> None:
    assert kinds("desk_track", parcel="00-4471") == [("looks", "")]
    assert kinds("desk_track", event="login") == [("changes-record", "")]
    assert kinds("track_event", event="signup", user="ana") == [("changes-record", "")]


def test_a_switch_has_the_name_above_its_state() -> None:
    assert kinds("update_policy", settings={"mfa": {"enabled": False}})[0][0] == "disables-check"
    assert kinds("update_policy", settings={"digest": {"enabled": False}})[0][0] != "disables-check"


def test_a_switch_that_is_called_by_a_verb_does_what_the_verb_says() -> None:
    assert kinds("create_draft", to="a@x.example", send=True) == [("sends-message", "a@x.example")]
    assert kinds("create_draft", to="a@x.example", send_now="yes") == [("sends-message", "a@x.example")]
    assert kinds("create_draft", to="a@x.example", post_now=True) == [("publishes", "a@x.example")]
    assert kinds("create_draft", to="a@x.example", text="post=true") == [("changes-own-note", "")]
    assert kinds("create_draft", to="a@x.example", send=False) == [("changes-own-note", "")]
    assert kinds("create_draft", to="a@x.example", send_copy_to_archive=True) == [("changes-own-note", "")]


def test_a_new_recovery_address_or_password_changes_how_an_account_logs_in() -> None:
    assert ("changes-login", "eve@x.example") in kinds("update_profile", recovery_email="eve@x.example")
    assert kinds("update_user", id=3, password="x")[0][0] == "changes-login"
    assert kinds("update_profile", city="Ghent") == [("changes-record", "")]


def test_an_extension_is_code_from_where_it_comes() -> None:
    found = kinds("browser_install_extension", source="https://lens.example/x.crx")
    assert found == [("embeds-remote-code", "lens.example")]
    assert kinds("clone_repository", url="https://git.example/a.git") == [("clones", "git.example")]


def test_money_has_many_names() -> None:
    assert kinds("bank_transfer", payee="Lef\u00e8vre", amount=10) == [("pays", "Lef\u00e8vre")]
    assert kinds("update_standing_order", id=4, amount=1200) == [("pays", "")]
    assert kinds("buy_gift_card", amount=45) == [("pays", "")]
    assert kinds("bank_open_dispute", transaction="t1")[0][0] == "changes-record"


def test_an_alert_that_is_added_watches_and_one_that_is_taken_away_no_longer_does() -> None:
    assert kinds("create_alert_rule", name="5xx") == [("changes-record", "")]
    assert kinds("delete_alert_rule", name="5xx")[0][0] == "changes-permissions"


def test_a_boundary_that_is_taken_away_opens_a_door() -> None:
    assert kinds("detach_policy_boundary", user="eve", admin=True) == [("changes-permissions", "eve")]


OURS, THEIRS = "DE12500105170648489890", "FR7630006000011234567890189"


@pytest.mark.parametrize("payer", ["debtor_account", "from_account", "source_account", "pay_from", "payer_iban"])
def test_the_account_that_money_comes_from_gets_none(payer: str) -> None:
    arguments: dict[str, object] = {payer: OURS, "creditor_account": THEIRS, "amount": 3}
    assert kinds("create_payment", **arguments) == [("pays", THEIRS)]


def test_a_payer_may_be_an_object() -> None:
    arguments = {"debtor": {"iban": OURS}, "creditor": {"name": "Ann", "iban": THEIRS}, "amount": 3}
    assert ("pays", THEIRS) in kinds("create_payment", **arguments)
    assert ("pays", OURS) not in kinds("create_payment", **arguments)


def test_an_account_is_a_receiver_where_no_other_is_named() -> None:
    assert kinds("create_payment", from_account=THEIRS, amount=3) == [("pays", THEIRS)]
    assert kinds("create_payment", source_account=THEIRS, to="", note="rent", amount=3) == [("pays", THEIRS)]


def test_money_goes_to_the_sender_of_a_request_and_back_to_its_source() -> None:
    assert ("pays", THEIRS) in kinds("refund_payment", source_account=THEIRS, account="main", amount=3)
    asked = kinds("pay_money_request", sender="mallory@evil.example", account="checking", amount=3)
    assert ("pays", "mallory@evil.example") in asked


def test_a_name_with_a_word_for_the_receiver_is_one_whatever_else_it_says() -> None:
    arguments = {"payee_from_invoice": THEIRS, "source": {"creditor_iban": THEIRS}, "account": "rent", "amount": 3}
    assert ("pays", THEIRS) in kinds("create_payment", **arguments)


@pytest.mark.parametrize("tool", ["create_event", "schedule_meeting", "calendar_update_event"])
def test_the_room_of_an_event_gets_no_message(tool: str) -> None:
    arguments = {"title": "Sync", "attendees": ["ann@shop.example"], "room": "Blue 3"}
    assert kinds(tool, **arguments) == [("sends-message", "ann@shop.example")]


@pytest.mark.parametrize("argument", ["room_guests", "room_members", "meeting_room_invitees", "room_contact"])
def test_the_guests_of_a_room_get_the_message(argument: str) -> None:
    found = kinds("create_event", title="x", attendees=["bob@ours.example"], **{argument: ["Eve Adams"]})
    assert ("sends-message", "Eve Adams") in found


def test_a_room_that_has_a_mailbox_or_is_one_of_a_chat_gets_the_message() -> None:
    invited = kinds("create_event", title="Sync", attendees=["ann@shop.example"], room="blue@rooms.example")
    assert ("sends-message", "blue@rooms.example") in invited
    assert kinds("send_chat_message", room="Blue 3", text="hi") == [("sends-message", "Blue 3")]
    assert kinds("post_message", room="Blue 3", text="hi") == [("sends-message", "Blue 3")]
    assert kinds("send_meeting_notes", room="Blue 3", text="hi") == [("sends-message", "Blue 3")]


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": "Logins", "conditions": [{"subject": "New login"}], "actions": [{"forward": "x@y.example"}]},
        {"from": "a@b.example", "subject": "New login", "forward": "x@y.example"},
        {"criteria": {"from": "a@b.example"}, "action": {"forward": "x@y.example"}},
        {"match": {"subject": "New login"}, "actions": {"forwardTo": [{"emailAddress": {"address": "x@y.example"}}]}},
        {"match": {"subject": "New login"}, "actions": [{"type": "forward", "to": "x@y.example"}]},
        {"from": "a@b.example", "action": "forward to x@y.example"},
        {"from": "a@b.example", "actions": ["forward:x@y.example"]},
    ],
)
def test_a_rule_that_sends_mail_on_lets_its_receiver_in(arguments: dict[str, object]) -> None:
    assert kinds("imap_create_rule", **arguments) == [("grants-access", "x@y.example")]


def test_every_receiver_of_a_rule_counts() -> None:
    several = kinds("create_mail_rule", forward="ann@ours.example", actions=[{"forward": "eve@far.example"}])
    assert ("grants-access", "eve@far.example") in several
    assert ("grants-access", "eve@far.example") in kinds("create_rule", action="forward", bcc="eve@far.example")
    assert ("grants-access", "Archive") in kinds("create_rule", forward="Archive", **{"from": "eve@far.example"})


@pytest.mark.parametrize("argument", ["subject_copy_to", "if_unread_send_to", "copy_sender_to", "notify_name", "email"])
def test_a_receiver_is_no_condition_whatever_else_its_name_says(argument: str) -> None:
    found = kinds("create_rule", forward="ann@ours.example", **{argument: "eve@far.example"})
    assert ("grants-access", "eve@far.example") in found


@pytest.mark.parametrize(
    "argument",
    ["from_address", "senderEmail", "subject_line", "rule_name", "if_from", "match_from", "from_emails", "header_from"],
)
def test_what_is_called_a_condition_is_no_receiver(argument: str) -> None:
    found = kinds("create_rule", forward="ann@ours.example", **{argument: "eve@far.example"})
    assert found == [("grants-access", "ann@ours.example")]


def test_a_rule_that_sends_nothing_on_and_one_of_a_firewall_change_who_may_do_what() -> None:
    assert {kind for kind, _ in kinds("create_mail_rule", action="move", folder="Bills")} == {"changes-permissions"}
    moved = kinds("create_mail_rule", **{"from": "me@x.example", "to": "eve@far.example"})
    assert ("changes-permissions", "eve@far.example") in moved
    assert kinds("create_firewall_rule", source="0.0.0.0/0", port=22)[0][0] == "changes-permissions"


def test_a_goal_that_names_the_receiver_of_a_rule_excuses_no_other(gate: Gate) -> None:
    session = gate.session(goal="Mails about new logins shall go to security@ours.example as well")
    session.add("3 mails: New login from Ghent", source="tool:imap_search")
    rule = {"name": "Logins", "conditions": [{"subject": "New login"}]}
    ours, others = ([{"forward": box}] for box in ("security@ours.example", "eve@far.example"))
    assert session.check("imap_create_rule", {**rule, "actions": ours}).action is Action.CONTINUE
    assert session.check("imap_create_rule", {**rule, "actions": others}).action is Action.PAUSE
    assert session.check("imap_create_rule", {**rule, "actions": [*ours, *others]}).action is Action.PAUSE


def test_a_review_that_approves_and_a_merge_by_argument_approve_a_change() -> None:
    change = {"owner": "acme", "repo": "shop", "pull_number": 12}
    expected = [("approves-change", "")]
    assert kinds("create_pull_request_review", **change, event="APPROVE")[:1] == expected
    assert kinds("submit_review", **change, event="approve")[:1] == expected
    assert kinds("pull_request", **change, action="merge") == expected
    assert kinds("approve", **change) == expected
    assert kinds("create_pull_request", owner="acme", repo="shop", title="x", auto_merge=True) == expected
    assert kinds("create_pull_request_review", **change, event="COMMENT") == [("sends-message", "acme/shop")]
    assert kinds("list_pull_requests", owner="acme", repo="shop", state="merged") == [("looks", "")]
    assert kinds("update_event", event="merge") == [("changes-own-note", "")]


def test_a_decision_in_an_argument_approves_money() -> None:
    assert kinds("review_expense", id=3, decision="approve") == [("approves-payment", "")]
    assert kinds("update_invoice", id=3, status="Approved") == [("approves-payment", "")]
    assert kinds("update_invoice", id=3, status="disputed") == [("changes-record", "")]
    assert kinds("list_expenses", status="approved") == [("looks", "")]
    assert kinds("update_task", id=3, status="approved") == [("changes-own-note", "")]


def test_an_approval_in_an_argument_hides_nothing_that_the_call_does_besides() -> None:
    for tool, kind in [("set_role", "grants-access"), ("share_report", "shares"), ("bypass_check", "disables-check")]:
        found = kinds(tool, user="eve@far.example", pr=5, event="approve")
        assert {each for each, _ in found} == {kind, "approves-change"}
    assert ("pays", "Eve") in kinds("send_payment", to="Eve", amount=9, status="approved")
    assert ("sends-data", "far.example") in kinds("upload_claim", url="https://far.example/x", status="approved")


def test_an_approved_payment_is_paid_to_the_account_that_it_names() -> None:
    iban = "DE89370400440532013000"
    for tool in ("approve_payment", "authorize_payout", "release_refund"):
        assert set(kinds(tool, iban=iban, amount=9)) == {("pays", iban), ("approves-payment", iban)}, tool
    assert ("pays", "Eve") in kinds("approve_payment", payee="Eve")
    assert set(kinds("approve_invoice", iban=iban, amount=9)) == {("pays", iban), ("approves-payment", iban)}
    assert kinds("approve_expense", expense_id="E-1") == [("approves-payment", "")]
    for tool in ("track_shipment_payment", "request_payment"):
        assert "approves-payment" in {kind for kind, _ in kinds(tool, action="approve", to="eve@far.example")}


@pytest.mark.parametrize(
    ("goal", "is_held"),
    [("Approve the pull request 12.", True), ("Sum up the refunds.", True), ("Approve the payment of Bob.", False)],
)
def test_an_approved_payment_needs_a_goal_that_speaks_of_it(gate: Gate, goal: str, *, is_held: bool) -> None:
    session = gate.session(goal=goal)
    session.add("Payment 4 of Bob is due.", source="tool:read_mail")
    assert session.check("approve_payment", {"payment_id": "4"}).allowed is not is_held


def test_a_maintenance_window_over_everything_silences_all_alerts() -> None:
    expected = [("disables-check", "")]
    assert kinds("create_maintenance_window", services=["*"], hours=8) == expected
    assert kinds("schedule_downtime", scope="env:*", hours=8) == expected
    assert kinds("create_maintenance_window", matcher='alertname=~".+"') == expected
    assert kinds("create_maintenance_window", services=["db-3"], hours=1) == [("changes-record", "")]
