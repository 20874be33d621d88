// Studies: searches, sensitivity studies and races are started here, and whatever runs in the background is stopped or taken up again.

import { post } from "./api.js";
import { started } from "./actions.js";
import { area, ask, box, field, lines, quote, sets, steps } from "./ask.js";
import { h, toast } from "./dom.js";
import { count, duration } from "./format.js";

/** Search for a better config within a budget. */
export async function optimizeDialog(target = "@last") {
  const what = box(target, { required: true }),
    budget = box("3M"),
    run = box("", { placeholder: "as in the config" });
  const goal = h(
    "select",
    null,
    [
      ["steps", "fewer env steps"],
      ["wall", "less wall time"],
      ["return", "a higher return"],
      ["stability", "less spread"],
    ].map(([value, text]) => h("option", { value }, text)),
  );
  const body = () => ({
    target: what.value.trim(),
    budget: steps(budget.value) ?? 0,
    outcome: goal.value,
    ...(steps(run.value) ? { run_env_steps: steps(run.value) } : {}),
  });
  await ask({
    title: "Search for a better config",
    word: "Start the search",
    text: "Diagnose, prescribe, try, confirm on fresh seeds; all within one budget of env steps.",
    fields: [
      h(
        "div",
        { class: "fields" },
        field("from", what, "a group, or ENV:VARIANT"),
        field("for", goal),
        field("budget in env steps", budget),
        field("env steps of one run", run),
      ),
    ],
    typed: () => {
      const b = body();
      return `rlclinic optimize ${quote(b.target || "GROUP")} --budget ${b.budget} --for ${b.outcome}${b.run_env_steps ? ` --run-env-steps ${b.run_env_steps}` : ""}`;
    },
    act: async () => started(await post("/studies/optimize", body()), "optimize"),
  });
}

/** How much each number of a config matters. */
export async function sensitivityDialog(target = "@last") {
  const what = box(target, { required: true }),
    seeds = box("4", { type: "number", min: "2", max: "64" }),
    factors = box("2, 4"),
    only = box("", { placeholder: "all of them" }),
    shapes = h("input", { type: "checkbox" });
  const changes = area("", { placeholder: "run.max_env_steps=50000" });
  const listed = (input) => input.value.split(/[\s,]+/).filter(Boolean);
  const body = () => ({
    target: what.value.trim(),
    seeds: Number(seeds.value) || 4,
    factors: listed(factors).map(Number).filter(Number.isFinite),
    only: listed(only),
    shapes: shapes.checked,
    changes: lines(changes),
  });
  await ask({
    title: "Which numbers matter?",
    word: "Start the study",
    text: "Each number of the config times and divided, on shared seeds, against the config as it is.",
    fields: [
      h(
        "div",
        { class: "fields" },
        field("of", what, "a group, or ENV:VARIANT"),
        field("numbers", only, "learning_rate, gamma, …"),
        field("times and divided by", factors),
        field("seeds a config", seeds),
      ),
      h("label", { class: "check" }, shapes, "also n_envs, n_steps, batch_size and n_epochs"),
      field("settings to change first, one a line", changes),
    ],
    typed: () => {
      const b = body();
      return `rlclinic sensitivity ${quote(b.target || "GROUP")} --seeds ${b.seeds} --factors ${b.factors.join(",")}${b.only.map((name) => ` --only ${quote(name)}`).join("")}${b.shapes ? " --shapes" : ""}${sets(b.changes)}`;
    },
    look: async () => costOf(await post("/studies/sensitivity/preview", body())),
    act: async () => started(await post("/studies/sensitivity", body()), "sensitivity"),
  });
}

/** Which of many configs, or values, is best. */
export async function raceDialog(target = "@last") {
  const what = area(target, { required: true }),
    values = area("", { placeholder: "algo.learning_rate=1e-4,3e-4,1e-3" }),
    budget = box("", { placeholder: "no limit" }),
    run = box("", { placeholder: "as in the config" });
  const body = () => ({
    targets: lines(what),
    changes: lines(values),
    ...(steps(budget.value) ? { budget: steps(budget.value) } : {}),
    ...(steps(run.value) ? { max_env_steps: steps(run.value) } : {}),
  });
  await ask({
    title: "Which of many is best?",
    word: "Start the race",
    text: "All train on fresh seeds; those shown to be worse are out, and a ranking says what was shown.",
    fields: [
      field("configs, one a line: groups or ENV:VARIANT; one alone with values below", what),
      field("values to race, one setting a line", values),
      h("div", { class: "fields" }, field("budget in env steps", budget), field("env steps of one run", run)),
    ],
    typed: () => {
      const b = body();
      const limit = b.budget ? ` --budget ${b.budget}` : "";
      return `rlclinic race ${b.targets.map(quote).join(" ") || "GROUP"}${sets(b.changes)}${limit}${b.max_env_steps ? ` --max-env-steps ${b.max_env_steps}` : ""}`;
    },
    look: async () => {
      const found = await post("/races/preview", body());
      const chances = Object.entries(found.power.by_effect).map(([size, chance]) => `${size}: ${chance.toFixed(2)}`);
      return h(
        "div",
        { class: "stack" },
        h("p", null, `${found.question} ${Object.keys(found.arms).join(", ")}; at most ${count(found.max_env_steps)} env steps`),
        h("p", { class: "faint" }, `the best is named, by how much better it is than each other: ${chances.join(" · ")}`),
      );
    },
    act: async () => started(await post("/races", body()), "race"),
  });
}

function costOf(found) {
  const most = found.seconds ? `, at most ${duration(found.seconds)} at the speed of its runs` : "";
  return h(
    "div",
    { class: "stack" },
    h("p", null, `${count(found.runs)} runs, at most ${count(found.max_env_steps)} env steps${most}`),
    found.study.skipped.map((text) => h("p", { class: "faint" }, `left out: ${text}`)),
  );
}

const WORDS = { trials: "trial", optimize: "search", sensitivity: "study", race: "race" };
const COMMANDS = { trials: "trial", optimize: "optimize", sensitivity: "sensitivity", race: "race" };

/** Stop what runs in the background as a whole. */
async function stopWhole(id, kind) {
  await ask({
    title: `Stop ${WORDS[kind]} ${id}?`,
    word: "Stop",
    danger: true,
    text: "Its runs save checkpoints and stop. It can go on later.",
    typed: () => `rlclinic stop ${id}`,
    act: async () => {
      await post(`/jobs/${id}/stop`);
      toast("Asked to stop.");
    },
  });
}

/** Go on where it was stopped or killed. */
async function goOn(id, kind) {
  await ask({
    title: `Go on with ${WORDS[kind]} ${id}?`,
    word: "Go on",
    text: "What has ended is kept; what was under way goes on from its checkpoints.",
    typed: () => `rlclinic ${COMMANDS[kind]} --resume ${id}`,
    act: async () => {
      started(await post({ trials: "/trials", race: "/races" }[kind] ?? `/studies/${kind}`, { resume: id }), kind);
    },
  });
}

/** The button that ends or takes up again a trial, a search or a study; none for one that is finished. */
export function studyButton(kind, { id, state, done }, job) {
  if (!done && job) return h("button", { type: "button", class: "danger", onclick: () => stopWhole(id, kind) }, "Stop…");
  if (done && state !== "finished") return h("button", { type: "button", onclick: () => goOn(id, kind) }, "Go on…");
  return null;
}
