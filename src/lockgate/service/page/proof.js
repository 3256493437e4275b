// Whether a ruling is in the journal, worked out here and not believed: the tree of RFC 6962 with the browser's own
// SHA-256, the head's signature with its own Ed25519.
//
// 1. The record is of the decision on screen: session, tool, action, tier, reason, rules, where values came from; and of
//    its arguments, hashed here. Explanations and the texts that were read are not in it.
// 2. Its leaf hash is the one on the receipt.
// 3. The proof leads from that leaf to a root.
// 4. The head that is signed names the same root, for a tree of the same size, of the same journal.
// 5. The signature under the head is the journal's key's.
// 6. The key is the one this browser has seen before.

import { Exact } from "./api.js";

const encoder = new TextEncoder();
const KEYS = "lockgate-journal-keys";

export function hex(bytes) {
  return [...bytes].map((each) => each.toString(16).padStart(2, "0")).join("");
}

function bytes(text) {
  if (!/^([0-9a-f]{2})*$/.test(text)) throw new Error("not hexadecimal");
  return Uint8Array.from(text.match(/../g) ?? [], (each) => parseInt(each, 16));
}

function fromBase64(text) {
  return Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
}

async function sha256(...parts) {
  const whole = new Uint8Array(parts.reduce((sum, each) => sum + each.length, 0));
  let at = 0;
  for (const each of parts) {
    whole.set(each, at);
    at += each.length;
  }
  return new Uint8Array(await crypto.subtle.digest("SHA-256", whole));
}

export async function leafHash(record) {
  return sha256(Uint8Array.of(0), encoder.encode(record));
}

function node(left, right) {
  return sha256(Uint8Array.of(1), left, right);
}

export async function hashOf(text) {
  return hex(await sha256(encoder.encode(text)));
}

// The one JSON text of some arguments, as the service hashes them: ASCII, names sorted by character, numbers as written.
export function canonical(value) {
  if (value instanceof Exact) return value.source;
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    const names = Object.keys(value).sort(byCharacter);
    return `{${names.map((name) => `${quoted(name)}:${canonical(value[name])}`).join(",")}}`;
  }
  return typeof value === "string" ? quoted(value) : JSON.stringify(value);
}

function quoted(text) {
  return JSON.stringify(text).replace(/[\x7f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

// Python's order: a character beyond the first 65,536 comes after all others.
function byCharacter(a, b) {
  const [left, right] = [[...a], [...b]];
  for (let i = 0; i < Math.min(left.length, right.length); i += 1) {
    const apart = left[i].codePointAt(0) - right[i].codePointAt(0);
    if (apart) return apart;
  }
  return left.length - right.length;
}

// Each step up as {left, right, made}, and the root; throws for a proof of the wrong length.
export async function rootFromLeaf(leaf, index, size, proof) {
  const steps = [];
  // Whole numbers of any size: shifting an ordinary one would cut it to 32 bits.
  let [at, last, made] = [BigInt(index), BigInt(size) - 1n, leaf];
  if (at < 0n || at > last) throw new Error("the index is outside the tree");
  for (const each of proof) {
    if (last === 0n) throw new Error("the proof is longer than the tree is high");
    const beside = bytes(each);
    if (beside.length !== 32) throw new Error("a hash has 32 bytes");
    const onLeft = (at & 1n) === 1n || at === last;
    const [left, right] = onLeft ? [beside, made] : [made, beside];
    made = await node(left, right);
    steps.push({ left: hex(left), right: hex(right), made: hex(made), onLeft });
    if (onLeft) while ((at & 1n) === 0n && at !== 0n) [at, last] = [at >> 1n, last >> 1n];
    [at, last] = [at >> 1n, last >> 1n];
  }
  if (last !== 0n) throw new Error("the proof ends before the root");
  return { steps, root: hex(made) };
}

export function readCheckpoint(text) {
  const gap = text.lastIndexOf("\n\n");
  if (gap < 0) throw new Error("the head has no signatures");
  const body = text.slice(0, gap + 1);
  const [origin, size, root] = body.split("\n");
  if (!/^(0|[1-9][0-9]*)$/.test(size ?? "")) throw new Error("the head names no size");
  const signatures = text.slice(gap + 2).split("\n").filter(Boolean).map((each) => {
    const found = /^\u2014 (\S+) (\S+)$/.exec(each);
    if (!found) throw new Error("a line under the head is no signature");
    const data = fromBase64(found[2]);
    return { name: found[1], id: hex(data.slice(0, 4)), data: data.slice(4) };
  });
  return { body, origin, size, root: hex(fromBase64(root)), signatures };
}

// "yes", "no", or why it cannot be said here.
export async function signedBy(checkpoint, vkey) {
  const [name, id, ...rest] = vkey.split("+");
  const key = fromBase64(rest.join("+"));
  const told = hex(await sha256(encoder.encode(`${name}\n`), key)).slice(0, 8);
  if (key[0] !== 1 || key.length !== 33 || told !== id) return "no";
  const line = checkpoint.signatures.find((each) => each.name === name && each.id === id);
  if (!line) return "no";
  let imported;
  try {
    imported = await crypto.subtle.importKey("raw", key.slice(1), "Ed25519", false, ["verify"]);
  } catch {
    return "this browser has no Ed25519";
  }
  return (await crypto.subtle.verify("Ed25519", imported, line.data, encoder.encode(checkpoint.body))) ? "yes" : "no";
}

// Only a proof that holds teaches this browser a key.
function remembered(origin, key, holds) {
  let keys = {};
  try {
    keys = JSON.parse(localStorage.getItem(KEYS)) ?? {};
  } catch {
    /* nothing kept that can be read is nothing kept */
  }
  if (Object.hasOwn(keys, origin)) return keys[origin] === key ? "yes" : "no";
  if (holds) localStorage.setItem(KEYS, JSON.stringify({ ...keys, [origin]: key }));
  return Object.keys(keys).length ? "other" : "first";
}

// A name as the journal writes it: as itself where it is plain, and otherwise as a hash.
async function named(text) {
  return /^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$/.test(text) && !text.startsWith("sha256:") ? text : `sha256:${await hashOf(text)}`;
}

async function blockNamed(text) {
  return /^(goal|b[0-9]{1,9})$/.test(text) ? text : `sha256:${await hashOf(text)}`;
}

// What the record has to say for the decision on the screen to be the one that was recorded.
async function expected(decision) {
  const ruling = decision.decision;
  const said = Object.fromEntries(ruling.tiers.map((each) => [each.tier, each.said]));
  const labels = async (names, label) => [...new Set(await Promise.all(names.map(label)))].slice(0, 64);
  return {
    kind: "ruling",
    session: await named(decision.session),
    tool: await named(decision.tool),
    action: ruling.action,
    tier: ruling.tier,
    reason: ruling.reason,
    risk: ruling.risk,
    rules: await labels(ruling.findings.map((each) => each.rule), named),
    origins: await labels(ruling.origins.map((each) => each.block), blockNamed),
    ...Object.fromEntries([1, 2, 3].map((tier) => [`tier${tier}_result`, said[tier] ?? "not-run"])),
  };
}

// The arguments on the screen are hashed here, whatever the service says about them. That it may be honest all the same
// where they differ (it kept them in part; they have no single JSON form) is no proof: then nothing can be said.
async function argumentsStep(decision, proof, record, tell) {
  const own = await hashOf(canonical(decision.arguments));
  const told = [`SHA-256 of what is on the screen  ${own}`, `the record says                   ${record.args_sha256}`];
  if (own === record.args_sha256) tell(true, "the record is of the arguments on the screen", told);
  else if (decision.whole === false) tell(null, "the arguments cannot be compared: they were kept in part", told);
  else if (proof.arguments === "") tell(null, "the arguments cannot be compared here: the service says that they have no single JSON form", told);
  else tell(false, "the record is of the arguments on the screen", told);
}

// All steps for a decision as the service gave it and the proof as it gave that, and what follows from them:
// `{kind, verdict, steps: [{ok, what, told}]}`. `ok` is true, false, or null for what cannot be said here. Never throws:
// what goes wrong is a step that failed.
export async function verify(decision, proof) {
  const steps = await walked(decision, proof);
  const [bad, open] = [steps.some((each) => each.ok === false), steps.filter((each) => each.ok === null)];
  if (bad || steps.length < 7) return { kind: "bad", verdict: "Not proven.", steps };
  if (!open.length) return { kind: "good", verdict: "Proven: this ruling is in the journal, unchanged.", steps };
  if (open.every((each) => each.key)) return { kind: "open", verdict: "Proven against a key that is new to this browser.", steps };
  return { kind: "open", verdict: "In the journal, but not all of it can be checked here.", steps };
}

async function walked(decision, proof) {
  const steps = [];
  const tell = (ok, what, told = []) => {
    steps.push({ ok, what, told: [told].flat() });
    return ok;
  };
  try {
    if (!globalThis.crypto?.subtle) {
      tell(false, "this browser computes hashes only on https or on this machine's own address", "open the page as http://127.0.0.1 or through https");
      return steps;
    }
    const receipt = decision.decision.receipt;
    const record = JSON.parse(proof.record);
    const wanted = await expected(decision);
    const apart = Object.keys(wanted).filter((name) => JSON.stringify(record[name]) !== JSON.stringify(wanted[name]));
    tell(!apart.length, "the record is of this decision: session, tool, action, tiers, reason, rules, sources", apart.map((name) => `${name}: the record says ${JSON.stringify(record[name])}, the screen ${JSON.stringify(wanted[name])}`));
    await argumentsStep(decision, proof, record, tell);
    const leaf = await leafHash(proof.record);
    tell(hex(leaf) === receipt.leaf_hash, "its hash is the one on the receipt", [`SHA-256(00 ‖ record) = ${hex(leaf)}`, `the receipt says ${receipt.leaf_hash}`]);
    const { steps: hashes, root } = await rootFromLeaf(leaf, receipt.index, proof.size, proof.proof);
    tell(true, `${hashes.length} hashes lead from leaf ${receipt.index.toLocaleString()} to the root of ${proof.size.toLocaleString()}`, hashes.map((each, at) => `${at + 1}. SHA-256(01 ‖ ${each.left.slice(0, 12)}… ‖ ${each.right.slice(0, 12)}…) = ${each.made.slice(0, 12)}…  given: ${each.onLeft ? "left" : "right"}`));
    const head = readCheckpoint(proof.checkpoint);
    const same = head.root === root && head.size === String(proof.size) && head.origin === receipt.origin;
    tell(same, "the signed head names the same journal, size and root", [`worked out  ${root}`, `the head    ${head.root}`, `${head.origin}, ${head.size} records`]);
    const signed = await signedBy(head, proof.key);
    tell(signed === "yes" ? true : signed === "no" ? false : null, "the head carries the signature of the journal's key", [proof.key, ...(signed === "yes" || signed === "no" ? [] : [signed])]);
    const known = remembered(head.origin, proof.key, steps.every((each) => each.ok === true));
    const words = {
      yes: "the key is the one this browser has seen before",
      no: "the key is not the one this browser has seen before",
      first: "the key is new to this browser: compare it with `lockgate audit keys`",
      other: "this journal is not one that this browser has seen before: if you made no new one, ask why",
    };
    tell({ yes: true, no: false }[known] ?? null, words[known], known === "no" ? "a journal changes its key only by rotation: lockgate audit verify tells" : []);
    steps.at(-1).key = true;
  } catch (error) {
    tell(false, "the proof cannot be read", String(error?.message ?? error));
  }
  return steps;
}

// RFC 6962, 2.1.2: whether the tree of `before` is the beginning of the tree of `now`.
export async function isContinuation(before, now, proof) {
  let [first, second] = [BigInt(before.size), BigInt(now.size)];
  if (first === 0n) return proof.length === 0;
  const path = proof.map(bytes);
  // A whole subtree of the old tree is its own first hash, and is left out of the proof.
  if ((first & (first - 1n)) === 0n) path.unshift(bytes(before.root));
  if (!path.length || path.some((each) => each.length !== 32)) return false;
  [first, second] = [first - 1n, second - 1n];
  while (first & 1n) [first, second] = [first >> 1n, second >> 1n];
  let [old, whole] = [path[0], path[0]];
  for (const each of path.slice(1)) {
    if (second === 0n) return false;
    if (first & 1n || first === second) {
      old = await node(each, old);
      whole = await node(each, whole);
      while (!(first & 1n) && first !== 0n) [first, second] = [first >> 1n, second >> 1n];
    } else whole = await node(whole, each);
    [first, second] = [first >> 1n, second >> 1n];
  }
  return second === 0n && hex(old) === before.root && hex(whole) === now.root;
}
