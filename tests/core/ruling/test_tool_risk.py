from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockgate.core.ruling import tool_risk as tools
from lockgate.core.ruling.effects.effect import KINDS
from lockgate.core.ruling.tool_risk import (
    MAX_NAME,
    OBJECT_CLASSES,
    VERB_CLASSES,
    VERBS,
    canonical_tool,
    explain_risk,
    read_tool_name,
    tool_intent,
    tool_risk,
    tool_words,
)
from lockgate.core.vocabulary import Risk


def each(text: str) -> list[str]:
    return text.split()


WORDS = [
    ("readNote", "read note"),
    ("ReadNote", "read note"),
    ("read_note", "read note"),
    ("read-note", "read note"),
    ("app.readNote", "app read note"),
    ("Read a note", "read a note"),
    ("HTTPGet", "http get"),
    ("getHTTPResponse", "get http response"),
    ("listURLs", "list urls"),
    ("parse_JSON_v2", "parse json v 2"),
    ("s3_get_object", "s 3 get object"),
    ("mcp__everything__echo", "echo"),
    ("mcp__my-server__get-sum", "get sum"),
    ("mcp__a__delete__list", "delete list"),
    ("MCP__Notes__listNotes", "list notes"),
    ("filesystem/read_text_file", "read text file"),
    ("slack:post_message", "post message"),
    ("functions.shell", "shell"),
    ("mcp__lonely", "mcp lonely"),
    ("PayPalGetBalance", "paypal get balance"),
    ("GitHubListIssues", "github list issues"),
    ("_private_", "private"),
    ("___", ""),
    ("", ""),
]


@pytest.mark.parametrize(("name", "words"), WORDS)
def test_a_name_is_read_as_words(name: str, words: str) -> None:
    assert tool_words(name) == tuple(words.split())


def test_the_words_of_an_endless_name_end() -> None:
    assert len(tool_words("aB" * 1_000_000)) <= MAX_NAME


# ---- hosts

CLAUDE_CODE_HIGH = each("""
    Bash PowerShell Edit MultiEdit Write NotebookEdit WebFetch Agent Task Skill Workflow KillShell KillBash SlashCommand
    ScheduleWakeup CronCreate CronDelete Monitor SendMessage TeamCreate TeamDelete TaskCreate TaskUpdate TaskStop
    RemoteTrigger PushNotification Artifact EnterWorktree ExitWorktree ShareOnboardingGuide REPL Config
""")
CLAUDE_CODE_LOW = each("""
    ExitPlanMode update_plan exit_plan_mode
    Read Glob Grep LS LSP TodoWrite TodoRead BashOutput TaskOutput TaskGet TaskList ToolSearch ListAgents CronList
    WebSearch NotebookRead ListMcpResourcesTool ReadMcpResourceTool AskUserQuestion EnterPlanMode WaitForMcpServers
""")
CODEX_HIGH = each("""
    shell shell_command local_shell exec_command write_stdin apply_patch js_repl spawn_agent spawn_agents_on_csv
    send_input close_agent resume_agent container.exec request_plugin_install image_generation
""")
CODEX_LOW = each("""
    list_dir grep_files view_image web_search list_mcp_resources list_mcp_resource_templates read_mcp_resource
    request_user_input tool_search list_agents get_goal
""")
GEMINI_HIGH = each("""
    run_shell_command write_file replace web_fetch save_memory activate_skill tracker_create_task tracker_update_task
    tracker_add_dependency
""")
GEMINI_LOW = each("""
    read_many_files glob search_file_content grep_search google_web_search write_todos get_internal_docs
    ask_user tracker_get_task tracker_list_tasks
""")
EDITORS_HIGH = each("""
    run_terminal_cmd edit_file search_replace reapply execute_command write_to_file replace_in_file apply_diff
    insert_content browser_action use_mcp_tool attempt_completion new_task run_in_terminal insert_edit_into_file
    fetch_webpage multiedit webfetch task patch developer__shell developer__text_editor str_replace_editor execute_bash
""")
EDITORS_LOW = each("""
    codebase_search grep_search file_search list_code_definition_names ask_followup_question semantic_search get_errors
    get_terminal_output todowrite todoread think
""")
FRAMEWORKS_HIGH = each("""
    terminal python_repl python_repl_ast requests_get requests_post requests_put requests_patch requests_delete
    file_delete copy_file move_file sql_db_query create_gmail_draft send_gmail_message schedule_message navigate_browser
    click_element previous_webpage zapier_nla computer computer_use_preview code_interpreter code_execution
    str_replace_based_edit_tool memory transfer_to_agent load_web_page url_context exit_loop visit_webpage
    python_interpreter bash_code_execution delegate_work_to_coworker
""")
FRAMEWORKS_LOW = each("""
    duckduckgo_search duckduckgo_results_json wikipedia arxiv pub_med wolfram_alpha open_weather_map google_serper
    tavily_search_results_json stack_exchange semanticscholar youtube_search search_gmail get_gmail_message
    get_gmail_thread events_search messages_search sql_db_schema sql_db_list_tables sql_db_query_checker
    json_spec_list_keys json_spec_get_value get_elements extract_hyperlinks current_webpage get_channelid_name_dict
    google_search load_memory load_artifacts get_user_choice final_answer web_search_preview
""")
SERVERS_HIGH = each("""
    mcp__filesystem__write_file mcp__filesystem__edit_file mcp__filesystem__create_directory mcp__git__git_add
    mcp__git__git_commit mcp__git__git_reset mcp__git__git_checkout mcp__git__git_create_branch mcp__git__git_branch
    mcp__fetch__fetch mcp__memory__create_entities mcp__memory__add_observations mcp__memory__delete_relations
    mcp__everything__get-env mcp__everything__printEnv mcp__everything__gzip-file-as-resource
    mcp__everything__trigger-sampling-request mcp__everything__toggle-simulated-logging mcp__github__issue_write
    mcp__github__create_pull_request mcp__github__merge_pull_request mcp__github__push_files
    mcp__github__add_issue_comment
    mcp__github__mark_all_notifications_read mcp__github__manage_notification_subscription mcp__github__run_workflow
    mcp__slack__slack_post_message mcp__slack__slack_add_reaction mcp__slack__slack_reply_to_thread
    mcp__puppeteer__puppeteer_navigate mcp__puppeteer__puppeteer_click mcp__puppeteer__puppeteer_fill
    mcp__playwright__browser_navigate mcp__playwright__browser_type mcp__playwright__browser_evaluate
    mcp__playwright__browser_file_upload mcp__postgres__query mcp__sqlite__write_query mcp__sqlite__create_table
    mcp__sqlite__append_insight
""")
SERVERS_LOW = each("""
    mcp__filesystem__read_text_file mcp__filesystem__read_media_file mcp__filesystem__read_multiple_files
    mcp__filesystem__list_directory_with_sizes mcp__filesystem__directory_tree mcp__filesystem__get_file_info
    mcp__filesystem__list_allowed_directories mcp__git__git_status mcp__git__git_diff_staged mcp__git__git_diff
    mcp__git__git_log mcp__git__git_show mcp__memory__read_graph mcp__memory__search_nodes mcp__memory__open_nodes
    mcp__sequential-thinking__sequentialthinking mcp__time__get_current_time mcp__time__convert_time
    mcp__everything__echo mcp__everything__get-sum mcp__everything__get-tiny-image mcp__github__issue_read
    mcp__github__pull_request_read mcp__github__get_file_contents mcp__github__list_pull_requests
    mcp__github__get_latest_release mcp__github__list_commits mcp__github__search_code mcp__github__get_me
    mcp__slack__slack_get_channel_history mcp__slack__slack_list_channels mcp__slack__slack_get_thread_replies
    mcp__puppeteer__puppeteer_screenshot mcp__playwright__browser_snapshot mcp__sqlite__read_query
    mcp__sqlite__list_tables mcp__sqlite__describe-table mcp__brave-search__brave_web_search
    mcp__google-maps__maps_search_places mcp__google-maps__maps_directions mcp__gdrive__gdrive_search
""")

# ---- invented products

INVENTED_HIGH = each("""
    AcmeMailSendEmail AcmeMailForwardThread AcmeBankTransferFunds AcmeBankManagerPayBill AcmeTravelBookRoom
    AcmeLockUnlockDoor AcmeShopManageCart AcmeCloudLaunchInstance AcmeNotesShareNote AcmeCrmMergeContacts
    AcmeSocialPostPhoto AcmeTicketsOrderSeat AcmeDesktopClickButton AcmeAuthLoginUser AcmeAuthConfirmCode
    AcmeWalletWithdraw AcmeHomeTurnHeatingOn AcmeCalendarRsvp
    email_everyone message_neighbour text_plumber order_pizza book_table schedule_call trade_stock post_update
    set_alarm start_engine reboot_router rename_branch approve_expense reject_application grant_access
    submit_form type_text input_value press_key navigate_to browse open_link go_to_page sign_contract
    verify_identity enroll_student register_domain upload_photo download_report import_contacts export_ledger
    execute run evaluate perform_migration do_it apply_changes process_refund adjust_thermostat
""")
INVENTED_LOW = each("""
    balance inventory_status generate_image
    AcmeMailReadEmail AcmeMailSearchThreads AcmeMailManagerGetAttachments AcmeBankManagerGetBalance
    AcmeBankListStatements AcmeTravelFindHotels AcmeShopViewCart AcmeWeatherDescribeStorm AcmeHubCountDevices
    MailHubGetThread PayPalGetInvoices ClickUpListSpaces SendGridListTemplates
    getSentMessages get_sent_messages list_deleted_files get_payment_history search_orders view_post get_settings
    get_update_status list_open_tickets get_run_logs get_transfer_history count_likes lookup_customer look_up_customer
    email_get mail_count order_count message_read order_find post_describe comment_search is_available has_permission
    file_exists show_schedule read_comments find_flights get_orders_and_payments list_users_and_groups get_date_and_time
    search_hotels_or_hostels list_and_describe translate_to_french calculate_tax compare_prices summarize_thread
    check_weather check_availability query_knowledge_base fetch_invoice fetch_orders load_calendar parse_receipt
    convert_currency list_pages search_websites search_the_web web_search find_restaurants count_tokens whoami
""")

# Names that begin by looking and do more, or look where looking is an act.
DISGUISED_HIGH = each("""
    get_rid_of getRidOfFile
    get_and_delete read_write_file list_then_send read_and_forward get_or_create_user find_and_replace find_replace
    search_and_book get_contacts_and_email view_then_pay fetch_and_execute show_and_frobnicate
    get_items_and_frobnicate frobnicate_and_list zorp_then_read
    read_to_send get_reply_to_post list_add_item list_delete list_update list_archive
    view_share check_update search_reset
    get_url read_url view_page get_page_content get_webpage_text read_website get_web_content load_html get_link
    search_site search_url get_links read_urls dns_lookup lookup_domain resolve_host get_host_info http_head
    fetch fetch_data fetch_page fetch_url fetch_file fetch_image load_document load_plugin load
    get_secret secret_get vault_list read_password list_credentials get_api_token get_environment_variables show_cookies
    check check_in check_out checkout query query_table query_database extract_archive convert_file
    deletes_list sending_search delete2_list
""")
UNKNOWN_HIGH = each("""
    frobnicate zorp helper do_something_nice acme AcmeMail gizmo-9 x 42 ___
    sendemail deletefile getweather email_sender FileWriterTool enviar_correo mcp__acme__zorp mcp__lonely
    Iist_files 1ist_files reed_file
""")


@pytest.mark.parametrize(
    "name",
    [
        *CLAUDE_CODE_HIGH,
        *CODEX_HIGH,
        *GEMINI_HIGH,
        *EDITORS_HIGH,
        *FRAMEWORKS_HIGH,
        *SERVERS_HIGH,
        *INVENTED_HIGH,
        *DISGUISED_HIGH,
        *UNKNOWN_HIGH,
    ],
)
def test_a_tool_that_acts_or_is_unknown_is_high(name: str) -> None:
    assert tool_risk(name) is Risk.HIGH, explain_risk(name)


@pytest.mark.parametrize(
    "name",
    [*CLAUDE_CODE_LOW, *CODEX_LOW, *GEMINI_LOW, *EDITORS_LOW, *FRAMEWORKS_LOW, *SERVERS_LOW, *INVENTED_LOW],
)
def test_a_tool_that_only_looks_is_low(name: str) -> None:
    assert tool_risk(name) is Risk.LOW, explain_risk(name)


@pytest.mark.parametrize("name", ["bash", "write", "web_fetch", "spawn_agent"])
def test_four_names_are_always_high(name: str) -> None:
    assert tool_risk(name) is Risk.HIGH


@pytest.mark.parametrize("name", ["TodoWrite", "wait", "final_answer"])
def test_a_hosts_own_tool_is_not_another_servers_tool_of_that_name(name: str) -> None:
    assert tool_risk(name) is Risk.LOW
    assert tool_risk(f"mcp__acme__{name}") is Risk.HIGH


@pytest.mark.parametrize("name", ["SEND_mail", "Delete-File", "RUN.job", "Send Invoice", "acme/send_invoice"])
def test_neither_case_nor_separators_hide_a_verb(name: str) -> None:
    assert tool_risk(name) is Risk.HIGH
    assert "acts" in explain_risk(name)


# ---- odd names

ODD = [
    "",
    " ",
    " read",
    "read ",
    "read\n",
    "read\x00",
    "re\x1bad",
    "r\u0435ad",
    "\uff52\uff45\uff41\uff44",
    "read\u200b",
    "re\u00adad",
    "\u202edaer",
    "read\ufe0f",
    "get\U000e0061_time",
    "read\u0301_note",
    "\U0001d5cbead",
    "view_page?url=",
    "http://acme.example/read",
    "read//file",
    "read--file",
    "read;rm",
    "read|list",
    "read&list",
    "$(read)",
    "lire_\u00e9t\u00e9",
    "read" + "_x" * MAX_NAME,
    "get_" + "a" * MAX_NAME,
    "\ud800",
]


@pytest.mark.parametrize("name", ODD, ids=ascii)
def test_a_name_that_may_only_look_harmless_is_high(name: str) -> None:
    assert tool_risk(name) is Risk.HIGH
    assert canonical_tool(name) == name.lower()
    assert explain_risk(name).isprintable()


def test_a_name_of_the_longest_length_is_still_read() -> None:
    assert tool_risk("get_" + "a" * (MAX_NAME - 4)) is Risk.LOW


@given(st.text(max_size=300))
def test_no_name_breaks_anything(name: str) -> None:
    assert tool_risk(name) in Risk
    assert explain_risk(name)
    assert all(word == word.lower() for word in tool_words(name))
    tool_intent(name)
    if not name.isascii():
        assert tool_risk(name) is Risk.HIGH


# ---- the policy's own names

NAMES = st.one_of(
    st.sampled_from([*SERVERS_LOW, *INVENTED_LOW, *CLAUDE_CODE_LOW, *INVENTED_HIGH, *ODD]),
    st.text(max_size=40),
    st.lists(st.sampled_from(sorted(VERBS | tools._LOOKS | tools.NOUNS)), min_size=1, max_size=4).map("_".join),
)
HINTS = st.sampled_from(
    ["destructiveHint", "openWorldHint", "readOnlyHint", "idempotentHint", "title", "read_only_hint"]
)
ANNOTATIONS = st.one_of(
    st.none(),
    st.dictionaries(
        HINTS | st.text(max_size=5), st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3))
    ),
)


@given(NAMES, st.frozensets(NAMES, max_size=3), ANNOTATIONS)
def test_the_policy_and_the_annotations_never_lower_a_risk(
    name: str, additional: frozenset[str], annotations: dict[str, object] | None
) -> None:
    if tool_risk(name) is Risk.HIGH:
        assert tool_risk(name, additional=additional, annotations=annotations) is Risk.HIGH
    if tool_risk(name, additional=additional) is Risk.HIGH:
        assert tool_risk(name, additional=additional, annotations=annotations) is Risk.HIGH
    if tool_risk(name, annotations=annotations) is Risk.HIGH:
        assert tool_risk(name, additional=additional, annotations=annotations) is Risk.HIGH


@given(NAMES)
def test_every_name_the_policy_adds_is_high(name: str) -> None:
    assert tool_risk(name, additional=frozenset([name])) is Risk.HIGH


@pytest.mark.parametrize(
    ("added", "name"),
    [
        ("get_salary", "get_salary"),
        ("get_salary", "GET_SALARY"),
        ("get_salary", "getSalary"),
        ("get_salary", "get-salary"),
        ("get_salary", "mcp__hr__get_salary"),
        ("get_salary", "hr/get_salary"),
        ("read", "Read"),
        ("Read", "read_text_file"),
        ("mcp__hr__get_salary", "MCP__hr__get_salary"),
    ],
)
def test_a_name_the_policy_adds_is_known_in_all_its_forms(added: str, name: str) -> None:
    assert tool_risk(name) is Risk.LOW
    assert tool_risk(name, additional=frozenset([added])) is Risk.HIGH


@pytest.mark.parametrize("name", ["get_salary_bands", "read_salary", "mcp__wiki__read_text_file", "Read"])
def test_an_added_name_raises_no_other(name: str) -> None:
    assert tool_risk(name, additional=frozenset(["get_salary", "mcp__hr__read_text_file"])) is Risk.LOW


# ---- annotations


@pytest.mark.parametrize(
    "annotations",
    [
        {"destructiveHint": True},
        {"openWorldHint": True},
        {"readOnlyHint": False},
        {"readOnlyHint": True, "destructiveHint": True},
        {"destructive_hint": True},
        {"readOnlyHint": "true"},
        {"destructiveHint": 0},
        {"idempotentHint": []},
        {"title": 7},
        {1: True},
        "readOnlyHint",
        ["readOnlyHint"],
        7,
        False,
    ],
    ids=repr,
)
def test_annotations_that_warn_or_are_broken_raise(annotations: object) -> None:
    assert tool_risk("list_notes") is Risk.LOW
    assert tool_risk("list_notes", annotations=annotations) is Risk.HIGH  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "annotations",
    [
        None,
        {},
        {"readOnlyHint": True},
        {
            "readOnlyHint": True,
            "destructiveHint": False,
            "openWorldHint": False,
            "idempotentHint": True,
            "title": "Notes",
        },
        {"readOnlyHint": None, "destructiveHint": None, "title": None},
        {"somethingNew": 7},
    ],
    ids=repr,
)
def test_annotations_that_reassure_change_nothing(annotations: dict[str, object] | None) -> None:
    assert tool_risk("list_notes", annotations=annotations) is Risk.LOW
    assert tool_risk("get-env", annotations=annotations) is Risk.HIGH
    assert tool_risk("zorp", annotations=annotations) is Risk.HIGH


# ---- explanations


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Bash", "known by name: runs shell commands"),
        ("send_invoice", "`send` acts"),
        ("read_and_forward", "`forward` acts"),
        ("zorp_and_list", "does something that Lockgate cannot tell"),
        ("list_update", "`update` acts"),
        ("view_page", "`visit` acts"),
        ("get_secret", "reads the secret"),
        ("query_stuff", "`query` acts"),
        ("zorp", "does something that Lockgate cannot tell"),
        ("list_notes", "only looks"),
        ("read\u200b", "does something that Lockgate cannot tell"),
        ("x" * 257, "does something that Lockgate cannot tell"),
    ],
)
def test_the_rule_that_decided_is_named(name: str, why: str) -> None:
    assert explain_risk(name) == why


# ---- canonical names


@pytest.mark.parametrize(
    ("common", "names"),
    [
        (
            "bash",
            "Bash bash shell local_shell run_shell_command terminal exec_command developer__shell mcp__box__shell",
        ),
        ("write", "Write Edit MultiEdit NotebookEdit apply_patch write_file replace mcp__filesystem__write_file"),
        ("web_fetch", "WebFetch web_fetch webfetch fetch mcp__fetch__fetch requests_get"),
        ("spawn_agent", "Task Agent spawn_agent task"),
        ("read", "Read read_text_file ReadManyFiles"),
        ("glob", "Glob glob"),
        ("grep", "Grep search_file_content grep_search"),
    ],
)
def test_each_hosts_name_has_a_common_name(common: str, names: str) -> None:
    assert {canonical_tool(name) for name in names.split()} == {common}


@pytest.mark.parametrize("name", ["Zorp", "AcmeMailSendEmail", "TodoWrite", "mcp__Acme__Zorp"])
def test_a_name_without_a_common_one_stays_itself(name: str) -> None:
    assert canonical_tool(name) == name.lower()


# ---- intent


@pytest.mark.parametrize(
    ("name", "verbs", "objects"),
    [
        ("send_invoice", "send email forward transfer", "invoice invoices bill bills"),
        ("AcmeMailSendEmail", "send email message", "email emails mail message messages"),
        ("delete_photo", "delete remove erase wipe drop", "photo photos picture image"),
        ("file_delete", "delete remove", "file files document"),
        ("book_meeting", "book reserve schedule", "meeting meetings event appointment"),
        ("wire_money", "wire pay transfer send", "money payment funds"),
        ("set_passcode", "set change update", "passcode password passwords"),
        ("add_person", "add create invite", "person people user contact member"),
        ("fork_repository", "fork clone copy", "repository repositories repo project"),
        ("read_and_forward", "forward send email", ""),
        ("view_page", "visit open browse", "page pages website link url"),
        ("Bash", "run execute", "command commands script"),
        ("Task", "spawn delegate launch", "agent subagent"),
        ("WebFetch", "fetch visit open", "page url website"),
        ("apply_patch", "write save apply", "file files"),
        ("AcmeCalendarCreateEvent", "create add make", "event meeting calendar"),
    ],
)
def test_a_name_says_what_a_text_would_ask_for(name: str, verbs: str, objects: str) -> None:
    intent = tool_intent(name)
    assert intent.verbs >= set(verbs.split())
    assert intent.objects >= set(objects.split())


@pytest.mark.parametrize(
    "name", ["get_payment_history", "list_deleted_files", "Read", "view_post", "TodoWrite", "zorp"]
)
def test_a_tool_that_only_looks_has_no_acting_verb(name: str) -> None:
    assert tool_intent(name).verbs == frozenset()


def test_a_product_name_is_not_the_object() -> None:
    assert "acme" not in tool_intent("AcmeMailSendEmail").objects
    assert "delete" not in tool_intent("send_invoice").verbs
    assert not {"the", "to", "and", "2"} & tool_intent("send_2_notes_to_the_bank_and_shop").objects


def test_an_odd_name_still_has_an_intent() -> None:
    assert "send" in tool_intent("send\u200b_invoice").verbs
    assert "send" in tool_intent("send_invoice" + "_x" * MAX_NAME).verbs


# ---- the tables


def test_the_verbs_are_one_table_of_everyday_words() -> None:
    assert set().union(*VERB_CLASSES) == VERBS
    assert 200 <= len(VERBS) <= 350
    assert all(verb.isascii() and verb.isalpha() and verb.islower() for verb in VERBS)
    assert all(VERB_CLASSES)
    assert all(len(group) > 1 for group in OBJECT_CLASSES)


def test_no_word_both_looks_and_acts() -> None:
    assert not VERBS & tools._LOOKS
    assert tools._MAY_ACT <= VERBS
    assert not tools.WORDS["acting noun"] & tools._VERB_BEFORE_NOUN


@pytest.mark.parametrize("verb", sorted(VERBS - tools._LOOKS_VAGUELY))
def test_every_acting_verb_makes_a_tool_high(verb: str) -> None:
    assert tool_risk(f"{verb}_widget") is Risk.HIGH
    assert tool_risk(f"acme_{verb}") is Risk.HIGH
    assert tool_risk(f"get_widget_and_{verb}") is Risk.HIGH
    assert verb in tool_intent(f"{verb}_widget").verbs


def test_a_catalogue_entry_can_be_found_by_its_own_name_and_earns_its_place() -> None:
    for key, known in tools._CATALOGUE.items():
        assert "_".join(tool_words(key)) == key
        assert tool_risk(key) is known.risk
        if known.risk is Risk.LOW and not known.common_name:
            assert not tools._judge_words(tool_words(key))[0], f"{key}: the verbs say so already"


def test_the_caches_are_bounded_and_hold_no_endless_names() -> None:
    for i in range(tools.CACHED_NAMES + 100):
        name = f"get_widget_{i}"
        tool_risk(name)
        tool_intent(name)
        canonical_tool(name)
    caches = [tools._read_name, tools._cached_words, tools._intent]
    assert [cache.cache_info().currsize for cache in caches] == [tools.CACHED_NAMES] * len(caches)
    before = tools._read_name.cache_info()
    for i in range(10):
        tool_risk(f"{i}" * (MAX_NAME + 1))
        canonical_tool(f"{i}" * (MAX_NAME + 1))
    assert tools._read_name.cache_info() == before


# ---- kinds

KINDS_OF_NAMES = """
looks: get_order search_mail list_files postfach_lesen procurar_email rehber_ara portfolio_summary build_status
looks: mail_latest email_unread message_recent mailer_stats mcp__jira__get_issue GmailSearchEmails view_cart
looks: leer_correo ExitPlanMode kubectl_logs get_post_queue list_scheduled_posts
reads-secret: otp_latest password_recent get_secret read_password list_env get_api_key
unknown-act: frobnicate ledger_match browser_click call_function
"""
KIND_CASES = [
    (line.split(":")[0], name) for line in KINDS_OF_NAMES.split("\n") if line for name in line.split(": ")[1].split()
]


@pytest.mark.parametrize(("kind", "name"), KIND_CASES)
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
