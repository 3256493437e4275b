// What all the rulings of a while took: where they were settled, how long, at what cost, and which rules ask in vain.

import { ask } from "./api.js";
import { bars, figure, funnel, lines, parts } from "./plots.js";
import { duration, empty, h, line, part, plural, shell, spelled, usd } from "./show.js";

const SPANS = { hour: [3600, 120], day: [86_400, 3600], week: [7 * 86_400, 6 * 3600], month: [30 * 86_400, 86_400] };

export async function overviewView(view, query, { signal, onEvent }) {
  const span = Object.hasOwn(SPANS, query.get("span") ?? "") ? query.get("span") : "day";
  const body = h("div.overview");
  view.replaceChildren(
    h("div.title", {}, h("h1", {}, "Overview"), h("nav.choice", { "aria-label": "How far back" }, Object.keys(SPANS).map((each) => h("a", { href: `#/overview?span=${each}`, "aria-current": each === span ? "true" : null }, each)))),
    body,
  );
  let timer = 0;
  await refresh();
  onEvent((kind) => {
    // Plots that jump at every call cannot be read.
    if (kind === "decision" && !timer) timer = setTimeout(() => refresh().catch(() => {}), 5000);
  });
  signal.addEventListener("abort", () => clearTimeout(timer));

  async function refresh() {
    timer = 0;
    const [back, bucket] = SPANS[span];
    // From a whole hour, or whatever the buckets are: their names then stay the same as time goes on.
    const since = (Math.floor(Date.now() / 1000 / bucket) + 1) * bucket - back;
    const [said, judges] = await Promise.all([ask(`/v1/stats?since=${since}&bucket=${bucket}`, { signal }), ask("/v1/policy", { signal })]);
    // A plot or table that a person is reading stays.
    if (body.contains(document.activeElement) && body.childElementCount) return;
    body.replaceChildren(...draw(said, span, judges));
  }
  return {};
}

function settledWords(shares, { triage, supervisor }) {
  const share = (at) => `${(shares[at] * 100).toFixed(1)} %`;
  const third = supervisor ? `the supervisor ${share(2)}` : `a person ${share(2)}`;
  return `The rules settle ${share(0)}, ${triage ? `triage ${share(1)}, ` : ""}${third}.${triage ? "" : " No triage is configured: what the rules send up skips tier 2."}${supervisor ? "" : " No supervisor is configured: what reaches tier 3 waits for a person."}`;
}

function draw(said, span, judges) {
  const { buckets } = said;
  const NAMES = ["1, rules", judges.triage ? "2, triage" : "2, none", judges.supervisor ? "3, supervisor" : "3, a person"];
  const tiers = [0, 1, 2].map((at) => buckets.reduce((sum, each) => sum + each.tiers[at], 0));
  const calls = tiers[0] + tiers[1] + tiers[2];
  if (!calls) return [empty(`No calls in the last ${span}`, h("p", {}, "The plots fill as agents ask. To see what today's policy would have said about the past:"), shell("lockgate replay"))];
  const count = (word) => buckets.reduce((sum, each) => sum + (each.actions[word] ?? 0), 0);
  const cost = buckets.reduce((sum, each) => sum + (each.cost_usd ?? 0), 0);
  const shares = tiers.map((each) => each / calls);
  const stamp = (each) => new Date(each.at * 1000).toLocaleString();
  const filledOnly = buckets.filter((each) => each.tiers.some(Boolean));
  const at = (each, number, which) => each.latency_us?.[number]?.[which] ?? null;
  const median = middle(filledOnly.map((each) => at(each, 1, "p50")).filter((each) => each !== null));
  const slowest = Math.max(0, ...filledOnly.map((each) => at(each, 3, "p99") ?? 0));
  const rules = [...(said.rules ?? [])].sort((a, b) => b.cleared - a.cleared || b.escalations - a.escalations);
  const number = (value) => (Number.isInteger(value) ? value.toLocaleString() : value.toFixed(1));
  return [
    h("dl.figures", {}, big("Calls", calls.toLocaleString(), `in the last ${span}`), big("Let through", `${((count("CONTINUE") / calls) * 100).toFixed(1)} %`, plural(count("CONTINUE"), "call")), big("Reoriented", count("REORIENT").toLocaleString(), "told to do otherwise"), big("Paused", count("PAUSE").toLocaleString(), "waited for a person"), big("Rules take", duration(median), "typical median"), big("Cost", usd(cost), calls ? `${usd((cost / calls) * 1000)} per 1,000 calls` : "")),
    tops(said, span),
    figure(
      "Where calls are settled",
      settledWords(shares, judges),
      funnel("Share of calls settled at each tier", NAMES.map((name, each) => [name, shares[each], tiers[each], `t${each + 1}`])),
      { columns: ["Tier", "Calls", "Share"], rows: NAMES.map((name, each) => [name, tiers[each].toLocaleString(), `${(shares[each] * 100).toFixed(1)} %`]) },
    ),
    figure(
      "Decisions over time",
      `${count("CONTINUE").toLocaleString()} CONTINUE, ${count("REORIENT").toLocaleString()} REORIENT, ${count("PAUSE").toLocaleString()} PAUSE.`,
      bars("Decisions over time, by action", buckets, ["CONTINUE", "REORIENT", "PAUSE"].map((word) => [word.toLowerCase(), (each) => each.actions[word] ?? 0]), { format: number, said: (each) => ["CONTINUE", "REORIENT", "PAUSE"].map((word) => `${word} ${each.actions[word] ?? 0}`) }),
      { columns: ["From", "CONTINUE", "REORIENT", "PAUSE"], rows: filledOnly.map((each) => [stamp(each), ...["CONTINUE", "REORIENT", "PAUSE"].map((word) => String(each.actions[word] ?? 0))]) },
      [["continue", "CONTINUE"], ["reorient", "REORIENT"], ["pause", "PAUSE"]],
    ),
    figure(
      "Latency by tier",
      `Median and 99th percentile of calls settled at each tier, on a logarithmic axis.${slowest ? ` The slowest 99th percentile with the supervisor was ${duration(slowest)}.` : ""}`,
      lines("Latency by tier over time", buckets, [1, 2, 3].flatMap((each) => [[`t${each} p50`, (bucket) => at(bucket, each, "p50")], [`t${each} p99`, (bucket) => at(bucket, each, "p99")]]), { format: duration, said: (each) => [1, 2, 3].filter((one) => at(each, one, "p50") !== null).map((one) => `tier ${one}: ${duration(at(each, one, "p50"))}, p99 ${duration(at(each, one, "p99"))}`) }),
      { columns: ["From", ...[1, 2, 3].flatMap((each) => [`Tier ${each}, median`, `Tier ${each}, p99`])], rows: filledOnly.map((each) => [stamp(each), ...[1, 2, 3].flatMap((one) => [duration(at(each, one, "p50")), duration(at(each, one, "p99"))])]) },
      [...NAMES.map((name, each) => [`t${each + 1}`, name]), ["p99-line", "dashed: 99th percentile"]],
    ),
    figure(
      "Cost over time",
      cost ? `${usd(cost)} in all, as far as the judges' prices are known.` : "Nothing is known to have cost anything.",
      !cost ? h("p.quiet", {}, "Nothing to draw: no judge was asked, or its price is not known.") : bars("Cost over time", buckets, [["cost", (each) => each.cost_usd ?? 0]], { format: usd, said: (each) => [usd(each.cost_usd ?? 0)] }),
      { columns: ["From", "Cost"], rows: filledOnly.map((each) => [stamp(each), usd(each.cost_usd ?? 0)]) },
    ),
    figure(
      "Judges",
      said.judges?.length ? "What each judge said of the newest calls that were asked about." : "No judge was asked.",
      null,
      { columns: ["Judge", "Tier", "Asked", "Cleared", "Held", "Unclear", "Cost", "p50", "p95"], rows: (said.judges ?? []).map((each) => [line(each.by, 60), String(each.tier), (each.answers - each.cached).toLocaleString(), each.cleared.toLocaleString(), each.held.toLocaleString(), each.unclear.toLocaleString(), each.unpriced ? "unknown" : usd(each.cost_usd), duration(each.p50_us), duration(each.p95_us)]) },
    ),
    figure(
      "Rules by cleared escalations",
      rules.length ? "A rule whose escalations are nearly all cleared asks in vain: it is the first to tune." : "No rule has sent a call up.",
      rules.length ? parts("Rules, cleared of all escalations", rules.slice(0, 14).map((each) => [h("a", { href: `#/decisions?rule=${part(each.rule)}` }, line(each.rule, 60)), each.escalations, each.cleared, `${spelled(each.rule)}: ${each.cleared} of ${each.escalations} escalations cleared`])) : h("p.quiet", {}, "Nothing to draw."),
      { columns: ["Rule", "Escalations", "Cleared"], rows: rules.map((each) => [line(each.rule, 80), each.escalations.toLocaleString(), each.cleared.toLocaleString()]) },
      rules.length ? [["cleared", "cleared"], ["upheld", "upheld or open"]] : [],
    ),
  ];
}

// Where held calls come from, each name a way to those calls.
function tops(said, span) {
  const filter = (name, value) => `#/decisions?${name}=${part(name === "q" ? value : `"${value}"`)}`;
  const lists = [
    ["Sources of held calls", "q", said.sources],
    ["Tools", "tool", said.tools],
    ["Hosts", "host", said.hosts],
    ["Rules", "rule", said.rules.map((each) => ({ name: each.rule, calls: each.escalations, held: each.upheld + each.undecided })).sort((a, b) => b.held - a.held || b.calls - a.calls)],
  ];
  return h("section.tops", { "aria-label": `Most held in the last ${span}` }, lists.map(([title, name, list]) => h("div", {}, h("h2", {}, title), list.length ? h("table", {}, h("thead", {}, h("tr", {}, ["Name", "Held", "Calls"].map((each, at) => h(`th${at ? ".num" : ""}`, { scope: "col" }, each)))), h("tbody", {}, list.slice(0, 8).map((each) => h("tr", {}, h("th", { scope: "row" }, h("a", { href: filter(name, each.name) }, line(each.name, 80))), h("td.num", {}, each.held.toLocaleString()), h("td.num", {}, each.calls.toLocaleString()))))) : h("p.quiet", {}, "None."))));
}

function middle(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted.length ? sorted[Math.floor(sorted.length / 2)] : null;
}

function big(name, value, under) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, h("b", {}, value), h("span.quiet", {}, under)));
}
