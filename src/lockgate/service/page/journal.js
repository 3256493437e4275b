// The journal's state, and this browser as a small witness of its own: it remembers the last head it saw and has the
// service prove that the journal has only grown since.

import { ask } from "./api.js";
import { readCheckpoint, signedBy, isContinuation } from "./proof.js";
import { empty, guided, h, line, shown } from "./show.js";

const SEEN = "lockgate-journal-heads";

export async function journalView(view, { signal, onEvent }) {
  await refresh();
  onEvent((kind) => kind === "journal" && refresh().catch(() => {}));

  async function refresh() {
    const said = await ask("/v1/journal", { signal });
    if (said.state === "off") {
      view.replaceChildren(h("div.title", {}, h("h1", {}, "Journal")), empty("No journal is kept", h("p", {}, "With one, every ruling leaves a record that cannot be changed unseen. It is on unless the configuration says otherwise: ", h("code", {}, "security.audit.enabled"), ".")));
      return;
    }
    const sound = said.state === "sound";
    const checks = h("ol.steps", {}, h("li.open", {}, "Checking in this browser…"));
    view.replaceChildren(
      h("div.title", {}, h("h1", {}, "Journal"), h(`p.verdict.${sound ? "good" : "bad"}`, {}, sound ? "Sound, says the service." : [`The journal is ${said.state}: `, line(said.said, 400)])),
      h(
        "div.columns",
        {},
        h("div.wide", {}, h("section", {}, h("h2", {}, "Checked in this browser"), h("div", { role: "status" }, checks)), h("section", {}, h("h2", {}, "Signed head"), h("pre.told", {}, shown(said.checkpoint ?? "none yet")), h("p.quiet", {}, "A signed note as C2SP writes it: journal, size, root. A party that keeps a copy can tell if the past was changed."))),
        h("div.narrow", {}, h("section", {}, h("h2", {}, "State"), h("dl.facts", {}, fact("Journal", line(said.origin, 200)), fact("Records", Number(said.size ?? 0).toLocaleString()), fact("Root", h("code.hash", {}, line(said.root ?? "–", 80))), fact("Key", h("code.hash", {}, line(said.key ?? "–", 200))))), h("section", {}, h("h2", {}, "Witnesses"), witnesses(said.witnesses))),
      ),
    );
    const steps = await check(said, signal);
    checks.replaceChildren(...steps.map(([ok, what]) => h(`li.${ok === true ? "good" : ok === false ? "bad" : "open"}`, {}, h("span.unseen", {}, ok === true ? "holds: " : ok === false ? "fails: " : "open: "), what)));
  }
  return {};
}

function fact(name, value) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value));
}

function witnesses(list) {
  if (!list?.length) return h("p.quiet", {}, "None: no party outside this machine would notice a journal that was rewritten as a whole. ", guided("`lockgate help witness` says how to get one."));
  return h("ul", {}, list.map((each) => h("li", {}, line(each, 120))));
}

function kept() {
  try {
    return JSON.parse(localStorage.getItem(SEEN)) ?? {};
  } catch {
    return {};
  }
}

// [ok, words] for each thing; never throws.
async function check(said, signal) {
  const steps = [];
  try {
    if (!globalThis.crypto?.subtle) return [[false, "this browser computes hashes only on https or on this machine's own address"]];
    if (!said.checkpoint) return [[null, "no head has been signed yet"]];
    const head = readCheckpoint(said.checkpoint);
    const signed = await signedBy(head, said.key);
    steps.push([signed === "yes" ? true : signed === "no" ? false : null, signed === "yes" || signed === "no" ? "the head carries the signature of the journal's key" : signed]);
    const heads = kept();
    const before = heads[head.origin];
    let now = head;
    const count = (size) => Number(size).toLocaleString();
    if (!before) steps.push([null, Object.keys(heads).length ? "this journal is not one that this browser has seen before: if you made no new one, ask why" : "this browser sees this journal for the first time, and will know its head from now on"]);
    else if (BigInt(before.size) > BigInt(head.size)) return [...steps, [false, `the journal has shrunk: ${count(before.size)} records were seen here, ${count(head.size)} are left`]];
    else if (before.size === head.size) {
      if (before.root !== head.root) return [...steps, [false, "a head of this size had another root when this browser saw it last"]];
      steps.push([true, "the head is the one this browser saw last"]);
    } else {
      // The service may have signed a newer head meanwhile: the proof is to that one.
      const given = await ask(`/v1/journal/consistency?from=${before.size}`, { signal });
      now = readCheckpoint(given.checkpoint);
      const same = now.origin === head.origin && (await signedBy(now, said.key)) !== "no";
      if (!same || !(await isContinuation(before, now, given.proof))) return [...steps, [false, "the journal this browser saw is not the beginning of this one"]];
      steps.push([true, `the first ${count(before.size)} records are those this browser saw last time; ${count(BigInt(now.size) - BigInt(before.size))} were added since`]);
    }
    if (signed !== "no") localStorage.setItem(SEEN, JSON.stringify({ ...heads, [head.origin]: { size: now.size, root: now.root } }));
  } catch (error) {
    steps.push([false, `the check could not be made: ${error.message}`]);
  }
  return steps;
}

