// All requests to the service. The token is in a header only, never in a cookie or address, and is kept for one tab.
// Every tab has the reading key, which is taken where nothing changes.

const KEPT = "lockgate-token";
const READS = "lockgate-reading-key";
// A stream that is silent for this long is dead: the service sends heartbeats.
const SILENT_MS = 60_000;

export class Refused extends Error {
  constructor(status, { code = "", message = "the service did not answer", hint = "" } = {}) {
    super(message);
    Object.assign(this, { status, code, hint });
  }
}

// The address may hold a code that is exchanged for the token once: browsers keep every address, so what it holds must be
// worthless afterwards. "none", "taken" or "refused".
export async function takeCode() {
  const found = /^#(code|token)=([^&]*)/.exec(location.hash);
  if (!found) return "none";
  history.replaceState(null, "", `${location.pathname}#/decisions`);
  if (found[1] === "token") return "refused";
  try {
    const reply = await fetch("/v1/exchange", { method: "POST", body: JSON.stringify({ code: decodeURIComponent(found[2]) }), headers: { "content-type": "application/json" }, credentials: "omit", cache: "no-store", redirect: "error", referrerPolicy: "no-referrer", signal: AbortSignal.timeout(20_000) });
    const { token } = await reply.json();
    if (!reply.ok || typeof token !== "string" || !token) return "refused";
    keepToken(token);
    return "taken";
  } catch {
    return "refused";
  }
}

export function keepToken(text) {
  sessionStorage.setItem(KEPT, text.trim());
}

export function hasToken() {
  return Boolean(sessionStorage.getItem(KEPT));
}

export function mayRead() {
  return hasToken() || Boolean(localStorage.getItem(READS));
}

export function forgetAll() {
  sessionStorage.removeItem(KEPT);
  localStorage.removeItem(READS);
}

// Raises for a wrong token. An older service has no such keys.
export async function keepReadingKey() {
  const reply = await request("/v1/reading-key", { method: "POST", body: "{}", signal: AbortSignal.timeout(20_000) });
  if (reply.status === 401 || reply.status === 403) throw new Refused(reply.status, { message: "that token is not right" });
  if (!reply.ok) return;
  const { key } = await reply.json();
  const before = localStorage.getItem(READS);
  localStorage.setItem(READS, key);
  if (before && before !== key) await endReadingKey(before).catch(() => {});
}

// Revokes the key, also in copies. Raises where the service cannot be told.
export async function endReadingKey(key = localStorage.getItem(READS)) {
  if (key) await ask("/v1/reading-key/end", { body: { key } });
}

function request(path, more = {}) {
  // A header holds no odd characters: a token pasted with some is a wrong token, not a broken page.
  const token = (sessionStorage.getItem(KEPT) ?? localStorage.getItem(READS) ?? "").replace(/[^\x21-\x7e]/g, "");
  const headers = { authorization: `Bearer ${token}`, ...(more.body === undefined ? {} : { "content-type": "application/json" }) };
  return fetch(path, { ...more, headers, credentials: "omit", cache: "no-store", redirect: "error", referrerPolicy: "no-referrer" });
}

// A number as its author wrote it: JavaScript would change 12345678901234567890 and 1.0.
export class Exact {
  constructor(source, rounded = false) {
    Object.assign(this, { source, rounded });
  }
}

function exact(key, value, context) {
  if (typeof value !== "number") return value;
  if (context?.source !== undefined) return context.source === String(value) ? value : new Exact(context.source);
  return Number.isSafeInteger(value) ? value : new Exact(String(value), true);
}

// Arguments will run, so they are read to the last digit.
function graft(plain, twin) {
  if (typeof plain !== "object" || plain === null) return;
  for (const key of Object.keys(plain)) {
    if (key === "arguments" && typeof plain[key] === "object") plain[key] = twin[key];
    else graft(plain[key], twin[key]);
  }
}

function* argumentsIn(value) {
  if (typeof value !== "object" || value === null) return;
  for (const key of Object.keys(value)) {
    if (key === "arguments") yield value[key];
    else yield* argumentsIn(value[key]);
  }
}

// Whether all arguments, written again, are as they came: then each number was read as written. Reading a megabyte number
// by number takes half a second. No JSON string holds the name with its quotes.
function isAsWritten(said, text) {
  const [, ...written] = text.split('"arguments":');
  const values = [...argumentsIn(said)];
  return values.length === written.length && values.every((value, at) => written[at].startsWith(JSON.stringify(value)));
}

export async function ask(path, { body, signal } = {}) {
  if (body !== undefined && path.startsWith("/v1") && !hasToken()) {
    window.dispatchEvent(new CustomEvent("unlock"));
    throw new Refused(0, { code: "reading-only", message: "this tab only reads", hint: "Unlock it, then press again." });
  }
  let reply;
  let text;
  try {
    const limit = AbortSignal.timeout(20_000);
    reply = await request(path, {
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
      ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
    });
    text = await reply.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refused(0, { message: "the service cannot be reached", hint: "is `lockgate serve` running?" });
  }
  let said;
  try {
    said = JSON.parse(text);
    if (!isAsWritten(said, text)) graft(said, JSON.parse(text, exact));
  } catch {
    throw new Refused(reply.status, { message: "the service answered something that is not JSON" });
  }
  if (!reply.ok) {
    if ((reply.status === 401 || reply.status === 403) && path.startsWith("/v1")) window.dispatchEvent(new CustomEvent("locked", { detail: said?.error }));
    throw new Refused(reply.status, said?.error);
  }
  return said;
}

// The stream of events, read by hand because the browser's own reader sends no header; resumes where it broke off.
export async function listen(after, { onEvent, onState, signal }) {
  let wait = 500;
  let last = after;
  while (!signal.aborted) {
    const silent = new AbortController();
    let timer = setTimeout(() => silent.abort(), SILENT_MS);
    try {
      const reply = await request(`/v1/events?after=${last}`, { signal: AbortSignal.any([signal, silent.signal]) });
      if (reply.status === 401 || reply.status === 403) {
        window.dispatchEvent(new CustomEvent("locked"));
        onState("locked");
        return;
      }
      if (!reply.ok || !reply.body) throw new Error("no stream");
      onState("live");
      wait = 500;
      const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
      let held = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        clearTimeout(timer);
        timer = setTimeout(() => silent.abort(), SILENT_MS);
        held += value.replaceAll("\r\n", "\n");
        for (let end = held.indexOf("\n\n"); end >= 0; end = held.indexOf("\n\n")) {
          const event = { kind: "message", data: "", id: "" };
          for (const field of held.slice(0, end).split("\n")) {
            if (field.startsWith("event:")) event.kind = field.slice(6).trim();
            else if (field.startsWith("id:")) event.id = field.slice(3).trim();
            else if (field.startsWith("data:")) event.data += field.slice(5).trim();
          }
          held = held.slice(end + 2);
          if (/^\d+$/.test(event.id)) last = Math.max(last, Number(event.id));
          if (event.data) {
            let said = null;
            try {
              said = JSON.parse(event.data);
            } catch {
              /* an event that cannot be read still says that something happened */
            }
            onEvent(event.kind, said);
          }
        }
      }
    } catch {
      if (signal.aborted) return;
    } finally {
      clearTimeout(timer);
    }
    onState("lost");
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(wait * 2, 10_000);
  }
}
