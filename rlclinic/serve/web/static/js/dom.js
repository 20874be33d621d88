// Building the page. Text only ever becomes a text node: what a run is called, or logs, is never read as markup.

import { at } from "./root.js";

const SVG = "http://www.w3.org/2000/svg";

/** An element: h("p", { class: "quiet", onclick: f }, "text", child, [children], null). */
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** The same for SVG. */
export function s(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "css") for (const [key, to] of Object.entries(value)) node.style.setProperty(key, to);
    else if (name === "value" && "value" in node) node.value = value;
    else if (name === "href" || name === "src") node.setAttribute(name, at(String(value)));
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  add(node, children);
  return node;
}

/** Append children: nodes, texts, lists of them; nothing for null and false. */
export function add(node, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

/** The top of a page: its title, what it is for, and what can be done here. */
export function heading(title, text, ...actions) {
  return h("div", { class: "head" }, h("div", { class: "grow" }, h("h1", null, title), h("p", { class: "quiet" }, text)), actions);
}

/** Replace what a node holds. */
export function put(node, ...children) {
  node.replaceChildren();
  return add(node, children);
}

/** A shell command with a button that copies it. */
export function command(text) {
  const button = h("button", { type: "button", class: "copy", "aria-label": `Copy: ${text}`, onclick: () => copy(text, button) }, "copy");
  return h("div", { class: "command" }, h("code", { tabindex: "0" }, text), button);
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "copied";
  } catch {
    // No permission (plain http on another host): mark it, so that the user's own copy key takes it.
    getSelection().selectAllChildren(button.previousSibling);
    button.textContent = "marked";
  }
  setTimeout(() => {
    button.textContent = "copy";
  }, 1500);
}

/** A short message that goes away by itself. */
export function toast(text, kind = "info") {
  const node = h("div", { class: `toast ${kind}` }, text);
  document.getElementById("toasts").append(node);
  setTimeout(() => node.remove(), kind === "bad" ? 9000 : 4500);
}

/** What could not be done, in the server's own words. */
export function problem(error, retry) {
  const lines = String(error.detail ?? error.message ?? error)
    .split("\n")
    .filter(Boolean);
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("strong", null, error.title ?? "That did not work"),
    lines.map((line) => h("p", null, line.trim())),
    (error.advice ?? []).filter((line) => !lines.some((other) => other.includes(line))).map((line) => h("p", { class: "advice" }, line)),
    retry && h("button", { type: "button", onclick: retry }, "Try again"),
  );
}

/** What to type where there is nothing yet. */
export function empty(title, text, ...commands) {
  return h("div", { class: "empty" }, h("h2", null, title), text && h("p", null, text), commands.map(command));
}

/** A word with a mark of its own: colour is never the only sign. */
export function chip(word, kind, mark) {
  return h("span", { class: `chip ${kind}` }, h("span", { "aria-hidden": "true", class: "mark" }, mark), word);
}

const STATES = {
  running: ["live", "▶"],
  queued: ["quiet", "…"],
  finished: ["quiet", "■"],
  stopped: ["warn", "❚❚"],
  failed: ["bad", "✕"],
  crashed: ["bad", "✕"],
  interrupted: ["warn", "❚❚"],
};
const VERDICTS = {
  SOLVED: ["good", "✓"],
  "PARTLY SOLVED": ["warn", "◐"],
  "REACHED, THEN LOST": ["warn", "↘"],
  "NOT SOLVED": ["bad", "✕"],
  RUNNING: ["live", "▶"],
  FAILED: ["bad", "✕"],
  adopt: ["good", "✓"],
  reject: ["bad", "✕"],
  "less reliable": ["bad", "⚠"],
  mixed: ["bad", "⚠"],
  equivalent: ["quiet", "="],
  undecided: ["warn", "?"],
  best: ["good", "✓"],
  several: ["warn", "="],
  better: ["good", "▲"],
  worse: ["bad", "▼"],
};

/** The state of a run, or the verdict on a group or trial. */
export function status(word) {
  const [kind, mark] = STATES[word] ?? VERDICTS[word] ?? ["quiet", "·"];
  return chip(word, kind, mark);
}

/** A word for those who hear the page instead of seeing it. */
export const unseen = (text) => h("span", { class: "unseen" }, text);

/** A table: heads are texts or {text, num}; rows are lists of cells. */
export function table(heads, rows, props = {}) {
  const marks = heads.map((head) => (head?.num ? "num" : null));
  return h(
    "div",
    { class: "wide", tabindex: "0", role: "region", "aria-label": props.label ?? "table" },
    h(
      "table",
      { class: props.class },
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          heads.map((head, i) => h("th", { scope: "col", class: marks[i] }, head?.text ?? head)),
        ),
      ),
      h(
        "tbody",
        null,
        rows.map((row) =>
          h(
            "tr",
            null,
            row.map((cell, i) => h("td", { class: marks[i] }, cell)),
          ),
        ),
      ),
    ),
  );
}
