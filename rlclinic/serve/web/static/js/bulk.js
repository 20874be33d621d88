// What is done with many rows of the table at once: stop, tag, delete, diagnose, export.

import { get, post } from "./api.js";
import { ask, box, field, quote } from "./ask.js";
import { command, h, problem, put, status, table, toast } from "./dom.js";
import { count } from "./format.js";

const MOST_DIAGNOSED = 20,
  MOST_EXPORTED = 50;
const several = (ids) => ids.map(quote).join(" ");

/** Ask every one that trains to save a checkpoint and stop. */
export function stopMany(ids, kind, done) {
  return ask({
    title: `Stop ${count(ids.length)} ${kind}?`,
    text: "Each run saves a checkpoint and stops between two iterations. It can be resumed. Those that have ended are left as they are.",
    typed: () => ids.map((id) => `rlclinic stop ${quote(id)}`).join("\n"),
    word: "Stop",
    danger: true,
    act: async () => {
      const answers = await Promise.allSettled(ids.map((id) => post(`/${kind}/${encodeURIComponent(id)}/stop`)));
      const refused = answers.filter((answer) => answer.status === "rejected");
      toast(`asked ${count(ids.length - refused.length)} to stop${refused.length ? `; ${count(refused.length)} do not train` : ""}`);
      await done();
    },
  });
}

export function tagMany(ids, kind, done) {
  const add = box("", { placeholder: "baseline", "aria-label": "Tags to add" }),
    remove = box("", { "aria-label": "Tags to take away" });
  const words = (input) => input.value.split(/[\s,]+/).filter(Boolean);
  const options = (name, input) =>
    words(input)
      .map((tag) => ` --${name} ${quote(tag)}`)
      .join("");
  return ask({
    title: `Tag ${count(ids.length)} ${kind}`,
    fields: [field("Add", add, "several are separated by blanks"), field("Take away", remove)],
    typed: () => `rlclinic runs tag ${several(ids)}${options("add", add)}${options("remove", remove)}`,
    word: "Set tags",
    act: async () => {
      await post("/tags", { of: ids, add: words(add), remove: words(remove) });
      await done();
    },
  });
}

export function deleteMany(ids, kind, done) {
  return ask({
    title: `Delete ${count(ids.length)} ${kind}?`,
    text: kind === "groups" ? "With all their runs and checkpoints. There is no way back." : "With their checkpoints. There is no way back.",
    typed: () => `rlclinic runs rm ${several(ids)} --yes`,
    word: "Delete",
    danger: true,
    act: async () => {
      const answer = await post("/removals", { runs: ids });
      toast(`deleted ${count(answer.runs.length)} runs`);
      await done();
    },
  });
}

/** The first cause of each, in one table that fills as the answers come. */
export async function diagnoseMany(ids, kind) {
  const asked = ids.slice(0, MOST_DIAGNOSED);
  const cells = asked.map((id) => [h("a", { href: `/${kind}/${encodeURIComponent(id)}` }, id), h("span", { class: "faint" }, "…"), h("span"), h("span")]);
  const dialog = h(
    "dialog",
    { "aria-label": "Diagnoses" },
    h(
      "form",
      { method: "dialog" },
      h("h2", null, `Diagnosis of ${count(asked.length)} ${kind}`),
      ids.length > asked.length && h("p", { class: "faint" }, `The first ${MOST_DIAGNOSED} of ${count(ids.length)}.`),
      table([kind.slice(0, -1), "verdict", "most likely cause", { text: "p", num: true }], cells, { label: "Diagnoses" }),
      command(`rlclinic diagnose ${quote(asked[0])}`),
      h("footer", null, h("button", { type: "submit" }, "Close")),
    ),
  );
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target.closest("a") && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  for (const [i, id] of asked.entries()) {
    if (!dialog.open) return;
    try {
      const { diagnosis } = await get(`/${kind}/${encodeURIComponent(id)}/diagnosis`);
      const [first] = diagnosis.causes;
      put(cells[i][1], status(diagnosis.verdict));
      put(cells[i][2], diagnosis.answer);
      put(cells[i][3], first ? first.probability.toFixed(2) : "–");
    } catch (error) {
      put(cells[i][1], error.status === 404 ? "nothing to diagnose yet" : problem(error));
    }
  }
}

/** As other programs keep them, in one packed file. */
export function exportMany(ids, kind) {
  const taken = ids.slice(0, MOST_EXPORTED);
  const to = h(
    "select",
    { "aria-label": "As" },
    [
      ["html", "one HTML file each: report, diagnosis, charts, config, log"],
      ["wandb", "W&B, offline runs"],
      ["mlflow", "MLflow, a file store"],
      ["tensorboard", "TensorBoard event files"],
      ["hf", "a folder for the Hugging Face hub each"],
    ].map(([value, text]) => h("option", { value }, text)),
  );
  return ask({
    title: `Export ${count(taken.length)} ${kind}`,
    text: `${ids.length > taken.length ? `The first ${MOST_EXPORTED} of ${count(ids.length)}. ` : ""}A packed file is made here and saved by your browser; nothing is sent anywhere else.`,
    fields: [field("As", to)],
    typed: () => taken.map((id) => `rlclinic runs export ${quote(id)} --to ${to.value}`).join("\n"),
    word: "Save",
    reads: true,
    act: async () => {
      const link = h("a", { href: `/api/v1/export.zip?${new URLSearchParams([...taken.map((id) => ["of", id]), ["to", to.value]])}`, download: "" });
      document.body.append(link);
      link.click();
      link.remove();
    },
  });
}
