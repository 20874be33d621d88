// One trial: its arms side by side, each look against the bound, and the verdict.

import { curves, get } from "../api.js";
import { adoptDialog } from "../actions.js";
import { Chart, inked, onto, Sheet } from "../chart.js";
import { command, h, put, table } from "../dom.js";
import { calm, listen } from "../events.js";
import { ago, change, count, duration, num, percent, range, short } from "../format.js";
import { forest, looks } from "../figures.js";
import { EVAL, TRAIN } from "../panel.js";
import { studyButton } from "../studying.js";

const COLOURS = ["--c7", "--c0", "--c1", "--c2", "--c3", "--c4", "--c6"];
const KINDS = { adopt: "good", reject: "bad", "less reliable": "bad", mixed: "bad", undecided: "warn", equivalent: "quiet" };

export async function draw(main, [id]) {
  document.title = `${id} · rlclinic`;
  const top = h("div", { class: "stack" }),
    picture = h("div"),
    rest = h("div", { class: "stack wideset" });
  put(
    main,
    top,
    h(
      "section",
      { class: "card", "aria-label": "Curves" },
      h(
        "header",
        null,
        h("h2", null, "Return of the arms"),
        h("span", { class: "faint" }, "interquartile mean over seeds and its 95 % interval (below 8 seeds their range)"),
      ),
      picture,
    ),
    rest,
  );
  const sheet = new Sheet();
  const charts = [];
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
    const specs = await specsOf(found.trial, arms);
    if (!specs.length) put(picture, h("p", { class: "quiet" }, "No row has been written yet."));
    else if (charts.length === specs.length) specs.forEach((spec, i) => charts[i].update(spec));
    else {
      charts.splice(0, charts.length, ...specs.map((spec) => new Chart(sheet, spec)));
      put(
        picture,
        specs.map((spec, i) => [found.trial.plan.environments && h("h3", null, spec.title), charts[i].node]),
      );
      for (const chart of charts) chart.resize();
    }
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
    sheet.destroy();
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

const MEASURES = { steps: "env steps", wall: "time", stability: "spread" };

/** What an arm did, in words: "22× fewer env steps [3.2×, ∞]". */
function effectText(trial, effect) {
  const { ratio, gain } = effect;
  if (ratio?.value) {
    const better = ratio.value <= 1;
    const of = (value) => (value === null ? "∞" : better ? (value > 0 ? `${num(1 / value, 2)}×` : "∞") : `${num(value, 2)}×`);
    const [low, high] = better ? [ratio.high, ratio.low] : [ratio.low, ratio.high];
    const word = better ? (trial.outcome === "steps" ? "fewer" : "less") : "more";
    return `${of(ratio.value)} ${word} ${MEASURES[trial.outcome] ?? ""} [${of(low)}, ${of(high)}]`;
  }
  if (ratio) {
    // One side never got there: only a bound is known.
    const measure = MEASURES[trial.outcome] ?? "";
    const less = trial.outcome === "steps" ? "fewer" : "less";
    if (ratio.high !== null && ratio.high < 1) return `at least ${num(1 / ratio.high, 2)}× ${less} ${measure}`;
    if (ratio.low !== null && ratio.low > 1) return `at least ${num(ratio.low, 2)}× more ${measure}`;
    return "no run to compare steps with";
  }
  if (gain) return `${gain.value > 0 ? "+" : ""}${range(gain)} ${trial.outcome}`;
  return `P(improvement) ${range(effect.improvement, 2)}`;
}

/** The median with its interval; a run that never gets there has none. */
function stepsText(found) {
  const of = (value) => (value === null ? "never" : short(value));
  return `${of(found.value)} [${of(found.low)}, ${of(found.high)}]`;
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
async function specsOf(trial, arms) {
  const places = trial.plan.environments;
  const specs = places
    ? await Promise.all(
        places.map((place) => {
          const own = arms.map((arm) => ({
            ...arm,
            groups: arm.groups.filter((group) => arm.labels[group]?.includes(` on ${place.env_id} look `)),
          }));
          return specOf({ ...trial, threshold: place.threshold }, own, place.env_id);
        }),
      )
    : [await specOf(trial, arms, "Return")];
  return specs.filter(Boolean);
}

async function specOf(trial, arms, title) {
  const found = [];
  for (const arm of arms) {
    if (!arm.groups.length) continue;
    const got = await curves(arm.groups, [EVAL, TRAIN], { points: 200 });
    const series = got.series.find((each) => each.name === EVAL) ?? got.series[0];
    if (series) found.push([arm, got.x, series]);
  }
  if (!found.length) return null;
  const x = [...new Set(found.flatMap(([, own]) => own))].toSorted((a, b) => a - b);
  const read = (own, values) => {
    const at = own.map((_, i) => i).filter((i) => values[i] !== null);
    return onto(
      x,
      at.map((i) => own[i]),
      at.map((i) => values[i]),
    );
  };
  const lines = found.map(([arm, own, series]) => ({
    label: arm.name,
    colour: arm.colour,
    values: read(own, series.center),
    low: read(own, series.low),
    high: read(own, series.high),
    width: 2.4,
  }));
  return { title, bare: true, axis: "steps", unit: "by env steps", x, height: 320, threshold: trial.threshold, lines };
}

function armsCard(trial, arms) {
  const rows = arms.map((arm) => {
    const done = arm.done;
    const n = arm.runs || done?.n || 0,
      reached = arm.runs ? arm.reached : (done?.reached ?? 0);
    const dots = Array.from({ length: Math.min(n, 64) }, (_, i) => h("i", { class: i < reached ? "in" : null }));
    return [
      h("strong", { css: { color: inked(arm.colour) } }, arm.name),
      h("span", { class: "mono" }, arm.changes.length ? arm.changes.map((each) => h("div", null, change(each))) : "the config as it is"),
      h(
        "span",
        { title: `${reached} of ${n} reached the threshold` },
        h("span", { class: "arm-dots", "aria-hidden": "true", css: { color: `var(${arm.colour})` } }, dots),
        ` ${reached}/${n}`,
      ),
      done?.steps ? stepsText(done.steps) : "–",
      done?.final ? range(done.final) : "–",
      num(done?.spread),
      num(done?.seconds_per_100k),
      arm.groups.map((group, i) => [i ? " " : "", h("a", { href: `/groups/${group}` }, group)]),
    ];
  });
  const heads = [
    "arm",
    "change",
    "reached the threshold",
    "env steps to it, median",
    { text: "final return, IQM", num: true },
    { text: "spread", num: true },
    { text: "s per 100k steps", num: true },
    "groups",
  ];
  return h("section", { class: "card" }, h("header", null, h("h2", null, "Arms")), table(heads, rows, { label: "Arms" }));
}

const SHOWN = { adopt: "helps", reject: "hurts" };

/** Several environments: what each arm did in each, beside what it did over all of them. */
function environmentsCard(trial) {
  const several = trial.effects.length > 1;
  const lines = trial.effects.flatMap((all) => [
    ...trial.environments.flatMap((place) =>
      place.effects
        .filter((effect) => effect.arm === all.arm)
        .map((effect) => ({ label: several ? `${all.arm}, ${place.env_id}` : place.env_id, place, effect })),
    ),
    { label: several ? `${all.arm}, all` : "all of them", place: null, effect: all },
  ]);
  const ratios = lines.every(({ effect }) => effect.ratio?.value);
  const rows = lines.map(({ label, effect }) => {
    const found = ratios
      ? effect.ratio
      : { value: 1 - effect.improvement.value, low: 1 - effect.improvement.high, high: 1 - effect.improvement.low };
    return { label, ...found, kind: { adopt: "good", reject: "bad", mixed: "bad" }[effect.verdict] ?? "none", said: effectText(trial, effect) };
  });
  const cells = lines.map(({ label, place, effect }) => {
    const [control, treated] = [trial.plan.control.name, effect.arm].map((name) => (place ?? trial).arms.find((arm) => arm.name === name));
    const came = (arm) => (arm.reached === null || arm.reached === undefined ? `${arm.n} runs` : `${arm.reached} of ${arm.n}`);
    const cameTo = (arm) => [came(arm), arm.steps ? stepsText(arm.steps) : arm.final && range(arm.final)].filter(Boolean).join(" · ");
    return [label, cameTo(control), cameTo(treated), effectText(trial, effect), place ? (SHOWN[effect.verdict] ?? "nothing") : effect.verdict];
  });
  return h(
    "section",
    { class: "card stack" },
    h(
      "header",
      null,
      h("h2", null, "Environments"),
      h("span", { class: "faint" }, `${percent(1 - trial.plan.alpha)} intervals that hold in all environments at once, and after an early stop`),
    ),
    forest(
      rows,
      ratios
        ? { middle: 1, log: true, better: "fewer", worse: "more", label: "Treatment over control" }
        : {
            middle: 0.5,
            better: "treatment better",
            worse: "control better",
            label: "Share of pairs in which the control does better",
            domain: [0, 1],
          },
    ),
    table(["environment", trial.plan.control.name, "treatment", "effect", "shown"], cells, { label: "Environments" }),
  );
}

function looksCard(trial, arms) {
  const rows = trial.looks.map((look) => [
    look.number,
    look.seeds,
    Object.entries(look.z)
      .map(([name, z]) => `${name} ${z.toFixed(2)}`)
      .join(", "),
    look.bound.toFixed(2),
    Object.entries(look.calls)
      .map(([name, word]) => `${name} ${word}`)
      .join(", ") || "nothing yet",
    duration(look.seconds),
  ]);
  return h(
    "section",
    { class: "card" },
    h(
      "header",
      null,
      h("h2", null, "Looks"),
      h(
        "span",
        { class: "faint" },
        `a wrong verdict in at most ${percent(trial.plan.alpha)} over all ${trial.plan.looks} looks (${trial.plan.rule})`,
      ),
    ),
    looks(
      trial,
      arms.slice(1).map((arm) => ({ label: arm.name, colour: arm.colour })),
    ),
    table([{ text: "look", num: true }, { text: "seeds an arm", num: true }, "z", { text: "bound", num: true }, "called", "took"], rows, {
      label: "Looks",
    }),
  );
}

/** Kept as seconds for 100,000 env steps, shown as env steps a second. */
const isThroughput = (guard) => guard.name.split(" (")[0] === "throughput";

function effectsCard(trial) {
  const ratios = trial.effects.every((effect) => effect.ratio?.value);
  const rows = trial.effects.map((effect) => {
    const found = ratios
      ? effect.ratio
      : { value: 1 - effect.improvement.value, low: 1 - effect.improvement.high, high: 1 - effect.improvement.low };
    return {
      label: effect.arm,
      ...found,
      kind: { adopt: "good", reject: "bad" }[effect.verdict] ?? "none",
      said: effectText(trial, effect),
    };
  });
  const guards = trial.effects.flatMap((effect) =>
    effect.guardrails.map((guard) => [
      effect.arm,
      isThroughput(guard) ? `${guard.name}, env steps/s` : guard.name,
      num(isThroughput(guard) ? 1e5 / guard.control : guard.control),
      num(isThroughput(guard) ? 1e5 / guard.treatment : guard.treatment),
      guard.worse ? h("strong", { css: { color: "var(--bad)" } }, "▼ worse") : "not worse",
    ]),
  );
  return h(
    "section",
    { class: "card stack" },
    h("header", null, h("h2", null, "Effects"), h("span", { class: "faint" }, "95 % intervals that hold after an early stop")),
    forest(
      rows,
      ratios
        ? { middle: 1, log: true, better: "fewer", worse: "more", label: "Treatment over control" }
        : {
            middle: 0.5,
            better: "treatment better",
            worse: "control better",
            label: "Share of pairs in which the control does better",
            domain: [0, 1],
          },
    ),
    trial.effects.map((effect) =>
      h(
        "p",
        { class: "faint" },
        `${effect.arm}: P(improvement) ${range(effect.improvement, 2)}${effect.reached ? ` · reached the threshold ${effect.reached.value > 0 ? "+" : ""}${num(100 * effect.reached.value, 2)} points [${num(100 * effect.reached.low, 2)}, ${num(100 * effect.reached.high, 2)}]` : ""}${effect.seeds_needed ? ` · about ${effect.seeds_needed} seeds an arm would settle it` : ""}`,
      ),
    ),
    guards.length > 0 &&
      h(
        "details",
        null,
        h("summary", null, `Guardrails (${guards.filter((row) => typeof row[4] !== "string").length} worse)`),
        table(["arm", "what", { text: "control", num: true }, { text: "treatment", num: true }, "judged"], guards, { label: "Guardrails" }),
      ),
  );
}

function aboutCard({ trial, progress }) {
  return h(
    "section",
    { class: "card stack" },
    h("header", null, h("h2", null, "How it was made")),
    h(
      "dl",
      { class: "why" },
      [
        ["outcome", trial.outcome],
        ["env steps", `${count(trial.used_env_steps || progress.env_steps)} of at most ${count(trial.max_env_steps)}`],
        ["took", duration(trial.seconds)],
        ["seeds", `from ${trial.seed0}, fresh: the diagnosed runs are never counted`],
        [
          "could see",
          trial.power &&
            Object.entries(trial.power.by_effect)
              .map(([size, share]) => `${size}: power ${share.toFixed(2)}`)
              .join(" · "),
        ],
      ]
        .filter(([, text]) => text)
        .flatMap(([name, text]) => [h("dt", null, name), h("dd", null, text)]),
    ),
    trial.context.typed && command(`${trial.context.typed} --seed0 ${trial.seed0}`),
    trial.verdict === "adopt" && command(`rlclinic adopt ${trial.id} --as ${trial.environments ? "mine" : `${trial.env_id}:mine`}`),
  );
}
