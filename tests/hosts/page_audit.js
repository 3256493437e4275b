// What the tests of the page ask the page itself. Two functions; each gives a list of what is wrong.
({
  // For readers who cannot see it, or have a narrow window.
  audit() {
    const bad = [];
    const all = (what) => [...document.querySelectorAll(what)];
    const named = (e) => (e.getAttribute("aria-label") || e.innerText || e.title || "").trim();
    if (all("h1").length !== 1) bad.push("not one h1");
    for (const e of all("button, a[href]")) {
      if (e.checkVisibility() && !named(e)) bad.push(`no name: ${e.outerHTML.slice(0, 80)}`);
    }
    for (const e of all("input, select")) {
      if (!e.closest("label") && !e.getAttribute("aria-label")) bad.push(`no label: ${e.name}`);
    }
    for (const e of all("img")) if (e.getAttribute("alt") === null) bad.push("no alt");
    for (const e of all("svg")) {
      if (e.getAttribute("aria-hidden") !== "true" && !e.getAttribute("aria-label")) bad.push("svg without words");
    }
    for (const e of all("table")) if (!e.querySelector("th[scope=col]")) bad.push("table without headers");
    const ids = all("[id]").map((e) => e.id);
    for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) bad.push(`twice: ${id}`);
    const wide = document.documentElement.scrollWidth;
    if (wide > innerWidth + 1) bad.push(`wider than the window: ${wide}`);
    return bad;
  },
  // Nothing of a foreign text is an element, a handler, a link or a character that acts.
  inert(raw) {
    const bad = [];
    const odd = new RegExp(raw, "u");
    const acting = /^(script|iframe|object|embed|base|form|style|link|meta|video|audio|math)$/i;
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
    for (let n = walk.nextNode(); n; n = walk.nextNode()) {
      if (n.nodeType === Node.TEXT_NODE) {
        if (odd.test(n.data)) bad.push(`text ${escape(n.data.slice(0, 80))}`);
        continue;
      }
      for (const a of n.attributes) {
        const ours = a.name === "style" && /^(width|left): [0-9.]+%;$/.test(a.value);
        if (/^on|^style$|^srcdoc$/.test(a.name) && !ours) bad.push(`${a.name}=${a.value}`);
        if (a.name !== "value" && odd.test(a.value)) bad.push(`attribute ${a.name} ${escape(a.value.slice(0, 80))}`);
      }
      if (acting.test(n.tagName) && !n.matches("form.filters, #help form, #unlock form")) bad.push(`element ${n.tagName}`);
      if (n.tagName === "A" && !n.getAttribute("href").startsWith("#")) bad.push(`link ${n.getAttribute("href")}`);
    }
    if (odd.test(document.title)) bad.push("title");
    return bad;
  },
})
