// Shows /openapi.json, and asks the API for what can be read. Everything is written
// as text: nothing that comes from the server can become markup.

const mostShown = 256 * 1024; // characters of an answer
const methods = ["get", "post", "put", "patch", "delete"];

let spec;

// The token is kept in this variable alone: it is gone with the page.
let token = "";

function el(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") e.addEventListener(key, value);
    else if (value !== undefined && value !== false) e.setAttribute(key, value === true ? "" : value);
  }
  e.append(...children.filter((c) => c !== undefined && c !== ""));
  return e;
}

// resolved follows references within the description.
function resolved(thing) {
  for (let i = 0; thing?.$ref && i < 10; i++) {
    thing = thing.$ref.slice(2).split("/").reduce((at, name) => at?.[name], spec);
  }
  return thing ?? {};
}

// paragraphs are the parts of a text between empty lines.
function paragraphs(text) {
  return (text ?? "").split(/\n\n+/).filter(Boolean).map((part) => el("p", {}, part));
}

// Schemas

function typeOf(schema) {
  const s = resolved(schema);
  const types = [s.type ?? []].flat().filter((t) => t !== "null");
  let type = types.join(" or ") || (s.oneOf || s.anyOf ? "one of" : s.properties ? "object" : "anything");
  if (types.includes("array")) type = `list of ${typeOf(s.items)}`;
  if (s.format && !["int64", "int32", "double"].includes(s.format)) type += ` (${s.format})`;
  return type;
}

function bounds(s) {
  return [
    s.enum && s.enum.join(", "),
    s.default !== undefined && `default ${s.default}`,
    s.minimum !== undefined && `from ${s.minimum}`,
    s.maximum !== undefined && `to ${s.maximum}`,
    s.maxLength !== undefined && `at most ${s.maxLength} characters`,
    s.maxItems !== undefined && `at most ${s.maxItems}`,
  ].filter(Boolean).join("; ");
}

// members returns the schemas within one, as pairs of a name and a schema.
function members(schema) {
  const s = resolved(schema);
  if (s.properties) return Object.entries(s.properties);
  if (s.items) return members(s.items);
  if (s.oneOf || s.anyOf) return (s.oneOf ?? s.anyOf).map((one, i) => [`${i + 1}`, one]);
  if (typeof s.additionalProperties === "object") return [["(any name)", s.additionalProperties]];
  return [];
}

// tree lists the members of a schema. What they are made of is written when it is
// opened, so that schemas may contain themselves.
function tree(schema) {
  const s = resolved(schema);
  const needed = new Set((s.properties ? s : resolved(s.items)).required ?? []);
  return el("ul", { class: "schema" }, ...members(schema).map(([name, member]) => {
    const m = resolved(member);
    const line = [
      el("code", {}, name), " ", el("span", { class: "type" }, typeOf(member)), " ",
      needed.has(name) ? el("span", { class: "required" }, "required ") : "",
      el("span", { class: "soft" }, [bounds(m), member.description ?? m.description].filter(Boolean).join(". ")),
    ];
    if (members(member).length === 0) return el("li", {}, ...line);
    return el("li", {}, lazy(el("summary", {}, ...line), () => tree(member)));
  }));
}

// lazy is a part whose contents are made when it is opened for the first time.
function lazy(summary, make, attributes = {}) {
  const details = el("details", attributes, summary);
  details.addEventListener("toggle", () => { if (details.open) details.append(make()); }, { once: true });
  return details;
}

function contents(content, schema = tree) {
  return Object.entries(content ?? {}).map(([type, media]) =>
    el("div", {}, el("code", {}, type), " ", el("span", { class: "type" }, media.schema ? typeOf(media.schema) : ""),
      media.schema && members(media.schema).length ? schema(media.schema) : ""));
}

// example makes a value of what a schema requires.
function example(schema, depth = 0) {
  const s = resolved(schema);
  const type = [s.type ?? (s.properties ? "object" : "")].flat().find((t) => t !== "null");
  if (s.default !== undefined) return s.default;
  if (s.enum) return s.enum[0];
  if (type === "object") {
    const names = depth > 3 ? [] : s.required ?? Object.keys(s.properties ?? {}).slice(0, 1);
    return Object.fromEntries(names.map((name) => [name, example(s.properties?.[name], depth + 1)]));
  }
  if (type === "array") return depth > 3 ? [] : [example(s.items, depth + 1)];
  return { integer: 1, number: 1, boolean: true }[type] ?? "…";
}

// Requests

function quoted(text) {
  return `'${String(text).replaceAll("'", `'\\''`)}'`;
}

// target is the path of a request with what was filled in.
function target(path, parameters, values) {
  const query = new URLSearchParams();
  for (const p of parameters) {
    const value = values[p.name];
    if (p.in === "path") path = path.replace(`{${p.name}}`, value ? encodeURIComponent(value).replaceAll(".", "%2E") : `{${p.name}}`);
    if (p.in === "query" && value) query.append(p.name, value);
  }
  return query.size ? `${path}?${query}` : path;
}

function headersOf(parameters, values) {
  return parameters.filter((p) => p.in === "header" && values[p.name]).map((p) => [p.name, values[p.name]]);
}

function curl(method, path, operation, parameters, values) {
  const parts = ["curl" + (method === "get" ? "" : ` -X ${method.toUpperCase()}`) + " " + quoted(location.origin + target(path, parameters, values))];
  if (!isOpen(operation)) parts.push(`-H "Authorization: Bearer $TIDINGS_TOKEN"`);
  for (const [name, value] of headersOf(parameters, values)) parts.push(`-H ${quoted(`${name}: ${value}`)}`);
  const [type, media] = Object.entries(resolved(operation.requestBody).content ?? {}).find(([t]) => t.includes("json")) ?? [];
  if (type) parts.push(`-H ${quoted(`Content-Type: ${type}`)}`, `-d ${quoted(JSON.stringify(example(media.schema)))}`);
  return parts.join(" \\\n  ");
}

const isOpen = (operation) => operation.security?.length === 0;

// readable reports whether an answer is text that can be shown.
function readable(operation) {
  return Object.keys(resolved(operation.responses?.["200"]).content ?? {}).some((type) => /json|text/.test(type));
}

// send makes a request and writes the answer as it comes, up to a bound.
async function send(path, operation, headers, out, signal) {
  if (!isOpen(operation) && !token) {
    out.replaceChildren(el("p", { class: "failed" }, "Fill in the token above first: it is in api.token in the data directory of tidings."));
    document.getElementById("token").focus();
    return;
  }
  const shown = new Headers(headers);
  if (!isOpen(operation)) shown.set("Authorization", `Bearer ${token}`);
  const began = performance.now();
  const answer = await fetch(path, { headers: shown, signal, cache: "no-store", redirect: "error" });
  const told = ["Content-Type", "ETag", "Tidings-Ledger", "Tidings-Next", "Retry-After"]
    .filter((name) => answer.headers.has(name)).map((name) => `${name}: ${answer.headers.get(name)}`);
  const body = el("pre", { tabindex: "0" });
  out.replaceChildren(
    el("p", { class: answer.ok ? "ok" : "failed" }, `${answer.status} ${answer.statusText}, ${Math.round(performance.now() - began)} ms`),
    el("p", { class: "soft" }, told.join("\n")), body);
  const text = await read(answer.body, signal, (soFar) => { body.textContent = soFar; });
  try { body.textContent = JSON.stringify(JSON.parse(text), null, 2); } catch { /* as it is */ }
}

async function read(stream, signal, show) {
  let text = "";
  const decoder = new TextDecoder();
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return text;
      text += decoder.decode(value, { stream: true });
      if (text.length > mostShown) {
        show(`${text.slice(0, mostShown)}\n… more than can be shown here`);
        reader.cancel();
        return "";
      }
      show(text);
    }
  } catch (e) {
    if (signal.aborted) return "";
    throw e;
  }
}

// The page

function field(p, values, changed) {
  const s = resolved(p.schema);
  const set = (e) => { values[p.name] = e.target.value.trim(); changed(); };
  const name = `${p.name} (${p.in})`;
  if (s.enum) return el("select", { "aria-label": name, change: set }, ...["", ...s.enum].map((v) => el("option", { value: v }, v)));
  return el("input", { "aria-label": name, placeholder: s.default ?? "", autocomplete: "off", spellcheck: "false", input: set });
}

function parameterTable(parameters, values, changed) {
  return el("table", {}, ...parameters.map((p) => el("tr", {},
    el("td", {}, el("code", {}, p.name), el("br"), el("span", { class: "soft" }, p.in), p.required ? el("span", { class: "required" }, " required") : ""),
    el("td", {}, p.description ?? "", el("div", { class: "soft" }, [typeOf(p.schema), bounds(resolved(p.schema))].filter(Boolean).join("; "))),
    el("td", {}, field(p, values, changed)))));
}

function sender(method, path, operation, parameters, values) {
  const out = el("div", { "aria-live": "polite" });
  const stop = el("button", { type: "button", hidden: true }, "Stop");
  const go = el("button", { type: "submit", class: "send" }, "Send");
  const form = el("form", {}, go, stop);
  form.addEventListener("submit", async (e) => {
    e.preventDefault();
    const lacking = parameters.find((p) => p.in === "path" && !values[p.name]);
    if (lacking) {
      out.replaceChildren(el("p", { class: "failed" }, `Fill in ${lacking.name} first.`));
      return;
    }
    const aborter = new AbortController();
    stop.onclick = () => aborter.abort();
    go.disabled = true;
    stop.hidden = false;
    try {
      await send(target(path, parameters, values), operation, headersOf(parameters, values), out, aborter.signal);
    } catch (err) {
      if (!aborter.signal.aborted) out.replaceChildren(el("p", { class: "failed" }, `There is no answer: ${err.message}`));
    }
    go.disabled = false;
    stop.hidden = true;
  });
  return el("div", {}, form, out);
}

function endpoint(method, path, operation) {
  const parameters = (operation.parameters ?? []).map(resolved);
  const summary = el("summary", {},
    el("span", { class: `method ${method}` }, method.toUpperCase()), el("span", { class: "path" }, path),
    el("span", { class: "soft" }, operation.summary ?? ""), isOpen(operation) ? el("span", { class: "open" }, "open") : "");
  return lazy(summary, () => {
    const values = {};
    const command = el("pre", { tabindex: "0" });
    const changed = () => { command.textContent = curl(method, path, operation, parameters, values); };
    changed();
    const body = resolved(operation.requestBody);
    return el("div", {},
      ...paragraphs(operation.description),
      ...(parameters.length ? [el("h3", {}, "Parameters"), parameterTable(parameters, values, changed)] : []),
      ...(body.content ? [el("h3", {}, "Body"), ...contents(body.content)] : []),
      el("h3", {}, "Request"), command,
      method === "get" && readable(operation) ? sender(method, path, operation, parameters, values) : "",
      el("h3", {}, "Answers"),
      ...Object.entries(operation.responses ?? {}).sort(([a], [b]) => a.localeCompare(b)).map(([status, response]) => {
        const r = resolved(response);
        const title = [el("code", {}, status), ` ${r.description ?? ""}`];
        return r.content ? lazy(el("summary", {}, ...title), () => el("div", {}, ...contents(r.content))) : el("p", {}, ...title);
      }));
  }, { class: "endpoint", id: operation.operationId });
}

function operations() {
  const all = [];
  for (const [path, item] of Object.entries(spec.paths)) {
    for (const method of methods) {
      if (item[method]) all.push({ method, path, operation: item[method], tag: item[method].tags?.[0] ?? "other" });
    }
  }
  return all;
}

function show() {
  document.getElementById("version").textContent = `HTTP API, ${spec.info.version}`;
  document.getElementById("about").append(...paragraphs(spec.info.description),
    el("p", {}, "The description as a file: ", el("a", { href: "/openapi.json" }, "/openapi.json"), ` (OpenAPI ${spec.openapi})`));
  const all = operations();
  const named = (spec.tags ?? []).map((t) => t.name);
  const groups = [...new Set([...named, ...all.map((o) => o.tag)])];
  for (const tag of groups) {
    const group = all.filter((o) => o.tag === tag);
    if (group.length === 0) continue;
    const links = el("div", {}, el("h2", {}, tag), ...group.map((o) => el("a", { href: `#${o.operation.operationId}`, title: o.operation.summary, click: () => { document.getElementById(o.operation.operationId).open = true; } },
      el("span", { class: `method ${o.method}` }, o.method.toUpperCase()), el("span", {}, o.path))));
    document.getElementById("index").append(links);
    document.getElementById("main").append(el("section", {}, el("h2", {}, tag),
      ...paragraphs((spec.tags ?? []).find((t) => t.name === tag)?.description),
      ...group.map((o) => endpoint(o.method, o.path, o.operation))));
  }
  openNamed();
}

// openNamed opens the endpoint that the address names.
function openNamed() {
  const named = document.getElementById(location.hash.slice(1));
  if (named?.matches("details.endpoint")) {
    named.open = true;
    named.scrollIntoView();
  }
}

function filter(text) {
  const words = text.toLowerCase().split(/\s+/);
  for (const group of document.getElementById("index").children) {
    let some = false;
    for (const link of group.querySelectorAll("a")) {
      const all = `${link.textContent} ${link.title}`.toLowerCase();
      link.hidden = !words.every((w) => all.includes(w));
      some ||= !link.hidden;
    }
    group.hidden = !some;
  }
}

document.getElementById("access").addEventListener("submit", (e) => e.preventDefault());
document.getElementById("token").addEventListener("input", (e) => {
  token = e.target.value.trim();
  document.getElementById("known").textContent = token ? "kept until this page is left" : "needed to send requests";
});
document.getElementById("filter").addEventListener("input", (e) => filter(e.target.value));
addEventListener("hashchange", openNamed);

try {
  const answer = await fetch("/openapi.json", { redirect: "error" });
  if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
  spec = await answer.json();
  show();
} catch (err) {
  document.getElementById("about").append(el("p", { class: "failed" }, `/openapi.json cannot be shown: ${err.message}`));
}
