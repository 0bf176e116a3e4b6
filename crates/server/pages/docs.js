// Draws /openapi.json: every route with what it takes and gives, and a form to try it. No library, nothing from elsewhere.
// Everything is set as text, so that nothing in the document or in an answer becomes markup.
const METHODS = ["get", "post", "put", "patch", "delete"];
const at = (id) => document.getElementById(id);

function make(tag, about = {}, ...inner) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(about)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...inner.filter((part) => part !== null && part !== undefined));
  return element;
}

let all = {};
const resolved = (schema) =>
  schema && schema.$ref ? schema.$ref.slice(2).split("/").reduce((part, step) => part?.[step], all) : schema;
const refName = (schema) => schema?.$ref?.split("/").pop();

function typeOf(schema) {
  if (!schema) return "anything";
  if (schema.$ref) return refName(schema);
  const choice = schema.oneOf ?? schema.anyOf ?? schema.allOf;
  if (choice) return choice.map(typeOf).join(schema.allOf ? " & " : " | ");
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  const types = [schema.type ?? "anything"].flat().map((type) => {
    if (type === "array") return `[${typeOf(schema.items)}]`;
    return schema.format && type !== "null" ? `${type} (${schema.format})` : type;
  });
  return types.join(" | ");
}

// What a schema holds, one row a property; a schema that holds itself is named, not drawn again.
function fields(schema, seen = []) {
  const name = refName(schema);
  if (name && seen.includes(name)) return make("p", {}, `a ${name}, as above`);
  const inside = name ? [...seen, name] : seen;
  const plain = resolved(schema) ?? {};
  if (plain.type === "array" || [plain.type].flat().includes("array")) return fields(plain.items, inside);
  const choice = plain.oneOf ?? plain.anyOf ?? plain.allOf;
  if (choice) return make("div", {}, ...choice.filter((one) => one.type !== "null").map((one) => fields(one, inside)));
  const properties = Object.entries(plain.properties ?? {});
  if (properties.length === 0) return make("p", { className: "type" }, typeOf(schema));
  const rows = properties.map(([key, value]) => {
    const must = (plain.required ?? []).includes(key);
    const target = resolved(value) ?? {};
    const parts = target.oneOf ?? target.anyOf ?? [target.items ?? target];
    const deep = parts.some((part) => resolved(part)?.properties);
    return make("tr", {},
      make("th", { scope: "row" }, make("code", {}, key), must ? make("b", { title: "must be there" }, " *") : null),
      make("td", { className: "type" }, typeOf(value)),
      make("td", {}, value.description ?? "", deep && inside.length < 4
        ? make("details", {}, make("summary", {}, typeOf(value)), fields(value, inside)) : null));
  });
  return make("table", {}, make("tbody", {}, ...rows));
}

function example(schema, depth = 0) {
  const plain = resolved(schema) ?? {};
  if (plain.example !== undefined) return plain.example;
  const choice = (plain.oneOf ?? plain.anyOf)?.find((one) => one.type !== "null");
  if (choice) return example(choice, depth);
  const type = [plain.type].flat().find((one) => one !== "null");
  if (plain.enum) return plain.enum[0];
  if (type === "object" || plain.properties) {
    const wanted = Object.entries(plain.properties ?? {}).filter(([key]) => (plain.required ?? []).includes(key));
    return depth > 3 ? {} : Object.fromEntries(wanted.map(([key, value]) => [key, example(value, depth + 1)]));
  }
  if (type === "array") return [];
  if (type === "boolean") return false;
  return type === "integer" || type === "number" ? plain.minimum ?? 0 : "";
}

function form(path, method, route) {
  const parameters = (route.parameters ?? []).map(resolved).filter((one) => ["path", "query"].includes(one.in));
  const inputs = parameters.map((one) => make("input", { placeholder: typeOf(one.schema), required: one.required === true }));
  const [kind, media] = Object.entries(route.requestBody?.content ?? {})[0] ?? [];
  const body = media ? make("textarea", { rows: 5, spellcheck: false,
    value: kind === "application/json" ? JSON.stringify(example(media.schema), null, 2) : "" }) : null;
  const shown = make("pre", { hidden: true });
  const stop = make("button", { type: "button", hidden: true }, "Stop");
  const said = make("form", { className: "try" },
    ...parameters.map((one, index) => make("label", {}, `${one.name} `, inputs[index])),
    body ? make("label", {}, kind, body) : null,
    make("div", {}, make("button", {}, "Send"), stop), shown);
  said.addEventListener("submit", async (event) => {
    event.preventDefault();
    let target = path;
    const query = new URLSearchParams();
    parameters.forEach((one, index) => {
      const value = inputs[index].value;
      if (one.in === "path") target = target.replace(`{${one.name}}`, encodeURIComponent(value));
      else if (value !== "") query.set(one.name, value);
    });
    const headers = {};
    if (at("key").value) headers.Authorization = `Bearer ${at("key").value}`;
    if (body) headers["Content-Type"] = kind;
    shown.hidden = false;
    shown.textContent = "…";
    const abort = new AbortController();
    stop.hidden = false;
    stop.onclick = () => abort.abort();
    try {
      const asked = query.size ? `${target}?${query}` : target;
      const answer = await fetch(asked, { method: method.toUpperCase(), headers, body: body?.value, signal: abort.signal });
      await show(answer, shown);
    } catch (error) {
      shown.textContent += `\n${error}`;
    }
    stop.hidden = true;
  });
  return said;
}

async function show(answer, shown) {
  const head = `${answer.status} ${answer.statusText}\n\n`;
  const kind = answer.headers.get("content-type") ?? "";
  if (!kind.startsWith("text/event-stream")) {
    const text = await answer.text();
    let pretty = text;
    try { pretty = JSON.stringify(JSON.parse(text), null, 2); } catch { /* no JSON: as it is */ }
    shown.textContent = head + pretty.slice(0, 200_000);
    return;
  }
  shown.textContent = head;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    shown.textContent = (shown.textContent + value).slice(-200_000);
  }
}

function drawRoute(path, method, route) {
  const [kind, media] = Object.entries(route.requestBody?.content ?? {})[0] ?? [];
  const parameters = (route.parameters ?? []).map(resolved);
  const inside = make("div", { className: "inside" });
  const box = make("details", { className: "route", id: `${method}${path}` },
    make("summary", {}, make("span", { className: `method ${method}` }, method.toUpperCase()), make("code", {}, path),
      make("span", { className: "what" }, route.summary ?? (route.description ?? "").split("\n")[0])), inside);
  // Drawn when it is looked at.
  box.addEventListener("toggle", () => {
    if (inside.childNodes.length > 0) return;
    inside.append(...[
      route.description ? make("p", { className: "told" }, route.description) : null,
      parameters.length ? make("h4", {}, "Parameters") : null,
      parameters.length ? make("table", {}, make("tbody", {}, ...parameters.map((one) => make("tr", {},
        make("th", { scope: "row" }, make("code", {}, one.name), one.required ? make("b", {}, " *") : null),
        make("td", { className: "type" }, `${typeOf(one.schema)}, in ${one.in}`), make("td", {}, one.description ?? ""))))) : null,
      media ? make("h4", {}, `Body: ${kind}`) : null,
      media ? fields(media.schema) : null,
      make("h4", {}, "Answers"),
      ...Object.entries(route.responses ?? {}).map(([status, answer]) => {
        const [type, content] = Object.entries(answer.content ?? {})[0] ?? [];
        return make("details", { className: "answer" },
          make("summary", {}, make("code", {}, status), ` ${answer.description ?? ""} `,
            make("span", { className: "type" }, content ? `${type}: ${typeOf(content.schema)}` : "")),
          content ? fields(content.schema) : null);
      }),
      make("h4", {}, "Try it"),
      form(path, method, route),
    ].filter((part) => part !== null));
  });
  box.words = `${method} ${path} ${route.summary ?? ""} ${route.description ?? ""}`.toLowerCase();
  return box;
}

function draw(openapi) {
  all = openapi;
  const parts = new Map();
  for (const [path, routes] of Object.entries(openapi.paths)) {
    for (const method of METHODS.filter((method) => routes[method])) {
      const tag = routes[method].tags?.[0] ?? "other";
      if (!parts.has(tag)) parts.set(tag, []);
      parts.get(tag).push(drawRoute(path, method, routes[method]));
    }
  }
  at("about").textContent = `${openapi.info.description} Version ${openapi.info.version}.`;
  for (const [tag, routes] of parts) {
    at("tags").append(make("a", { href: `#${tag}` }, tag, make("small", {}, ` ${routes.length}`)));
    at("routes").append(make("section", { id: tag }, make("h2", {}, tag), ...routes));
  }
  // An address such as /docs#post/v1/run opens that route.
  const named = at(decodeURIComponent(location.hash.slice(1)));
  if (named?.classList.contains("route")) {
    named.open = true;
    named.scrollIntoView();
  }
  at("find").addEventListener("input", () => {
    const words = at("find").value.toLowerCase().split(/\s+/);
    for (const section of document.querySelectorAll("main section")) {
      const routes = [...section.querySelectorAll(".route")];
      for (const route of routes) route.hidden = !words.every((word) => route.words.includes(word));
      section.hidden = routes.every((route) => route.hidden);
    }
  });
}

fetch("/openapi.json").then((answer) => answer.json()).then(draw, (error) => {
  at("about").textContent = `openapi.json can't be read: ${error}`;
});
