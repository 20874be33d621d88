// One group: how its return went, whether its updates are healthy, what is wrong, and what to do about it.

import { get, post } from "../api.js";
import { adjustDialog, againDialog, goOnDialog, prescribeDialog, stopDialog, trialDialog } from "../actions.js";
import { configTable, logTail, notesCard } from "../about.js";
import { checkpointsOf, episodesCard } from "../checkpoints.js";
import { calmly, diagnosisCard } from "../diagnosis.js";
import { add, chip, command, h, problem, put, status, table } from "../dom.js";
import { calm, follow } from "../events.js";
import { ago, censored, count, duration, num, percent, short, task } from "../format.js";
import { throughput } from "../health.js";
import { histogramsCard } from "../histograms.js";
import { Panel, USUAL } from "../panel.js";
import { state } from "../state.js";
import { optimizeDialog, sensitivityDialog } from "../studying.js";

export async function draw(main, [id]) {
  document.title = `${id} · rlclinic`;
  const st = state(USUAL);
  const head = h(
    "div",
    { class: "head" },
    h("div", { class: "grow" }, h("p", { class: "crumbs" }, h("a", { href: "/" }, "Groups"), ` / ${id}`), h("h1", null, id)),
  );
  const facts = h("div"),
    ahead = h("div"),
    side = h("aside", { "aria-label": "Diagnosis" }, h("section", { class: "card" }, h("p", { class: "loading" }, "Examining…"))),
    below = h("div", { class: "stack wideset" });
  const panel = new Panel([id], st);
  put(main, head, facts, ahead, h("div", { class: "two" }, h("div", null, panel.node, below), side));

  const about = async () => {
    const found = await get(`/groups/${encodeURIComponent(id)}`);
    header(head, found);
    put(facts, factsOf(found.report));
    if (found.report.verdict === "RUNNING") outlook(ahead, id);
    else put(ahead);
    return found;
  };
  const examine = async () => {
    const path = `/groups/${encodeURIComponent(id)}/diagnosis`;
    try {
      const report = await get(path);
      put(side, diagnosisCard(report, panel, st, id));
      // As on the command line: where something is wrong, an environment of one's own is looked at, too.
      if (!calmly(report.diagnosis.causes[0]) && found.report.env.includes(":") && found.report.verdict !== "RUNNING") {
        const note = h("section", { class: "card" }, h("p", { class: "loading" }, "Looking at its environment…"));
        add(side, note);
        // A server that only reads runs no code: what the log says stands.
        const seen = await post(path, { env: "own" }).catch(() => null);
        if (seen) put(side, diagnosisCard(seen, panel, st, id));
        else note.remove();
      }
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
  // The curve is asked for first and drawn first; a diagnosis takes longer and must not hold it up.
  drawn.then(() => (panel.first?.x.length || found.report.verdict !== "RUNNING" ? examine() : put(side, waiting())));
  const measured = h("div", { class: "stack wideset" }, seedsCard(found.report), timeCard(found.report));
  const log = logTail(found.report.seeds.map((seed) => seed.run));
  const best = h("div", null, bestCard(found.report));
  // Which seed is best changes while they train; the first one that is shown stays.
  const watched = found.report.best_run ?? found.report.seeds[0]?.run;
  const episodes = watched ? episodesCard(watched) : h("div");
  const histograms = watched ? histogramsCard(watched) : h("div");
  put(below, measured, episodes, best, histograms, filesCard(found, id), configTable(found), notesCard("groups", found), log);

  const rows = calm(() => panel.refresh(false).catch(() => {}), 400);
  const rest = calm(async () => {
    await panel.refresh().catch(() => {});
    const { report } = await about();
    put(measured, seedsCard(report), timeCard(report));
    if (!best.firstChild) add(best, bestCard(report));
    log.refresh();
    episodes.refresh?.();
    histograms.refresh?.();
  }, 3000);
  const again = calm(examine, 10000);
  let states = 0;
  const stop = follow(
    "groups",
    id,
    () => {
      rows();
      rest();
      again();
    },
    () => {
      if (++states > found.report.n_runs) {
        rest();
        again();
      }
    },
    () => {
      if (found.report.verdict === "RUNNING") {
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
  const { report } = found;
  const live = report.verdict === "RUNNING";
  const buttons = [
    live && h("button", { type: "button", class: "danger", onclick: () => stopDialog(report.id) }, "Stop…"),
    live && h("button", { type: "button", onclick: () => adjustDialog(report.id, found) }, "Adjust…"),
    h("button", { type: "button", onclick: () => prescribeDialog(report.id) }, "Prescribe…"),
    h("button", { type: "button", onclick: () => trialDialog(report.id) }, "Trial…"),
    !found.source && h("button", { type: "button", onclick: () => sensitivityDialog(report.id) }, "Sensitivity…"),
    !found.source && h("button", { type: "button", onclick: () => optimizeDialog(report.id) }, "Search…"),
    !found.source && !live && unfinished(report) && h("button", { type: "button", onclick: () => goOnDialog(report.id) }, "Go on…"),
    !found.source && h("button", { type: "button", onclick: () => againDialog(report.id, found) }, "Train again…"),
    h("a", { class: "button", href: `/compare?of=${report.id}` }, "Compare"),
  ];
  put(
    node,
    h(
      "div",
      { class: "grow" },
      h("p", { class: "crumbs" }, h("a", { href: "/" }, "Groups"), ` / ${report.id}`),
      h("h1", { title: report.name }, found.label || task(report.name), " ", status(report.verdict)),
      h(
        "p",
        { class: "sub" },
        found.label && h("span", null, task(report.name)),
        !report.name.includes(report.algo) && h("span", null, report.algo.toUpperCase()),
        h("span", { class: "mono" }, report.id),
        h("span", null, `${report.n_runs} seed${report.n_runs === 1 ? "" : "s"}`),
        h("span", null, ago(found.created)),
        found.trial && trialLink(found.trial),
        report.parent && h("span", null, `from ${report.parent}`),
        found.source && h("span", null, `imported from ${found.source}`),
      ),
      report.note && h("p", { class: "quiet" }, report.note),
    ),
    h("div", { class: "actions" }, buttons),
  );
}

const unfinished = (report) => report.seeds.some((seed) => ["stopped", "crashed"].includes(seed.state));

const waiting = () =>
  h(
    "section",
    { class: "card" },
    h("h2", null, "Diagnosis"),
    h("p", { class: "quiet" }, "Waiting for the first rows: nothing can be said yet."),
  );

const DECISIONS = { CONTINUE: ["good", "▶"], STOP: ["bad", "■"], ADJUST: ["warn", "◆"], SOLVED: ["good", "✓"] };

/** What to expect of runs that still train, and what to do about it. */
async function outlook(node, id) {
  const found = (await get("/status", { group: id }).catch(() => null))?.groups[0];
  const seen = found?.outlook;
  if (!seen || found.state !== "running") return;
  const [kind, mark] = DECISIONS[seen.decision] ?? ["quiet", "·"];
  const odds =
    seen.probability !== null &&
    seen.decision !== "SOLVED" &&
    `${seen.probability.toFixed(2)} [${seen.low.toFixed(2)}, ${seen.high.toFixed(2)}] reaches ${num(found.threshold)} within the budget`;
  const place = seen.percentile !== null && `percentile ${Math.round(seen.percentile)} of ${seen.healthy_runs} healthy runs at this step`;
  put(
    node,
    h(
      "div",
      { class: `verdict ${kind}`, role: "status" },
      chip(seen.decision, kind, mark),
      odds && h("strong", null, odds),
      place && h("span", null, place),
      h("span", { class: "quiet" }, seen.reason),
      found.eta_seconds && h("span", { class: "quiet" }, `${duration(found.eta_seconds)} left`),
      seen.watch && h("span", null, `watch: ${seen.watch}`),
      seen.command && command(seen.command),
    ),
  );
}

/** Groups of trials and studies say whose they are; the first letter of an id says which kind that is. */
export function trialLink(id) {
  const where = { t: "trials", s: "sensitivity", o: "optimize", c: "race", v: null }[id[0]];
  // A gate has no page of its own: its command says how it came out.
  return where === null ? h("span", { class: "quiet" }, `of ${id}: rlclinic regress --resume ${id}`) : h("a", { href: `/${where ?? "trials"}/${id}` }, `of ${id}`);
}

function episodes(success) {
  const bounds = success.low !== null ? ` [${percent(success.low)}, ${percent(success.high)}]` : "";
  return success.episodes !== null ? `${success.successes} of ${success.episodes} episodes${bounds}` : "last evaluations";
}

function factsOf(report) {
  const fact = (name, value, more) => h("div", null, h("dt", null, name), h("dd", null, value, more && h("small", null, more)));
  const ends = report.last.low !== null ? `[${num(report.last.low)}, ${num(report.last.high)}] IQM, ${report.n_runs < 8 ? "range" : "95 %"}` : "one seed: no interval";
  const live = report.verdict === "RUNNING";
  const done = report.max_env_steps ? Math.min(1, report.env_steps / (report.max_env_steps * report.n_runs)) : null;
  return h(
    "dl",
    { class: "facts", css: { margin: "0" } },
    fact(report.verdict === "NOT EVALUATED" ? "last return in training" : "last evaluation", num(report.last.value), ends),
    (report.threshold !== null || report.required_success !== null) &&
      fact(
        "reached the threshold",
        `${report.n_reached} of ${report.n_runs}${report.n_lost ? `, ${report.n_lost} lost it` : ""}`,
        [
          report.threshold !== null && `threshold ${num(report.threshold)}`,
          report.required_success !== null && `success ${percent(report.required_success)}`,
        ]
          .filter(Boolean)
          .join(", "),
      ),
    report.success && fact("success", percent(report.success.rate), episodes(report.success)),
    report.gap !== null &&
      fact(
        report.gap > 0 ? "missed by" : "passed by",
        num(Math.abs(report.gap)),
        report.gap_fraction !== null && percent(Math.abs(report.gap_fraction)),
      ),
    report.steps_to_threshold.value !== null &&
      (report.n_reached > 0
        ? fact(
            "steps to the threshold",
            // Seeds that did not get there count the whole budget: the mean is then only known to be larger.
            `${report.n_reached < report.n_runs ? "> " : ""}${short(report.steps_to_threshold.value)}`,
            report.steps_to_threshold.low !== null &&
              `${short(report.steps_to_threshold.low)} – ${report.n_reached < report.n_runs ? "> " : ""}${short(report.steps_to_threshold.high)}`,
          )
        : fact("steps to the threshold", `> ${short(report.env_steps / report.n_runs)}`, live ? "not yet" : "no seed got there")),
    fact("best", num(report.best), report.best_at !== null && `at ${short(report.best_at)}`),
    fact(
      "env steps",
      short(report.env_steps),
      live && done !== null ? `${percent(done)} of the budget` : report.max_env_steps && `${short(report.max_env_steps)} a seed`,
    ),
    fact("wall time", duration(report.wall_seconds), report.steps_per_second && `${short(report.steps_per_second)} steps/s`),
  );
}

function seedsCard(report) {
  const rows = report.seeds.map((seed) => [
    h("a", { href: `/runs/${seed.run}` }, seed.run),
    status(seed.state),
    num(seed.last_eval),
    num(seed.best_eval),
    short(seed.best_eval_at),
    ...(report.success ? [seed.success ? percent(seed.success.rate) : "–"] : []),
    report.threshold === null && report.required_success === null
      ? "–"
      : `${censored(seed.threshold_reached_at, seed.env_steps)}${seed.lost ? ", lost" : ""}`,
    count(seed.env_steps),
    seed.reason ?? "",
  ]);
  const number = (text) => ({ text, num: true });
  return h(
    "section",
    { class: "card" },
    h("header", null, h("h2", null, "Seeds")),
    table(
      [
        "run",
        "state",
        number("last evaluation"),
        number("best"),
        number("at"),
        report.success && number("success"),
        number("threshold reached at"),
        number("env steps"),
        "note",
      ].filter(Boolean),
      rows,
      {
        label: "Seeds",
      },
    ),
  );
}

/** The checkpoints of the run with the best evaluation: what `play` and `evaluate` would take. */
function bestCard(report) {
  if (!report.best_run) return null;
  const card = h("section", { class: "card" }, h("p", { class: "loading" }, "Reading the checkpoints…"));
  get(`/runs/${encodeURIComponent(report.best_run)}/checkpoints`)
    .then((found) => {
      if (!found.checkpoints.length) {
        card.remove();
        return;
      }
      put(card, ...checkpointsOf(report.best_run, found.checkpoints).childNodes);
      card.querySelector("h2").textContent = `Checkpoints of the best run, ${report.best_run}`;
    })
    .catch((error) => put(card, problem(error)));
  return card;
}

function timeCard(report) {
  if (!Object.keys(report.throughput).length) return null;
  return h(
    "section",
    { class: "card" },
    h("header", null, h("h2", null, "Where the time goes")),
    throughput(report.throughput, report.steps_per_second),
  );
}

function filesCard(found, id) {
  const names = (found.files ?? []).filter((name) => /^(report|curve|solution)/.test(name));
  return add(
    h("p", { class: "faint" }),
    h("a", { href: `/api/v1/groups/${id}/export.html`, download: `${id}.html` }, "Save as one file"),
    names.length > 0 && " · written beside the runs: ",
    names.map((name, i) => [i ? " · " : "", h("a", { href: `/api/v1/groups/${id}/files/${name}`, target: "_blank", rel: "noopener" }, name)]),
  );
}
