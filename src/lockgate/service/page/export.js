// What a list shows, as a file. A spreadsheet runs a cell that begins like a formula, and agents choose what stands in
// cells: such a cell gets an apostrophe in front, which spreadsheets take for "this is text". Where the comma stands in
// numbers, a spreadsheet cuts this file at semicolons instead: what follows one may be a cell as well.

const FORMULA = /^[\s\p{Cc}\p{Cf}]*[=+\-@\uff1d\uff0b\uff0d\uff20|%]|^[\t\r\n]/u;
const INNER = /([;\t\r\n])(?=[\s"\p{Cc}\p{Cf}]*[=+\-@\uff1d\uff0b\uff0d\uff20|%])/gu;
const COLUMNS = ["at", "action", "tier", "tool", "would_do", "reason", "explanation", "rules", "session", "host", "risk", "ran", "latency_us", "cost_usd", "approval", "id"];

function cell(value) {
  const text = Array.isArray(value) ? value.join(" ") : String(value ?? "");
  const safe = typeof value === "number" ? text : `${FORMULA.test(text) ? "'" : ""}${text.replace(INNER, "$1'")}`;
  return `"${safe.replaceAll('"', '""')}"`;
}

export function csv(decisions) {
  const lines = decisions.map((each) => COLUMNS.map((name) => cell(name === "at" ? new Date(each.at * 1000).toISOString() : each[name])).join(","));
  return `${[COLUMNS.map(cell).join(","), ...lines].join("\r\n")}\r\n`;
}

export function save(name, kind, text) {
  const address = URL.createObjectURL(new Blob([text], { type: kind }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
