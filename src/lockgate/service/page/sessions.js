// Sessions, and one of them: its goal, and what it read and asked and was told, as one timeline.

import { ask, Refused } from "./api.js";
import { branch, trust } from "./decision.js";
import { callWords } from "./decisions.js";
import { action, empty, h, line, part, passage, shell, spelled, tier, when } from "./show.js";

export async function sessionsView(view, query, { signal, tell }) {
  const search = h("input", { name: "q", type: "search", value: query.get("q") ?? "", placeholder: "id, goal or host   /", maxlength: "150", autocomplete: "off", spellcheck: "false", "aria-label": "Search sessions" });
  const place = h("div");
  const older = h("button.more", { type: "button", hidden: true, click: () => more().catch((error) => signal.aborted || tell(error.message)) }, "Older");
  let timer = 0;
  let turn = 0;
  let next = null;
  // The field stays while a person types: only the address and the rows change.
  const apply = () => {
    clearTimeout(timer);
    history.replaceState(null, "", `#/sessions${search.value ? `?q=${part(search.value)}` : ""}`);
    first().catch((error) => signal.aborted || tell(error.message, { now: true }));
  };
  const typed = () => {
    clearTimeout(timer);
    timer = setTimeout(apply, 300);
  };
  view.replaceChildren(h("div.title", {}, h("h1", {}, "Sessions"), h("form.filters.small", { role: "search", submit: (event) => { event.preventDefault(); apply(); }, input: typed }, search)), place, h("div.foot", {}, older));
  signal.addEventListener("abort", () => clearTimeout(timer));
  await first();

  async function first() {
    turn += 1;
    const mine = turn;
    const q = search.value.trim();
    const said = await ask(`/v1/sessions?limit=100${q ? `&q=${part(q)}` : ""}`, { signal });
    if (mine !== turn) return;
    place.replaceChildren(said.sessions.length ? table(said.sessions) : q ? empty("Nothing matches", h("p", {}, "No session that is kept has this in its id, goal or host.")) : empty("No sessions yet", h("p", {}, "A session is one conversation of one agent. The plugs open them by themselves:"), shell("lockgate init claude-code")));
    next = said.next;
    older.hidden = next === null;
  }

  async function more() {
    const q = search.value.trim();
    const said = await ask(`/v1/sessions?limit=100&before=${next}${q ? `&q=${part(q)}` : ""}`, { signal });
    place.querySelector("tbody").append(...said.sessions.map(sessionRow));
    next = said.next;
    older.hidden = next === null;
  }
  return {};
}

const COLUMNS = ["Session", "Host", "Goal", "Blocks", "Decisions", "Pauses", "Last seen", "State"];

function table(sessions) {
  return h("table.sessions", {}, h("thead", {}, h("tr", {}, COLUMNS.map((name) => h(`th${/Blocks|Decisions|Pauses/.test(name) ? ".num" : ""}`, { scope: "col" }, name)))), h("tbody", {}, sessions.map(sessionRow)));
}

function sessionRow(each) {
  return h("tr", {}, h("th", { scope: "row" }, h("a.mono", { href: `#/session/${part(each.id)}`, "data-row": true }, line(each.id, 40))), h("td", {}, line(each.host, 24)), h("td.goal", {}, each.goal ? line(each.goal, 160) : h("span.quiet", {}, "none given")), h("td.num", {}, each.blocks.toLocaleString()), h("td.num", {}, each.decisions.toLocaleString()), h("td.num", {}, each.pauses ? h("a.pauses", { href: `#/decisions?action=PAUSE&session=${part(`"${each.id}"`)}` }, each.pauses.toLocaleString()) : h("span.quiet", {}, "0")), h("td.when", {}, when(each.seen_at)), h("td", {}, state(each)));
}

function state(each) {
  if (!each.context_known) return h("span.trust.untrusted", { title: "what this session read before is not known: every high-risk call goes up" }, "context unknown");
  return h("span.quiet", {}, each.ended_at ? "ended" : "open");
}

// A long session is drawn up to here; the list of decisions has all of them.
const MOST_ENTRIES = 1000;

async function pages(read) {
  const all = [];
  let more = true;
  while (more && all.length < MOST_ENTRIES) {
    const found = await read(all);
    all.push(...found);
    more = found.length === 200;
  }
  return { all, cut: more };
}

export async function sessionView(view, id, { signal, go, onEvent }) {
  if (id === "." || id === "..") throw new Refused(0, { message: "a browser folds a session of this name out of every address", hint: "its decisions are in the list, with session as the filter" });
  const list = h("ol.timeline");
  const known = {};
  let seen = 0;
  let blocksSeen = 0;
  const [session] = await Promise.all([ask(`/v1/sessions/${part(id)}`, { signal }), load()]);
  view.replaceChildren(
    h("header.head", {}, h("p.crumbs", {}, h("a", { href: "#/sessions" }, "Sessions")), h("h1", {}, h("span.tool", {}, line(session.id, 120)), " ", state(session)), session.goal ? h("div.explanation", {}, passage(session.goal, { most: 1200 })) : h("p.explanation.quiet", {}, "No goal was given."), h("dl.strip", {}, ["Host", "Mode", "Scope", "Parent"].filter((name) => session[name.toLowerCase()]).map((name) => h("div", {}, h("dt", {}, name), h("dd", {}, name === "Parent" ? h("a", { href: `#/session/${part(session.parent)}` }, line(session.parent, 40)) : line(session[name.toLowerCase()], 60)))), h("div", {}, h("dt", {}, "Opened"), h("dd", {}, when(session.opened_at, { day: true }))), h("div", {}, h("dt", {}, "Last seen"), h("dd", {}, when(session.seen_at, { day: true }))))),
    h("section", {}, h("h2", {}, "What it read, asked and was told, in order ", h("a", { href: `#/decisions?session=${part(`"${id}"`)}` }, "its decisions as a list")), list),
  );
  let busy = false;
  onEvent(async (kind, said) => {
    if (kind !== "decision" || busy || (said && said.session !== id)) return;
    busy = true;
    await load().catch(() => {});
    busy = false;
  });

  // What is new since the last look goes to the end: nothing that is on the screen moves.
  async function load() {
    const before = blocksSeen;
    const rulings = await pages(async (all) => (await ask(`/v1/decisions?session=${part(id)}&after=${all.at(-1)?.seq ?? seen}&limit=200`, { signal })).decisions.reverse());
    // The blocks are read last, and may be more than these rulings saw: each ruling stands behind what it saw.
    const blocks = await pages(async (all) => (await ask(`/v1/sessions/${part(id)}/blocks?offset=${before + all.length}&limit=200`, { signal })).blocks);
    const entries = [...blocks.all.map((each, at) => ({ block: each, place: before + at + 1, seq: 0 })), ...rulings.all.map((each) => ({ ruling: each, place: each.context, seq: each.seq }))];
    entries.sort((a, b) => a.place - b.place || a.seq - b.seq);
    for (const each of blocks.all) known[each.id] = each;
    blocksSeen += blocks.all.length;
    seen = rulings.all.at(-1)?.seq ?? seen;
    list.append(...entries.map((each) => h("li", {}, each.block ? blockBox(each.block, id, known, signal) : rulingBox(each.ruling))));
    if (rulings.cut || blocks.cut) list.append(h("li.quiet", {}, "This session goes on: not all of it is drawn here."));
    if (!list.childElementCount) list.append(h("li.quiet", {}, "Nothing yet."));
  }
  return { title: `session ${spelled(session.id, 40)}`, key: (name) => (name === "Escape" ? (go("#/sessions"), true) : false) };
}

function rulingBox(each) {
  const would = each.rules.find((rule) => rule.startsWith("observe:"))?.slice(8);
  const stopped = each.action !== "CONTINUE" || would;
  const ran = { ran: "it ran", failed: "it ran and failed", "not-run": "it did not run" }[each.ran];
  return h(
    `article.ruled${stopped ? ".stopped" : ""}`,
    {},
    h("div.ruled-head", {}, would ? action(`would ${would}`, would) : action(each.action), h("a.mono", { href: `#/decision/${part(each.id)}`, "data-row": true }, each.damaged ? h("i", {}, "damaged") : line(each.tool, 80)), tier(each.tier), h("span.quiet", {}, when(each.at), ran ? `, ${ran}` : ""), h("span.quiet", {}, callWords(each))),
    stopped ? h("div", {}, each.rules.map((rule) => h("span.rule", {}, line(rule, 80))), h("div.because", {}, line(each.explanation || each.reason, 4000))) : null,
  );
}

function blockBox(each, id, all, signal) {
  const tree = h("div");
  const content = h("div.content", { tabindex: "0", role: "region", "aria-label": `content of ${spelled(each.id)}` }, passage(each.content));
  // The list holds only the beginning of a long one.
  const whole = async () => {
    if (each.length <= [...each.content].length) return;
    Object.assign(each, await ask(`/v1/sessions/${part(id)}/blocks/${part(each.id)}`, { signal }));
    content.replaceChildren(passage(each.content));
  };
  const lineage = async () => {
    if (!tree.childElementCount) tree.replaceChildren(h("ul.tree", {}, branch(await ask(`/v1/sessions/${part(id)}/blocks/${part(each.id)}/lineage`, { signal }), all)));
  };
  return h(
    "details.block",
    { toggle: (event) => event.target.open && whole().catch(() => {}) },
    h("summary", {}, h("b.mono", {}, line(each.id, 40)), trust(each.trust), line(each.source, 120), h("span.quiet.snip", {}, line(each.content, 140))),
    content,
    each.tainted_by.length ? h("details.derived", { toggle: (event) => event.target.open && lineage().catch(() => {}) }, h("summary", {}, `derived from ${each.tainted_by.length}`), tree) : null,
  );
}
