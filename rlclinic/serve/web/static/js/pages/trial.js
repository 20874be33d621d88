// One trial: its arms side by side, each look against the bound, and the verdict.

import { get } from "../api.js";
import { adoptDialog } from "../actions.js";
import { h, put } from "../dom.js";
import { calm, listen } from "../events.js";
import { ago, num, range, short } from "../format.js";
import { Overlay, USUAL } from "../overlay.js";
import { state } from "../state.js";
import { studyButton } from "../studying.js";
import { aboutCard, armsCard, effectsCard, effectText, environmentsCard, looksCard } from "../trial_results.js";

const COLOURS = ["--c7", "--c0", "--c1", "--c2", "--c3", "--c4", "--c6"];
const KINDS = { adopt: "good", reject: "bad", "less reliable": "bad", mixed: "bad", undecided: "warn", equivalent: "quiet" };

export async function draw(main, [id]) {
  document.title = `${id} · rlclinic`;
  const top = h("div", { class: "stack" }),
    rest = h("div", { class: "stack wideset" });
  const overlay = new Overlay(state(USUAL));
  put(main, top, overlay.node, rest);
  const load = async () => {
    const found = await get(`/trials/${encodeURIComponent(id)}`);
    put(top, headOf(found));
    const arms = await armsOf(found.trial);
    put(
      rest,
      armsCard(found.trial, arms),
      h(
        "div",
        { class: "pair" },
        found.trial.looks.length > 0 && looksCard(found.trial, arms),
        found.trial.effects.length > 0 && effectsCard(found.trial),
      ),
      found.trial.environments && environmentsCard(found.trial),
      aboutCard(found),
    );
    await overlay.load(placesOf(found.trial, arms));
    return found;
  };
  let now = await load();
  const soon = calm(async () => {
    if (!now.progress.done) now = await load();
  }, 1500);
  const stop = listen(soon);
  // A verdict comes after the last run's row: nothing may change in the runs then.
  const beat = setInterval(soon, 2000);
  return () => {
    stop();
    clearInterval(beat);
    overlay.destroy();
  };
}

function headOf({ trial, progress, job }) {
  const word = trial.verdict ?? progress.state;
  const live = !progress.done;
  const best = trial.effects.find((effect) => effect.arm === trial.winner) ?? trial.effects[0];
  const share = progress.max_env_steps ? Math.min(1, progress.env_steps / progress.max_env_steps) : 0;
  return [
    h(
      "div",
      { class: "head" },
      h(
        "div",
        { class: "grow" },
        h("p", { class: "crumbs" }, h("a", { href: "/trials" }, "Trials"), ` / ${trial.id}`),
        h("h1", null, trial.question),
        h(
          "p",
          { class: "sub" },
          h("span", { class: "mono" }, trial.id),
          h("span", null, `${trial.env_id}:${trial.algo}`),
          h("span", null, ago(trial.created)),
          trial.context.group &&
            !trial.context.group.startsWith("@") &&
            h("a", { href: `/groups/${trial.context.group}` }, `for ${trial.context.group}`),
          trial.context.optimize && h("a", { href: `/optimize/${trial.context.optimize}` }, `of ${trial.context.optimize}`),
        ),
      ),
      h(
        "div",
        { class: "actions" },
        studyButton("trials", progress, job),
        trial.state === "finished" &&
          trial.source !== "command" &&
          h("button", { type: "button", class: trial.verdict === "adopt" ? "primary" : null, onclick: () => adoptDialog(trial) }, "Adopt…"),
      ),
    ),
    h(
      "div",
      { class: `verdict ${live ? "live" : (KINDS[trial.verdict] ?? "warn")}`, role: "status" },
      h("b", null, (live ? progress.state : word === "mixed" ? "helps here, hurts there" : word).toUpperCase()),
      trial.winner && !live && h("strong", null, trial.winner),
      best && h("span", null, effectText(trial, best)),
      best?.improvement.value !== null &&
        (best?.ratio || best?.gain) &&
        h("span", { class: "quiet" }, `P(improvement) ${range(best.improvement, 2)}`),
      best?.reached &&
        h(
          "span",
          { class: "quiet" },
          `${best.reached.value >= 0 ? "+" : ""}${num(100 * best.reached.value, 2)} points of runs reached the threshold`,
        ),
      best?.arrived?.low < 0 &&
        h("span", { class: "quiet" }, `a drop of up to ${num(-100 * best.arrived.low, 2)} points is not excluded`),
      trial.reason && h("span", { class: "quiet" }, trial.reason),
      progress.state === "queued" && h("span", null, `it ${progress.reason}; it begins by itself`),
      live &&
        progress.state !== "queued" &&
        h(
          "span",
          { class: "quiet" },
          `${progress.ended} of ${progress.runs} runs of this look have ended, ${progress.reached} reached the threshold · ${short(progress.env_steps)} env steps`,
        ),
      live &&
        h(
          "div",
          {
            class: "bar",
            css: { width: "12rem" },
            role: "progressbar",
            "aria-valuenow": Math.round(100 * share),
            "aria-valuemin": "0",
            "aria-valuemax": "100",
            "aria-label": "of the largest cost",
          },
          h("span", { css: { width: `${100 * share}%` } }),
        ),
    ),
    trial.notes.map((note) => h("p", { class: "faint" }, note)),
  ];
}

/** The arms with their groups; before the first look ends, as the groups' labels name them. */
async function armsOf(trial) {
  const groups = (await get("/groups", { trial: trial.id, limit: 100 })).items;
  const plan = [trial.plan.control, ...trial.plan.treatments];
  return plan.map((arm, i) => {
    const done = trial.arms.find((each) => each.name === arm.name);
    const own = groups.filter((group) => group.label?.replace(`${trial.id} `, "").replace(/( on \S+)? look \d+$/, "") === arm.name);
    return {
      name: arm.name,
      labels: Object.fromEntries(own.map((group) => [group.id, group.label])),
      changes: arm.changes,
      colour: COLOURS[i % COLOURS.length],
      groups: own.length ? own.map((group) => group.id) : (done?.groups ?? []),
      runs: own.reduce((sum, group) => sum + group.runs, 0),
      reached: own.reduce((sum, group) => sum + group.reached, 0),
      done,
    };
  });
}

/** What to draw: one picture, or one for each of several environments, whose returns have no scale in common. */
function placesOf(trial, arms) {
  const sides = (wanted) => arms.map((arm) => ({ label: arm.name, colour: arm.colour, of: arm.groups.filter(wanted(arm)) }));
  const places = trial.plan.environments;
  if (!places) return [{ title: "Return", threshold: trial.threshold, sides: sides(() => () => true) }];
  return places.map((place) => ({
    title: place.env_id,
    threshold: place.threshold,
    sides: sides((arm) => (group) => arm.labels[group]?.includes(` on ${place.env_id} look `)),
  }));
}
