// Other people's text, drawn so that it can only be looked at.
//
// Everything an agent, a page or a stranger wrote goes through `shown`, and from there into text nodes. What would be
// invisible, would move what stands beside it or would look like something it is not becomes a labelled chip: a
// person who answers must see what the tool will get.

import { Exact } from "./api.js";

const NAMES = {
  0x00: "NUL", 0x07: "BEL", 0x08: "BACKSPACE", 0x0a: "LINE END", 0x09: "TAB", 0x0d: "CARRIAGE RETURN", 0x1b: "ESC",
  0x7f: "DELETE", 0x85: "NEXT LINE", 0x9b: "CSI", 0xa0: "NO-BREAK SPACE", 0xad: "SOFT HYPHEN", 0x34f: "GRAPHEME JOINER",
  0x61c: "ARABIC LETTER MARK", 0x180e: "VOWEL SEPARATOR", 0x200b: "ZERO-WIDTH SPACE", 0x200c: "ZERO-WIDTH NON-JOINER",
  0x200d: "ZERO-WIDTH JOINER", 0x200e: "LEFT-TO-RIGHT MARK", 0x200f: "RIGHT-TO-LEFT MARK", 0x2028: "LINE SEPARATOR",
  0x2029: "PARAGRAPH SEPARATOR", 0x202a: "LEFT-TO-RIGHT EMBEDDING", 0x202b: "RIGHT-TO-LEFT EMBEDDING",
  0x202c: "POP DIRECTION", 0x202d: "LEFT-TO-RIGHT OVERRIDE", 0x202e: "RIGHT-TO-LEFT OVERRIDE", 0x2060: "WORD JOINER",
  0x2066: "LEFT-TO-RIGHT ISOLATE", 0x2067: "RIGHT-TO-LEFT ISOLATE", 0x2068: "FIRST STRONG ISOLATE",
  0x2069: "POP ISOLATE", 0x2800: "BRAILLE BLANK", 0x3164: "HANGUL FILLER", 0xfeff: "BYTE ORDER MARK",
  0xfffd: "REPLACEMENT", 0xe0001: "LANGUAGE TAG",
};
const BIDI = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u;
// Drawn as nothing although Unicode calls them letters, marks or symbols.
const BLANK = "\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u2800\\u3164\\uffa0\\ufe00-\\ufe0f\\u{e0100}-\\u{e01ef}";
const ODD = new RegExp(
  [
    "(?<ansi>(?:\\u001b\\[|\\u009b)[0-?]{0,32}[ -/]{0,8}[@-~]?|\\u001b\\][^\\u0007\\u001b]{0,256}(?:\\u0007|\\u001b\\\\)?|\\u001b[ -~]?)",
    "(?<tags>[\\u{e0000}-\\u{e007f}]+)",
    `(?<odd>(?<same>[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Co}\\p{Cn}\\p{Zl}\\p{Zp}${BLANK}])\\k<same>*)`,
    "(?<space>(?! )\\p{Zs}+)",
    "(?<blanks> {40,})",
    "(?<marks>(?<=\\p{M}{4})\\p{M}+)",
    "(?<html><[A-Za-z/!?][^<>\\n]{0,400}>?)",
  ].join("|"),
  "gu",
);
// More than this of one text is drawn only when asked for.
const MOST = 6000;
const AROUND = 600;
// What is drawn of one value at first, and with each press of a button: a hostile text must not stall the page.
const FIRST = { values: 120, chips: 200, characters: 12_000 };
const MORE = { values: 400, chips: 1000, characters: 60_000 };
// However little room is left, so that a value shows how it begins.
const LEAST = { chips: 10, characters: 80 };

export function h(name, given = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const made = document.createElement(tag);
  if (classes.length) made.className = classes.join(" ");
  for (const [key, value] of Object.entries(given)) set(made, key, value);
  made.append(...children.flat(9).filter((each) => each !== null && each !== undefined && each !== false));
  return made;
}

export function svg(tag, given = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(given)) if (value !== null) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function set(made, key, value) {
  if (value === null || value === undefined || value === false) return;
  if (typeof value === "function") made.addEventListener(key, value);
  else if (key === "href" && !/^#/.test(value)) throw new Error("links lead nowhere but here");
  else if (/^on|^style$|^src/.test(key)) throw new Error(`${key} is not set on this page`);
  else if (value === true) made.setAttribute(key, "");
  else if (key === "value") made.value = value;
  else made.setAttribute(key, value);
}

function code(ch) {
  return `U+${ch.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}

function chip(kind, label, title) {
  return h(`span.chip.${kind}`, { title }, `⟨${label}⟩`);
}

function chipFor(found) {
  const { ansi, tags, odd, space, blanks, marks } = found.groups;
  if (ansi) return chip("ansi", `ESC${[...ansi.slice(1)].map((c) => (c < " " || c > "~" ? code(c) : c)).join("")}`, "an escape sequence for terminals, shown and not obeyed");
  if (tags) {
    const hidden = [...tags].map((c) => c.codePointAt(0) - 0xe0000).filter((c) => c >= 0x20 && c < 0x7f);
    const text = String.fromCharCode(...hidden.slice(0, 400));
    return chip("hidden", `${code(tags)}… TAG${text ? ` “${text}”` : ""}`, `${[...tags].length} invisible tag characters; the letters are what a model reads`);
  }
  if (odd) {
    const times = [...odd].length;
    const name = NAMES[odd.codePointAt(0)];
    const kind = BIDI.test(odd) ? "bidi" : "hidden";
    const what = kind === "bidi" ? "a direction control: it would reorder what stands around it" : "a character that would not be seen";
    return chip(kind, `${code(odd)}${times > 1 ? ` ×${times}` : ""}`, `${name ? `${name}: ` : ""}${what}`);
  }
  if (space) return chip("space", `${code(space)}${[...space].length > 1 ? ` ×${[...space].length}` : ""}`, NAMES[space.codePointAt(0)] ?? "a space that is not the ordinary one");
  if (blanks) return chip("space", `${blanks.length} blanks`, "a long run of spaces, which would push what follows out of sight");
  return chip("hidden", `${[...marks].length} marks`, "more marks than any script stacks on one letter");
}

// One stretch of text without marks; `flat` shows line ends and tabs too.
function* pieces(text, flat) {
  // Most text is plain, and looking at each character for eight things takes its time.
  if (!/[^ -;=-~]| {40}/.test(text)) {
    if (text) yield text;
    return;
  }
  let done = 0;
  for (const found of text.matchAll(ODD)) {
    const whole = found[0];
    if (!flat && found.groups.odd && (whole[0] === "\n" || whole[0] === "\t")) {
      if (whole[0] === "\t" || whole.length < 12) continue;
      yield text.slice(done, found.index) + "\n";
      yield chip("space", `${whole.length - 2} empty lines`, "a long run of empty lines");
      yield "\n";
    } else if (found.groups.html) {
      // The frame alone says that it looks like markup.
      if (found.index > done) yield text.slice(done, found.index);
      yield h("span.markup", { title: "markup, shown as the text it is" }, "<", [...pieces(whole.slice(1), flat)]);
    } else {
      if (found.index > done) yield text.slice(done, found.index);
      const plain = found.groups.odd && { "\n": ["\u21b5", "line end"], "\t": ["\u21e5", "tab"] }[whole[0]];
      yield plain ? chip("space", `${plain[0]}${whole.length > 1 ? ` \u00d7${whole.length}` : ""}`, plural(whole.length, plain[1])) : chipFor(found);
    }
    done = found.index + whole.length;
  }
  if (done < text.length) yield text.slice(done);
}

// Where the service counts characters, this language counts halves of pairs.
function unitsAt(text, points) {
  const wanted = [...new Set(points)].sort((a, b) => a - b);
  const found = new Map();
  let units = 0;
  let count = 0;
  for (const point of wanted) {
    while (count < point && units < text.length) {
      units += text.codePointAt(units) > 0xffff ? 2 : 1;
      count += 1;
    }
    found.set(point, units);
  }
  return found;
}

// `marks`: [{start, end, kind, label?, title?, id?, href?}] in characters as the service counts them.
export function shown(text, { marks = [], flat = false, offset = 0 } = {}) {
  const made = document.createDocumentFragment();
  text = String(text);
  const real = marks.filter((each) => each.end > each.start).map((each) => ({ ...each, start: Math.max(0, each.start - offset), end: Math.max(0, each.end - offset) }));
  const at = unitsAt(text, real.flatMap((each) => [each.start, each.end]));
  const spans = real.map((each) => ({ ...each, from: at.get(each.start), to: at.get(each.end) })).filter((each) => each.to > each.from);
  const borders = [...new Set([0, text.length, ...spans.flatMap((each) => [each.from, each.to])])].sort((a, b) => a - b);
  const begun = new Set();
  for (let i = 0; i + 1 < borders.length; i += 1) {
    const [from, to] = [borders[i], borders[i + 1]];
    const over = spans.filter((each) => each.from <= from && each.to >= to);
    const drawn = [...pieces(text.slice(from, to), flat)];
    if (!over.length) {
      made.append(...drawn);
      continue;
    }
    const fresh = over.filter((each) => !begun.has(each));
    fresh.forEach((each) => begun.add(each));
    const link = over.find((each) => each.href);
    const mark = h("mark", {
      class: [...new Set(over.map((each) => each.kind))].join(" "),
      title: [...new Set(over.map((each) => each.title).filter(Boolean))].join("\n") || null,
      id: fresh.find((each) => each.id)?.id,
    });
    for (const each of fresh) if (each.label) mark.append(h("span.ref", {}, each.label));
    mark.append(...drawn);
    made.append(link ? h("a.to-source", { href: link.href, "data-jump": link.jump }, mark) : mark);
  }
  return made;
}

// The same for where only a string goes: a title, a name for screen readers, what is read aloud.
export function spelled(text, most = 80) {
  const whole = String(text ?? "");
  return shown(whole.slice(0, most), { flat: true }).textContent + (whole.length > most ? "…" : "");
}

// A text on one line among ours: a name, a source, a goal.
export function line(text, most = 300) {
  const whole = String(text ?? "");
  const cut = whole.length > most;
  return h("span.theirs", cut ? { title: `${whole.length.toLocaleString()} characters` } : {}, shown(cut ? whole.slice(0, most) : whole, { flat: true }), cut ? "…" : null);
}

// The end of the stretch that starts here and is drawn at once: `room` bounds its characters and its chips.
function endOf(text, from, most, room) {
  let to = Math.min(text.length, from + Math.min(most, Math.max(LEAST.characters, room.characters)));
  if (/[\udc00-\udfff]/.test(text[to] ?? "")) to += 1;
  let left = Math.max(LEAST.chips, room.chips);
  for (const found of text.slice(from, to).matchAll(ODD)) {
    const chips = 1 + (found.groups.html?.replace(/[ -~]/g, "").length ?? 0);
    if (chips > left && found.index > 0) {
      to = from + found.index;
      break;
    }
    left -= chips;
  }
  room.characters -= to - from;
  room.chips -= Math.max(LEAST.chips, room.chips) - left;
  return to;
}

// How many characters, as the service counts them.
function pointsIn(text) {
  return text.length - (text.match(/[\ud800-\udbff][\udc00-\udfff]/g)?.length ?? 0);
}

// A long text with its marks: cut around the first of them, and the rest in pieces on request. `onMore` hears of those.
export function passage(text, { marks = [], offset = 0, flat = false, most = MOST, room = { ...FIRST }, onMore } = {}) {
  const box = h("div.passage");
  text = String(text);
  const first = text.length > most ? Math.min(...marks.map((each) => each.start - offset), text.length) : text.length;
  const begin = Math.max(0, (first < text.length ? unitsAt(text, [first]).get(first) : 0) - AROUND);
  const from = /[\udc00-\udfff]/.test(text[begin] ?? "") ? begin - 1 : begin;
  const to = endOf(text, from, most, room);
  const stretch = (start, end) => shown(text.slice(start, end), { marks, offset: marks.length ? offset + pointsIn(text.slice(0, start)) : 0, flat });
  const gap = (start, end, where) => {
    if (start >= end) return "";
    const button = h("button.more", { type: "button", "data-left": String(end - start), click: () => {
      const until = Math.min(end, endOf(text, start, Infinity, { ...MORE }));
      button.replaceWith(stretch(start, until), gap(until, end, "more"));
      count();
      onMore?.();
    } }, `${(end - start).toLocaleString()} of ${text.length.toLocaleString()} characters ${where}: show`);
    return button;
  };
  const count = () => {
    const left = [...box.querySelectorAll(":scope > button.more")].reduce((sum, each) => sum + Number(each.dataset.left), 0);
    if (left) box.dataset.cut = left;
    else delete box.dataset.cut;
  };
  box.append(gap(0, from, "before this"), stretch(from, to), gap(to, text.length, "more"));
  count();
  return box;
}

// JSON as a list to read: names, then values; texts keep their lines behind a bar, so that none can pose as another.
// `text` draws both: (path, text, room) for a value, and (null, text, room) for a name. Entries for which there is no
// room are drawn in pieces on request; `onMore` hears of those.
export function tree(value, path, text, onMore, room = { ...FIRST }) {
  if (value instanceof Exact) return h("span.value.number", {}, value.source, value.rounded ? h("span.chip.hidden", {}, "⟨may be rounded⟩") : null);
  if (value === "") return h("span.value.number", {}, '""');
  if (typeof value === "string") return h("div.value.text", {}, text(path, value, room));
  if (typeof value !== "object" || value === null) return h("span.value.number", {}, String(value));
  const list = Array.isArray(value);
  const names = list ? null : Object.keys(value);
  const count = (names ?? value).length;
  if (!count) return h("span.value.number", {}, list ? "[ ]" : "{ }");
  const down = (name) => (list ? `${path}[${name}]` : path ? `${path}.${name}` : name);
  const box = h(`dl.args${list ? ".list" : ""}`);
  const draw = (at, left) => {
    const rows = [];
    for (; at < count && left.values > 0; at += 1) {
      // Its share: a long list must not push the entries beside it out of sight.
      const own = Math.max(1, left.values / (count - at));
      const others = left.values - own;
      // Depth is bounded, and a lone entry inside another is part of it.
      left.values = own - (count === 1 ? 0.25 : 1);
      const name = names ? names[at] : at;
      rows.push(h("div", {}, h("dt", {}, list ? `[${name}]` : name === "" ? '""' : text(null, name, left)), h("dd", {}, tree(value[name], down(name), text, onMore, left))));
      left.values += others;
    }
    box.append(...rows);
    if (at >= count) return;
    const rest = h("div", {}, h("dt", {}, "…"), h("dd", {}, h("button.more", { type: "button", "data-cut": String(count - at), click: () => {
      rest.remove();
      draw(at, { ...MORE });
      onMore?.();
    } }, `${(count - at).toLocaleString()} of ${count.toLocaleString()} entries more: show`)));
    box.append(rest);
  };
  draw(0, room);
  return box;
}

// Origins a person needs to see. A piece inside another of the same argument and block says nothing more; and where the
// text was decoded, so that its whole stretch counts as the source, a closer find says it better.
export function telling(origins) {
  const size = (each) => each.end - each.start;
  const beside = (each) => origins.filter((other) => other !== each && other.argument === each.argument && other.block === each.block);
  const loose = (each) => size(each) > 40 + 4 * each.value.length;
  const close = origins.filter((each) => !loose(each) || !beside(each).some((other) => !loose(other)));
  return close.filter((each, at) => !close.some((other, where) => other !== each && other.argument === each.argument && other.block === each.block && other.start <= each.start && other.end >= each.end && (size(other) > size(each) || where < at)));
}

// Words that read as Latin and are not: a person does not see the difference, but the tool will.
const OTHER = /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Cherokee}\p{Script=Coptic}\u{1d400}-\u{1d7ff}\uff01-\uff5e]/gu;
export function lookalikes(texts) {
  const notes = new Set();
  for (const text of texts) {
    for (const word of text.match(/[^\s"'<>(),;]+/gu) ?? []) {
      const odd = word.match(OTHER);
      if (odd && (/[A-Za-z]/.test(word) || /[.@/]\S/.test(word))) notes.add(JSON.stringify([word.slice(0, 80), [...new Set(odd)].slice(0, 6).map(code).join(", ")]));
      if (notes.size === 8) return [...notes].map(JSON.parse);
    }
  }
  return [...notes].map((each) => JSON.parse(each));
}

export function when(seconds, { day = false } = {}) {
  const at = new Date(seconds * 1000);
  if (!Number.isFinite(seconds) || Number.isNaN(at.getTime())) return h("span.quiet", {}, "–");
  const today = at.toDateString() === new Date().toDateString();
  const clock = at.toLocaleTimeString([], { hour12: false });
  const date = at.toLocaleDateString([], { day: "numeric", month: "short" });
  return h("time", { datetime: at.toISOString(), title: `${at.toLocaleString()} local, ${at.toISOString()}` }, day || !today ? `${date} ${clock}` : clock);
}

export function duration(us) {
  if (us === null || us === undefined) return "–";
  if (us < 10) return `${us.toFixed(1)} µs`;
  if (us < 1000) return `${us.toFixed(0)} µs`;
  if (us < 10_000) return `${(us / 1000).toFixed(1)} ms`;
  return us < 1e6 ? `${(us / 1000).toFixed(0)} ms` : `${(us / 1e6).toFixed(1)} s`;
}

export function usd(cost) {
  if (cost === null || cost === undefined) return "not known";
  if (cost === 0) return "$0";
  return cost < 0.01 ? `$${cost.toPrecision(2)}` : `$${cost.toFixed(2)}`;
}

export function plural(number, noun) {
  return `${number.toLocaleString()} ${noun}${number === 1 ? "" : "s"}`;
}

const SHAPES = { CONTINUE: "M2 6a4 4 0 1 0 8 0a4 4 0 1 0-8 0", REORIENT: "M6 1.6L11 10.4H1z", PAUSE: "M2 2h3v8H2zM7 2h3v8H7z" };
// The action as a word, a colour and a shape: none of the three has to be seen for the others to tell.
export function action(word, as = word) {
  const kind = Object.hasOwn(SHAPES, as) ? as.toLowerCase() : "pause";
  return h(`span.action.${kind}`, {}, svg("svg", { viewBox: "0 0 12 12", "aria-hidden": "true" }, svg("path", { d: SHAPES[as] ?? SHAPES.PAUSE })), String(word));
}

export function tier(number) {
  const bars = [1, 2, 3].map((each) => svg("rect", { x: each * 5 - 5, y: 8 - each * 2.4, width: 3.4, height: 3 + each * 2.4, class: each <= number ? "on" : "off" }));
  return h("span.tier", { title: ["", "settled by the rules", "reached tier 2, a quick judge", "reached tier 3, a supervisor or a person"][number] ?? "" }, svg("svg", { viewBox: "0 0 14 11", "aria-hidden": "true" }, ...bars), h("span.unseen", {}, "tier "), String(number));
}

// Our own words, in which a page of the documentation is named: each such name is a link to it.
export function guided(text) {
  return String(text).split(/(`?lockgate help [a-z/-]+`?)/).map((each) => {
    const topic = /^`?lockgate help ([a-z/-]+)`?$/.exec(each)?.[1];
    return topic ? h("a", { href: `#/help/${part(topic)}` }, each.replaceAll("`", "")) : each;
  });
}

export function empty(title, ...words) {
  return h("section.empty", {}, h("h2", {}, title), ...words);
}

export function shell(text) {
  return h("pre.shell", {}, h("code", {}, text));
}

// A link's part that holds an id: half of a surrogate pair has no address.
export function part(text) {
  return encodeURIComponent(String(text).toWellFormed?.() ?? String(text).replace(/[\ud800-\udfff]/g, "\ufffd"));
}
