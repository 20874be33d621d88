// What changes something: each asks first, and shows the command that would do the same.

import { get, post } from "./api.js";
import { area, ask, box, field, lines, quote, sets, steps } from "./ask.js";
import { chip, command, h, problem, put, toast } from "./dom.js";
import { duration, percent, short } from "./format.js";

/** Train something new. */
export async function startDialog(ref = "CartPole-v1:ppo") {
  const what = box(ref, { list: "configs", required: true }),
    seeds = box("4", { type: "number", min: "1", max: "256" }),
    budget = box("", { placeholder: "as in the config" }),
    name = box("");
  const changes = area("", { placeholder: "algo.learning_rate=3e-4" });
  const known = h("datalist", { id: "configs" });
  get("/environments")
    .then((found) =>
      put(
        known,
        found.environments.flatMap((env) => env.variants.map((variant) => h("option", { value: `${env.id}:${variant}` }))),
      ),
    )
    .catch(() => {});
  const body = () => ({
    ref: what.value.trim(),
    seeds: Number(seeds.value) || 1,
    changes: lines(changes),
    ...(steps(budget.value) ? { max_env_steps: steps(budget.value) } : {}),
    ...(name.value ? { name: name.value } : {}),
  });
  await ask({
    title: "Train",
    text: "It runs in the background and outlives this page and the server.",
    word: "Train",
    fields: [
      h(
        "div",
        { class: "fields" },
        field("what", what, "ENV:VARIANT, or any Gymnasium id"),
        field("seeds", seeds),
        field("env steps a seed", budget),
        field("label", name),
      ),
      known,
      field("settings to change, one a line", changes),
    ],
    typed: () => {
      const b = body();
      return `rlclinic train ${quote(b.ref || "ENV")} --seeds ${b.seeds}${b.max_env_steps ? ` --max-env-steps ${b.max_env_steps}` : ""}${sets(b.changes)}${b.name ? ` --name ${quote(b.name)}` : ""} --detach`;
    },
    look: async () => checked(body()),
    act: async () => started(await post("/trainings", body()), "groups"),
  });
}

const FOLLOWS = [
  ["updates", "updates"],
  ["samples_per_update", "transitions each"],
  ["minibatches_per_epoch", "minibatches an epoch"],
  ["gradient_steps", "gradient steps in all"],
  ["horizon_steps", "steps that count (1/(1 - gamma))"],
];

/** What the check before a training says: the numbers that follow from the settings, and what speaks against them. */
async function checked({ ref, changes, max_env_steps: most }) {
  const { lint } = await post("/config/validate", { ref, changes: [...changes, ...(most ? [`run.max_env_steps=${most}`] : [])] });
  const { derived, findings } = lint.lint;
  const follows = FOLLOWS.filter(([key]) => derived[key] !== undefined).map(([key, text]) => `${short(derived[key])} ${text}`);
  return h(
    "div",
    { class: "stack checked" },
    h("p", { class: "quiet" }, follows.join(" · ")),
    findings.map((each) => h("p", null, chip(each.severity, each.severity === "high" ? "bad" : "warn", "◆"), ` ${each.rule}: ${each.text}`)),
  );
}

export function started(job, kind) {
  toast(job.repeated ? "That was started before." : job.state === "queued" ? `Queued: it ${job.reason}.` : "Started.");
  return job.refers ? `/${kind}/${job.refers}` : "/";
}

/** The same config once more, with other seeds or settings. */
export async function againDialog(id, found) {
  const seeds = box(String(found.report.n_runs), { type: "number", min: "1", max: "256" }),
    seed = box("", { type: "number", min: "0", placeholder: "the same" }),
    budget = box("", { placeholder: "the same" }),
    name = box(found.label ?? "");
  const changes = area("", { placeholder: "algo.learning_rate=3e-4" });
  const body = () => ({
    ref: id,
    seeds: Number(seeds.value) || 1,
    changes: lines(changes),
    ...(seed.value ? { seed: Number(seed.value) } : {}),
    ...(steps(budget.value) ? { max_env_steps: steps(budget.value) } : {}),
    ...(name.value ? { name: name.value } : {}),
  });
  await ask({
    title: `Train ${id} again`,
    word: "Train",
    fields: [
      h(
        "div",
        { class: "fields" },
        field("seeds", seeds),
        field("first seed", seed),
        field("env steps a seed", budget),
        field("label", name),
      ),
      field("settings to change, one a line", changes),
    ],
    typed: () => {
      const b = body();
      return `rlclinic train ${id} --seeds ${b.seeds}${b.seed !== undefined ? ` --seed ${b.seed}` : ""}${b.max_env_steps ? ` --max-env-steps ${b.max_env_steps}` : ""}${sets(b.changes)} --detach`;
    },
    act: async () => started(await post("/trainings", body()), "groups"),
  });
}

/** Train with a prescription that nobody has tried. */
export async function trainRxDialog(id, number) {
  await ask({
    title: `Use prescription ${number} untried`,
    word: "Train",
    text: "The same seeds with the change. It may help; only a trial on fresh seeds shows that it does.",
    typed: () => `rlclinic train ${id} --rx ${number} --detach`,
    act: async () => started(await post("/trainings", { ref: id, rx: number }), "groups"),
  });
}

/** Stop a group (or a run): it saves a checkpoint first. */
export async function stopDialog(id, kind = "groups") {
  await ask({
    title: `Stop ${id}?`,
    word: "Stop",
    danger: true,
    text: "Each run saves a checkpoint and stops between two iterations. It can be resumed.",
    typed: () => `rlclinic stop ${id}`,
    act: async () => {
      await post(`/${kind}/${id}/stop`);
      toast("Asked to stop.");
    },
  });
}

/** Go on with runs that were stopped or killed. */
export async function goOnDialog(id) {
  await ask({
    title: `Go on with ${id}?`,
    word: "Go on",
    text: "Runs that have not finished go on from their last checkpoints, to the same budget.",
    typed: () => `rlclinic train --resume ${id} --detach`,
    act: async () => started(await post("/trainings", { resume: id }), "groups"),
  });
}

/** Change a number while it trains. */
export async function adjustDialog(id, found, kind = "groups") {
  const config = found.config ?? found.report.config;
  const numbers = Object.entries(config.algo ?? {})
    .filter(([, value]) => typeof value === "number" || value === null || value?.start !== undefined)
    .map(([key]) => key);
  const which = h(
      "select",
      null,
      numbers.map((key) => h("option", { value: key }, key)),
    ),
    value = box("", { required: true, placeholder: "0.01" });
  which.value = numbers.includes("ent_coef") ? "ent_coef" : numbers[0];
  const now = h("small");
  const change = () => {
    put(now, `now ${JSON.stringify(config.algo[which.value])}`);
    return `algo.${which.value}=${value.value.trim()}`;
  };
  await ask({
    title: `Adjust ${id} while it trains`,
    word: "Adjust",
    text: "It takes effect between two iterations, is recorded, and a resume repeats it.",
    fields: [h("div", { class: "fields" }, field("number", which), h("label", { class: "field" }, "to", value, now))],
    typed: () => `rlclinic adjust ${id} --set ${quote(change())}`,
    act: async () => {
      await post(`/${kind}/${id}/adjust`, { changes: [change()] });
      toast("Asked to change.");
    },
  });
}

/** What to change, in every form in which it can be typed or pasted. */
export async function prescribeDialog(id) {
  const dialog = h("dialog", { "aria-label": `Prescriptions for ${id}` });
  const shown = h("div", { class: "stack" }, h("p", { class: "loading" }, "Computing from the runs' own numbers…"));
  dialog.append(
    h(
      "form",
      { method: "dialog" },
      h("h2", null, `Prescriptions for ${id}`),
      shown,
      h("div", { class: "field" }, h("small", null, "The same in a terminal"), command(`rlclinic prescribe ${id}`)),
      h("footer", null, h("button", { type: "submit" }, "Close")),
    ),
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  try {
    const found = await get(`/groups/${id}/prescriptions`);
    put(
      shown,
      h("p", { class: "quiet" }, `${found.answer} (p ${found.probability.toFixed(2)})`),
      !found.prescriptions.length && h("p", null, found.why_none),
      found.prescriptions.map((rx, i) =>
        h(
          "div",
          { class: "rx" },
          h("p", { class: "change" }, `℞ ${rx.number}  ${rx.title}`),
          h("p", null, rx.rationale),
          h("p", { class: "faint" }, `${rx.priority} · effect ${rx.effect} · risk: ${rx.risk || "none known"}`),
          rx.evidence.length > 0 &&
            h(
              "ul",
              { class: "faint" },
              rx.evidence.map((text) => h("li", null, text)),
            ),
          found.written[i]?.yaml && h("pre", null, found.written[i].yaml),
          Object.entries(found.written[i]?.foreign ?? {}).map(([name, text]) =>
            h("div", null, h("small", null, name), h("pre", null, text)),
          ),
          Object.keys(rx.changes).length > 0 &&
            h(
              "div",
              { class: "row" },
              h(
                "button",
                {
                  type: "button",
                  onclick: () => {
                    dialog.close();
                    trialDialog(id, rx.number);
                  },
                },
                "Prove it in a trial…",
              ),
              h(
                "button",
                {
                  type: "button",
                  onclick: () => {
                    dialog.close();
                    trainRxDialog(id, rx.number);
                  },
                },
                "Use it untried…",
              ),
            ),
        ),
      ),
    );
  } catch (error) {
    put(shown, problem(error));
  }
}

/** Try a prescription, or settings of one's own, against the group's config on fresh seeds. */
export async function trialDialog(id, number) {
  let given = [];
  try {
    given = (await get(`/groups/${id}/prescriptions`)).prescriptions.filter((rx) => Object.keys(rx.changes).length);
  } catch {
    /* an imported group may have none: own settings can be tried all the same */
  }
  const chosen = number ?? given[0]?.number;
  const arms = given.map((rx) =>
    h(
      "label",
      { class: "check" },
      h("input", { type: "checkbox", value: rx.number, checked: rx.number === chosen }),
      `℞ ${rx.number}  ${rx.title}`,
    ),
  );
  const changes = area("", { placeholder: "algo.learning_rate=3e-4" });
  const perLook = box("8", { type: "number", min: "2", max: "64" }),
    looks = box("4", { type: "number", min: "1", max: "8" }),
    budget = box("", { placeholder: "as in the config" }),
    envs = box("", { placeholder: "the group's own; or CartPole-v1,Acrobot-v1" });
  const body = () => ({
    targets: [id],
    envs: envs.value
      .split(",")
      .map((name) => name.trim())
      .filter(Boolean),
    rx: arms
      .map((arm) => arm.firstChild)
      .filter((input) => input.checked)
      .map((input) => Number(input.value)),
    changes: lines(changes),
    per_look: Number(perLook.value) || 8,
    looks: Number(looks.value) || 4,
    ...(steps(budget.value) ? { max_env_steps: steps(budget.value) } : {}),
  });
  await ask({
    title: `A trial for ${id}`,
    word: "Start the trial",
    text: "The change against the config as it is, on fresh seeds. It stops as soon as a look decides, and errs in at most 5 % of all trials.",
    fields: [
      arms.length > 0 && h("fieldset", { class: "field" }, h("legend", null, "arms"), arms),
      field("settings of your own, one a line (one arm)", changes),
      h(
        "div",
        { class: "fields" },
        field("seeds an arm per look", perLook),
        field("looks at most", looks),
        field("env steps a seed", budget),
      ),
      field("environments, with one verdict over all of them", envs),
    ],
    typed: () => {
      const b = body();
      const where = b.envs.length ? ` --envs ${b.envs.join(",")}` : "";
      return `rlclinic trial ${id}${b.rx.length ? ` --rx ${b.rx.join(",")}` : ""}${sets(b.changes)}${where} --per-look ${b.per_look} --looks ${b.looks}${b.max_env_steps ? ` --max-env-steps ${b.max_env_steps}` : ""}`;
    },
    look: async () => previewOf(await post("/trials/preview", body())),
    act: async () => started(await post("/trials", body()), "trials"),
  });
}

function previewOf(found) {
  const power = Object.entries(found.power.by_effect)
    .map(([size, share]) => `${effectWord(found.power.kind, Number(size))} with power ${share.toFixed(2)}`)
    .join(" · ");
  const rows = [
    ["asks", found.question],
    ["can see", power],
    [
      "costs",
      `at most ${short(found.max_env_steps)} env steps${found.max_seconds ? `, ${duration(found.max_seconds)} on ${found.cores} cores` : ""}${found.likely_seconds ? `; likely ${duration(found.likely_seconds)}` : ""}`,
    ],
  ];
  return h(
    "div",
    { class: "rx first" },
    h(
      "dl",
      { class: "why" },
      rows.flatMap(([name, text]) => [h("dt", null, name), h("dd", null, text)]),
    ),
    found.warnings.map((text) => h("p", { class: "faint" }, text)),
  );
}

const effectWord = (kind, size) =>
  kind === "time" ? `${percent(size)} fewer steps` : kind === "shift" ? `${size} standard deviations` : `${percent(size)} less spread`;

/** Keep the winner of a trial: the difference is shown before anything is written. */
export async function adoptDialog(trial) {
  const name = box(trial.environments ? "mine" : `${trial.env_id}:mine`, { required: true }),
    force = h("input", { type: "checkbox" });
  const body = (dry) => ({ ref: name.value.trim(), force: force.checked, dry_run: dry });
  await ask({
    title: `Adopt ${trial.winner ?? "the change"} of ${trial.id}`,
    word: "Write it",
    text: "It becomes a variant in ./config/environments of the folder that the server was started in, with its evidence as comments.",
    fields: [
      field("as", name, trial.environments ? "VARIANT of every environment, or ENV:VARIANT" : "ENV:VARIANT"),
      h("label", { class: "check" }, force, "also if the verdict is not adopt, or the name is taken"),
    ],
    typed: () => `rlclinic adopt ${trial.id} --as ${quote(name.value || "ENV:NAME")}${force.checked ? " --force" : ""}`,
    look: async () => diffOf((await post(`/trials/${trial.id}/adopt`, body(true))).diff),
    act: async () => {
      const done = await post(`/trials/${trial.id}/adopt`, body(false));
      toast(`Written to ${done.file}.\nTrain it: rlclinic train ${done.refs?.[0] ?? done.ref}`);
    },
  });
}

function diffOf(rows) {
  return h(
    "pre",
    { class: "diff" },
    rows.map((row) => h("span", { class: row.startsWith("+") ? "add" : row.startsWith("-") ? "del" : null }, `${row}\n`)),
  );
}
