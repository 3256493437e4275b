// Which view is on, the keys, the token, and the one stream of events that all views share.

import { approvalsView, linkView, remind } from "./approvals.js";
import { ask, endReadingKey, forgetAll, hasToken, keepReadingKey, keepToken, listen, mayRead, Refused, takeCode } from "./api.js";
import { decisionView } from "./decision.js";
import { decisionsView } from "./decisions.js";
import { helpView } from "./help.js";
import { journalView } from "./journal.js";
import { overviewView } from "./overview.js";
import { requestsView, requestView } from "./requests.js";
import { sessionView, sessionsView } from "./sessions.js";
import { empty, guided, h, plural, shell, spelled } from "./show.js";

const view = document.getElementById("view");
const PLACES = ["decisions", "approvals", "overview", "sessions", "journal", "requests"];
let current = { leave: new AbortController(), hears: [], keys: null, place: "" };
let stream = null;
let viewTitle = "Lockgate";
let counted = 0;

function tell(words, { now = false } = {}) {
  document.getElementById(now ? "told-now" : "told").textContent = words;
}

function go(hash) {
  location.hash = hash;
}

// The tab says how many calls wait, whichever view is open.
function drawTitle() {
  document.title = `${counted ? `(${counted}) ` : ""}${viewTitle} · Lockgate`;
}

async function route() {
  const code = await takeCode();
  if (code === "taken") start();
  const [path, asked = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [named, ...rest] = path.split("/");
  const place = named || "decisions";
  let id = rest.join("/");
  try {
    id = decodeURIComponent(id);
  } catch {
    /* an address that was typed by hand; the service will not know it either */
  }
  const query = new URLSearchParams(asked);
  const opened = current.place === "decisions" && place === "decision" ? id : null;
  if (opened) current.keys?.leave?.(opened);
  current.leave.abort();
  const mine = { leave: new AbortController(), hears: [], keys: null, place };
  current = mine;
  const tools = { signal: mine.leave.signal, tell, go, onEvent: (hear) => mine.hears.push(hear) };
  for (const link of document.querySelectorAll("nav a[data-view]")) {
    const on = link.dataset.view === place || (place === "decision" && link.dataset.view === "decisions") || (place === "session" && link.dataset.view === "sessions") || (place === "request" && link.dataset.view === "requests");
    if (on) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (place === "answer") {
    const room = h("div.room");
    view.replaceChildren(room);
    linkView(room, id, { signal: mine.leave.signal, tell });
    return;
  }
  if (!mayRead()) {
    locked(code === "refused" ? "That address has been used, or is too old" : "");
    return;
  }
  if (code === "refused") unlock("That address has been used, or is too old");
  standing();
  // A view of its own each time: what an earlier one still draws lands in a node that is not shown.
  const room = h("div.room");
  const showing = setTimeout(() => mine === current && !view.contains(room) && view.replaceChildren(room), 250);
  let made = null;
  try {
    const views = { approvals: () => approvalsView(room, tools), overview: () => overviewView(room, query, tools), sessions: () => sessionsView(room, query, tools), session: () => sessionView(room, id, tools), journal: () => journalView(room, tools), requests: () => requestsView(room, query, tools), request: () => requestView(room, id, tools), decision: () => decisionView(room, id, tools), help: () => helpView(room, id, tools) };
    const making = (Object.hasOwn(views, place) ? views[place] : () => decisionsView(room, query, tools))();
    if (!["decision", "session", "request", "help"].includes(place)) view.replaceChildren(room);
    made = await making;
    if (mine === current && !view.contains(room)) view.replaceChildren(room);
  } catch (error) {
    if (mine !== current || mine.leave.signal.aborted) return;
    if (document.getElementById("locked")) return;
    view.replaceChildren(failed(error));
  } finally {
    clearTimeout(showing);
  }
  if (mine !== current) return;
  mine.keys = made;
  viewTitle = made?.title ?? spelled(place.charAt(0).toUpperCase() + place.slice(1), 40);
  drawTitle();
  if (!room.contains(document.activeElement) && place !== "decisions") view.focus({ preventScroll: true });
  if (["decision", "session", "request", "help"].includes(place)) {
    window.scrollTo(0, 0);
  }
  made?.drawn?.();
}

function failed(error) {
  if (!(error instanceof Refused)) console.error(error);
  return empty("This could not be shown", h("p", {}, error.message ?? "something went wrong", error.hint ? [". ", guided(error.hint)] : ""), h("button", { type: "button", click: () => route() }, "Try again"));
}

// --- without a token

function locked(wrong = "") {
  stream?.abort();
  stream = null;
  linkState("locked");
  drawSigned();
  document.getElementById("waiting").hidden = true;
  if (document.getElementById("locked") && !wrong) return;
  const field = h("input", { type: "password", name: "token", autocomplete: "off", "aria-label": "Token", placeholder: "paste the token" });
  const form = h(
    "form.unlock",
    {
      submit: (event) => {
        event.preventDefault();
        if (!field.value.trim()) return;
        keepToken(field.value);
        document.getElementById("locked")?.remove();
        start();
        route();
      },
    },
    field,
    h("button", { type: "submit" }, "Open"),
  );
  view.replaceChildren(
    h(
      "section.empty",
      { id: "locked" },
      h("h1", {}, wrong || "This page needs your token"),
      h("p", {}, "It shows what your agents read and answers for you, so it opens only for a person who can read the token on this machine. Print it, and paste it here:"),
      shell("lockgate token"),
      form,
      h("p.quiet", {}, "Or open an address that works once: ", h("code", {}, "lockgate token --url"), " prints one. The token is kept for this tab only; other tabs and bookmarks of this browser can then look, for a week, and not answer. An agent's token does not open this page."),
    ),
  );
  counted = 0;
  viewTitle = "Locked";
  drawTitle();
}

window.addEventListener("locked", () => {
  const wrong = hasToken();
  forgetAll();
  locked(wrong ? "That token is not right" : "");
});

// --- reading only

const unlockBox = document.getElementById("unlock");
const unlockField = unlockBox.querySelector("input");
const signButton = document.getElementById("sign");
const unlockSaid = document.getElementById("unlock-said");

function drawSigned() {
  signButton.hidden = !mayRead();
  signButton.textContent = hasToken() ? "Sign out" : "Unlock";
  signButton.title = hasToken() ? "Forget the token in this tab, and end the reading key of this browser" : "This tab only reads: unlock it to answer";
}

function unlock(words = "") {
  unlockSaid.textContent = words;
  if (!unlockBox.open) unlockBox.showModal();
}
window.addEventListener("unlock", () => unlock());
signButton.addEventListener("click", async () => {
  if (!hasToken()) return unlock();
  let said = "You are signed out";
  try {
    await endReadingKey();
  } catch {
    said = "You are signed out here. The service did not answer, so a copy of this browser's reading key may still read.";
  }
  forgetAll();
  locked(said);
});
window.addEventListener("storage", () => mayRead() || locked());
document.getElementById("unlock-close").addEventListener("click", () => unlockBox.close());
unlockBox.querySelector("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  keepToken(unlockField.value);
  unlockField.value = "";
  try {
    await keepReadingKey();
    unlockBox.close();
    start();
  } catch (error) {
    sessionStorage.removeItem("lockgate-token");
    unlockSaid.textContent = error.message;
  }
});

// --- the stream

function linkState(state) {
  const words = { live: hasToken() ? "live" : "live, reading only", lost: "reconnecting", locked: "locked", off: "not connected" };
  document.getElementById("link").dataset.state = state;
  document.getElementById("link-text").textContent = words[state] ?? state;
}

async function start() {
  stream?.abort();
  drawSigned();
  if (!mayRead()) return;
  const mine = new AbortController();
  stream = mine;
  let after = 0;
  try {
    after = (await ask("/v1/decisions?limit=1", { signal: mine.signal })).decisions[0]?.seq ?? 0;
  } catch (error) {
    if (mine.signal.aborted || error.status === 401 || error.status === 403) return;
  }
  if (hasToken()) keepReadingKey().catch(() => {});
  count();
  standing();
  let lost = false;
  listen(after, {
    signal: mine.signal,
    onState(state) {
      linkState(state);
      if (state === "lost") lost = true;
      if (state === "live" && lost) {
        // What the stream may have missed, the views ask for.
        lost = false;
        count();
        for (const hear of current.hears) for (const kind of ["decision", "approval", "journal", "session"]) hear(kind, null);
      }
    },
    onEvent(kind, data) {
      if (kind === "approval") count(true);
      for (const hear of current.hears) hear(kind, data);
    },
  });
}

// Whether the files that the operator changed are in force: said above every view until they are.
async function standing() {
  const place = document.getElementById("policy");
  try {
    const said = await ask("/v1/policy");
    place.hidden = said.state === "current";
    place.replaceChildren(...(said.state === "refused" ? ["The changed configuration is not in force, and the old policy stays: ", spelled(said.error, 600)] : [`Changed in the configuration, and waiting for a restart: ${spelled(said.needs_restart.join(", "), 300)}`]));
  } catch {
    place.hidden = true;
  }
}

async function count(news = false) {
  const badge = document.getElementById("waiting");
  try {
    const said = await ask("/v1/approvals?state=waiting");
    const number = said.approvals.length;
    badge.hidden = !number;
    badge.replaceChildren(String(number), h("span.unseen", {}, " waiting"));
    if (news && number > counted) {
      tell(`${plural(number, "call")} waiting for you`, { now: true });
      remind(number);
    }
    counted = number;
    drawTitle();
  } catch {
    badge.hidden = true;
  }
}

// --- keys

function step(by) {
  const rows = [...view.querySelectorAll("[data-row]")];
  const at = rows.findIndex((each) => each === document.activeElement || each.contains(document.activeElement));
  const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.max(0, Math.min(rows.length - 1, at + by))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
  return Boolean(next);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const help = document.getElementById("help");
  if (help.open) return;
  const typing = event.target.matches?.("input, select, textarea");
  if (typing) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const name = event.key;
  if (name === "Escape" && view.querySelector(".confirm:not([hidden])")) {
    for (const back of view.querySelectorAll(".confirm:not([hidden]) button:first-child")) back.click();
  } else if (current.keys?.key?.(name)) {
    /* the view has used it */
  } else if (name === "j" || name === "k") step(name === "j" ? 1 : -1);
  else if (name === "/") {
    const search = view.querySelector("input[type=search]");
    if (!search) return;
    search.focus();
    search.select();
  } else if (name === "?") help.showModal();
  else if (name === "Escape") document.activeElement?.blur();
  else if (/^[1-6]$/.test(name)) go(`#/${PLACES[name - 1]}`);
  else return;
  event.preventDefault();
});

document.getElementById("help").addEventListener("click", (event) => event.target.matches("a") && document.getElementById("help").close());
document.getElementById("help-open").addEventListener("click", () => document.getElementById("help").showModal());
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  view.focus();
});

const themes = ["", "light", "dark"];
const themeButton = document.getElementById("theme");
function drawTheme() {
  const now = document.documentElement.dataset.theme ?? "";
  themeButton.textContent = now ? now.charAt(0).toUpperCase() + now.slice(1) : "Auto";
  themeButton.setAttribute("aria-label", `Theme: ${now || "as the system says"}`);
}
themeButton.addEventListener("click", () => {
  const now = themes[(themes.indexOf(document.documentElement.dataset.theme ?? "") + 1) % themes.length];
  if (now) document.documentElement.dataset.theme = now;
  else delete document.documentElement.dataset.theme;
  localStorage.setItem("lockgate-theme", now);
  drawTheme();
});

drawTheme();
window.addEventListener("hashchange", route);
start();
route();
