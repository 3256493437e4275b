// The stream of decisions: newest first, filtered by the service, fed by the events.

import { ask } from "./api.js";
import { csv, save } from "./export.js";
import { action, duration, empty, h, line, part, plural, shell, spelled, tier, usd, when } from "./show.js";

// A table that grows all day is no use; older ones are a click away.
const MOST_ROWS = 400;
const PAGE = 60;
const FIELDS = ["q", "action", "tier", "tool", "rule", "session", "host"];
// Names, of which a part is enough; in quotes it is the whole name.
const NAMES = ["tool", "rule", "session", "host"];
const MOST_EXPORTED = 10_000;
const MONTH_S = 30 * 86_400;

// What is kept while another view is open, so that coming back finds the stream as it was left.
const kept = { paused: false };

export async function decisionsView(view, query, { signal, tell, onEvent }) {
  let filters = Object.fromEntries(FIELDS.map((name) => [name, query.get(name) ?? ""]));
  const isFiltered = () => Object.values(filters).some(Boolean);
  const rows = h("tbody");
  const held = h("button.held", { type: "button", hidden: true, click: () => release() });
  const pause = h("button", { type: "button", "aria-keyshortcuts": "p", "aria-pressed": String(kept.paused), click: () => hold(!kept.paused) });
  const older = h("button.more", { type: "button", hidden: true, click: () => more() }, "Older");
  const count = h("p.quiet.counted", { role: "status" });
  const table = h("table.stream", {}, h("caption.unseen", {}, "Decisions, newest first"), head(), rows);
  const place = h("div.stream-box", {}, table);
  const clear = h("a.button", { href: "#/decisions" }, "Clear");
  const exports = h("span.exports", {}, "Export: ", ["CSV", "JSON"].map((kind) => [h("button.quiet", { type: "button", click: (event) => download(kind, event.target) }, kind), " "]));
  view.replaceChildren(h("h1.unseen", {}, "Decisions"), form(), held, place, h("div.foot", {}, older, count, exports));

  let newest = 0;
  let next = null;
  let waiting = 0;
  let busy = null;
  // An answer to filters that have changed since is not drawn.
  let turn = 0;
  let asking = true;
  draw();
  await first();
  // Not while a person types already.
  if (!view.contains(document.activeElement)) view.querySelector(`a[data-id="${CSS.escape(kept.opened ?? "")}"]`)?.focus();
  onEvent((kind) => {
    if (kind === "decision") {
      if (kept.paused) {
        waiting += 1;
        draw();
      } else fetchNew();
    }
  });

  function address(more) {
    const wanted = Object.entries(filters).map(([name, value]) => [name, !value || !NAMES.includes(name) ? value : /^".+"$/.test(value) ? value.slice(1, -1) : `*${value}*`]);
    const asked = new URLSearchParams(Object.entries({ ...Object.fromEntries(wanted), limit: PAGE, ...more }).filter(([, value]) => value !== ""));
    return `/v1/decisions?${asked}`;
  }

  async function first() {
    turn += 1;
    const mine = turn;
    const said = await ask(address({}), { signal });
    if (mine !== turn) return;
    asking = false;
    rows.replaceChildren(...said.decisions.map(row));
    newest = said.decisions[0]?.seq ?? newest;
    next = said.next;
    waiting = 0;
    draw();
  }

  // One request at a time however fast decisions come: an event only says that there is something to fetch.
  async function fetchNew() {
    if (busy) {
      busy = "again";
      return;
    }
    busy = "once";
    try {
      await new Promise((done) => setTimeout(done, 120));
      const mine = turn;
      const said = await ask(address({ after: newest }), { signal });
      if (mine !== turn) return;
      const fresh = said.decisions.filter((each) => each.seq > newest).sort((a, b) => b.seq - a.seq);
      if (fresh.length >= PAGE) await first();
      else if (fresh.length) {
        newest = fresh[0].seq;
        rows.prepend(...fresh.map((each) => row(each, true)));
        while (rows.rows.length > MOST_ROWS) rows.lastElementChild.remove();
        if (rows.rows.length === MOST_ROWS) next = Number(rows.lastElementChild.dataset.seq);
        announce(fresh);
      }
      draw();
    } catch (error) {
      if (!signal.aborted) tell(error.message);
    } finally {
      const again = busy === "again";
      busy = null;
      if (again && !signal.aborted && !kept.paused) fetchNew();
    }
  }

  function announce(fresh) {
    const held = fresh.filter((each) => each.action !== "CONTINUE");
    const told = held.length ? `, ${held.length} not let through: ${spelled(held[0].tool, 60)}, ${held[0].action}` : "";
    tell(`${plural(fresh.length, "new decision")}${told}`);
  }

  async function more() {
    const mine = turn;
    const said = await ask(address({ before: next }), { signal });
    if (mine !== turn) return;
    rows.append(...said.decisions.map((each) => row(each)));
    next = said.next;
    draw();
  }

  async function download(kind, button) {
    button.disabled = true;
    try {
      const all = [];
      let before = null;
      do {
        const said = await ask(address({ limit: 200, ...(before === null ? {} : { before }) }), { signal });
        all.push(...said.decisions);
        before = said.next;
      } while (before !== null && all.length < MOST_EXPORTED);
      const name = `lockgate-decisions-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}`;
      if (kind === "CSV") save(`${name}.csv`, "text/csv;charset=utf-8", csv(all));
      else save(`${name}.json`, "application/json", `${JSON.stringify(all, null, 2)}\n`);
      tell(`${plural(all.length, "decision")} exported${before === null ? "" : "; older ones are left out"}`);
    } catch (error) {
      if (!signal.aborted) tell(`not exported: ${error.message}`, { now: true });
    } finally {
      button.disabled = false;
    }
  }

  function hold(paused) {
    kept.paused = paused;
    if (!paused) release();
    draw();
  }

  function release() {
    waiting = 0;
    fetchNew();
    draw();
  }

  function draw() {
    pause.replaceChildren(kept.paused ? "Resume" : "Hold");
    pause.setAttribute("aria-pressed", String(kept.paused));
    pause.title = kept.paused ? "Let new decisions in again (p)" : "Keep the list as it is while you read (p)";
    held.hidden = !(kept.paused && waiting);
    held.replaceChildren(`${plural(waiting, "new decision")} since you held the stream: show`);
    older.hidden = next === null || next === undefined;
    const shown = rows.rows.length;
    count.replaceChildren(shown ? `${plural(shown, "decision")} shown` : "");
    clear.hidden = !isFiltered();
    exports.hidden = !shown;
    if (!shown && !asking) place.replaceChildren(isFiltered() ? noMatch() : none());
    else if (!place.contains(table)) place.replaceChildren(table);
  }

  function noMatch() {
    return empty("Nothing matches", h("p", {}, "No decision that is kept fits these filters. ", h("a", { href: "#/decisions" }, "Clear them"), "."));
  }

  function none() {
    return empty(
      "No decisions yet",
      h("p", {}, "This list fills by itself as soon as an agent asks. Plug one in:"),
      shell("lockgate init claude-code      # every tool call of Claude Code\nlockgate init mcp CONFIG.json   # the MCP servers of any client"),
      h("p", {}, "or look at what would have happened, without touching anything:"),
      shell("lockgate replay"),
    );
  }

  function form() {
    const field = (name, label) => h("label", {}, h("span", {}, label), h("input", { name, value: filters[name], list: `known-${name}`, maxlength: "150", title: 'a part of the name, or the whole one in "quotes"', autocomplete: "off", spellcheck: "false" }));
    const choice = (name, label, options) =>
      h("label", {}, h("span", {}, label), h("select", { name }, options.map(([value, text]) => h("option", { value, selected: filters[name] === value }, text))));
    // The field that is being typed in stays: only the address and the rows change.
    const apply = () => {
      clearTimeout(timer);
      filters = Object.fromEntries(FIELDS.map((name) => [name, made.elements[name].value.trim()]));
      const asked = new URLSearchParams(Object.entries(filters).filter(([, value]) => value));
      history.replaceState(null, "", `#/decisions${asked.size ? `?${asked}` : ""}`);
      first().catch((error) => signal.aborted || tell(error.message, { now: true }));
    };
    let suggested = false;
    const suggest = async () => {
      if (suggested) return;
      suggested = true;
      const since = Math.floor(Date.now() / 1000) - MONTH_S;
      const [stats, sessions] = await Promise.all([ask(`/v1/stats?since=${since}&bucket=86400`, { signal }), ask("/v1/sessions?limit=100", { signal })]);
      const known = { tool: stats.tools.map((each) => each.name), rule: ["observe:PAUSE", "observe:REORIENT", ...stats.rules.map((each) => each.rule)], host: stats.hosts.map((each) => each.name), session: sessions.sessions.map((each) => each.id) };
      // A browser draws these lists itself: a name that is not plain is not among them.
      for (const name of NAMES) lists[name].replaceChildren(...known[name].filter((each) => spelled(each, 150) === each).map((each) => h("option", { value: each })));
    };
    const lists = Object.fromEntries(NAMES.map((name) => [name, h("datalist", { id: `known-${name}` })]));
    let timer = 0;
    const made = h(
      "form.filters",
      {
        role: "search",
        "aria-label": "Filter decisions",
        submit: (event) => {
          event.preventDefault();
          apply();
        },
        change: apply,
        input: () => {
          clearTimeout(timer);
          timer = setTimeout(apply, 300);
        },
        focusin: () => suggest().catch(() => {}),
      },
      h("label.search", {}, h("span", {}, "Search"), h("input", { name: "q", type: "search", value: filters.q, placeholder: "text in calls and explanations   /", autocomplete: "off", spellcheck: "false", "aria-keyshortcuts": "/" })),
      choice("action", "Action", [["", "any"], ["CONTINUE", "CONTINUE"], ["REORIENT", "REORIENT"], ["PAUSE", "PAUSE"]]),
      choice("tier", "Tier", [["", "any"], ["1", "1, rules"], ["2", "2, triage"], ["3", "3, supervisor or person"]]),
      NAMES.map((name) => [field(name, name.charAt(0).toUpperCase() + name.slice(1)), lists[name]]),
      h("div.buttons", {}, pause, clear, h("button.unseen", { type: "submit" }, "Search")),
    );
    signal.addEventListener("abort", () => clearTimeout(timer));
    return made;
  }

  return {
    key(name) {
      if (name === "p") hold(!kept.paused);
      else return false;
      return true;
    },
    leave: (id) => {
      kept.opened = id;
    },
  };
}

export function head() {
  const names = [["when", "Time"], ["", "Action"], ["", "Tier"], ["", "Call"], ["", "What and why"], ["", "Session"], ["num", "Took"], ["num", "Cost"]];
  return h("thead", {}, h("tr", {}, names.map(([kind, name]) => h(`th${kind ? `.${kind}` : ""}`, { scope: "col" }, name))));
}

export function row(each, fresh = false) {
  // In observe mode the call ran, and this is what would have become of it.
  const would = each.rules.find((rule) => rule.startsWith("observe:"))?.slice(8);
  return h(
    `tr.${each.action === "CONTINUE" && !would ? "passed" : "stopped"}${fresh === true ? ".fresh" : ""}`,
    { "data-seq": each.seq },
    h("td.when", {}, when(each.at)),
    h("td", {}, would ? action(`would ${would}`, would) : action(each.action)),
    h("td", {}, tier(each.tier)),
    h("th.call", { scope: "row" }, h("a", { href: `#/decision/${part(each.id)}`, "data-row": true, "data-id": each.id }, each.damaged ? h("i", {}, "damaged") : line(each.tool, 80))),
    h("td.why", {}, h("div", {}, each.rules.length ? h("span.rule", {}, line(each.rules[0], 48), each.rules.length > 1 ? ` +${each.rules.length - 1}` : "") : null, callWords(each)), because(each, would)),
    h("td.session", {}, h("a", { href: `#/session/${part(each.session)}` }, line(each.session, 40)), h("span.quiet", {}, " ", line(each.host, 24))),
    h("td.num", {}, duration(each.latency_us)),
    h("td.num", {}, each.cost_usd ? usd(each.cost_usd) : "–"),
  );
}

// What the call does, where the service says so; otherwise why it came out as it did.
export function callWords(each) {
  const call = String(each.would_do ?? "");
  const named = `${each.tool} with `;
  return line((call.startsWith(named) ? call.slice(named.length) : call) || each.explanation || each.reason, 240);
}

// Why a call did not pass is never cut.
function because(each, would) {
  return (each.action === "CONTINUE" && !would) || !each.explanation || !each.would_do ? null : h("div.because", {}, line(each.explanation, 4000));
}
