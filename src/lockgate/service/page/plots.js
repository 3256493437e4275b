// Small plots of our own. Each is a figure with a sentence that says the same, a table that holds the numbers, and a
// cursor that the arrow keys move: nothing is in the picture alone.

import { h, svg } from "./show.js";

const W = 560;
const H = 190;
const EDGE = { top: 12, right: 14, bottom: 24, left: 54 };

export function figure(title, sentence, drawn, { columns, rows }, key = []) {
  const table = h("table", {}, h("thead", {}, h("tr", {}, columns.map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell, at) => (at ? h("td.num", {}, cell) : h("th", { scope: "row" }, cell)))))));
  return h("figure.plot", {}, h("figcaption", {}, h("h2", {}, title), h("p", {}, sentence)), key.length ? h("ul.key", {}, key.map(([kind, name]) => h("li", {}, h(`span.swatch.${kind}`, { "aria-hidden": "true" }), name))) : null, drawn, h("details", {}, h("summary", {}, "Numbers"), h("div.scroll", {}, table)));
}

function nice(most) {
  if (!(most > 0)) return 1;
  const ten = 10 ** Math.floor(Math.log10(most));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((each) => each * ten).find((each) => each >= most);
}

function clock(at, span) {
  const date = new Date(at * 1000);
  return span > 2 * 86_400 ? date.toLocaleDateString([], { day: "numeric", month: "short" }) : date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });
}

function frame(label, buckets, { ticks, y, said }) {
  const plot = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label, tabindex: "0", class: "chart" });
  for (const [value, text] of ticks) {
    plot.append(svg("line", { x1: EDGE.left, x2: W - EDGE.right, y1: y(value), y2: y(value), class: "grid" }));
    const name = svg("text", { x: EDGE.left - 8, y: y(value) + 3.5, class: "tick", "text-anchor": "end" });
    name.textContent = text;
    plot.append(name);
  }
  const inner = W - EDGE.left - EDGE.right;
  const step = inner / Math.max(1, buckets.length);
  const x = (at) => EDGE.left + step * (at + 0.5);
  const span = buckets.length ? buckets[buckets.length - 1].at - buckets[0].at : 0;
  const every = Math.max(1, Math.ceil(buckets.length / 7));
  buckets.forEach((each, at) => {
    if (at % every) return;
    const name = svg("text", { x: x(at), y: H - 7, class: "tick", "text-anchor": "middle" });
    name.textContent = clock(each.at, span);
    plot.append(name);
  });
  const cursor = svg("line", { y1: EDGE.top, y2: H - EDGE.bottom, class: "cursor", visibility: "hidden" });
  const tip = h("div.tip", { role: "status", hidden: true });
  const box = h("div.plot-box", {}, plot, tip);
  let now = -1;
  function point(at) {
    now = Math.max(0, Math.min(buckets.length - 1, at));
    if (now < 0) return;
    cursor.setAttribute("visibility", "visible");
    cursor.setAttribute("x1", x(now));
    cursor.setAttribute("x2", x(now));
    tip.hidden = false;
    tip.replaceChildren(h("b", {}, new Date(buckets[now].at * 1000).toLocaleString([], { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hour12: false })), ...said(buckets[now]).map((each) => h("span", {}, each)));
    tip.classList.toggle("left", now > buckets.length / 2);
    tip.style.left = `${(x(now) / W) * 100}%`;
  }
  function away() {
    now = -1;
    cursor.setAttribute("visibility", "hidden");
    tip.hidden = true;
  }
  plot.addEventListener("pointermove", (event) => {
    const where = plot.getBoundingClientRect();
    point(Math.floor((((event.clientX - where.left) / where.width) * W - EDGE.left) / step));
  });
  plot.addEventListener("pointerleave", away);
  plot.addEventListener("blur", away);
  plot.addEventListener("focus", () => point(buckets.length - 1));
  plot.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: buckets.length - 1 };
    if (Object.hasOwn(moves, event.key)) {
      event.preventDefault();
      point(moves[event.key]);
    } else if (event.key === "Escape") away();
  });
  return { box, plot, x, step, cursor };
}

// Stacked bars over time. `series`: [[kind, bucket => value]]
export function bars(label, buckets, series, { format, said }) {
  const sums = buckets.map((each) => series.reduce((sum, [, value]) => sum + value(each), 0));
  const most = nice(Math.max(...sums, 0));
  const y = (value) => H - EDGE.bottom - (value / most) * (H - EDGE.top - EDGE.bottom);
  const whole = format(1) === "1" && most < 4 ? Array.from({ length: most + 1 }, (_, at) => at) : [0, most / 2, most];
  const { box, plot, x, step, cursor } = frame(label, buckets, { ticks: whole.map((each) => [each, format(each)]), y, said });
  buckets.forEach((each, at) => {
    let below = 0;
    for (const [kind, value] of series) {
      const amount = value(each);
      if (!(amount > 0)) continue;
      const wide = Math.max(1, step - Math.min(3, step * 0.25));
      plot.append(svg("rect", { x: x(at) - wide / 2, width: wide, y: y(below + amount), height: Math.max(0.5, y(below) - y(below + amount)), class: `fill ${kind}` }));
      below += amount;
    }
  });
  plot.append(cursor);
  return box;
}

// Lines over time on a logarithmic axis. `series`: [[kind, bucket => value or null]]
export function lines(label, buckets, series, { format, said }) {
  const values = series.flatMap(([, value]) => buckets.map(value)).filter((each) => each > 0);
  const low = Math.floor(Math.log10(Math.min(...values, 1e3)));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values, 1))));
  const y = (value) => H - EDGE.bottom - ((Math.log10(Math.max(value, 10 ** low)) - low) / (high - low)) * (H - EDGE.top - EDGE.bottom);
  const ticks = [];
  for (let ten = low; ten <= high; ten += high - low > 4 ? 2 : 1) ticks.push([10 ** ten, format(10 ** ten)]);
  const { box, plot, x, cursor } = frame(label, buckets, { ticks, y, said });
  for (const [kind, value] of series) {
    let path = "";
    let open = false;
    buckets.forEach((each, at) => {
      const here = value(each);
      if (!(here > 0)) {
        open = false;
        return;
      }
      path += `${open ? "L" : "M"}${x(at).toFixed(1)} ${y(here).toFixed(1)}`;
      open = true;
      // A point alone between two gaps has no line to be seen by.
      plot.append(svg("circle", { cx: x(at), cy: y(here), r: 1.9, class: `dot ${kind}` }));
    });
    plot.append(svg("path", { d: path || "M0 0", class: `stroke ${kind}` }));
  }
  plot.append(cursor);
  return box;
}

// Where calls were settled. `rows`: [[name, share, count, kind]]
export function funnel(label, rows) {
  return h(
    "div.funnel",
    { role: "img", "aria-label": label },
    rows.map(([name, share, count, kind]) => {
      const bar = h(`div.funnel-bar.${kind}`);
      bar.style.width = `${share * 100}%`;
      return h("div.funnel-row", {}, h("span.funnel-name", {}, name), h("div.funnel-track", {}, bar), h("span.num", {}, h("b", {}, `${(share * 100).toFixed(1)} %`), h("span.quiet", {}, count.toLocaleString())));
    }),
  );
}

// Horizontal bars in two parts: what was cleared of all. `rows`: [[node, all, part, title]]
export function parts(label, rows) {
  const most = Math.max(...rows.map(([, all]) => all), 1);
  return h(
    "div.parts",
    { role: "list", "aria-label": label },
    rows.map(([name, all, part, title]) => {
      const whole = h("div.part-all");
      whole.style.width = `${(all / most) * 100}%`;
      const cleared = h("div.part-some");
      cleared.style.width = `${all ? (part / all) * 100 : 0}%`;
      whole.append(cleared);
      return h("div.part-row", { role: "listitem", tabindex: "0", title, "aria-label": title }, h("span.mono", {}, name), h("div.part-track", {}, whole), h("span.num", {}, `${part.toLocaleString()} of ${all.toLocaleString()}`));
    }),
  );
}
