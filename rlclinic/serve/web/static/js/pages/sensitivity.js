// How much each number of a config matters.

import { get } from "../api.js";
import { command, h, put, status, table } from "../dom.js";
import { tornado } from "../figures.js";
import { calm, listen } from "../events.js";
import { ago, count, num, setting, short } from "../format.js";
import { studyButton } from "../studying.js";

export async function draw(main, [id]) {
  document.title = `${id} · rlclinic`;
  let study, progress;
  const load = async () => {
    const found = await get(`/studies/sensitivity/${encodeURIComponent(id)}`);
    ({ study, progress } = found);
    const what =
      study.measure === "steps"
        ? "env steps to the threshold, relative to the config as it is (below 1 is better)"
        : "change of the final return (above 0 is better)";
    const rows = study.rows.map((row) => [
      row.arm.name.replace(/^algo\./, ""),
      h("span", { class: "mono" }, setting(row.arm.value)),
      row.effect === null ? "–" : `${num(row.effect, 2)}${row.low === null ? "" : ` [${num(row.low, 2)}, ${num(row.high, 2)}]`}`,
      row.reached === null ? "–" : `${row.reached} of ${row.n}`,
      row.verdict === "no difference seen" ? "not shown" : status(row.verdict),
      row.group ? h("a", { href: `/groups/${row.group}` }, row.group) : "",
    ]);
    put(
      main,
      h(
        "div",
        { class: "head" },
        h(
          "div",
          { class: "grow" },
          h("p", { class: "crumbs" }, h("a", { href: "/studies" }, "Studies"), ` / ${study.id}`),
          h("h1", null, `What matters in ${study.target}`, " ", status(progress.state)),
          h(
            "p",
            { class: "sub" },
            h("span", { class: "mono" }, study.id),
            h("span", null, `${study.env_id}:${study.algo}`),
            h("span", null, `${study.arms.length + 1} configs × ${study.seeds.length} seeds`),
            h("span", null, `${short(study.used_env_steps || progress.env_steps)} env steps`),
            h("span", null, ago(study.created)),
          ),
        ),
        h("div", { class: "actions" }, studyButton("sensitivity", progress, found.job)),
      ),
      h(
        "section",
        { class: "card" },
        h(
          "header",
          null,
          h("h2", null, "Each number, times and divided"),
          h("span", { class: "faint" }, `${what}; 95 % intervals, ${study.simultaneous ? "which hold for all values together" : "each for itself"}; all configs share their seeds`),
        ),
        study.rows.length
          ? tornado(study, found.ranking)
          : h("p", { class: "quiet" }, soFar(progress)),
      ),
      study.rows.length > 0 &&
        h(
          "section",
          { class: "card" },
          h("header", null, h("h2", null, "Numbers")),
          table(["number", "value", "effect", "reached", "verdict", "group"], rows, { label: "Effects" }),
        ),
      study.skipped.length > 0 &&
        h(
          "section",
          { class: "card" },
          h("h2", null, "Left out"),
          h(
            "ul",
            null,
            study.skipped.map((text) => h("li", null, text)),
          ),
        ),
      command(`rlclinic sensitivity --resume ${study.id}`),
    );
  };
  await load();
  return listen(
    calm(async () => {
      if (!progress.done) await load();
    }, 2500),
  );
}

function soFar({ state, reason, runs, ended, env_steps: made, max_env_steps: most }) {
  if (state === "queued") return `Queued: it ${reason}. It begins by itself.`;
  const done = `${ended} of ${runs} runs have ended, ${count(made)} of at most ${count(most)} env steps are made`;
  return state === "running" ? `Training: ${done}.` : `${state[0].toUpperCase()}${state.slice(1)}: ${done}.${reason ? ` ${reason}` : ""}`;
}
