// What came of a trial: its arms, its looks against the bound, the effects with their intervals, and how it was made.

import { inked } from "./chart.js";
import { command, h, table } from "./dom.js";
import { forest, looks } from "./figures.js";
import { censored, change, count, duration, num, percent, range } from "./format.js";

const MEASURES = { steps: "env steps", wall: "time", stability: "spread" };

/** What an arm did, in words: "22× fewer env steps [3.2×, ∞]". */
export function effectText(trial, effect) {
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

/** The median env steps to the threshold with its interval; what lies among runs that never got there is only known to be larger. */
function stepsText(found, horizon) {
  const of = (value) => (value === null && !horizon ? "never" : censored(value, horizon));
  if (found.value === null) return of(null);
  return `${of(found.value)}${found.low === null ? "" : ` [${of(found.low)}, ${of(found.high)}]`}`;
}

export function armsCard(trial, arms) {
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
      done?.steps ? stepsText(done.steps, trial.horizon) : "–",
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

/** What effects are drawn along. */
const AXES = {
  ratio: { middle: 1, log: true, better: "fewer", worse: "more", label: "Treatment over control" },
  share: {
    middle: 0.5,
    better: "treatment better",
    worse: "control better",
    label: "Share of pairs of runs in which the control does better",
    domain: [0, 1],
  },
};
const SHOWN = { adopt: "helps", reject: "hurts" };

/** Several environments: what each arm did in each, beside what it did over all of them. */
export function environmentsCard(trial) {
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
  const axis = ratios ? AXES.ratio : AXES.share;
  const rows = lines.map(({ label, effect }) => {
    const found = ratios
      ? effect.ratio
      : { value: 1 - effect.improvement.value, low: 1 - effect.improvement.high, high: 1 - effect.improvement.low };
    return { label, ...found, kind: { adopt: "good", reject: "bad", mixed: "bad" }[effect.verdict] ?? "none", said: effectText(trial, effect) };
  });
  const cells = lines.map(({ label, place, effect }) => {
    const [control, treated] = [trial.plan.control.name, effect.arm].map((name) => (place ?? trial).arms.find((arm) => arm.name === name));
    const came = (arm) => (arm.reached === null || arm.reached === undefined ? `${arm.n} runs` : `${arm.reached} of ${arm.n}`);
    const cameTo = (arm) => [came(arm), arm.steps ? stepsText(arm.steps, (place ?? trial).horizon) : arm.final && range(arm.final)].filter(Boolean).join(" · ");
    return [label, cameTo(control), cameTo(treated), effectText(trial, effect), place ? (SHOWN[effect.verdict] ?? "nothing") : effect.verdict];
  });
  return h(
    "section",
    { class: "card stack" },
    h(
      "header",
      null,
      h("h2", null, "Environments"),
      h("span", { class: "faint" }, `${axis.label} · ${percent(1 - trial.plan.alpha)} intervals that hold in all environments at once, and after an early stop`),
    ),
    forest(rows, axis),
    table(["environment", trial.plan.control.name, "treatment", "effect", "shown"], cells, { label: "Environments" }),
  );
}

export function looksCard(trial, arms) {
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

export function effectsCard(trial) {
  const ratios = trial.effects.every((effect) => effect.ratio?.value);
  const axis = ratios ? AXES.ratio : AXES.share;
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
    h("header", null, h("h2", null, "Effects"), h("span", { class: "faint" }, `${axis.label} · 95 % intervals that hold after an early stop`)),
    forest(rows, axis),
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

export function aboutCard({ trial, progress }) {
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
              .map(([size, share]) => `${trial.power.kind === "shift" ? `${size} SD (over seeds)` : percent(size)} with power ${share.toFixed(2)}`)
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
