// Sessions, and one of them: its goal, what entered its context, and what was ruled in it.

import { ask, Refused } from "./api.js";
import { branch, trust } from "./decision.js";
import { head, row } from "./decisions.js";
import { empty, h, line, part, passage, plural, shell, spelled, when } from "./show.js";

export async function sessionsView(view, query, { signal, go }) {
  const q = query.get("q") ?? "";
  const said = await ask(`/v1/sessions?limit=100${q ? `&q=${part(q)}` : ""}`, { signal });
  const search = h("input", { name: "q", type: "search", value: q, placeholder: "id or goal   /", autocomplete: "off", "aria-label": "Search sessions" });
  view.replaceChildren(
    h("div.title", {}, h("h1", {}, "Sessions"), h("form.filters.small", { role: "search", submit: (event) => { event.preventDefault(); go(`#/sessions${search.value ? `?q=${part(search.value)}` : ""}`); } }, search)),
    said.sessions.length ? table(said.sessions) : empty(q ? "Nothing matches" : "No sessions yet", h("p", {}, "A session is one conversation of one agent. The plugs open them by themselves:"), shell("lockgate init claude-code")),
  );
  return {};
}

function table(sessions) {
  return h(
    "table.sessions",
    {},
    h("thead", {}, h("tr", {}, ["Session", "Host", "Goal", "Blocks", "Decisions", "Last seen", "State"].map((name) => h(`th${/Blocks|Decisions/.test(name) ? ".num" : ""}`, { scope: "col" }, name)))),
    h("tbody", {}, sessions.map((each) => h("tr", {}, h("th", { scope: "row" }, h("a.mono", { href: `#/session/${part(each.id)}`, "data-row": true }, line(each.id, 40))), h("td", {}, line(each.host, 24)), h("td.goal", {}, each.goal ? line(each.goal, 160) : h("span.quiet", {}, "none given")), h("td.num", {}, each.blocks.toLocaleString()), h("td.num", {}, each.decisions.toLocaleString()), h("td.when", {}, when(each.seen_at)), h("td", {}, state(each))))),
  );
}

function state(each) {
  if (!each.context_known) return h("span.trust.untrusted", { title: "what this session read before is not known: every high-risk call goes up" }, "context unknown");
  return h("span.quiet", {}, each.ended_at ? "ended" : "open");
}

export async function sessionView(view, id, { signal, go }) {
  if (id === "." || id === "..") throw new Refused(0, { message: "a browser folds a session of this name out of every address", hint: "its decisions are in the list, with session as the filter" });
  const [session, blocks, decisions] = await Promise.all([ask(`/v1/sessions/${part(id)}`, { signal }), ask(`/v1/sessions/${part(id)}/blocks`, { signal }), ask(`/v1/decisions?session=${part(id)}&limit=50`, { signal })]);
  const all = Object.fromEntries(blocks.blocks.map((each) => [each.id, each]));
  view.replaceChildren(
    h("header.head", {}, h("p.crumbs", {}, h("a", { href: "#/sessions" }, "Sessions")), h("h1", {}, h("span.tool", {}, line(session.id, 120)), " ", state(session)), session.goal ? h("div.explanation", {}, passage(session.goal, { most: 1200 })) : h("p.explanation.quiet", {}, "No goal was given."), h("dl.strip", {}, ["Host", "Mode", "Scope", "Parent"].filter((name) => session[name.toLowerCase()]).map((name) => h("div", {}, h("dt", {}, name), h("dd", {}, name === "Parent" ? h("a", { href: `#/session/${part(session.parent)}` }, line(session.parent, 40)) : line(session[name.toLowerCase()], 60)))), h("div", {}, h("dt", {}, "Opened"), h("dd", {}, when(session.opened_at, { day: true }))), h("div", {}, h("dt", {}, "Last seen"), h("dd", {}, when(session.seen_at, { day: true }))))),
    h("section", {}, h("h2", {}, plural(decisions.decisions.length, "decision"), decisions.next ? h("a.quiet", { href: `#/decisions?session=${part(id)}` }, " see all") : null), decisions.decisions.length ? h("table.stream", {}, head(), h("tbody", {}, decisions.decisions.map((each) => row(each)))) : h("p.quiet", {}, "None yet.")),
    h("section", {}, h("h2", {}, plural(blocks.blocks.length, "block"), h("span.quiet", {}, " of context, oldest first")), h("div", {}, blocks.blocks.map((each) => blockBox(each, id, all, signal)))),
  );
  return { title: `session ${spelled(session.id, 40)}`, key: (name) => (name === "Escape" ? (go("#/sessions"), true) : false) };
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
