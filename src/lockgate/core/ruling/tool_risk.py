"""A tool's name and annotations -> its risk, and what the name says it does.

A name is judged in this order; the first step that knows decides:

1. A name that is not plain ASCII words is high: it may only look like a harmless one.
2. The catalogue: names of known hosts and servers.
3. The first verb of the name. One that acts is high; one that looks is low, unless
   4. a word further on acts as well,
   5. it looks at an address of the caller's choosing (the address itself can carry data out),
   6. it looks at secrets, or
   7. the verb is vague and what it looks at is not a thing we know.
8. A name without a verb is high: we know nothing about it.

The policy's own list and MCP annotations are asked afterwards, and what the call gives the tool: an address (`://`)
makes a tool that is low by its verb alone a high-risk one; one in the catalogue goes where it always does. All of
these can raise the risk, none can lower it.
A server that lies about its tools can still call anything `get_weather`: a name is a claim, never a proof.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from lockgate.core.errors import quoted
from lockgate.core.vocabulary import Risk

# Longer names are refused before any cache sees them: a cache of 4,096 names must not hold 4,096 megabytes.
MAX_NAME = 256
CACHED_NAMES = 4096

# ---------------------------------------------------------------------------------------------------------------
# Words


def _word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _word_sets(lines: str) -> tuple[frozenset[str], ...]:
    return tuple(_word_set(line) for line in lines.splitlines() if line.strip())


# Acting verbs in base form, grouped by what a person asking for the same thing would say. A verb may stand in
# several groups.
VERB_CLASSES: tuple[frozenset[str], ...] = _word_sets("""
    send email mail message text forward deliver dispatch transmit relay reply respond contact transfer share
    notify alert inform tell message
    share publish post upload broadcast announce release tweet comment expose disclose reveal leak
    pay transfer wire remit settle donate send
    charge bill debit
    refund reimburse credit return
    withdraw deposit
    buy purchase order checkout acquire bid rent lease redeem invest stake
    sell trade swap exchange
    subscribe signup register enroll join
    book reserve schedule reschedule arrange register enroll plan
    delete remove erase wipe drop destroy purge clear discard trash unlink truncate empty prune clean uninstall
    create make add generate build compose draft insert append initialize init establish prepare produce provision
    update change edit modify alter set adjust amend replace rename revise rewrite correct fix patch overwrite reset
    configure customize set adjust toggle switch turn increase raise decrease lower reduce
    increase raise upgrade extend
    decrease lower downgrade dim
    mark flag tag label pin star archive snooze
    write save store record append log put persist note dump remember
    run execute exec invoke launch
    start trigger begin launch
    call phone dial
    perform operate process
    eval evaluate compile
    apply use
    install deploy download upgrade setup
    rollback revert restore
    stop kill terminate cancel abort halt pause suspend shutdown close quit exit interrupt
    restart reboot reload refresh resume retry rerun
    allow grant approve authorize permit enable activate accept confirm verify unlock whitelist trust
    deny reject decline refuse revoke block ban restrict lock disable deactivate dismiss ignore mute unsubscribe
    login signin sign authenticate verify
    logout signout
    enter type input fill submit click press tap select choose attach paste scroll drag hover complete
    visit open browse navigate fetch load access follow download crawl scrape connect redirect request click go
    move transfer relocate migrate
    copy clone fork duplicate backup
    import pull sync
    export push sync upload
    invite add hire enroll join
    assign delegate promote demote elevate
    leave quit exit
    rate review vote upvote downvote react endorse answer comment
    report escalate complain dispute claim
    open unlock disarm
    close lock arm
    control manage operate
    give grant provide award offer
    create schedule book arrange
    place order buy sell trade
    print
    play
    park
    encrypt hide mask
    compress zip
    decrypt unzip
    spawn delegate launch start dispatch
    ship deliver
    commit push merge rebase revert stage
    link connect pair bind attach
    detach disconnect unpair unlink
    ask request demand
""")

VERBS: frozenset[str] = frozenset().union(*VERB_CLASSES)

# Acting verbs that are everyday nouns or adjectives too: after a looking verb they name what is looked at.
_VERB_OR_NOUN = _word_set("""
    email mail message text contact alert post comment tweet release order trade bid rent lease stake exchange book
    schedule plan register draft clone fork duplicate record log note process bill credit debit deposit charge wire
    flag tag label pin star patch fix set reply answer review rate vote report block lock access request trust sign
    type input click press call open close print play park control purchase refund claim dispute login logout signin
    signout signup setup checkout commit stage link pair mark store trash clear clean empty correct lower complete
    permit grant leave return ship zip mask whitelist rollback backup exit use go build visit turn ask
    demand react launch reserve phone
""")
# The same, but said as an order more often than as a thing: `list_update` updates a list.
_VERB_BEFORE_NOUN = _word_set("""
    update change edit share export import reset refresh sync transfer archive upload download upgrade downgrade merge
    push pull restart reboot reload resume retry rerun start stop pause run switch toggle copy restore trigger swap
    hire rebase revert
""")
_MAY_ACT = _VERB_OR_NOUN | _VERB_BEFORE_NOUN

_LOOKS = _word_set("""
    get list read search find show view count describe lookup display retrieve summarize summarise compare calculate
    compute translate analyze analyse explain classify detect estimate predict recommend suggest identify inspect
    examine diff sort filter rank measure preview peek is has exists whoami enumerate glob grep ls tail head stat
    locate determine lint think echo geocode sum average tokenize decode encode hash
""")
# Looking, when what is looked at is a thing we know: `check_weather`, but not `check_out`, and not a bare `query`.
_LOOKS_VAGUELY = _word_set("check query fetch load extract parse convert")
_LOOKS_OVER_MANY = _word_set("list search find count filter sort enumerate")
# A file, picture or text can be fetched from anywhere and extracted to anywhere; a table is queried in a language that
# also drops it.
_MEDIA = _word_set(
    "file document doc attachment picture photo image video article paper text content reference news song"
)
_TOO_VAGUE: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("fetch", "load", "extract", "convert"), _MEDIA),
    "query": _word_set("table row record"),
}
# These never are nouns: a word before one of them is the thing looked at (`issue_read`, `email_get`).
_ONLY_LOOKS = _word_set("get read find describe retrieve")
_ACTS = VERBS - _MAY_ACT - _LOOKS_VAGUELY
# What is a verb wherever it stands, acting or looking.
PLAIN_VERBS = _ACTS | _LOOKS

# What product names are made of: in `MailHubGetThread` the mail is not an order.
_PRODUCT = _word_set("""
    manager service client api server tool toolkit app hub pro center centre system platform box cloud desk suite
    tracker assistant plugin connector integration provider mcp office wizard central portal
""")
_JOINS = _word_set("and then or plus also nor to")
# `check_out`, `query_in`: with one of these behind it the verb is another verb.
_PARTICLES = (("in",), ("out",), ("off",), ("up",))

# Where the address is an argument, the answer is not the only thing that travels. Name lookups count: a host name
# reaches the name server of the domain's owner.
_ADDRESSES = _word_set("""
    url uri href link webpage website site page http https html web internet browser domain host hostname dns endpoint
    webhook rss
""")
_MANY_ADDRESSES = frozenset(f"{word}s" for word in _ADDRESSES)
_WHOLE_WEB = _word_set("web internet")
_SECRETS = _word_set("""
    secret secrets password passwords passcode passcodes passphrase credential credentials token tokens apikey apikeys
    env environ environment vault keychain cookie cookies otp seed mnemonic
""")

# Nouns people use for one another.
OBJECT_CLASSES: tuple[frozenset[str], ...] = _word_sets("""
    email mail message
    money payment fund transaction cash
    file document doc attachment
    folder directory
    event meeting appointment
    page website site webpage link url
    password passcode credential
    secret token key credential
    user member person contact
    friend contact
    repo repository project
    channel room group chat
    order purchase
    reservation booking
    task todo reminder
    ticket issue bug
    picture photo image
    note memo
    post tweet
    comment reply
    review rating feedback
    product item
    phone mobile telephone
    command script code shell terminal
    agent subagent assistant
    package parcel delivery shipment
    bill invoice
    table row record
    permission role access
    address location place
    car vehicle ride taxi
    subscription membership plan
""")
_NOUNS = frozenset().union(*OBJECT_CLASSES) | _word_set("""
    time date weather forecast name title status state history summary detail info information balance price rate stock
    currency unit temperature timezone distance route direction map restaurant hotel flight city country customer client
    employee patient prescription medication lab result score grade course lesson student recipe ingredient song
    playlist album movie video news headline paper article schema log metric dashboard version config setting
    preference quota usage availability slot seat size total tax salary contract policy claim case lead deal pipeline
    opportunity campaign segment template workflow job queue build release branch commit milestone label tag team org
    organization organisation memory artifact calendar inbox thread account profile card inventory cart wishlist store
    shop catalog catalogue category library docs documentation knowledge base symbol definition reference error warning
    text content hyperlink element warranty coupon discount train bus traffic air quality device sensor battery health
    heart step sleep book author quote word grammar spelling syntax type conversation transcript call id number receipt
""")

# Product names that read as orders or as other words once camelCase has been split.
_BRANDS: Mapping[tuple[str, ...], str] = {
    tuple(pair.split()): pair.replace(" ", "")
    for pair in (
        *("pay pal", "click up", "send grid", "send bird", "drop box", "open ai", "open weather", "open street"),
        *("post hog", "post gres", "mail chimp", "mail gun", "mail jet", "type script", "share point", "git hub"),
        *("git lab", "linked in", "you tube", "whats app", "face book", "build kite", "clear bit", "launch darkly"),
    )
}

_WORD = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\W\d_a-zA-Z]+")
# Letters, digits and underscores, with single separators between: what every host accepts and nothing that hides.
_PLAIN = re.compile(r"[A-Za-z0-9_]+(?:[ ./:-][A-Za-z0-9_]+)*")
_HOST_PREFIXES = ("functions.", "default_api.", "multi_tool_use.")


def _split(name: str) -> tuple[str, str]:
    """The server a host put in front of a tool's name (often none), and the tool's own name.

    A server is named by the user's configuration, so its words say nothing about the tool. Only the first part is
    taken off: in `mcp__a__delete__list` the tool is `delete__list`.
    """
    for prefix in _HOST_PREFIXES:
        if name.startswith(prefix) and len(name) > len(prefix):
            name = name[len(prefix) :]
    if name[:5].lower() == "mcp__":
        server, found, tool = name[5:].partition("__")
        return (server, tool) if server and found and tool.strip("_") else ("", name)
    for mark in "/:":
        server, found, tool = name.partition(mark)
        if server and found and tool:
            return server, tool
    return "", name


def _words(text: str) -> tuple[str, ...]:
    found: list[str] = []
    for word in _WORD.findall(text):
        low = word.lower()
        if found and (found[-1], low) in _BRANDS:
            found[-1] = _BRANDS[found[-1], low]
        else:
            found.append(low)
    return tuple(found)


@lru_cache(maxsize=CACHED_NAMES)
def _cached_words(name: str) -> tuple[str, ...]:
    return _words(_split(name)[1])


def tool_words(name: str) -> tuple[str, ...]:
    """The words of a tool's own name, lowercase, without the server it came from.

    A name longer than any host allows is cut at 256 characters.
    """
    return _cached_words(name[:MAX_NAME])


# ---------------------------------------------------------------------------------------------------------------
# Names we know


@dataclass(frozen=True, slots=True)
class _KnownTool:
    """What the catalogue says of a name.

    `common_name` is the name that tools of this kind share, where there is one. `bare` marks a host's own tool: another
    server's tool of the same name is not it.
    """

    risk: Risk
    common_name: str
    what: str
    bare: bool


def _known_tools(
    names: str, risk: Risk, what: str, *, common_name: str = "", bare: bool = False
) -> dict[str, _KnownTool]:
    return dict.fromkeys(names.split(), _KnownTool(risk, common_name, what, bare))


# Keys are a name's words joined by underscores, so `WebFetch`, `web-fetch` and `web_fetch` are one entry.
# Only names that the verbs would misjudge, or that have a common name, need to be here.
_CATALOGUE: dict[str, _KnownTool] = {
    **_known_tools(
        """
        bash shell sh zsh terminal powershell power_shell pwsh cmd run_shell_command shell_command local_shell exec
        exec_command execute_command execute_bash run_command run_terminal_cmd run_terminal_command run_in_terminal
        execute_shell_command bash_tool shell_tool container_exec unified_exec write_stdin send_terminal_input
        bash_code_execution shell_exec run_bash command_line
        """,
        Risk.HIGH,
        "runs shell commands",
        common_name="bash",
    ),
    **_known_tools(
        """
        python python_repl python_repl_ast python_interpreter code_interpreter code_execution repl js_repl
        javascript_repl node_repl jupyter e_2_b_data_analysis sql_db_query query_sql query_database query
        """,
        Risk.HIGH,
        "runs code or queries given to it",
    ),
    **_known_tools(
        """
        write edit multi_edit multiedit notebook_edit write_file write_to_file edit_file create_file replace
        replace_in_file apply_patch apply_diff patch str_replace_editor str_replace_based_edit_tool text_editor
        text_editor_code_execution search_replace insert_content insert_edit_into_file replace_string_in_file
        edit_notebook file_write file_writer smart_edit reapply
        """,
        Risk.HIGH,
        "changes files",
        common_name="write",
    ),
    **_known_tools(
        """
        web_fetch webfetch fetch fetch_url fetch_webpage fetch_page url_context load_web_page visit_webpage visit_page
        read_url get_url open_url requests_get http_get http_request curl wget read_website_content scrape_website
        extract_url fetch_content
        """,
        Risk.HIGH,
        "reaches an address of the caller's choosing",
        common_name="web_fetch",
    ),
    **_known_tools(
        "gzip_file_as_resource browser_action computer computer_use computer_tool browser previous_webpage",
        Risk.HIGH,
        "acts on an address or a screen of the caller's choosing",
    ),
    **_known_tools(
        """
        spawn_agent spawn_agents_on_csv task agent subagent sub_agent new_task transfer_to_agent delegate
        delegate_work_to_coworker launch_agent dispatch_agent runsubagent run_subagent
        """,
        Risk.HIGH,
        "starts or instructs another agent",
        common_name="spawn_agent",
    ),
    **_known_tools(
        """
        skill workflow monitor slash_command artifact config memory attempt_completion image_generation zapier_nla
        ionic_commerce
        """,
        Risk.HIGH,
        "acts, though its name does not say so",
    ),
    **_known_tools("get_env print_env printenv env", Risk.HIGH, "reveals the environment with its secrets"),
    **_known_tools(
        "read read_file view_file cat read_text_file read_many_files read_multiple_files readfile file_read",
        Risk.LOW,
        "only reads files",
        common_name="read",
    ),
    **_known_tools("glob glob_search find_files file_glob_search", Risk.LOW, "only finds files", common_name="glob"),
    **_known_tools(
        "grep grep_search grep_files search_file_content search_text ripgrep",
        Risk.LOW,
        "only searches files",
        common_name="grep",
    ),
    **_known_tools(
        "lsp todoread bash_output task_output agent_output_tool cli_help extract_text",
        Risk.LOW,
        "only reads",
        bare=True,
    ),
    **_known_tools(
        """
        todo_write todowrite write_todos wait sleep enter_plan_mode ask_user ask_user_question request_user_input
        ask_followup_question human final_answer wait_for_mcp_servers
        """,
        Risk.LOW,
        "touches nothing but the agent's own notes or its user's attention",
        bare=True,
    ),
    **_known_tools(
        """
        wikipedia wikidata arxiv pub_med pubmed wolfram_alpha duckduckgo_results_json google_serper google_places
        google_scholar google_trends google_finance stack_exchange semanticscholar searx tavily openweather_map
        yahoo_finance_news merriam_webster maps_place_details maps_distance_matrix maps_elevation maps_directions
        resolve_library_id
        """,
        Risk.LOW,
        "asks one fixed provider",
    ),
    **_known_tools(
        """
        sequentialthinking sequential_thinking git_status git_log git_blame open_nodes directory_tree current_time
        current_date current_webpage calculator sql_db_schema sql_db_query_checker info_sql_db schema_powerbi
        browser_snapshot browser_take_screenshot browser_console_messages browser_network_requests browser_wait_for
        puppeteer_screenshot list_label get_resource_links
        """,
        Risk.LOW,
        "only reads",
    ),
}

# What the common names ask for: some hosts give such a tool a name without a verb (`terminal`, `Task`).
_COMMON_INTENT: Mapping[str, tuple[str, str]] = {
    "bash": ("run", "command"),
    "write": ("write", "file"),
    "web_fetch": ("fetch", "page"),
    "spawn_agent": ("spawn", "agent"),
}


def _find_known_tool(name: str, words: tuple[str, ...]) -> _KnownTool | None:
    known = _CATALOGUE.get("_".join(words))
    if known is not None:
        return None if known.bare and _split(name)[0] else known
    # `developer__shell`: we cannot be sure that the first part is a server, so only a high name counts behind it.
    known = _CATALOGUE.get("_".join(_words(name.rpartition("__")[2]))) if "__" in name else None
    return known if known is not None and known.risk is Risk.HIGH else None


# ---------------------------------------------------------------------------------------------------------------
# Risk


@dataclass(frozen=True, slots=True)
class _NameRisk:
    """What a name came to: its acting verbs in base form, and where among its words the deciding verb stands."""

    risk: Risk
    why: str
    acting: tuple[str, ...] = ()
    at: int = -1


def _with_s(word: str) -> str:
    """The third person of a verb, the plural of a noun."""
    if word[-1:] == "y" and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "z", "ch", "sh")) else "s")


def _inflections(verb: str) -> tuple[str, ...]:
    """`sends`, `sending`, `dropping`; a made-up form such as `sendding` does no harm here."""
    return _with_s(verb), (verb[:-1] if verb[-1] == "e" else verb) + "ing", verb + verb[-1] + "ing"


_ACTING_FORMS: Mapping[str, str] = {form: verb for verb in sorted(_ACTS) for form in (*_inflections(verb), verb)}


def _high_risk(why: str, *acting: str, at: int = -1) -> _NameRisk:
    return _NameRisk(Risk.HIGH, why, acting, at)


def _joined_act(words: tuple[str, ...], at: int) -> str:
    """The word after an `and`, `then` or `to` that may act, if any: `read_and_forward`, `get_contacts_and_email`."""
    for i in range(at + 1, len(words)):
        if words[i - 1] not in _JOINS:
            continue
        word = words[i]
        if word in _LOOKS or word.isdigit():
            continue
        towards = words[i - 1] == "to"
        joins_verbs = i - 2 == at and not towards  # get_and_…: what follows can only be another verb
        thing = towards or word in _NOUNS or word.endswith(("s", "ing", "ed", "ion"))
        if joins_verbs or word in _MAY_ACT or not thing:
            return word
    return ""


def _first_verb(words: tuple[str, ...]) -> tuple[int, str]:
    """Where the verb stands that says what the tool does, and its base form if it acts."""
    for i, word in enumerate(words):
        if word == "look" and words[i + 1 : i + 2] == ("up",):
            return i + 1, ""
        if word == "get" and words[i + 1 : i + 2] == ("rid",):
            return i, "delete"
        if word in _LOOKS or word in _LOOKS_VAGUELY:
            return i, ""
        if word in _ACTING_FORMS:
            return i, _ACTING_FORMS[word]
        if word in _MAY_ACT:
            at = i + 1
            while at < len(words) and (words[at] in _PRODUCT or words[at] in _MAY_ACT):
                at += 1
            verb = words[at] if at < len(words) else ""
            thing = verb in _ONLY_LOOKS or (verb in ("search", "lookup", "count") and word in _VERB_OR_NOUN)
            return (at, "") if thing else (i, word)
    return -1, ""


def _judge_words(words: tuple[str, ...]) -> _NameRisk:
    # 3. The first verb, or 8. none.
    at, acts = _first_verb(words)
    if at < 0:
        return _high_risk("nothing is known about this name")
    if acts:
        later = tuple(word for word in words[at + 1 :] if word in _ACTS and word != acts)
        return _high_risk(f"{quoted(acts)} acts", acts, *later, at=at)
    return (
        _find_second_verb(words, at)
        or _find_address(words, at)
        or _find_secret(words, at)
        or _find_vague_verb(words, at)
        or _NameRisk(Risk.LOW, f"{quoted(words[at])} only looks, and no other word acts", at=at)
    )


def _find_second_verb(words: tuple[str, ...], at: int) -> _NameRisk | None:
    """4. A second verb."""
    look, rest = words[at], words[at + 1 :]
    if not _JOINS.isdisjoint(words[:at]):
        return _high_risk(f"something else is done before {quoted(look)}", at=at)
    second = next((word for word in rest if word in _ACTS), "") or _joined_act(words, at)
    if second:
        return _high_risk(f"{quoted(look)} looks, but {quoted(second)} acts", second, at=at)
    if len(rest) == 1 and look not in _ONLY_LOOKS and rest[0] in (_MAY_ACT if look == "list" else _VERB_BEFORE_NOUN):
        return _high_risk(f"{quoted(look)} may be a thing here that {quoted(rest[0])} acts on", rest[0], at=at)
    return None


def _find_address(words: tuple[str, ...], at: int) -> _NameRisk | None:
    """5. An address of the caller's choosing."""
    address = next((word for word in words if _is_address(word, words[at])), "")
    if not address:
        return None
    return _high_risk(f"{quoted(address)} may be an address of the caller's choosing", "visit", at=at)


def _find_secret(words: tuple[str, ...], at: int) -> _NameRisk | None:
    """6. Secrets."""
    secret = next((word for word in words if word in _SECRETS), "")
    return _high_risk(f"{quoted(secret)} is a secret", at=at) if secret and words[at] != "count" else None


def _find_vague_verb(words: tuple[str, ...], at: int) -> _NameRisk | None:
    """7. A vague verb."""
    look, rest = words[at], words[at + 1 :]
    if look not in _LOOKS_VAGUELY:
        return None
    things = _NOUNS - _TOO_VAGUE.get(look, frozenset())
    if rest[:1] in _PARTICLES or things.isdisjoint(map(_singular, rest or words[:at])):
        return _high_risk(f"{quoted(look)} is vague, and what it is done to is not known", look, at=at)
    return None


def _is_address(word: str, look: str) -> bool:
    if word in _MANY_ADDRESSES:
        return look not in _LOOKS_OVER_MANY
    # Searching the whole web asks one provider; searching a site may ask the site.
    return word in _ADDRESSES and look != "count" and not (look in ("search", "find") and word in _WHOLE_WEB)


@lru_cache(maxsize=CACHED_NAMES)
def _cached_name_risk(name: str) -> _NameRisk:
    words = _cached_words(name)
    judged = _judge_words(words)
    # 1. Plain words.
    if not _PLAIN.fullmatch(name):
        why = "the name is not made of plain words, and may only look like a harmless one"
        return _high_risk(why, *judged.acting, at=judged.at)
    # 2. The catalogue.
    known = _find_known_tool(name, words)
    if known is None:
        return judged
    acting = judged.acting if known.risk is Risk.HIGH else ()
    return _NameRisk(known.risk, f"known by name: {known.what}", acting, judged.at)


def _name_risk(name: str) -> _NameRisk:
    return (
        _cached_name_risk(name)
        if len(name) <= MAX_NAME
        else _high_risk(f"the name is longer than {MAX_NAME} characters")
    )


@lru_cache(maxsize=CACHED_NAMES)
def _name_forms(name: str) -> tuple[str, str, str]:
    """How a name may come back: as written, as its common name, as words."""
    return name.lower(), canonical_tool(name), "_".join(tool_words(name))


@lru_cache(maxsize=64)
def _policy_name_forms(additional: frozenset[str]) -> frozenset[str]:
    """The policy's own names in all their forms; one that names its server means that server's tool only."""
    return frozenset(
        form for name in additional for form in ((name.lower(),) if _split(name)[0] else _name_forms(name))
    )


# The value that raises, and why. On the wire hints are camelCase, in Python clients snake_case.
_HINTS: Mapping[str, tuple[bool | None, str]] = {
    **dict.fromkeys(("destructiveHint", "destructive_hint"), (True, "its annotations say it is destructive")),
    **dict.fromkeys(("openWorldHint", "open_world_hint"), (True, "its annotations say it reaches the open world")),
    **dict.fromkeys(("readOnlyHint", "read_only_hint"), (False, "its annotations say it is not read-only")),
    **dict.fromkeys(("idempotentHint", "idempotent_hint"), (None, "")),
}


def _why_annotations_raise(annotations: object) -> str:
    """Why the annotations raise the risk, or nothing.

    They come from the server that is being judged, so a reassuring one changes nothing and a broken one counts
    against it. An absent hint, or one left at None by a client library, says nothing.
    """
    if not isinstance(annotations, Mapping):
        return "its annotations are not an object"
    for key, value in annotations.items():
        if not isinstance(key, str) or (key == "title" and not isinstance(value, str | None)):
            return "its annotations are not those of the protocol"
        if value is None or key not in _HINTS:
            continue
        raises, why = _HINTS[key]
        if not isinstance(value, bool):
            return f"its annotation {quoted(key)} is not true or false"
        if value is raises:
            return why
    return ""


def _why_raised(name: str, additional: frozenset[str], annotations: object) -> str:
    if additional and len(name) <= MAX_NAME and not _policy_name_forms(additional).isdisjoint(_name_forms(name)):
        return "the policy names it in additional_high_risk_tools"
    return "" if annotations is None else _why_annotations_raise(annotations)


def tool_risk(
    name: str, *, additional: frozenset[str] = frozenset(), annotations: Mapping[str, object] | None = None
) -> Risk:
    """How much harm a call of this tool could do; high for every tool we know nothing about.

    `additional` are the policy's own high-risk names, `annotations` what an MCP server says of its tool: both can
    only raise the risk.
    """
    risk = (_cached_name_risk(name) if len(name) <= MAX_NAME else _name_risk(name)).risk
    # Looking a member up in its enumeration takes longer than everything else here.
    if risk is not Risk.LOW or (annotations is None and not additional):
        return risk
    return Risk.HIGH if _why_raised(name, additional, annotations) else Risk.LOW


def may_reach_any_address(name: str) -> bool:
    """Whether a tool that only looks may look wherever an address leads: all but those that we know by name."""
    return len(name) > MAX_NAME or _find_known_tool(name, _cached_words(name)) is None


def acting_words(name: str) -> tuple[str, ...]:
    """Return the verbs of a name in base form; words that are nouns as well count only where there is no other."""
    return _cached_acting_words(name[:MAX_NAME])


@lru_cache(maxsize=CACHED_NAMES)
def _cached_acting_words(name: str) -> tuple[str, ...]:
    words = _cached_words(name)
    sure = [_ACTING_FORMS[word] for word in words if word in _ACTING_FORMS]
    likely = [word for word in words if word in _VERB_BEFORE_NOUN]
    return tuple(dict.fromkeys(sure or likely or [word for word in words if word in _VERB_OR_NOUN]))


def explain_risk(
    name: str, *, additional: frozenset[str] = frozenset(), annotations: Mapping[str, object] | None = None
) -> str:
    """Which rule decided `tool_risk`, in one short sentence."""
    ruling = _name_risk(name)
    return ruling.why if ruling.risk is Risk.HIGH else _why_raised(name, additional, annotations) or ruling.why


def canonical_tool(name: str) -> str:
    """The common name of a host's tool (`Bash`, `shell` and `local_shell` are `bash`), else the name in lowercase."""
    return _canonical(name) if len(name) <= MAX_NAME else name.lower()


def has_common_name(name: str) -> bool:
    """Return whether this is a host's tool of a kind that has a common name, such as `Read` or `Grep`."""
    return len(name) <= MAX_NAME and _common_name(name) != ""


@lru_cache(maxsize=CACHED_NAMES)
def _common_name(name: str) -> str:
    known = _find_known_tool(name, _cached_words(name)) if _PLAIN.fullmatch(name) else None
    return known.common_name if known is not None else ""


@lru_cache(maxsize=CACHED_NAMES)
def _canonical(name: str) -> str:
    return _common_name(name) or name.lower()


# ---------------------------------------------------------------------------------------------------------------
# Intent


@dataclass(frozen=True, slots=True)
class ToolIntent:
    """What a call of the tool would do, in the words in which a text might ask for it.

    `verbs` are its acting verbs with their everyday synonyms, in base form; a tool that only looks has none.
    `objects` are the things it is done to, singular and plural.
    """

    verbs: frozenset[str]
    objects: frozenset[str]


_IRREGULAR: Mapping[str, str] = {"people": "person", "children": "child", "men": "man", "women": "woman"}
_SAME_PLURAL = _word_set("news series species status address access business sms")
_NOT_OBJECTS = _JOINS | _word_set("""
    a an the of in on at by for from with without into my your all any new as is it this that via up out off not tool id
""")


# A tool that manages something does what its arguments say: any everyday action on the object is a request for it.
_ANYTHING = _word_set("manage handle administer operate control process perform maintain")
_ANY_ACTION = _word_set("create update delete schedule cancel move redirect set enable disable")


def _singular(word: str) -> str:
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word in _SAME_PLURAL or word.endswith(("ss", "us", "is")) or len(word) < 4:
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        return word[:-2]
    return word.removesuffix("s")


def _plurals(words: frozenset[str]) -> frozenset[str]:
    irregular = frozenset(plural for plural, word in _IRREGULAR.items() if word in words)
    return irregular.union(_with_s(word) for word in words - _SAME_PLURAL - frozenset(_IRREGULAR.values()))


def _add_synonyms(words: Iterable[str], classes: tuple[frozenset[str], ...]) -> frozenset[str]:
    own = frozenset(words)
    return own.union(*(group for group in classes if not group.isdisjoint(own)))


@lru_cache(maxsize=CACHED_NAMES)
def _intent(name: str) -> ToolIntent:
    words, ruling = _cached_words(name), _cached_name_risk(name)
    known = _find_known_tool(name, words)
    verb, thing = _COMMON_INTENT.get(known.common_name, ("", "")) if known is not None else ("", "")
    acting = {*ruling.acting, verb} - {""}
    if not acting.isdisjoint(_ANYTHING):
        acting |= _ANY_ACTION
    # Words after the verb name its object. Before it stand product names, so there only everyday nouns count, unless
    # nothing follows the verb: `file_delete`.
    before, after = words[: max(ruling.at, 0)], words[ruling.at + 1 :]
    named = {word for word in (*before, *after) if word in after or not after or _singular(word) in _NOUNS}
    named = {word for word in named if not word.isdigit()} - _NOT_OBJECTS - acting
    things = _add_synonyms({*map(_singular, named), thing} - {""}, OBJECT_CLASSES)
    return ToolIntent(_add_synonyms(acting, VERB_CLASSES), things | _plurals(things) | named)


def tool_intent(name: str) -> ToolIntent:
    """What the name says the tool does: the words to look for in a text that asks for this call."""
    return _intent(name[:MAX_NAME])
