// What the abuse gates judged, which clients they have banned, and lifting a ban before it ends.

import { ask } from "./api.js";
import { action, empty, h, line, part, plural, shell, tier, when } from "./show.js";

const PAGE = 60;
const BANS = 50;
const FIELDS = ["outcome", "verdict", "subject", "session"];
// As with approvals: the second click of a double click was not a second thought.
const SETTLE_MS = 700;
const DONE = { allow: "passed", unclear: "passed, unclear", unsafe: "refused", clarify: "asked for other words", "artifact-unread": "refused, attachment not read", "ban-lifted": "a person lifted a ban" };
const MARKS = { safe: "CONTINUE", unclear: "REORIENT", unsafe: "PAUSE" };
const STANDINGS = { normal: "in good standing", slowed: "network slowed", execute_locked: "tools locked", full_quarantine: "quarantined" };

function word(words, name) {
  return Object.hasOwn(words, name) ? words[name] : line(name, 40);
}

export async function requestsView(view, query, { signal, tell, onEvent, go }) {
  let filters = Object.fromEntries(FIELDS.map((name) => [name, query.get(name) ?? ""]));
  let turn = 0;
  const clear = h("a.button", { href: "#/requests" }, "Clear");
  const rows = h("tbody");
  const table = h("table.requests", {}, h("caption.unseen", {}, "Requests, newest first"), head(), rows);
  const place = h("div", {}, table);
  const bans = h("div", { role: "region", "aria-label": "Banned now" });
  const older = h("button.more", { type: "button", hidden: true, click: () => more().catch(failed) }, "Older");
  const count = h("p.quiet.counted", { role: "status" });
  view.replaceChildren(
    h("div.title", {}, h("h1", {}, "Requests"), h("p.quiet", {}, "What abuse gates judged, as the journal of this service records it. Clients are keyed hashes, and no text of a request is kept.")),
    h("section", {}, h("h2", {}, "Banned now"), bans),
    h("section", {}, h("h2", {}, "Verdicts"), form(), place, h("div.foot", {}, older, count)),
  );
  let next = null;
  let pages = 1;
  let busy = false;
  drawBans(bans, { signal, tell }).catch(failed);
  await first();
  onEvent((kind) => {
    // What a person reads stays as it is.
    if (kind !== "journal" || busy || pages > 1 || place.contains(document.activeElement)) return;
    busy = true;
    first().catch(() => {}).finally(() => {
      busy = false;
    });
  });

  function failed(error) {
    if (!signal.aborted) tell(error.message);
  }

  function address(before) {
    return `/v1/requests?${new URLSearchParams(Object.entries({ ...filters, limit: PAGE, before }).filter(([, value]) => value !== "" && value !== null))}`;
  }

  async function first() {
    let said;
    turn += 1;
    const mine = turn;
    try {
      said = await ask(address(null), { signal });
      if (mine !== turn) return;
    } catch (error) {
      if (error.code !== "no-journal") throw error;
      place.replaceChildren(empty("No journal is kept", h("p", {}, "Gates record what they judge in the journal. It is on unless the configuration says otherwise: ", h("code", {}, "security.audit.enabled"), ".")));
      return;
    }
    rows.replaceChildren(...said.requests.map(row));
    next = said.next;
    pages = 1;
    draw();
  }

  async function more() {
    const said = await ask(address(next), { signal });
    rows.append(...said.requests.map(row));
    next = said.next;
    pages += 1;
    draw();
  }

  function draw() {
    older.hidden = next === null;
    const shown = rows.rows.length;
    count.replaceChildren(shown ? `${plural(shown, "request")} shown` : next === null ? "" : "None among the newest records: look among older ones");
    const filtered = Object.values(filters).some(Boolean);
    clear.hidden = !filtered;
    place.replaceChildren(shown || next !== null ? table : filtered ? noMatch() : none());
  }

  function noMatch() {
    return empty("Nothing matches", h("p", {}, "No request that is recorded fits these filters. ", h("a", { href: "#/requests" }, "Clear them"), "."));
  }

  function none() {
    return empty("No requests yet", h("p", {}, "A gate that shares this service's journal is shown here, also one in another process. A gate with another journal, or none, is not. To put one in front of an application:"), shell("lockgate gate --upstream URL"));
  }

  function form() {
    const choice = (name, label, options) => h("label", {}, h("span", {}, label), h("select", { name }, options.map(([value, text]) => h("option", { value, selected: filters[name] === value }, text))));
    const field = (name, label) => h("label", {}, h("span", {}, label), h("input", { name, value: filters[name], autocomplete: "off", spellcheck: "false" }));
    const find = h("input", { name: "incident", type: "search", placeholder: "an incident's id   /", autocomplete: "off", spellcheck: "false" });
    const apply = () => {
      const incident = find.value.trim().toUpperCase();
      if (incident) return go(`#/request/${part(incident)}`);
      // The fields stay while a person fills them in: only the address and the rows change.
      filters = Object.fromEntries(FIELDS.map((name) => [name, made.elements[name].value.trim()]));
      const asked = new URLSearchParams(Object.entries(filters).filter(([, value]) => value));
      history.replaceState(null, "", `#/requests${asked.size ? `?${asked}` : ""}`);
      first().catch(failed);
    };
    const made = h(
      "form.filters",
      { role: "search", "aria-label": "Filter requests", submit: (event) => { event.preventDefault(); apply(); }, change: apply },
      h("label.search", {}, h("span", {}, "Incident"), find),
      choice("outcome", "What became of it", [["", "any"], ["refused", "refused"], ["passed", "passed"], ["lifted", "ban lifted"]]),
      choice("verdict", "Verdict", [["", "any"], ["unsafe", "unsafe"], ["unclear", "unclear"], ["safe", "safe"]]),
      field("subject", "Client"),
      field("session", "Session"),
      h("div.buttons", {}, clear, h("button.unseen", { type: "submit" }, "Search")),
    );
    return made;
  }

  return {};
}

// --- bans

async function drawBans(place, { signal, tell }) {
  const rows = h("tbody");
  const more = h("button.more", { type: "button", hidden: true, click: () => load().catch((error) => signal.aborted || tell(error.message)) });
  await load();

  async function load() {
    const said = await ask(`/v1/bans?limit=${BANS}&offset=${rows.rows.length}`, { signal });
    if (said.state !== "read") {
      place.replaceChildren(h(`p.note${said.state === "none" ? "" : ".bad"}`, {}, said.state === "none" ? "Not known here: " : "Cannot be read: ", line(said.said, 600)));
      return;
    }
    rows.append(...said.bans.map((each) => ban(each, { tell })));
    const left = said.total - rows.rows.length;
    more.hidden = left <= 0 || !said.bans.length;
    more.replaceChildren(`Show more of ${plural(said.total, "banned client")}`);
    if (said.total) place.replaceChildren(h("table.bans", {}, h("thead", {}, h("tr", {}, ["Client", "Standing", "Time left", ""].map((name) => h("th", { scope: "col" }, name)))), rows), more);
    else place.replaceChildren(h("p.quiet", {}, "No client is banned."));
  }
}

function ban(each, { tell }) {
  const last = h("td");
  const lift = h("button", { type: "button", click: () => armed(true) }, "Lift…");
  const sure = h("button.deny", { type: "button", disabled: true, click: () => run() }, "Lift this ban");
  const confirm = h("span.confirm", { hidden: true }, h("button", { type: "button", click: () => armed(false) }, "Back"), " ", sure);
  const outcome = h("span.outcome", { role: "status" });
  let settle = 0;
  last.append(lift, confirm, outcome);

  function armed(yes) {
    clearTimeout(settle);
    lift.hidden = yes;
    confirm.hidden = !yes;
    sure.disabled = true;
    if (yes) {
      settle = setTimeout(() => {
        sure.disabled = false;
      }, SETTLE_MS);
      confirm.firstElementChild.focus();
    } else lift.focus();
  }

  async function run() {
    if (sure.disabled) return;
    sure.disabled = true;
    try {
      await ask(`/v1/bans/${part(each.subject)}/lift`, { body: {} });
      last.replaceChildren(h("b", {}, "Lifted, and recorded. Gates hear of it within seconds."));
      tell("the ban is lifted");
    } catch (error) {
      armed(false);
      outcome.replaceChildren(h("span.bad", {}, ` Not lifted: ${error.message}. ${error.hint ?? ""}`));
      tell(outcome.textContent);
    }
  }

  return h("tr", {}, h("th", { scope: "row" }, client(each.subject)), h("td", {}, word(STANDINGS, each.standing)), h("td.num", {}, left(each.left_s)), last);
}

function left(seconds) {
  return seconds >= 3600 ? `${(seconds / 3600).toFixed(1)} h` : seconds >= 60 ? `${Math.ceil(seconds / 60)} min` : `${Math.ceil(seconds)} s`;
}

function client(subject) {
  return subject ? h("a.mono", { href: `#/requests?subject=${part(subject.slice(0, 12))}`, title: "requests of this client" }, line(subject.slice(0, 12), 12)) : h("span.quiet", {}, "–");
}

// --- requests

function head() {
  return h("thead", {}, h("tr", {}, ["Time", "Verdict", "What was done", "Why", "Client", "Stood then"].map((name) => h("th", { scope: "col" }, name))));
}

function row(each) {
  const what = h("a", { href: `#/request/${part(each.id)}`, "data-row": true }, each.wrong ? h("i", {}, "damaged") : word(DONE, each.action));
  return h(
    `tr.${each.incident ? "stopped" : "passed"}`,
    {},
    h("td.when", {}, when(each.at)),
    h("td", {}, each.verdict ? mark(each.verdict) : "–"),
    h("th", { scope: "row" }, what, each.incident ? h("span.quiet.mono", {}, " ", line(each.incident, 26)) : null),
    h("td.why", {}, h("div", {}, each.rules.length ? h("span.rule", {}, line(each.rules[0], 48), each.rules.length > 1 ? ` +${each.rules.length - 1}` : "") : null, line(each.wrong || each.reason, 120))),
    h("td", {}, client(each.subject)),
    h("td", {}, each.standing ? word(STANDINGS, each.standing) : "–", each.strikes === null ? null : h("span.quiet", {}, ` ${plural(each.strikes, "strike")}`)),
  );
}

function mark(verdict) {
  return action(verdict, Object.hasOwn(MARKS, verdict) ? MARKS[verdict] : "PAUSE");
}

export async function requestView(view, id, { signal, go }) {
  const given = await ask(`/v1/requests/${part(id)}`, { signal });
  const fact = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
  view.replaceChildren(
    h(
      "header.head",
      {},
      h("p.crumbs", {}, h("a", { href: "#/requests" }, "Requests"), " / ", h("span.mono", {}, line(given.id, 40))),
      h("h1", {}, given.wrong ? h("i", {}, "damaged") : mark(given.verdict), h("span", {}, word(DONE, given.action))),
      given.wrong ? h("p.explanation.bad", {}, "This record was changed, or cannot be read: ", line(given.wrong, 200)) : null,
      h("dl.strip", {}, fact("At", when(given.at, { day: true })), fact("Reason", line(given.reason, 130)), fact("By", line(given.by || "–", 130)), fact("Client", client(given.subject)), fact("Stood then", given.standing ? word(STANDINGS, given.standing) : "–"), fact("Strikes", given.strikes === null ? "–" : String(given.strikes))),
    ),
    h("section", {}, h("h2", {}, "Rules"), given.rules.length ? h("p", {}, given.rules.map((rule) => h("span.rule", {}, line(rule, 130)))) : h("p.quiet", {}, "None hit.")),
    h("section", {}, h("h2", {}, "Rulings with the same conversation or trace id"), joined(given)),
    h("section", {}, h("h2", {}, "Record"), h("dl.facts", {}, fact("Journal", line(given.origin, 200)), fact("Record", given.index.toLocaleString()), fact("Leaf", h("code.hash", {}, line(given.leaf_hash, 64))), given.trace ? fact("Trace", h("code.hash", {}, line(given.trace, 32))) : null, given.conversation_sha256 ? fact("Conversation, hashed", h("code.hash", {}, line(given.conversation_sha256, 64))) : null), shell(`lockgate audit prove ${given.index}`)),
  );
  return { title: `request ${given.id}`, key: (name) => (name === "Escape" ? (go("#/requests"), true) : false) };
}

function joined(given) {
  if (!given.trace && !given.conversation_sha256) return h("p.quiet", {}, "The request carried neither id.");
  const session = (name) => (name.startsWith("sha256:") ? h("span.mono", {}, line(name, 20)) : h("a.mono", { href: `#/session/${part(name)}` }, line(name, 40)));
  const ruling = (each) => h("tr", {}, h("td.when", {}, when(each.at)), h("td", {}, action(each.action)), h("td", {}, tier(each.tier)), h("th", { scope: "row" }, line(each.tool, 80)), h("td", {}, line(each.reason, 60)), h("td", {}, session(each.session)), h("td", {}, each.shared.join(", ")));
  return h(
    "div",
    {},
    h("p.quiet", {}, "A hint, and no proof: the client chose these ids. Only records near this one are looked at."),
    given.joined.length ? h("table.requests", {}, h("thead", {}, h("tr", {}, ["Time", "Action", "Tier", "Call", "Reason", "Session", "Shared"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, given.joined.map(ruling))) : h("p", {}, "None."),
  );
}
