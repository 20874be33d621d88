// Numbers as people read them. A value that does not exist is a dash, never 0.

const THOUSANDS = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** 4 significant digits at most: 0.0001234 → 1.23e-4, 12345.6 → 12,346. */
export function num(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e6) return short(value);
  if (size >= 1000) return THOUSANDS.format(value).replace("-", "−");
  if (size < 1e-3) return `${Number(value.toPrecision(2)).toExponential()}`.replace(/^-/, "−");
  return String(Number(value.toPrecision(digits))).replace("-", "−");
}

/** 31k, 1.5M. */
export function short(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  for (const [at, unit] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ]) {
    if (size >= at) return `${Number((value / at).toPrecision(size / at >= 100 ? 3 : 3))}${unit}`;
  }
  return String(Number(value.toPrecision(3)));
}

/** A number of steps that may not have been reached: "31k", or "> 41k" where the watching ended before. */
export const censored = (value, horizon) => (value === null || value === undefined ? (horizon ? `> ${short(horizon)}` : "–") : short(value));

export const count = (value) => (value === null || value === undefined ? "–" : THOUSANDS.format(value));
export const percent = (value, digits = 0) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(digits)} %`);

/** "212 [164, 268]". */
export function range(found, digits = 3) {
  if (!found || found.value === null || found.value === undefined) return "–";
  const ends = found.low !== null && found.low !== undefined ? ` [${num(found.low, digits)}, ${num(found.high, digits)}]` : "";
  return num(found.value, digits) + ends;
}

/** 4 s, 3 min 20 s, 2 h 5 min. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  if (seconds < 1) return `${Math.round(1000 * seconds)} ms`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min${whole % 60 ? ` ${whole % 60} s` : ""}`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

/** "2 min ago", from unix seconds. */
export function ago(then) {
  if (!then) return "–";
  const seconds = Math.max(0, Date.now() / 1000 - then);
  if (seconds < 45) return "just now";
  for (const [size, unit] of [
    [86400, "d"],
    [3600, "h"],
    [60, "min"],
  ])
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit} ago`;
  return "1 min ago";
}

export function bytes(size) {
  for (const [at, unit] of [
    [1 << 30, "GB"],
    [1 << 20, "MB"],
    [1 << 10, "kB"],
  ])
    if (size >= at) return `${(size / at).toPrecision(3)} ${unit}`;
  return `${size} B`;
}

/** A setting's value on one line: lists, schedules and null included. */
export function setting(value) {
  if (value === null || value === undefined) return "none";
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(6)));
  if (Array.isArray(value)) return `[${value.map(setting).join(", ")}]`;
  if (typeof value === "object" && value.schedule && value.start !== undefined)
    return `${setting(value.start)}, ${value.schedule} to ${setting(value.end)}${value.to !== undefined && value.to < 1 ? ` by ${100 * value.to} % of the run` : ""}`;
  if (typeof value === "object")
    return `{${Object.entries(value)
      .map(([key, inner]) => `${key}: ${setting(inner)}`)
      .join(", ")}}`;
  return String(value);
}

const PREFIXES = ["train/metrics/", "train/sentinel/", "train/loss/", "train/roll/", "train/hp/", "train/", "val/roll/", "time/"];
const KINDS = { "train/loss/": " loss", "val/roll/": " (evaluation)", "train/hp/": " (applied)" };
const NAMES = {
  "train/roll/ep_rew_mean": "training return",
  "val/roll/ep_rew_mean": "evaluation return",
  "train/metrics/kl_divergence": "KL divergence",
  "train/sentinel/entropy_relative": "entropy, share of maximum",
  "train/metrics/clip_fraction": "clip fraction",
};

/** A metric's name without what all of them share. */
export function metric(name) {
  if (NAMES[name]) return NAMES[name];
  const prefix = PREFIXES.find((each) => name.startsWith(each)) ?? "";
  return name.slice(prefix.length).replaceAll("_", " ").replaceAll("/", " ") + (KINDS[prefix] ?? "");
}

/** A group's name without the folders that its environment's file lies in: what tells it apart would be cut off. */
export const task = (name) => name.replace(/^.*[\\/](?=[^\\/]+\.py:)/, "");

/** An override on one line, schedules in words: "algo.learning_rate = 0.004, linear to 0". */
export function change(text) {
  const at = text.indexOf("=");
  try {
    return `${text.slice(0, at)} = ${setting(JSON.parse(text.slice(at + 1)))}`;
  } catch {
    return `${text.slice(0, at)} = ${text.slice(at + 1)}`;
  }
}
