// A dialog that asks before something is done, and shows the command that would do the same.

import { session } from "./api.js";
import { command, h, problem, put } from "./dom.js";

const go = (href) => document.dispatchEvent(new CustomEvent("navigate-to", { detail: href }));
/** A word as a shell takes it. */
export const quote = (text) => (/^[\w@:./,=+%~-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/**
 * A question before something is done. `fields` are nodes; `typed()` is the command that does the same; `act()` does it and may return where to go;
 * `look()` is asked on every change and shows what would happen; `reads`: nothing is changed, so whoever may only read may do it.
 */
export async function ask({ title, text, fields = [], typed, act, word, danger, look, reads }) {
  const who = reads ? { write: true } : await session().catch(() => ({ write: true }));
  const shown = h("div"),
    seen = h("div"),
    wrong = h("div");
  const yes = h("button", { type: "submit", class: danger ? "danger" : "primary", disabled: !who.write }, word);
  const form = h(
    "form",
    { method: "dialog" },
    h("h2", null, title),
    text && h("p", { class: "quiet" }, text),
    fields,
    seen,
    h("div", { class: "field" }, h("small", null, "The same in a terminal"), shown),
    wrong,
    !who.write && h("p", { class: "problem" }, "This server lets you read only."),
    h("footer", null, h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), yes),
  );
  const dialog = h("dialog", { "aria-label": title }, form);
  const update = () => {
    put(shown, command(typed()));
    if (look) later(look, seen, yes);
  };
  form.addEventListener("input", update);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    yes.disabled = true;
    put(wrong);
    try {
      const to = await act();
      dialog.close();
      if (to) go(to);
    } catch (error) {
      put(wrong, problem(error));
      yes.disabled = false;
    }
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  update();
  dialog.showModal();
  (form.querySelector("input, textarea, select") ?? yes).focus();
}

let waiting = null;

/** Ask what would happen a moment after the last key; only the newest answer is shown. */
function later(look, seen, yes) {
  clearTimeout(waiting);
  put(seen, h("p", { class: "loading" }, "Computing what it would do…"));
  const mine = setTimeout(async () => {
    try {
      const found = await look();
      if (waiting === mine) {
        put(seen, found);
        yes.disabled = false;
      }
    } catch (error) {
      if (waiting === mine) {
        put(seen, problem(error));
        yes.disabled = true;
      }
    }
  }, 350);
  waiting = mine;
}

export function field(label, input, note) {
  return h("label", { class: "field" }, label, input, note && h("small", null, note));
}

export const box = (value = "", props = {}) => h("input", { value, ...props });
export const area = (value = "", props = {}) => Object.assign(h("textarea", { rows: "2", ...props }), { value });
export const lines = (input) =>
  input.value
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
/** 50k, 1e6 and 2_000_000 are understood. */
export function steps(text) {
  const match = /^([\d._,]+(?:e\d+)?)\s*([kM]?)$/.exec(text.trim());
  return match ? Math.round(Number(match[1].replaceAll(/[_,]/g, "")) * { "": 1, k: 1e3, M: 1e6 }[match[2]]) : null;
}
export const sets = (changes) => changes.map((change) => ` --set ${quote(change)}`).join("");
