// One run: its curves, its diagnosis, its checkpoints with an episode to watch, its log.

import { get } from "../api.js";
import { adjustDialog, stopDialog } from "../actions.js";
import { configTable, logTail, notesCard } from "../about.js";
import { checkpointsOf, episodesCard } from "../checkpoints.js";
import { diagnosisCard } from "../diagnosis.js";
import { h, problem, put, status } from "../dom.js";
import { calm, follow } from "../events.js";
import { histogramsCard } from "../histograms.js";
import { labelCard } from "../labelling.js";
import { ago, censored, count, duration, num, percent, short, task } from "../format.js";
import { Panel, USUAL } from "../panel.js";
import { state } from "../state.js";
import { trialLink } from "./group.js";

export async function draw(main, [id]) {
  document.title = `${id} · rlclinic`;
  const st = state({ ...USUAL, seeds: false });
  const head = h("div", { class: "head" }, h("h1", null, id));
  const facts = h("div"),
    side = h("aside", { "aria-label": "Diagnosis" }, h("section", { class: "card" }, h("p", { class: "loading" }, "Examining…"))),
    below = h("div", { class: "stack wideset" });
  const panel = new Panel([id], st);
  put(main, head, facts, h("div", { class: "two" }, h("div", null, panel.node, below), side));
  const about = async () => {
    const found = await get(`/runs/${encodeURIComponent(id)}`);
    header(head, found);
    put(facts, factsOf(found));
    return found;
  };
  const examine = async () => {
    try {
      put(side, diagnosisCard(await get(`/runs/${encodeURIComponent(id)}/diagnosis`), panel, st, null));
    } catch (error) {
      put(side, h("section", { class: "card" }, h("h2", null, "Diagnosis"), problem(error, examine)));
    }
  };
  const drawn = panel.load().catch((error) =>
    put(
      panel.main,
      problem(error, () => draw(main, [id])),
    ),
  );
  const found = await about();
  drawn.then(() => (panel.first?.x.length || found.state !== "running" ? examine() : null));
  const log = logTail([id]);
  const kept = h("section", { class: "card" });
  put(kept, ...checkpointsOf(id, found.checkpoints).childNodes);
  const episodes = episodesCard(id),
    histograms = histogramsCard(id);
  put(
    below,
    labelCard(id, found),
    episodes,
    kept,
    changesCard(found),
    histograms,
    configTable(found),
    notesCard("runs", found),
    log,
    h("p", { class: "faint" }, h("a", { href: `/api/v1/runs/${id}/metrics.csv`, download: true }, "All rows as CSV")),
  );
  const rows = calm(() => panel.refresh(false).catch(() => {}), 400);
  const rest = calm(async () => {
    await panel.refresh().catch(() => {});
    const now = await about();
    if (now.checkpoints.length !== found.checkpoints.length) put(kept, ...checkpointsOf(id, now.checkpoints).childNodes);
    log.refresh();
    episodes.refresh();
    histograms.refresh();
  }, 3000);
  const again = calm(examine, 10000);
  let states = 0;
  const stop = follow(
    "runs",
    id,
    () => {
      rows();
      rest();
      again();
    },
    () => {
      if (++states > 1) {
        rest();
        again();
      }
    },
    () => {
      if (found.state === "running") {
        rows();
        rest();
      }
    },
  );
  return () => {
    stop();
    panel.destroy();
  };
}

function header(node, found) {
  const live = found.state === "running" || found.state === "queued";
  put(
    node,
    h(
      "div",
      { class: "grow" },
      h(
        "p",
        { class: "crumbs" },
        h("a", { href: "/" }, "Groups"),
        found.group && [" / ", h("a", { href: `/groups/${found.group}` }, found.group)],
        ` / ${found.id}`,
      ),
      h("h1", null, found.id, " ", status(found.state)),
      h(
        "p",
        { class: "sub" },
        h("span", { title: found.name }, task(found.name)),
        h("span", null, `seed ${found.seed}`),
        h("span", null, ago(found.created)),
        found.parent && h("span", null, `from ${found.parent}`),
        found.trial && trialLink(found.trial),
      ),
      found.reason && h("p", { class: found.state === "failed" || found.state === "crashed" ? "problem" : "quiet" }, found.reason),
    ),
    h(
      "div",
      { class: "actions" },
      live && h("button", { type: "button", class: "danger", onclick: () => stopDialog(found.id, "runs") }, "Stop…"),
      live && h("button", { type: "button", onclick: () => adjustDialog(found.id, found, "runs") }, "Adjust…"),
      found.group && h("a", { class: "button", href: `/groups/${found.group}` }, "Its group"),
    ),
  );
}

function factsOf(found) {
  const fact = (name, value, more) => h("div", null, h("dt", null, name), h("dd", null, value, more && h("small", null, more)));
  return h(
    "dl",
    { class: "facts", css: { margin: "0" } },
    fact("last evaluation", num(found.eval_mean), found.threshold !== null && `threshold ${num(found.threshold)}`),
    fact("best evaluation", num(found.best_eval)),
    fact("training return", num(found.return_mean), "last 100 episodes"),
    found.threshold !== null &&
      fact("threshold reached at", censored(found.threshold_reached_at, found.env_steps), found.lost ? "env steps, and lost again" : "env steps"),
    found.success_rate !== null && fact("success", percent(found.success_rate), "last evaluation"),
    fact("env steps", count(found.env_steps), found.max_env_steps && `of ${count(found.max_env_steps)}`),
    fact("speed", short(found.steps_per_second), "env steps/s"),
    fact(
      "last sign of life",
      ago(found.heartbeat),
      found.heartbeat - found.started > 1 && `${duration(found.heartbeat - found.started)} since its start`,
    ),
  );
}

function changesCard(found) {
  if (!found.interventions.length) return null;
  return h(
    "section",
    { class: "card" },
    h("header", null, h("h2", null, "Changed while it ran")),
    h(
      "ul",
      null,
      found.interventions.map((each) =>
        h(
          "li",
          null,
          `${short(each.env_steps)}: ${Object.entries(each.set ?? {})
            .map(([key, value]) => `${key} = ${JSON.stringify(value)}`)
            .join(", ")}`,
        ),
      ),
    ),
  );
}
