"""What each route does. A plain function asks a store, and is run off the loop."""

from __future__ import annotations

from asyncio import to_thread
from functools import cache, partial
from importlib.resources import files
from time import monotonic
from typing import TYPE_CHECKING

from lockgate import __version__
from lockgate.core.errors import InvalidPayload
from lockgate.core.requests.payload import parse_payload
from lockgate.core.ruling.approvals import OPEN_STATES, ApprovalState, is_approval_id
from lockgate.core.ruling.explanations import ENTRIES, LOST_TEXT, find_entry
from lockgate.core.ruling.policy import session_hashes
from lockgate.core.vocabulary import Finding, Kind, Trust, record_to_dict
from lockgate.gate.approval_views import grant_to_dict
from lockgate.runtime.accounts import account_of_peer
from lockgate.runtime.asgi import json_bytes
from lockgate.runtime.shipped_pages import find_page, list_pages, page_text
from lockgate.service import agent_access, gate_requests, journal_proofs, views
from lockgate.service.approval_links import TICKET_S, LinkClaim
from lockgate.service.http import Answer, Caller, Problem, Request, Stream, busy_problem
from lockgate.service.openapi import openapi_document
from lockgate.service.page_login import is_reading_key, make_reading_key
from lockgate.service.schemas import MAX_LIMIT

if TYPE_CHECKING:
    from lockgate.core.ruling.approvals import AnswerResult, Approval
    from lockgate.service.app import Api
    from lockgate.sessions import SessionInfo, StoredRuling

_DAY_S = 86_400.0


# Sessions


def open_session(api: Api, request: Request) -> object:
    body = request.body
    given = {name: body[name] for name in ("host", "mode", "scope", "parent") if body.get(name)}
    if body.get("known") is False:
        given["known"] = False
    info = agent_access.open_session_for(api.host, request, body.get("id", ""), body.get("goal", ""), given)
    return views.session_view(info, told=request.who is Caller.PERSON or agent_access.is_own(api.host, info))


def list_sessions(api: Api, request: Request) -> object:
    limit = request.query.get("limit", 50)
    found = api.host.sessions(limit=limit, before=request.query.get("before"), q=request.query.get("q", ""))
    pauses = api.host.pauses(found)
    return {
        "sessions": [views.session_view(info, pauses=pauses.get(info.number, 0)) for info in found],
        "next": found[-1].number if len(found) == limit else None,
    }


def one_session(api: Api, request: Request) -> object:
    return views.session_view(_find_session(api, request))


def end_session(api: Api, request: Request) -> object:
    _require_same_account(api, request)
    _find_session(api, request)
    api.host.end(request.params["session"])
    return views.session_view(
        _find_session(api, request), told=agent_access.may_speak_for_user(api.host, request, request.params["session"])
    )


def _require_same_account(api: Api, request: Request) -> None:
    agent_access.require_same_account(api.host, request, request.params["session"])


def _find_session(api: Api, request: Request) -> SessionInfo:
    found = api.host.session(request.params["session"])
    if found is None:
        raise Problem(404, "no-such-session", "there is no such session")
    return found


# Blocks


def add_block(api: Api, request: Request) -> object:
    body = request.body
    given = {name: body[name] for name in ("trust", "kind", "tainted_by", "key") if body.get(name)}
    _require_same_account(api, request)
    if not agent_access.may_add(api.host, request, body["source"]):
        given |= {"trust": Trust.UNTRUSTED.word, "kind": Kind.DATA.value}
    block = api.host.add(request.params["session"], body["content"], source=body["source"], **given)
    told = record_to_dict(block)
    # The client that sent it has it.
    del told["content"]
    return told


def list_blocks(api: Api, request: Request) -> object:
    _find_session(api, request)
    every = api.host.blocks(request.params["session"])
    start = request.query.get("offset", 0)
    shown = []
    for block in every[start : start + request.query.get("limit", 200)]:
        told = record_to_dict(block)
        told["content"] = block.content[:1_000]
        shown.append({**told, "length": len(block.content)})
    return {"blocks": shown, "total": len(every)}


def one_block(api: Api, request: Request) -> object:
    _find_session(api, request)
    for block in api.host.blocks(request.params["session"]):
        if block.id == request.params["block"]:
            return record_to_dict(block)
    raise Problem(404, "no-such-block", "there is no such block in this session")


def lineage_of(api: Api, request: Request) -> object:
    one_block(api, request)
    return record_to_dict(api.host.lineage(request.params["session"], request.params["block"]))


# Rulings


async def check(api: Api, request: Request) -> object:
    body = request.body
    kept = await api.host.check_async(
        request.params["session"],
        body["tool"],
        body["arguments"],
        annotations=body.get("annotations"),
        key=body.get("key", ""),
        findings=(Finding(LOST_TEXT.id, "", 0, 0),) if body.get("suspect") else (),
        guard=partial(agent_access.refuse_other_accounts, request),
        client=request.address,
    )
    api.counts.count_ruling(kept.decision)
    try:
        told = agent_access.is_plain(request, kept) or await api.run_heavy(
            partial(agent_access.may_see_grounds, api.host, kept)
        )
    except Problem:
        # No room to look: the ruling is on record, and may have used up a person's yes.
        told = False
    return views.ruling_view(kept, told=told)


def tell_outcome(api: Api, request: Request) -> object:
    _require_same_account(api, request)
    if not api.host.outcome(request.params["session"], request.body["key"], request.body["ran"]):
        raise Problem(404, "no-such-call", "no call of this session was checked under that key")
    return {"key": request.body["key"], "ran": request.body["ran"]}


# Steps


def begin_step(api: Api, request: Request) -> object:
    agent_access.require_own_session(api.host, request)
    body, name = request.body, request.params["session"]
    begun = api.host.steps.begin(name, body["goal"], supervision=body.get("supervision"), parent=body.get("parent", ""))
    if "commitment" in body:
        begun = api.host.steps.commit(name, begun.name, body["commitment"])
    return views.step_view(begun)


def one_step(api: Api, request: Request) -> object:
    agent_access.require_own_session(api.host, request)
    found = api.host.steps.get(request.params["session"], request.params["step"])
    if found is None:
        raise Problem(404, "no-such-step", "there is no such step in this session")
    return views.step_view(found)


def _refuse_late(request: Request) -> None:
    """Refuse to rule on a call that waited too long, as `Host.check_async` does: its agent may have given up."""
    if monotonic() > request.until_s:
        raise busy_problem()


def commit_step(api: Api, request: Request) -> object:
    one_step(api, request)
    return views.step_view(api.host.steps.commit(request.params["session"], request.params["step"], request.body))


def check_step(api: Api, request: Request) -> object:
    _refuse_late(request)
    one_step(api, request)
    body = request.body
    kept = api.host.steps.check(
        request.params["session"],
        request.params["step"],
        body["tool"],
        body["arguments"],
        annotations=body.get("annotations"),
        key=body.get("key", ""),
    )
    api.counts.count_ruling(kept.decision)
    return views.ruling_view(kept)


def finish_step(api: Api, request: Request) -> object:
    _refuse_late(request)
    one_step(api, request)
    kept = api.host.steps.finish(request.params["session"], request.params["step"], request.body["assessment"])
    api.counts.count_ruling(kept.decision)
    return views.ruling_view(kept)


def abandon_step(api: Api, request: Request) -> object:
    one_step(api, request)
    return views.step_view(api.host.steps.abandon(request.params["session"], request.params["step"]))


async def assess(api: Api, request: Request) -> object:
    try:
        parse_payload(request.body)
    except InvalidPayload as error:
        raise Problem(422, "bad-payload", error.message, hint=error.hint) from None
    if api.adapter is None:
        raise Problem(503, "no-adapter", "no verifier is set up here")
    tenant = request.query.get("tenant", "")
    if tenant and request.who is not Caller.PERSON:
        raise Problem(403, "needs-a-person", "only a person's token says whose key is used", hint="leave `tenant` out")
    found = await api.adapter.examine_async(request.body, tenant=tenant)
    return {**found._asdict(), "rules": list(found.rules), "latency_ms": round(found.latency_ms, 3)}


# What was ruled


def list_decisions(api: Api, request: Request) -> object:
    limit = request.query.get("limit", 50)
    asked = {**request.query, "limit": limit}
    if "after" in asked:
        # After 0 would be after nothing in particular.
        asked["after"] = asked["after"] or -1
    found = api.host.decisions(**asked)
    newest_first = sorted(found, key=lambda kept: -kept.seq)
    more = len(found) == limit and "after" not in request.query
    return {
        "decisions": [views.summary_view(kept) for kept in newest_first],
        "next": newest_first[-1].seq if more else None,
    }


def one_decision(api: Api, request: Request) -> object:
    kept = _find_ruling(api, request)
    info = api.host.session(kept.session)
    # What the ruling saw, and not what came later under a name of its choice.
    blocks = api.host.blocks(kept.session)[: kept.context]
    name = kept.decision.approval
    approval = (
        api.approval_desk.get(name, api.clock()) if name and is_approval_id(name) and api.host.gate.approvals else None
    )
    return views.detail_view(kept, blocks, "" if info is None else info.goal, approval)


def prove_decision(api: Api, request: Request) -> object:
    return journal_proofs.decision_proof(api.host.gate, _find_ruling(api, request))


def requests_of_decision(api: Api, request: Request) -> object:
    return gate_requests.requests_of_ruling(api, _find_ruling(api, request))


def _find_ruling(api: Api, request: Request) -> StoredRuling:
    found = api.host.decision(request.params["decision"])
    if found is None:
        raise Problem(404, "no-such-decision", "there is no such decision")
    return found


def stats(api: Api, request: Request) -> object:
    now_s = api.clock()
    since_s = request.query.get("since", now_s - _DAY_S)
    if since_s > now_s:
        raise Problem(422, "bad-query", "`since` is in the future")
    bucket_s = request.query.get("bucket", max(60.0, (now_s - since_s) / 96))
    # The newest of each: every one of a month would have to be read whole.
    held = [kept for action in ("PAUSE", "REORIENT") for kept in api.host.decisions(action=action, limit=MAX_LIMIT)]
    judged = [kept for tier in (2, 3) for kept in api.host.decisions(tier=tier, limit=MAX_LIMIT)]
    sources = views.count_sources(kept for kept in held if kept.at >= since_s)
    judges = views.count_judges(kept for kept in judged if kept.at >= since_s)
    return views.stats_view(api.host.stats(since=since_s, bucket_s=bucket_s), sources, judges)


# People


def list_approvals(api: Api, request: Request) -> object:
    state = request.query.get("state", "waiting")
    found = api.approval_desk.every(api.clock())
    if state in ("open", "ended"):
        found = [each for each in found if (each.state in OPEN_STATES) is (state == "open")]
    elif state != "all":
        found = [each for each in found if each.state.value == state]
    if "limit" in request.query:
        # Those that were asked last: the others are older.
        found = found[-request.query["limit"] :]
    return {"approvals": [views.approval_view(each) for each in found]}


def one_approval(api: Api, request: Request) -> object:
    name = request.params["approval"]
    found = api.approval_desk.get(name, api.clock()) if is_approval_id(name) else None
    if found is None:
        raise Problem(404, "no-such-question", "no call waits, or has waited, under that id")
    return views.approval_view(found)


def answer_approval(api: Api, request: Request) -> object:
    one_approval(api, request)
    body = request.body
    name, yes = request.params["approval"], body["answer"] == "approve"
    who = request.person if request.named else body.get("who", "").strip() or api.default_name
    span = body.get("for", "once").removeprefix("once")
    heard = api.approval_desk.answer(
        name,
        digest=body["digest"],
        yes=yes,
        who=who,
        now_s=api.clock(),
        reason=body.get("reason", ""),
        span=span,
        person=request.person,
    )
    refuse_uncounted(heard, body["digest"], span)
    return one_approval(api, request)


def show_link(api: Api, request: Request) -> object:
    """Show the call that a link of a notification is about, with a ticket to answer it. This changes nothing."""
    claim, found = _claimed_approval(api, request.body["link"], "link")
    until_s = min(claim.until_s, api.clock() + TICKET_S)
    return {
        "approval": views.approval_view(found),
        "ticket": api.links.make(claim._replace(until_s=until_s), f"ticket {found.pending.digest}"),
    }


def answer_link(api: Api, request: Request) -> object:
    body = request.body
    claim, found = _claimed_approval(api, body["ticket"], f"ticket {body['digest']}")
    heard = api.approval_desk.answer(
        found.pending.id,
        digest=body["digest"],
        yes=body["answer"] == "approve",
        who=claim.person or f"a link sent to {claim.target}",
        now_s=api.clock(),
        reason=body.get("reason", ""),
        person=claim.person,
    )
    refuse_uncounted(heard, body["digest"])
    return {"state": heard.state.value}


def _claimed_approval(api: Api, text: str, purpose: str) -> tuple[LinkClaim, Approval]:
    """Return the open question that a link or ticket is about; raise a Problem for one that is worth nothing."""
    claim = api.links.read(text, api.clock(), purpose)
    found = None if claim is None else api.approval_desk.get(claim.id, api.clock())
    if claim is None or found is None:
        raise Problem(403, "bad-link", "this link is not ours, or too old", hint="open the page, or the newest link")
    said = found.answered
    if found.state is not ApprovalState.WAITING or (
        said is not None and said.who.casefold() == claim.person.casefold()
    ):
        why = f": {found.why}" if found.why else ""
        raise Problem(410, "used-link", f"this link has no use any more, the question is {found.state.value}{why}")
    return claim, found


def refuse_uncounted(heard: AnswerResult, digest: str, span: str = "") -> None:
    """Raise why an answer does not count, if it does not."""
    if not heard.counted:
        if heard.state is ApprovalState.WAITING:
            waits = None if heard.approval is None else heard.approval.pending
            if waits is not None and waits.shown.people > 1 and (span or waits.digest == digest):
                hint = "`lockgate help approvals` says how people are told apart"
                raise Problem(409, "second-person", "this call takes the yes of two different persons", hint=hint)
            other = "rule than the one that is offered" if span else "call than the one that waits"
            raise Problem(409, "another-digest", f"the answer is to another {other}")
        why = f" ({heard.approval.why})" if heard.approval is not None and heard.approval.why else ""
        raise Problem(409, "too-late", f"the question is {heard.state.value} already{why}: the answer does not count")


def list_grants(api: Api, _: Request) -> object:
    in_force = session_hashes(api.host.gate.policy)
    return {"grants": [grant_to_dict(each, in_force) for each in api.approval_desk.grants(api.clock())]}


def revoke_grant(api: Api, request: Request) -> object:
    name = request.params["grant"]
    found = [each for each in api.approval_desk.grants(api.clock()) if each.id == name]
    who = request.body.get("who", "").strip() or api.default_name
    # Another process may have been faster.
    if not found or not api.approval_desk.revoke_grant(name, who=who, now_s=api.clock()):
        raise Problem(404, "no-such-grant", "there is no such grant, or it has ended")
    return grant_to_dict(found[0], session_hashes(api.host.gate.policy))


def policy(api: Api, _: Request) -> object:
    """The policy in force; why the newest configuration is not, and what of it needs a restart."""
    state = None if api.reload is None else api.reload.state
    return {
        "policy": api.host.gate.policy.hash,
        "triage": "" if api.host.gate.triage is None else api.host.gate.triage.name,
        "supervisor": "" if api.host.gate.supervisor is None else api.host.gate.supervisor.name,
        "state": "current" if state is None else state.word,
        "since": None if state is None else state.since_s,
        "error": "" if state is None else state.error,
        "needs_restart": [] if state is None else list(state.needs_restart),
    }


# The journal


def journal(api: Api, _: Request) -> object:
    return journal_proofs.journal_state(api.host.gate)


def journal_proof(api: Api, request: Request) -> object:
    if "index" not in request.query:
        raise Problem(422, "bad-query", "`index` is missing", hint="a ruling's receipt has it")
    return journal_proofs.inclusion_proof(api.host.gate, request.query["index"], request.query.get("origin", ""))


def journal_consistency(api: Api, request: Request) -> object:
    if "from" not in request.query:
        raise Problem(422, "bad-query", "`from` is missing", hint="the size of a head that you kept")
    return journal_proofs.consistency_proof(api.host.gate, request.query["from"], request.query.get("origin", ""))


# Rules, events, hooks


def rules(_: Api, __: Request) -> object:
    return {"rules": [views.rule_to_dict(entry) for entry in ENTRIES]}


def one_rule(_: Api, request: Request) -> object:
    entry = find_entry(request.params["rule"])
    if entry is None:
        raise Problem(404, "no-such-rule", "there is no such rule", hint="/v1/rules lists them")
    return views.rule_to_dict(entry)


async def events(api: Api, request: Request) -> object:
    return Stream(await api.events.follow(request.query.get("after"), request.counts), "text/event-stream")


def refuse_event(why: str) -> object:
    """Return the no to an event of Claude Code that could not be read: over HTTP it takes an error for a yes."""
    from lockgate.claude_code.events import stop_agent

    return stop_agent(f"Lockgate could not take this event in ({why}), so nothing is let through.")


async def claude_code(api: Api, request: Request) -> object:
    from lockgate.claude_code.events import answer_event

    account = await to_thread(account_of_peer, *request.ends)
    return await answer_event(api.host, request.data, request.headers, account)


async def coding_agent(api: Api, request: Request) -> object:
    from lockgate.coding_agents.agent_answers import answer_agent_event
    from lockgate.coding_agents.hook_events import CODING_AGENTS

    agent = request.params["agent"]
    if agent not in CODING_AGENTS:
        raise Problem(404, "no-such-agent", "there are no hooks for a coding agent of this name")
    account = await to_thread(account_of_peer, *request.ends)
    return await answer_agent_event(api.host, agent, request.data, request.headers, account)


# About the service itself


def exchange_code(api: Api, request: Request) -> object:
    """Return the token to the browser that opened the page's address first; a foreign origin does not get this far."""
    if not api.codes.spend(request.body["code"]):
        if not api.wrong_codes.count(request.address):
            raise busy_problem()
        raise Problem(
            403,
            "bad-code",
            "this address was opened before, or is too old",
            hint="`lockgate token --url` prints a new one",
        )
    return {"token": api.token}


def reading_key(api: Api, request: Request) -> object:
    key, until_s = make_reading_key(api, request.person if request.named else "")
    return {"key": key, "until": until_s}


def end_reading_key(api: Api, request: Request) -> object:
    key = request.body["key"]
    # Only keys that we made are noted, so that no caller fills the folder.
    is_valid = is_reading_key(api, key.encode("utf-8"))
    try:
        if is_valid:
            api.codes.end_key(key)
    except OSError:
        raise Problem(503, "unavailable", "the end of this key cannot be kept now") from None
    return {"ended": is_valid}


def metrics(api: Api, _: Request) -> object:
    return Answer(api.counts.render_all().encode("utf-8"), kind="text/plain; version=0.0.4; charset=utf-8")


async def health(_: Api, __: Request) -> object:
    return {"status": "ok"}


def ready(api: Api, _: Request) -> object:
    """Whether sessions and the journal can be written; a caller without a token learns no more than that."""
    can = api.host.ready()
    recorded = can.journal and journal_proofs.journal_state(api.host.gate)["state"] in ("sound", "off")
    standing = "current" if api.reload is None else api.reload.state.word
    said = {"ready": can.sessions and recorded, "sessions": can.sessions, "journal": recorded, "policy": standing}
    return Answer(json_bytes(said), 200 if said["ready"] else 503)


def help_page(_: Api, request: Request) -> object:
    pages = list_pages()
    topic = request.params["topic"]
    found = find_page(topic, pages)
    if found is None:
        raise Problem(404, "no-such-topic", "there is no page about that", hint="`lockgate help` lists the pages")
    return {"topic": topic, "text": page_text(found, pages)}


# The page. Its files are ours, named here or found in the package; nothing of a path is ever joined to a folder.

_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
# A browser asks each time whether it still has the newest: the files come with the package, and change with it.
_FRESH = ((b"cache-control", b"no-cache"),)


@cache
def _load_files() -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for folder in ("page", "docs"):
        place = files("lockgate.service").joinpath(folder)
        for file in place.iterdir() if place.is_dir() else ():
            if file.is_file() and "." + file.name.rpartition(".")[2] in _KINDS:
                found[f"{folder}/{file.name}"] = file.read_bytes()
    return found


def _file_answer(name: str) -> Answer:
    data = _load_files().get(name)
    if data is None:
        raise Problem(404, "no-such-file", "there is no such file")
    return Answer(data, kind=_KINDS["." + name.rpartition(".")[2]], headers=_FRESH)


async def page(_: Api, __: Request) -> object:
    return _file_answer("page/index.html")


async def static(_: Api, request: Request) -> object:
    name = request.params["name"]
    if name.endswith(".html"):
        raise Problem(404, "no-such-file", "there is no such file")
    return _file_answer(f"docs/{name}" if name.startswith("docs.") else f"page/{name}")


async def docs(_: Api, __: Request) -> object:
    return _file_answer("docs/docs.html")


async def openapi(api: Api, _: Request) -> object:
    return openapi_document(api.routes, __version__)
