// A page of the documentation. It comes with the service; its text is drawn, and never run.

import { ask } from "./api.js";
import { guided, h, part, spelled } from "./show.js";

export async function helpView(view, topic, { signal, go }) {
  const said = await ask(`/help/${part(topic || "page")}`, { signal });
  view.replaceChildren(h("article.help-page", {}, drawn(said.text)));
  return { title: `help: ${spelled(said.topic, 40)}`, key: (name) => (name === "Escape" ? (go("#/decisions"), true) : false) };
}

function inline(text) {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*|\*[^*\s][^*]*\*)/).map((each) => {
    if (/^`lockgate help /.test(each)) return guided(each);
    if (/^`.+`$/.test(each)) return h("code", {}, each.slice(1, -1));
    if (/^\*\*.+\*\*$/.test(each)) return h("b", {}, each.slice(2, -2));
    return /^\*.+\*$/s.test(each) ? h("i", {}, each.slice(1, -1)) : each;
  });
}

function table(lines) {
  const [names, , ...rows] = lines.map((each) => each.replace(/^\||\|\s*$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|")));
  return h("table", {}, h("thead", {}, h("tr", {}, names.map((cell) => h("th", { scope: "col" }, inline(cell))))), h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell) => h("td", {}, inline(cell)))))));
}

// As much of Markdown as our pages need to be read: code and lists keep their lines, the rest flows.
function drawn(text) {
  const made = [];
  const held = [];
  let kind = "p";
  const flush = () => {
    if (held.length && kind === "p") made.push(h("p", {}, inline(held.join(" "))));
    else if (held.length && kind === "table") made.push(table(held));
    else if (held.length) made.push(h(`pre.${kind}`, {}, kind === "code" ? guided(held.join("\n")) : inline(held.join("\n"))));
    held.length = 0;
    kind = "p";
  };
  for (const each of text.split("\n")) {
    const heading = kind === "code" ? null : /^(#{1,3}) (.*)/.exec(each);
    const sort = /^\|/.test(each) ? "table" : /^\s*([-*]|\d+\.) /.test(each) ? "list" : "p";
    if (/^```/.test(each)) {
      const inside = kind === "code";
      flush();
      if (!inside) kind = "code";
    } else if (kind === "code") held.push(each);
    else if (heading) {
      flush();
      made.push(h(`h${heading[1].length}`, {}, inline(heading[2])));
    } else if (!each.trim() || /^<!--.*-->$/.test(each)) flush();
    else {
      if (sort !== kind && !(kind === "list" && sort === "p")) {
        flush();
        kind = sort;
      }
      held.push(each);
    }
  }
  flush();
  return made;
}
