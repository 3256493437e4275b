// Rules that a person makes with a yes: the choice, and the list.

import { ask } from "./api.js";
import { canonical, hashOf } from "./proof.js";
import { h, part, passage, plural, when } from "./show.js";

const REACH = { once: "once", session: "in this session", project: "in this project", always: "always" };

// A rule, drawn from the very fields that its digest goes over.
function ruleList(rule) {
  const where = { session: `only session ${rule.session}`, project: `every session in ${rule.project}`, always: "every project" }[rule.span];
  const names = rule.names.join(", ") || "none";
  const rows = [
    ["Tool", rule.tool],
    ["Like", rule.like],
    ["Would do", rule.effects.map(([kind, target]) => (target ? `${kind} ${target}` : kind)).join("; ") || "unknown"],
    ["With", rule.arguments ? `exactly the same ${names}: ${rule.arguments}` : `values of ${names} that fit the other lines; no other names`],
    ...(rule.files ? [["Runs", rule.files.map((pair) => pair.join(" ")).join("; ")]] : []),
    ["After", rule.sources.length ? `text of ${rule.sources.join(", ")}` : "no untrusted text"],
    ["Despite", rule.rules.join(", ") || "no finding"],
    ["In", where],
    ["Under", `policy ${rule.policy_hash}`],
  ];
  const list = rows.map(([label, text]) => h("div", {}, h("dt", {}, label), h("dd", {}, passage(text, { flat: true, most: Infinity }))));
  return h("dl.grant-rule", {}, list, h("div", {}, h("dt", {}, "Until"), h("dd", {}, when(rule.expires_s, { day: true }))));
}

// Worked out from what is drawn, as for a call.
async function isGenuine(offer, call) {
  if (!globalThis.crypto?.subtle) return true;
  return offer.digest === `sha256:${await hashOf(canonical(["lockgate grant/1", call, canonical(offer.rule)]))}`;
}

// How far a yes reaches, the narrowest first. `onChoice` hears of another one: {reach, digest, pieces}.
export function reachChoice(given, onChoice, onForged) {
  const rule = h("div.rule-box");
  const offers = given.offers ?? [];
  const option = (reach, offer) => {
    const button = h("input", { type: "radio", name: `reach-${given.id}`, value: reach, checked: !offer, change: () => choose(reach, offer) });
    return h("label", {}, button, REACH[reach]);
  };
  const none = given.barred ? h("p.quiet", {}, "No rule can be made: ", passage(given.barred, { flat: true })) : null;
  const box = h("fieldset.reach", {}, h("legend", {}, "How far a yes reaches"), option("once"), offers.map((offer) => option(offer.rule.span, offer)), offers.length ? null : none, rule);
  for (const offer of offers) isGenuine(offer, given.digest).then((is) => is || onForged());

  function choose(reach, offer) {
    rule.replaceChildren(...(offer ? [h("p", {}, "Later calls run unasked if all of it fits:"), ruleList(offer.rule)] : []));
    onChoice({ reach, digest: offer?.digest ?? given.digest, pieces: [...rule.querySelectorAll(".passage")] });
  }
  return box;
}

// The rules that hold; one press ends one.
export async function grantsList({ signal, tell }) {
  const { grants } = await ask("/v1/grants", { signal });
  const box = h("section.grants", {}, h("h2", {}, "Grants"), h("p.quiet", {}, grants.length ? "Calls that these rules cover run without a question." : "None: every held call waits."));
  for (const grant of grants) {
    const outcome = h("p", { role: "status" });
    const revoke = h("button.deny", { type: "button", click: end }, "Revoke");
    const outdated = grant.outdated ? h("p.quiet", {}, "Outdated: the policy has changed since, so this covers only sessions that run under the old one.") : null;
    const row = h("article.approval.ended.grant", { "data-grant": grant.id }, ruleList(grant.rule), outdated, h("p.quiet", {}, "made by ", passage(grant.made_by, { flat: true }), " at ", when(grant.made_at), grant.uses ? `, used ${plural(grant.uses, "time")}, last ` : ", never used", grant.uses ? when(grant.used_at) : null), h("div.buttons", {}, h("code.hash", {}, grant.id), revoke), outcome);
    box.append(row);

    async function end() {
      revoke.disabled = true;
      try {
        await ask(`/v1/grants/${part(grant.id)}/revoke`, { body: {} });
        outcome.textContent = "Revoked: such calls wait again.";
      } catch (error) {
        outcome.textContent = `Not revoked: ${error.message}`;
        revoke.disabled = error.status === 404;
      }
      tell(outcome.textContent);
    }
  }
  return box;
}
