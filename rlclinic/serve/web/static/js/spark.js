// Small curves beside the rows of a table, fetched when they come into view.

import { curves } from "./api.js";
import { put, s } from "./dom.js";
import { range, short } from "./format.js";
import { EVAL, TRAIN } from "./panel.js";

const kept = new Map();
const queue = [];
let busy = 0;
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    seen.unobserve(entry.target);
    queue.push(entry.target);
  }
  next();
});

function next() {
  while (busy < 3 && queue.length) {
    const node = queue.shift();
    const row = node.row;
    busy += 1;
    curves(row.id, [EVAL, TRAIN], { points: 60 })
      .then((found) => {
        kept.set(row.id, [row.results.env_steps, found]);
        sketch(node, found, row.results.threshold);
      })
      .catch(() => {})
      .finally(() => {
        busy -= 1;
        next();
      });
  }
}

/** The return of a row's group or run. */
export function spark(row) {
  const node = s("svg", {
    class: "spark",
    viewBox: "0 0 100 30",
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": `Return of ${row.id} by env steps`,
  });
  node.row = row;
  const known = kept.get(row.id);
  if (known) sketch(node, known[1], row.results.threshold);
  if (!known || known[0] !== row.results.env_steps) seen.observe(node);
  return node;
}

function sketch(node, found, threshold) {
  // As the number beside it: evaluations, where there are enough for a line.
  const evaluated = found.series.find((each) => each.name === EVAL && each.center.filter((value) => value !== null).length > 2);
  const series = evaluated ?? found.series.find((each) => each.name === TRAIN);
  if (!series) return;
  const values = [...series.low, ...series.high, threshold].filter((value) => value !== null && value !== undefined);
  const low = Math.min(...values),
    high = Math.max(...values);
  const end = found.x[found.x.length - 1] || 1;
  const at = (i, value) => `${((100 * found.x[i]) / end).toFixed(1)},${(28 - (26 * (value - low)) / (high - low || 1)).toFixed(1)}`;
  const known = found.x.map((_, i) => i).filter((i) => series.center[i] !== null);
  if (!known.length) return;
  const band = [...known.map((i) => at(i, series.high[i])), ...known.toReversed().map((i) => at(i, series.low[i]))];
  const y = 28 - (26 * (threshold - low)) / (high - low || 1);
  put(
    node,
    s("path", { class: "band", d: `M${band.join("L")}Z` }),
    threshold !== null && threshold !== undefined && s("line", { x1: 0, x2: 100, y1: y, y2: y }),
    s("path", { d: `M${known.map((i) => at(i, series.center[i])).join("L")}` }),
  );
  node.setAttribute("aria-label", `Return ${range({ value: series.center[known.at(-1)] })} at ${short(end)} env steps`);
}
