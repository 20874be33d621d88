// The health of updates: which pictures there are, where healthy runs usually are, and where the time goes.

import { add, h, put } from "./dom.js";
import { num, short } from "./format.js";

const GRADS = "train/metrics/grad_norm/";

/** One picture for each question about an update; those whose metrics nobody logged are left out. */
export const STRIP = [
  { title: "KL divergence", of: ["train/metrics/kl_divergence", "train/metrics/kl_signed"], first: true, log: true },
  { title: "Clip fraction", of: ["train/metrics/clip_fraction"] },
  {
    title: "Entropy",
    // A share of the maximum exists for discrete actions only; where nobody logged an entropy, the spread of the actions says it.
    titles: { "train/sentinel/entropy_relative": "Entropy, share of maximum", "train/metrics/action_std": "Spread of the actions" },
    of: ["train/sentinel/entropy_relative", "train/metrics/entropy", "train/metrics/action_std"],
    most: 1, // a normal distribution has no largest entropy: where the first goes beyond, the next one is drawn
    first: true,
  },
  { title: "Explained variance", of: ["train/metrics/explained_variance"] },
  { title: "Q-values", of: ["train/metrics/q_mean", "train/metrics/q_max", "train/metrics/q_min", "train/metrics/q2_mean"] },
  { title: "Q-value minus the return that came", of: ["train/sentinel/q_bias"] },
  {
    title: "TD error",
    of: [
      "train/sentinel/td_error",
      "train/sentinel/td_error_p50",
      "train/sentinel/td_error_p95",
      "train/sentinel/td_error_p99",
      "train/sentinel/td_error_max",
    ],
    log: true,
  },
  { title: "Epsilon", of: ["train/hp/epsilon", "train/sentinel/epsilon_actual"] },
  { title: "Temperature", of: ["train/hp/alpha"] },
  { title: "Largest Q-value, share of what is possible", of: ["train/sentinel/q_bound_ratio"] },
  { title: "Distance to the target network", of: ["train/sentinel/target_distance"] },
  { title: "Age of replayed transitions", of: ["train/sentinel/replay_age"] },
  {
    title: "Gradient norms",
    of: [`${GRADS}all`, `${GRADS}actor_head`, `${GRADS}critic_head`, `${GRADS}trunk`, `${GRADS}actor`],
    log: true,
  },
  { title: "Share of clipped gradients", of: [`${GRADS}clipped`] },
  { title: "Value loss", of: ["train/loss/value", "train/loss/critic", "train/loss/td"], first: true, log: true },
  { title: "Learning rate", of: ["train/hp/learning_rate", "train/hp/value_lr"] },
];
const PHASES = ["time/env", "time/act", "time/learn", "time/sentinels", "time/eval", "time/write"];
export const COLOURS = ["--c0", "--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7"];

/** A band worth drawing: [0, 1] of a share is where it must be anyway. */
export function usual(series) {
  const band = series.band;
  if (!band || band[0] === band[1] || (band[0] === null && band[1] === null)) return null;
  if (band[0] === 0 && band[1] === 1 && series.name !== "train/metrics/explained_variance") return null;
  return band[1] === null && band[0] === 0 ? null : band;
}

/** Beside the title: whether the last quarter is where healthy runs usually are, and whether a fifth of the run was elsewhere. */
export function judge(chart, series, band) {
  const values = series.center.filter((value) => value !== null);
  const last = values.slice(Math.floor(0.75 * values.length)).toSorted((a, b) => a - b);
  const middle = last[Math.floor(last.length / 2)];
  if (!band || middle === undefined) {
    put(chart.note);
    return;
  }
  const low = band[0] ?? -Infinity,
    high = band[1] ?? Infinity;
  const often = (strays) => values.filter(strays).length >= 0.2 * values.length;
  const within = low > 0 ? "usual" : high === 1 ? "above 0" : `below ${num(high)}`;
  const [kind, word] =
    middle > high
      ? ["out", `▲ above ${num(high)}`]
      : middle < low
        ? ["out", `▼ below ${num(low)}`]
        : often((value) => value > high)
          ? ["faint", `was above ${num(high)}`]
          : often((value) => value < low)
            ? ["faint", `was below ${num(low)}`]
            : ["fine", `✓ ${within}`];
  put(chart.note, h("span", { class: kind, title: series.band_note }, word));
}

/** Where the time goes: one bar, and the same in words. */
export function throughput(shares, perSecond) {
  const names = Object.keys(shares).toSorted((a, b) => order(a) - order(b));
  const bar = h(
    "div",
    { class: "phases", role: "img", "aria-label": names.map((name) => `${name} ${Math.round(100 * shares[name])} %`).join(", ") },
    names.map((name) =>
      h("span", { css: { width: `${100 * shares[name]}%`, background: `var(${COLOURS[order(name) % 8]})` }, title: name }),
    ),
  );
  const words = names.map((name) =>
    h(
      "span",
      null,
      h("i", { css: { background: `var(${COLOURS[order(name) % 8]})` } }),
      `${name} ${(100 * shares[name]).toFixed(shares[name] < 0.1 ? 1 : 0)} %`,
    ),
  );
  return add(
    h("div", { class: "stack" }),
    perSecond && h("p", null, h("strong", null, short(perSecond)), " env steps/s, all seeds together"),
    bar,
    h("div", { class: "phase-key" }, words),
  );
}

const order = (name) => {
  const at = PHASES.indexOf(`time/${name}`);
  return at < 0 ? PHASES.length : at;
};
