"use strict";
// The routes as the service's own document lists them, each to be tried. Everything is put in as text: nothing that the
// service says can become markup here.

const token = document.getElementById("token");
const fragment = new URLSearchParams(location.hash.slice(1)).get("token");
if (fragment) history.replaceState(null, "", location.pathname);
token.value = fragment || sessionStorage.getItem("lockgate-token") || "";
token.addEventListener("input", () => sessionStorage.setItem("lockgate-token", token.value));

function made(name, text, ...inside) {
  const element = document.createElement(name);
  if (text) element.textContent = text;
  element.append(...inside);
  return element;
}

function classed(element, name) {
  element.className = name;
  return element;
}

function example(schema, components, depth = 0) {
  if (!schema || depth > 6) return null;
  if (schema.$ref) return example(components[schema.$ref.split("/").pop()], components, depth + 1);
  if (schema.enum) return schema.enum[0];
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (type === "object") {
    const value = {};
    for (const [name, each] of Object.entries(schema.properties || {})) {
      if ((schema.required || []).includes(name)) value[name] = example(each, components, depth + 1);
    }
    for (const name of schema.required || []) if (!(name in value)) value[name] = "";
    return value;
  }
  return { array: [], integer: 0, number: 0, boolean: false }[type] ?? "";
}

function field(label, hint) {
  const input = made("input");
  input.setAttribute("aria-label", label);
  input.placeholder = hint;
  input.spellcheck = false;
  return [made("tr", "", made("td", "", made("code", label)), made("td", "", input)), input];
}

function route(path, method, operation, components) {
  const body = made("div");
  const names = operation.security.map((each) => Object.keys(each)[0]);
  const who = names.length ? `${names.join(" or ")} token` : "no token";
  const head = made("summary", "", classed(made("span", method.toUpperCase()), "method"), made("code", path));
  head.append(classed(made("small", who), "who"), made("div", operation.summary));

  const inputs = [];
  const given = made("table");
  for (const parameter of operation.parameters) {
    const [row, input] = field(parameter.name, parameter.schema.description || parameter.in);
    given.append(row);
    inputs.push([parameter, input]);
  }
  if (inputs.length) body.append(given);

  let text = null;
  if (operation.requestBody) {
    const schema = operation.requestBody.content["application/json"].schema;
    text = made("textarea");
    text.setAttribute("aria-label", "body");
    text.value = JSON.stringify(example(schema, components), null, 2);
    const told = made("details", "", made("summary", "what the body may hold"), made("pre", JSON.stringify(schema, null, 2)));
    body.append(text, told);
  }
  const button = made("button", "try it");
  const result = made("pre");
  result.hidden = true;
  result.setAttribute("aria-live", "polite");
  button.addEventListener("click", () => attempt(path, method, inputs, text, result));
  const statuses = made("table");
  for (const [status, said] of Object.entries(operation.responses)) {
    statuses.append(made("tr", "", made("td", "", made("code", status)), made("td", said.description)));
  }
  body.append(button, result, made("h4", "answers"), statuses);
  return made("details", "", head, body);
}

async function attempt(path, method, inputs, text, result) {
  let url = path;
  const query = new URLSearchParams();
  for (const [parameter, input] of inputs) {
    if (parameter.in === "path") url = url.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
    else if (input.value) query.set(parameter.name, input.value);
  }
  if (query.size) url += `?${query}`;
  const headers = {};
  if (token.value) headers.authorization = `Bearer ${token.value}`;
  if (text) headers["content-type"] = "application/json";
  result.hidden = false;
  result.textContent = "…";
  const leave = new AbortController();
  const timer = setTimeout(() => leave.abort(), 10000);
  try {
    const asked = { method: method.toUpperCase(), headers, signal: leave.signal, credentials: "omit", redirect: "error" };
    if (text) asked.body = text.value;
    const answer = await fetch(url, asked);
    let said = "";
    if ((answer.headers.get("content-type") || "").startsWith("text/event-stream")) {
      const reader = answer.body.getReader();
      const decoder = new TextDecoder();
      for (let parts = 0; parts < 20; parts += 1) {
        const { done, value } = await reader.read();
        if (done) break;
        said += decoder.decode(value, { stream: true });
        result.textContent = `${answer.status}\n\n${said}`;
      }
      await reader.cancel();
    } else {
      said = await answer.text();
      try { said = JSON.stringify(JSON.parse(said), null, 2); } catch { /* not JSON: as it is */ }
    }
    result.textContent = `${answer.status} ${answer.statusText}\n\n${said}`;
  } catch (error) {
    if (result.textContent === "…") result.textContent = `no answer: ${error.name}`;
  } finally {
    clearTimeout(timer);
  }
}

async function start() {
  const main = document.getElementById("routes");
  try {
    const answer = await fetch("/openapi.json", { credentials: "omit" });
    const found = await answer.json();
    main.replaceChildren();
    for (const [path, methods] of Object.entries(found.paths)) {
      for (const [method, operation] of Object.entries(methods)) {
        main.append(route(path, method, operation, found.components.schemas));
      }
    }
  } catch (error) {
    main.replaceChildren(classed(made("p", `the routes cannot be loaded: ${error.name}`), "bad"));
  }
}

start();
