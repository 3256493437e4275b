// One decision in full: the call with where each piece of it came from, why, who said what, and the receipt.

import { ask } from "./api.js";
import { answerBox } from "./approvals.js";
import { verify } from "./proof.js";
import { action, duration, h, line, part, passage, plural, shown, spelled, telling, tier, tree, usd, when } from "./show.js";

export async function decisionView(view, id, { signal, go, tell }) {
  const [given, judges] = await Promise.all([ask(`/v1/decisions/${part(id)}`, { signal }), ask("/v1/policy", { signal })]);
  const ruling = given.decision;
  const refs = numbered(ruling.origins);
  const verifier = receiptBox(given, id, { signal, tell });
  view.replaceChildren(
    h(
      "article.decision",
      {},
      header(given, ruling),
      h(
        "div.columns",
        {},
        h(
          "div.wide",
          {},
          given.approval?.state === "waiting" ? section("Waits for you", answerBox(given.approval, { signal, tell, brief: true })) : null,
          section("The call", call(given, refs), given.approval && given.approval.state !== "waiting" ? h("p.note", {}, "A person was asked: ", h("b", {}, String(given.approval.state)), ".") : null),
          ruling.effects.some((each) => each.severity > 1) ? section("What it would do", effects(ruling)) : null,
          ruling.correction ? section("What the agent was told", h("div.pre", {}, passage(ruling.correction))) : null,
          section("Where it came from", ...sources(given, ruling, refs)),
          section("What the rules found", findings(given, ruling)),
        ),
        h("div.narrow", {}, section("Tiers", tiers(ruling, judges)), section("Receipt", verifier.box), section("Goal", given.goal ? h("div.theirs-box", {}, passage(given.goal, { most: 1200 })) : h("p.quiet", {}, "No goal was given: every value from outside counts as not asked for.")), section("Lineage", lineages(given)), requests(given, id, signal), facts(given, ruling)),
      ),
    ),
  );

  async function beside(step) {
    const asked = step > 0 ? `before=${given.seq}&limit=1` : `after=${given.seq}&limit=1`;
    const said = await ask(`/v1/decisions?${asked}`, { signal });
    const found = said.decisions[0];
    if (found) go(`#/decision/${part(found.id)}`);
    else tell(step > 0 ? "this is the oldest decision kept" : "this is the newest decision");
  }

  return {
    drawn: () => jumpToFirst(view),
    title: `${ruling.action} ${spelled(given.tool, 40)}`,
    key(name) {
      if (name === "j") beside(1);
      else if (name === "k") beside(-1);
      else if (name === "v") verifier.run();
      else if (name === "Escape") go("#/decisions");
      else return false;
      return true;
    },
  };
}

function section(title, ...children) {
  const id = `s-${title.toLowerCase().replaceAll(" ", "-")}`;
  return h("section", { "aria-labelledby": id }, h("h2", { id }, title), ...children);
}

function header(given, ruling) {
  return h(
    "header.head",
    {},
    h("p.crumbs", {}, h("a", { href: "#/decisions" }, "Decisions"), " / ", h("span.mono", {}, line(given.id, 40))),
    h("h1", {}, action(ruling.action), given.damaged ? h("i", {}, "damaged") : h("span.tool", {}, line(given.tool, 200))),
    h("p.explanation", {}, passage(ruling.explanation || ruling.reason, { flat: true, most: 700 })),
    h(
      "dl.strip",
      {},
      fact("Reason", ruling.reason),
      fact("Risk", ruling.risk),
      fact("Tier", tier(ruling.tier)),
      fact("At", when(given.at, { day: true })),
      fact("Took", duration(ruling.latency_us)),
      fact("Cost", usd(ruling.cost_usd)),
      fact("Session", h("a", { href: `#/session/${part(given.session)}` }, line(given.session, 40))),
      fact("Host", line(given.host, 40)),
    ),
  );
}

function fact(name, value) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value));
}

// The number is the source span's, so that one span feeding two arguments has one number.
function numbered(origins) {
  const numbers = new Map();
  return telling(origins).map((each) => {
    const span = `${each.block} ${each.start} ${each.end}`;
    if (!numbers.has(span)) numbers.set(span, numbers.size + 1);
    return { ...each, number: numbers.get(span) };
  });
}

// --- the call

function call(given, refs) {
  if (given.damaged) return h("p.note.bad", {}, "What was kept of this ruling cannot be read. What it was about, and what came of it, is not known here; the journal has its record: lockgate audit verify, lockgate audit show.");
  const byPath = Map.groupBy(refs, (each) => each.argument);
  const hits = Map.groupBy(given.decision.findings.filter((each) => !each.rule.startsWith("origin:")), (each) => each.where);
  const drawn = new Set();
  const body = tree(given.arguments, "", (path, text, room) => {
    if (path === null) return passage(text, { flat: true, room });
    drawn.add(path);
    return leaf(text, byPath.get(path) ?? [], hits.get(path) ?? [], room);
  });
  const lost = refs.filter((each) => !drawn.has(each.argument));
  return h(
    "div.call-box",
    {},
    h("div.call-name", {}, passage(given.tool, { flat: true })),
    given.whole === false ? h("p.note.in-part", {}, "Kept in part: these arguments were too large to be kept whole. Values are cut, and some may be missing.") : null,
    body,
    refs.length ? h("p.legend", {}, h("mark.origin.sample", {}, h("span.ref", {}, "1"), "from outside"), h("mark.origin.known.sample", {}, "also in the goal"), h("mark.finding.sample", {}, "a rule's find")) : h("p.quiet", {}, "No piece of these arguments was found in anything untrusted."),
    lost.length ? h("p.note", {}, "Also from outside: ", lost.map((each) => [line(each.argument, 80), " = ", line(each.value, 120), " "])) : null,
  );
}

function leaf(text, origins, hits, room) {
  const marks = [];
  for (const each of origins) {
    const at = place(text, each.value);
    const title = `from ${spelled(each.block)}${each.sink ? `, as ${each.sink}` : ""}${each.how === "exact" ? "" : `, read as ${each.how}`}; ${each.known ? "also in the goal or something trusted" : "not in the goal"}`;
    marks.push({ ...at, kind: each.known ? "origin known" : "origin", label: String(each.number), title, href: "#source", jump: `span-${each.number}` });
  }
  for (const each of hits) marks.push({ start: each.start, end: each.end, kind: "finding", title: each.rule });
  return passage(text, { marks, room });
}

// The piece in the argument, in characters; a decoded or folded value marks the whole argument.
function place(text, value) {
  let at = text.indexOf(value);
  if (at < 0) at = text.toLowerCase().length === text.length ? text.toLowerCase().indexOf(value.toLowerCase()) : -1;
  if (at < 0 || !value) return { start: 0, end: text.length };
  const start = [...text.slice(0, at)].length;
  return { start, end: start + [...value].length };
}

// --- sources

function sources(given, ruling, refs) {
  const ids = [...new Set([...refs.map((each) => each.block), ...ruling.findings.map((each) => each.where).filter((where) => Object.hasOwn(given.blocks ?? {}, where)), ...Object.keys(given.blocks ?? {})])];
  if (!ids.length) return [h("p.quiet", {}, "Nothing untrusted had a part in this call.")];
  return ids.map((id) => source(id, given.blocks?.[id], refs.filter((each) => each.block === id), ruling.findings.filter((each) => each.where === id)));
}

function source(id, block, refs, hits) {
  if (!block) return h("div.source", {}, h("div.source-head", {}, h("b.mono", {}, line(id, 40)), " ", h("span.quiet", {}, "no longer kept")));
  const offset = block.offset ?? 0;
  const orders = refs.filter((each) => each.order).map((each) => around(block.content, each, offset)).filter(Boolean);
  const marks = [
    ...refs.map((each) => ({ start: each.start, end: each.end, kind: each.known ? "origin known" : "origin", label: String(each.number), id: `span-${each.number}`, title: `became ${spelled(each.argument)}` })),
    ...orders.map((each) => ({ ...each, kind: "order", title: "a sentence that gives orders" })),
    ...hits.map((each, at) => ({ start: each.start, end: each.end, kind: "finding", title: `${each.rule}${each.reading === "raw" ? "" : `, read as ${each.reading}`}`, id: refs.length ? null : `hit-${at}` })),
  ];
  const box = h("div.content", { tabindex: "0", role: "region", "aria-label": `content of ${spelled(id)}` }, offset ? h("p.quiet.cut", {}, `${plural(offset, "character")} before this are not shown here`) : null, passage(block.content, { marks, offset }));
  const shownUpTo = offset + [...block.content].length;
  if (block.length > shownUpTo) box.append(h("p.quiet.cut", {}, `${plural(block.length - shownUpTo, "character")} after this are not shown here`));
  return h(
    "div.source",
    { "data-block": id },
    h("div.source-head", {}, h("b.mono", {}, line(id, 40)), trust(block.trust), h("span.theirs", {}, line(block.source, 160)), h("span.quiet", {}, `${block.kind}, ${plural(block.length ?? [...block.content].length, "character")}`)),
    box,
  );
}

export function trust(word) {
  return h(`span.trust.${["untrusted", "vetted", "trusted"].includes(word) ? word : "untrusted"}`, {}, String(word));
}

// Where the ordering sentence stands: around its span, in characters as the service counts them.
function around(content, origin, offset) {
  const points = [...content];
  const from = Math.max(0, origin.start - offset - [...origin.order].length);
  const window = points.slice(from, origin.end - offset + [...origin.order].length).join("");
  const at = window.indexOf(origin.order);
  if (at < 0) return null;
  const start = offset + from + [...window.slice(0, at)].length;
  return { start, end: start + [...origin.order].length };
}

function jumpToFirst(view) {
  for (const box of view.querySelectorAll(".source .content")) {
    const mark = box.querySelector("mark[id]") ?? box.querySelector("mark");
    if (mark) scrollIn(box, mark);
  }
  view.addEventListener("click", (event) => {
    const link = event.target.closest?.("a.to-source");
    if (!link) return;
    event.preventDefault();
    const mark = document.getElementById(link.dataset.jump);
    const box = mark?.closest(".content");
    if (!box) return;
    scrollIn(box, mark);
    box.scrollIntoView({ block: "nearest" });
    box.focus({ preventScroll: true });
    mark.classList.add("here");
    setTimeout(() => mark.classList.remove("here"), 1600);
  });
}

function scrollIn(box, mark) {
  box.scrollTop += mark.getBoundingClientRect().top - box.getBoundingClientRect().top - box.clientHeight / 3;
}

function lineages(given) {
  const trees = Object.entries(given.lineage ?? {}).filter(([, each]) => each);
  if (!trees.length) return h("p.quiet", {}, "No block had a part in this.");
  return h("ul.tree", {}, trees.map(([, each]) => branch(each, given.blocks ?? {})));
}

export function branch(each, blocks) {
  const block = blocks[each.block];
  const cut = { depth: "goes on, not drawn", cycle: "a circle ends here", missing: "no longer kept" }[each.cut];
  return h(
    "li",
    {},
    h("span.knot", {}, h("b.mono", {}, line(each.block, 40)), block ? [trust(block.trust), line(block.source, 80)] : null, cut ? h("span.quiet", {}, cut) : null),
    each.parents?.length ? h("ul", {}, each.parents.map((parent) => branch(parent, blocks))) : null,
  );
}

// --- effects, findings, tiers, receipt

const SEVERITIES = ["only looks", "works here", "reaches out", "opens a door"];

function effects(ruling) {
  return h("ul", {}, ruling.effects.map((each) => h("li", {}, h("b", {}, SEVERITIES[each.severity] ?? ""), ": ", line(each.kind, 40), each.target ? [", ", h("span.mono", {}, line(each.target, 200))] : null, each.certainty === "sure" ? null : h("span.quiet", {}, ` (${each.certainty})`))));
}

function findings(given, ruling) {
  if (!ruling.findings.length) return h("p.quiet", {}, "Nothing.");
  const byRule = Map.groupBy(ruling.findings, (each) => each.rule);
  return h("div.findings", {}, [...byRule].map(([rule, hits]) => {
    const told = given.rules?.[rule];
    return h(
      "details.finding-box",
      { open: byRule.size <= 4 },
      h("summary", {}, h("b.mono", {}, line(rule, 80)), h("span.quiet", {}, told?.family && told.family !== rule.split(":")[0] ? `${told.family}, ` : "", plural(hits.length, "time")), told?.owasp ? h("span.owasp", {}, told.owasp) : null),
      told ? h("p", {}, String(told.what), h("br"), h("span.quiet", {}, "why: ", String(told.why))) : null,
      h(
        "table",
        {},
        h("thead", {}, h("tr", {}, ["Where", "Read as", "Text"].map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, hits.map((each) => h("tr", {}, h("td.mono", {}, line(each.where, 80)), h("td", {}, line(each.reading, 40)), h("td.excerpt", {}, line(each.excerpt, 300))))),
      ),
    );
  }));
}

const TIERS = ["", "rules", "triage", "supervisor"];

// Who answers for a tier that was reached and has no judge's answer.
function unasked(number, judges) {
  if (number === 2) return judges.triage ? "was not asked" : "none is configured";
  return judges.supervisor ? "was not asked" : "none is configured: a person decides";
}

function tiers(ruling, judges) {
  const longest = Math.max(1, ...ruling.tiers.map((each) => each.latency_us));
  // The rules take microseconds and a model a second: only a logarithm has room for both.
  const width = (us) => 4 + 96 * (Math.log10(1 + us) / Math.log10(1 + longest));
  const reached = ruling.tiers.map((each) =>
    h(
      "li",
      {},
      h("div.tier-line", {}, h("b", {}, `${each.tier} ${TIERS[each.tier] ?? ""}`), h(`span.said.${/^(pass|clear|CONTINUE)$/.test(each.said) ? "good" : "bad"}`, {}, line(each.said, 40)), h("span.num", {}, duration(each.latency_us))),
      meter(width(each.latency_us), each.tier),
      h("div.quiet", {}, line(each.by || "no judge", 80), each.tokens_in || each.tokens_out ? `, ${each.tokens_in.toLocaleString()} tokens in, ${each.tokens_out.toLocaleString()} out` : "", each.tier > 1 ? `, ${each.cached ? "from the cache" : each.cost_usd === null ? "cost not known" : usd(each.cost_usd)}` : ""),
    ),
  );
  const highest = Math.max(...ruling.tiers.map((each) => each.tier), 0);
  for (let number = highest + 1; number <= 3; number += 1) {
    const waited = number <= ruling.tier;
    reached.push(h("li.not-run", {}, h("div.tier-line", {}, h("b", {}, `${number} ${TIERS[number]}`), h("span.quiet", {}, waited ? unasked(number, judges) : "not needed"))));
  }
  return h("ol.tiers", {}, reached);
}

function meter(percent, number) {
  const bar = h(`div.meter.t${number}`, { "aria-hidden": "true" }, h("div"));
  bar.firstElementChild.style.width = `${percent}%`;
  return bar;
}

function receiptBox(given, id, { signal, tell }) {
  const receipt = given.decision.receipt;
  if (!receipt) return { box: h("p.quiet", {}, "This decision is in no journal."), run: () => tell("this decision is in no journal") };
  const out = h("div.proof", { role: "status" });
  const button = h("button", { type: "button", "aria-keyshortcuts": "v", click: () => run() }, "Verify here");
  async function run() {
    button.disabled = true;
    out.replaceChildren(h("p.quiet", {}, "Asking for the proof…"));
    let result;
    let proof = null;
    try {
      proof = await ask(`/v1/decisions/${part(id)}/proof`, { signal });
      result = await verify(given, proof);
    } catch (error) {
      if (signal.aborted) return;
      result = { kind: "bad", verdict: "Not proven.", steps: [{ ok: false, what: error.message, told: error.hint ? [error.hint] : [] }] };
    }
    button.disabled = false;
    out.replaceChildren(
      h(`p.verdict.${result.kind}`, {}, result.verdict),
      h("ol.steps", {}, result.steps.map((each) => h(`li.${each.ok === true ? "good" : each.ok === false ? "bad" : "open"}`, {}, h("span", {}, h("span.unseen", {}, each.ok === true ? "holds: " : each.ok === false ? "fails: " : "open: "), each.what), each.told.length ? h("details", {}, h("summary", {}, "shown"), h("pre.told", {}, shown(each.told.join("\n")))) : null))),
      proof?.checked?.length ? h("details", {}, h("summary", {}, `the service's own check: ${proof.verified ? "sound" : "not sound"}`), h("ul", {}, proof.checked.map((each) => h("li", {}, line(each, 400))))) : null,
    );
  }
  return {
    run,
    box: h("div", {}, h("dl.facts", {}, fact("Journal", line(receipt.origin, 120)), fact("Record", receipt.index.toLocaleString()), fact("Leaf", h("code.hash", {}, receipt.leaf_hash))), button, out),
  };
}

// Looked for only when asked: it reads a stretch of the journal.
function requests(given, id, signal) {
  if (!given.decision.receipt) return null;
  const out = h("div", { role: "status" });
  const load = async () => {
    const said = await ask(`/v1/decisions/${part(id)}/requests`, { signal });
    out.replaceChildren(h("p.quiet", {}, "A hint, and no proof: clients choose these ids."), said.requests.length ? h("ul", {}, said.requests.map((each) => h("li", {}, when(each.at), " ", h("a.mono", { href: `#/request/${part(each.id)}` }, line(each.id, 26)), " ", line(each.verdict, 20)))) : h("p", {}, "None near this ruling's record."));
  };
  return h("details.raw.joined", { toggle: (event) => event.target.open && load().catch((error) => signal.aborted || out.replaceChildren(h("p.bad", {}, error.message))) }, h("summary", {}, "Requests with the same conversation or trace id"), out);
}

function facts(given, ruling) {
  return h("details.raw", {}, h("summary", {}, "As JSON"), h("pre.told", {}, passage(JSON.stringify({ id: given.id, seq: given.seq, session: given.session, host: given.host, tool: given.tool, ...ruling }, null, 2), { most: 4000 })));
}

