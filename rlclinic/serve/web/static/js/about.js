// What surrounds the curves: the config and where each value came from, the log, tags and notes.

import { get, putJson } from "./api.js";
import { add, h, problem, put, table, toast } from "./dom.js";
import { num, setting, short } from "./format.js";

/** Nested settings as dotted names; schedules and lists stay whole. */
export function flat(value, prefix = "") {
  return Object.entries(value).flatMap(([key, inner]) =>
    inner !== null && typeof inner === "object" && !Array.isArray(inner) && !("schedule" in inner) && Object.keys(inner).length
      ? flat(inner, `${prefix}${key}.`)
      : [[prefix + key, inner]],
  );
}

/** Every setting, with where its value came from; what a person chose stands out. */
export function configTable(found) {
  const config = found.config ?? found.report.config;
  const origins = found.origins ?? {};
  const origin = (key) => origins[key] ?? origins[`${key}.start`] ?? "";
  const rows = flat(config).filter(([key]) => !key.startsWith("spec.") && key !== "name");
  const own = (key) => origin(key) && origin(key) !== "default";
  const current = found.current ?? {};
  const changes = Object.values(current).some((each) => each.changed_at !== null);
  const scheduled = (key, value) => current[key] && (current[key].changed_at !== null || typeof value !== "number" || value !== current[key].low);
  const body = h("tbody");
  const search = h("input", { type: "search", placeholder: "Search settings", "aria-label": "Search settings", oninput: () => fill() });
  const all = h("input", { type: "checkbox", onchange: () => fill() });
  const fill = () =>
    put(
      body,
      rows
        .filter(([key]) => key.includes(search.value.trim()) && (all.checked || search.value || own(key) || (current[key]?.changed_at ?? null) !== null))
        .map(([key, value]) =>
          h(
            "tr",
            { class: /--set|--rx|--max/.test(origin(key)) || (current[key]?.changed_at ?? null) !== null ? "own" : null },
            h("td", null, key),
            h("td", { class: "mono" }, setting(value)),
            h("td", { class: "mono" }, scheduled(key, value) ? nowText(current[key]) : ""),
            h("td", { class: "faint" }, origin(key) || "–"),
          ),
        ),
    );
  if (!Object.keys(origins).length) all.checked = true;
  fill();
  return h(
    "section",
    { class: "card config" },
    h("header", null, h("h2", null, "Config"), h("div", { class: "end" }, h("label", { class: "check" }, all, "with defaults"), search)),
    h(
      "div",
      { class: "wide", tabindex: "0", role: "region", "aria-label": "Config" },
      h(
        "table",
        null,
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            ["setting", changes ? "at the start" : "value", "in the last row", "from"].map((text) => h("th", { scope: "col" }, text)),
          ),
        ),
        body,
      ),
    ),
    derivedOf(found.derived ?? {}),
  );
}

/** A number as the newest rows have it: a schedule's present value, and who changed it while it ran. */
function nowText({ low, high, changed_at: at }) {
  const number = low === high ? num(low) : `${num(low)} – ${num(high)}`;
  return at === null ? number : [number, h("span", { class: "faint" }, ` changed at ${short(at)}`)];
}

/** Numbers that follow from the settings: rollout size, gradient steps, how far gamma looks ahead. */
function derivedOf(derived) {
  const rows = Object.entries(derived).filter(([, value]) => value !== null && typeof value !== "object");
  if (!rows.length) return null;
  return h(
    "details",
    null,
    h("summary", null, "Numbers that follow from it"),
    table(
      ["number", { text: "value", num: true }],
      rows.map(([name, value]) => [name.replaceAll("_", " "), typeof value === "number" ? num(value, 4) : String(value)]),
      { label: "Numbers that follow from the config" },
    ),
  );
}

/** The end of a run's log, followed while it grows. */
export function logTail(runs) {
  const text = h("pre", { class: "log", tabindex: "0", role: "log", "aria-label": "Log" });
  const pick = h(
    "select",
    { "aria-label": "Whose log", onchange: () => load() },
    runs.map((run) => h("option", { value: run }, run)),
  );
  const card = h(
    "details",
    {
      class: "card",
      ontoggle: () => {
        if (card.open) load();
      },
    },
    h("summary", null, "Log"),
    runs.length > 1 && h("p", null, pick),
    text,
  );
  const load = async () => {
    try {
      const found = await get(`/runs/${encodeURIComponent(pick.value || runs[0])}/log`, { bytes: 20000 });
      text.textContent = found.lines.slice(-200).join("\n") || "Nothing was logged.";
      text.scrollTop = text.scrollHeight;
    } catch (error) {
      put(text, problem(error, load));
    }
  };
  card.refresh = () => {
    if (card.open) load();
  };
  return card;
}

/** Tags and a note, kept beside the runs. */
export function notesCard(kind, found) {
  const id = found.id ?? found.report.id;
  let tags = [...(found.tags ?? [])];
  const shown = h("span", { class: "row" });
  const note = h("textarea", { "aria-label": "Note", placeholder: "What you want to remember about this. Searched from the list." });
  note.value = found.note ?? "";
  const input = h("input", {
    "aria-label": "New tag",
    placeholder: "add a tag",
    size: "12",
    onkeydown: (event) => {
      if (event.key === "Enter" && input.value.trim()) {
        event.preventDefault();
        tags = [...new Set([...tags, input.value.trim()])];
        input.value = "";
        save();
      }
    },
  });
  const save = async () => {
    try {
      const kept = await putJson(`/${kind}/${encodeURIComponent(id)}/notes`, { tags, note: note.value });
      tags = kept.tags;
      draw();
      toast("Kept.");
    } catch (error) {
      toast(error.message, "bad");
    }
  };
  const draw = () =>
    put(
      shown,
      tags.map((tag) =>
        h(
          "span",
          { class: "tag" },
          tag,
          h(
            "button",
            {
              type: "button",
              "aria-label": `Remove tag ${tag}`,
              onclick: () => {
                tags = tags.filter((each) => each !== tag);
                save();
              },
            },
            "✕",
          ),
        ),
      ),
      input,
    );
  draw();
  return add(
    h("section", { class: "card notes" }),
    h("header", null, h("h2", null, "Tags and notes"), shown),
    note,
    h("p", null, h("button", { type: "button", onclick: save }, "Save note")),
  );
}
