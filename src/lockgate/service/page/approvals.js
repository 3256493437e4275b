// The calls that wait for a person. A yes is bound to the digest of what is shown, and takes two presses;
// a no takes one.

import { ask } from "./api.js";
import { grantsList, reachChoice } from "./grants.js";
import { canonical, hashOf } from "./proof.js";
import { unseen } from "./seen.js";
import { empty, guided, h, line, lookalikes, part, passage, plural, shell, telling, tree, when } from "./show.js";

// The second button cannot be pressed before this: a double click is no second thought.
const SETTLE_MS = 700;
const MOST_VALUE = 6000;
const FORGED = "What is on this screen does not have the digest the service gave for it. Do not answer here; look with lockgate approvals show.";
const ONCE = "Lets exactly this call run, once, in this session:";

// A notification of the browser, where the person has allowed them: how many wait, and nothing of what.
export function remind(number) {
  if (globalThis.Notification?.permission !== "granted" || localStorage.getItem("lockgate-remind") !== "on") return;
  new Notification("Lockgate", { body: `${plural(number, "call")} waiting for you`, tag: "lockgate" }).addEventListener("click", () => {
    window.focus();
    location.hash = "#/approvals";
  });
}

function remindButton() {
  if (!globalThis.Notification) return null;
  const words = () => (localStorage.getItem("lockgate-remind") === "on" && Notification.permission === "granted" ? "Stop notifying me" : "Notify me in this browser");
  const button = h("button.quiet", { type: "button", click: async () => {
    const on = localStorage.getItem("lockgate-remind") === "on" && Notification.permission === "granted";
    localStorage.setItem("lockgate-remind", !on && (await Notification.requestPermission()) === "granted" ? "on" : "off");
    button.textContent = words();
  } }, words());
  return button;
}

// The one call of a notification's link, without a token: shown first, answered by a ticket that came with it.
export async function linkView(view, link, { signal, tell }) {
  try {
    const { approval, ticket } = await ask("/links/show", { body: { link }, signal });
    const send = ({ answer, digest, reason }) => ask("/links/answer", { body: { ticket, answer, digest, reason } });
    view.replaceChildren(h("div.title", {}, h("h1", {}, "A call waits for you")), h("div.approvals", {}, answerBox({ ...approval, offers: [] }, { signal, tell, send })));
  } catch (error) {
    view.replaceChildren(h("div.title", {}, h("h1", {}, "This link cannot be used"), h("p.quiet", {}, `${error.message}.`)));
  }
}

export async function approvalsView(view, { signal, tell, onEvent }) {
  const list = h("div.approvals");
  const rules = h("div.approvals");
  const ended = h("div.approvals");
  const boxes = new Map();
  let last = null;
  view.replaceChildren(h("div.title", {}, h("h1", {}, "Waiting for you"), h("p.quiet", {}, "A yes lets exactly the call you see run, once, or makes the rule you see. A no stands for the rest of the session. Unanswered is no."), remindButton()), list, rules, ended);
  await refresh();
  onEvent((kind) => {
    if (kind === "approval") refresh().catch((error) => signal.aborted || tell(error.message));
  });

  async function refresh() {
    const said = await ask("/v1/approvals?state=waiting", { signal });
    const now = new Map(said.approvals.map((each) => [each.id, each]));
    // What is on the screen stays where it is: nothing may slide under a pointer that is about to press.
    for (const [id, box] of boxes) box.update(now.get(id));
    const fresh = [...now.values()].filter((each) => !boxes.has(each.id)).sort((a, b) => a.asked_at - b.asked_at);
    for (const [key, calls] of Map.groupBy(fresh, (each) => causeOf(each).join(" "))) {
      // What comes later goes to the end, also when an earlier group has the same cause.
      if (last?.key !== key) {
        last = groupBox(key, causeOf(calls[0]));
        list.append(last.box);
      }
      for (const each of calls) {
        const box = answerBox(each, { signal, tell });
        boxes.set(each.id, box);
        last.box.append(box);
      }
    }
    for (const group of list.querySelectorAll(".held-group")) group.count();
    if (!boxes.size) list.replaceChildren(none());
    else list.querySelector(".empty")?.remove();
    rules.replaceChildren(await grantsList({ signal, tell }));
    ended.replaceChildren(history((await ask("/v1/approvals?state=ended&limit=50", { signal })).approvals));
  }

  function none() {
    return empty("Nothing is waiting", h("p", {}, "When a call pauses, it appears here with where its values came from, and stays until a person answers or it expires. On a terminal the same list is"), shell("lockgate approvals list"));
  }
  return {};
}

// What made a call wait: the text that its values came from, else the rule that hit, else the reason.
const KINDS = { file: "file", web: "page", tool: "tool result", mcp: "server", user: "message", agent: "note of the agent" };
function causeOf(each) {
  const shown = each.shown ?? {};
  const source = (shown.passages ?? []).find(({ origin }) => !origin.known)?.origin.source;
  if (source) return [`same ${KINDS[source.split(":")[0]] ?? "source"}`, source];
  const rule = shown.findings?.[0]?.rule;
  return rule ? ["same rule", rule] : ["same reason", String(shown.reason ?? "not said")];
}

// Calls with one cause, under one line that says so.
function groupBox(key, [kind, name]) {
  const words = h("span");
  const box = h("section.held-group", {}, h("h2", {}, words, " ", line(name, 160)));
  box.count = () => {
    const left = box.querySelectorAll(".approval:not(.ended)").length;
    words.textContent = left > 1 ? `${plural(left, "call")}, ${kind}:` : left ? `1 call, ${kind.replace("same ", "")}:` : "None left:";
  };
  return { key, box };
}

// What has ended, the newest first, with how and by whom.
function history(approvals) {
  if (!approvals.length) return h("span");
  return h(
    "section.history",
    {},
    h("h2", {}, "Ended"),
    h("ul", {}, approvals.sort((a, b) => b.ended_at - a.ended_at).map((each) => h("li", { "data-ended": each.id }, h("b", {}, each.state), " ", when(each.ended_at), " ", line(each.would_do, 200), endedWords(each)))),
  );
}

function endedWords({ answered, why, replaces, id }) {
  return h("p.quiet", {}, `${id}. `, answered ? [answered.yes ? "Approved by " : "Denied by ", line(answered.who, 60), answered.reason ? [": ", line(answered.reason, 200)] : "", ". "] : "", why ? ["Void: ", line(why, 300), ". "] : "", replaces ? `Asked instead of ${replaces}.` : "");
}

function texts(value) {
  if (typeof value === "string") return [value];
  if (Array.isArray(value)) return value.flatMap(texts);
  if (typeof value === "object" && value !== null) return Object.entries(value).flatMap(([name, item]) => [name, ...texts(item)]);
  return [];
}

// The digest worked out from what is drawn: the service's own word for it is not needed, and must agree.
async function digestOf(each) {
  // Without https the browser will not hash; the service compares the digest again in any case.
  if (!globalThis.crypto?.subtle) return each.digest;
  return `sha256:${await hashOf(canonical(["lockgate approval/1", each.session, each.tool, canonical(each.arguments), each.policy, each.context, ...(each.files ?? []).flat()]))}`;
}

// `brief` leaves out what the decision around it shows already.
export function answerBox(given, { signal, tell, brief = false, send = (body) => ask(`/v1/approvals/${part(given.id)}`, { body }) }) {
  const box = h("article.approval", { "aria-label": "call that waits", tabindex: "-1", "data-row": true, "data-approval": given.id });
  const { digest } = given;
  let chosen = { reach: "once", digest, pieces: [] };
  let done = false;
  let pieces = [];
  const clock = h("span.countdown", { role: "timer" });
  const outcome = h("div.outcome", { role: "status" });
  const reason = h("input", { name: "reason", placeholder: "why, for the record", maxlength: "1000", autocomplete: "off", "aria-label": "Reason, for the record" });
  const deny = h("button.deny", { type: "button", click: () => answer("deny") }, "Deny");
  const arm = h("button.arm", { type: "button", click: () => armed(true) }, "Approve…");
  const sure = h("button.approve", { type: "button", disabled: true, click: () => answer("approve") }, "Approve this call, once");
  const shownDigest = h("code.hash", {}, digest);
  const reach = reachChoice(given, choose, () => stop(FORGED));
  const confirm = h("div.confirm", { hidden: true }, reach, h("p", {}, ONCE), shownDigest, h("div.buttons", {}, h("button", { type: "button", click: () => armed(false) }, "Back"), sure));
  const first = h("div.buttons.first", {}, deny, reason, arm);
  let settle = 0;

  draw();
  const ticking = setInterval(tick, 1000);
  // Called when the box is put on the page as well, which is when there is something to measure.
  const sized = new ResizeObserver(() => gate());
  sized.observe(box);
  signal.addEventListener("abort", () => {
    clearInterval(ticking);
    sized.disconnect();
  });
  tick();
  digestOf(given).then((own) => {
    if (own !== given.digest) stop(FORGED);
  });

  // Neither a call nor a rule that has just appeared can be answered at once.
  function settled() {
    clearTimeout(settle);
    sure.disabled = true;
    settle = setTimeout(() => {
      sure.disabled = done;
    }, SETTLE_MS);
  }

  function choose(choice) {
    chosen = choice;
    shownDigest.textContent = choice.digest;
    confirm.querySelector(":scope > p").textContent = choice.reach === "once" ? ONCE : "Lets this call run, and makes the rule above:";
    sure.textContent = choice.reach === "once" ? "Approve this call, once" : "Approve and make the rule";
    settled();
  }

  function armed(yes) {
    clearTimeout(settle);
    if (yes && !gate()) return;
    sure.disabled = true;
    confirm.hidden = !yes;
    first.hidden = yes;
    if (yes) {
      settled();
      confirm.querySelector("button").focus();
    } else arm.focus();
  }

  function tick() {
    const left = Math.floor(given.expires_at - Date.now() / 1000);
    if (done) return;
    clock.replaceChildren(left > 0 ? `${left >= 7200 ? `${Math.floor(left / 3600)} h ` : left >= 60 ? `${Math.floor(left / 60)} min ` : ""}${left >= 7200 ? `${Math.floor((left % 3600) / 60)} min` : `${left % 60} s`} left` : "expired");
    clock.classList.toggle("soon", left < 30);
    if (left <= 0) stop("Expired, which counts as a no. If the agent asks again, a new question appears.");
  }

  function stop(words) {
    done = true;
    clearInterval(ticking);
    clearTimeout(settle);
    confirm.hidden = true;
    first.hidden = true;
    box.classList.add("ended");
    outcome.replaceChildren(h("p", {}, guided(words)));
  }

  async function answer(word) {
    const yes = word === "approve";
    if (done || (yes && (sure.disabled || !gate()))) return;
    if (yes && unseen(chosen.pieces).length) return outcome.replaceChildren(h("p.bad", {}, "Not answered: the rule cannot be seen whole in this window."));
    for (const each of [deny, arm, sure]) each.disabled = true;
    try {
      const said = await send({ answer: word, digest: yes ? chosen.digest : digest, reason: reason.value, ...(yes ? { for: chosen.reach } : {}) });
      if (yes && said.state === "waiting") return stop("Your yes is the first of two: another person has to approve it too.");
      const counted = said.state === (word === "approve" ? "granted" : "denied");
      stop(counted ? (word === "approve" ? chosen.reach === "once" ? "Approved: this call may run once. The agent has to ask again." : "Approved, and the rule is made: such calls run without a question." : "Denied: this call will not run in this session.") : `The answer did not count: it is ${said.state}.`);
      box.classList.add(counted ? word : "late");
      tell(outcome.textContent);
    } catch (error) {
      if (error.status === 409 || error.status === 404 || error.status === 410) stop(`The answer did not count: ${error.message}. ${error.hint ?? ""}`);
      else {
        outcome.replaceChildren(h("p.bad", {}, guided(`Not answered: ${error.message}. ${error.hint ?? ""}`)));
        for (const each of [deny, arm]) each.disabled = false;
        armed(false);
      }
      tell(outcome.textContent);
    }
  }

  function draw() {
    const shown = given.shown ?? {};
    const drawn = (path, text, room) => passage(text, { most: MOST_VALUE, flat: path === null, room, onMore: look });
    const args = tree(given.arguments, "", drawn, look);
    const sources = telling((shown.passages ?? []).map((each) => each.origin));
    const passages = (shown.passages ?? []).filter((each) => sources.includes(each.origin));
    const beware = lookalikes([given.tool, ...texts(given.arguments)]);
    box.replaceChildren(...[
      h("header", {}, h("h2", {}, drawn(null, given.tool)), clock),
      given.would_do ? h("p.would", {}, line(given.would_do, 600)) : null,
      h("div.call-box", {}, args),
      given.files?.length ? h("p.would", {}, "Runs ", given.files.map(([path, content], at) => [at ? "; " : "", line(path, 400), " ", h("code.hash", {}, line(content.startsWith("sha256:") ? content.slice(0, 19) : content, 80))])) : null,
      ...beware.map(([word, codes]) => h("p.beware", {}, "Look closely: ", line(word, 80), ` holds letters that only look Latin (${codes})`)),
      !brief && passages.length ? h("div.passages", {}, h("h3", {}, "From outside"), passages.slice(0, 8).map(outside), passages.length > 8 ? h("p.quiet", {}, `and ${passages.length - 8} more in the decision`) : null) : null,
      shown.people > 1 ? h("p.beware", {}, "Two different persons have to approve this. ", given.answered ? ["The first was ", line(given.answered.who, 60), "."] : "A no of either ends it.") : null,
      given.replaces ? h("p.quiet", {}, `Asked again, instead of ${given.replaces}, which has ended.`) : null,
      shown.left_out ? h("p.quiet", {}, `and ${shown.left_out.toLocaleString()} more findings and origins; the decision has them all`) : null,
      brief ? null : h("div.because", {}, h("h3", {}, "Why it was held"), h("p", {}, line(shown.explanation || shown.reason || "not said", 4000)), shown.tiers?.length ? h("p.quiet", {}, shown.tiers.map((each) => [`tier ${each.tier}, `, line(each.by, 60), ": ", line(each.said, 40), "; "])) : null, shown.findings?.length ? h("p", {}, [...new Set(shown.findings.map((each) => each.rule))].map((rule) => h("span.rule", {}, line(rule, 80)))) : null),
      h("dl.facts", {}, brief ? null : h("div", {}, h("dt", {}, "Session"), h("dd", {}, h("a", { href: `#/session/${part(given.session)}` }, line(given.session, 60)))), shown.goal && !brief ? h("div", {}, h("dt", {}, "Goal"), h("dd", {}, line(shown.goal, 400))) : null, h("div", {}, h("dt", {}, "Asked"), h("dd", {}, when(given.asked_at))), h("div", {}, h("dt", {}, "Digest"), h("dd", {}, h("code.hash", {}, given.digest)))),
      confirm,
      first,
      outcome,
    ].filter(Boolean));
    look();
  }

  function look() {
    pieces = [...box.querySelectorAll("header .passage, .call-box dt, .call-box .passage, .call-box .value, .call-box button.more")];
    gate();
  }

  // What was not on the screen cannot be approved: not what was cut, and not what is drawn out of sight.
  function gate() {
    const cut = pieces.filter((each) => each.dataset.cut).length;
    const lost = cut || !box.isConnected ? 0 : unseen(pieces).length;
    const open = !cut && !lost && box.isConnected;
    arm.disabled = !open;
    arm.title = cut ? `${plural(cut, "piece")} not shown whole: show first, then approve` : lost ? `${plural(lost, "piece")} of this call cannot be seen in this window; lockgate approvals show has all of it` : "";
    arm.replaceChildren(cut ? "Show all of it to approve" : lost ? "Cannot be seen whole here" : "Approve…");
    if (!open && !confirm.hidden) armed(false);
    return open;
  }

  box.update = (now) => {
    if (done) return;
    if (!now) {
      stop("No longer waiting.");
      ask(`/v1/approvals/${part(given.id)}`, { signal }).then((each) => done && outcome.replaceChildren(h("p", {}, `No longer waiting: ${each.state}.`), endedWords(each))).catch(() => {});
    }
    else if (now.digest !== digest || canonical(now.arguments) !== canonical(given.arguments)) {
      stop("Changed since you looked: the buttons are gone because they were about something else.");
      outcome.append(h("button", { type: "button", click: () => box.replaceWith(answerBox(now, { signal, tell, brief })) }, "Show what it is now"));
      tell("a call that waits has changed");
    }
  };
  return box;
}

function outside({ origin, before, text, after }) {
  return h(
    "figure.outside",
    {},
    h("figcaption", {}, h("b.mono", {}, line(origin.argument, 80)), origin.sink ? h("span.rule", {}, origin.sink) : null, " from ", line(origin.source, 120), h("span.quiet", {}, origin.known ? " also in the goal" : " not in the goal")),
    h("blockquote", {}, line(before, 400), h(`mark.origin${origin.known ? ".known" : ""}`, {}, line(text, 500)), line(after, 400)),
  );
}
