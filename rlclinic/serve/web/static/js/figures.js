// Pictures that are not curves: intervals, looks of a trial, what each number of a config does.

import { s } from "./dom.js";
import { num } from "./format.js";

const WIDE = 820,
  LEFT = 170,
  RIGHT = 240;

const text = (x, y, words, props = {}) => s("text", { x, y, ...props }, words);
const line = (x1, y1, x2, y2, props) => s("line", { x1, y1, x2, y2, ...props });

/** Intervals under each other: rows are { label, value, low, high, kind, said }; `log` for ratios, whose middle is 1. */
export function forest(rows, { middle, log = false, better, worse, label, domain }) {
  const known = rows
    .flatMap((row) => [row.value, row.low, row.high])
    .filter((value) => value !== null && value !== undefined && (!log || value > 0));
  const to = (value) => (log ? Math.log(value) : value);
  let [low, high] = domain ?? [Math.min(middle, ...known), Math.max(middle, ...known)];
  if (!domain) {
    const room = log ? 1.25 : 0.08 * (high - low || 1);
    [low, high] = log ? [low / room, high * room] : [low - room, high + room];
  }
  const x = (value) => LEFT + (WIDE - LEFT - RIGHT) * Math.min(1, Math.max(0, (to(value) - to(low)) / (to(high) - to(low))));
  const tall = 46 + 34 * rows.length;
  const ticks = log ? [0.1, 0.2, 0.5, 1, 2, 5, 10].filter((tick) => tick >= low && tick <= high) : [low, middle, high];
  return s(
    "svg",
    {
      class: "figure",
      viewBox: `0 0 ${WIDE} ${tall}`,
      role: "img",
      "aria-label": `${label}: ${rows.map((row) => `${row.label} ${row.said}`).join("; ")}`,
    },
    text(x(middle) - 8, 14, `← ${better}`, { "text-anchor": "end" }),
    text(x(middle) + 8, 14, `${worse} →`),
    line(x(middle), 22, x(middle), tall - 22, { class: "zero" }),
    ticks.map((tick) => text(x(tick), tall - 6, num(tick), { "text-anchor": "middle" })),
    rows.map((row, i) => {
      const y = 40 + 34 * i;
      return [
        text(LEFT - 12, y + 4, row.label, { "text-anchor": "end", class: "strong" }),
        line(x(row.low ?? low), y, x(row.high ?? high), y, { class: row.kind, "stroke-width": 3 }),
        row.value !== null && row.value !== undefined && s("circle", { cx: x(row.value), cy: y, r: 5, class: row.kind }),
        text(WIDE - RIGHT + 12, y + 4, row.said),
      ];
    }),
  );
}

/** The statistic at each look against the bounds that decide, which differ from look to look; lines are { label, colour, values }. */
export function looks(trial, lines) {
  const bounds = trial.looks.map((look) => [look.number, look.bound, look.worse_bound ?? look.bound]);
  const [, bound, worse] = bounds.at(-1) ?? [1, 2.36, 2.36];
  const all = trial.looks.flatMap((look) => Object.values(look.z));
  const top = Math.max(...bounds.flat().map((value) => value * 1.1), bound * 1.25, ...all.map((value) => Math.abs(value) * 1.1));
  const most = Math.max(trial.plan.looks + (trial.plan.extensions?.length ?? 0), 2),
    high = 200,
    left = 46;
  const x = (look) => left + (WIDE - left - 110) * (look / most);
  const y = (z) => 12 + (high - 40) * (0.5 - z / (2 * top));
  return s(
    "svg",
    {
      class: "figure",
      viewBox: `0 0 ${WIDE} ${high}`,
      role: "img",
      "aria-label": `Looks: ${trial.looks
        .map(
          (look) =>
            `look ${look.number}, ${Object.entries(look.z)
              .map(([name, z]) => `${name} z ${z.toFixed(2)}`)
              .join(", ")}`,
        )
        .join("; ")}; bound ${bound.toFixed(2)}`,
    },
    bounds.map(([number, better, lower]) => {
      const [from, to] = [x(number - 0.5), number === bounds.length ? WIDE - 110 : x(number + 0.5)];
      return [
        s("rect", { x: from, width: to - from, y: y(top), height: y(better) - y(top), fill: "var(--good-soft)" }),
        s("rect", { x: from, width: to - from, y: y(-lower), height: y(-top) - y(-lower), fill: "var(--bad-soft)" }),
      ];
    }),
    [bound, 0, -worse].map((at) => [
      line(left, y(at), WIDE - 110, y(at), { class: at ? "zero" : "grid" }),
      text(left - 6, y(at) + 4, at.toFixed(2), { "text-anchor": "end" }),
    ]),
    text(WIDE - 102, y(bound) - 4, "better"),
    text(WIDE - 102, y(-worse) + 14, "worse"),
    Array.from({ length: most }, (_, i) => text(x(i + 1), high - 6, `look ${i + 1}`, { "text-anchor": "middle" })),
    lines.map((each) => {
      const points = [[0, 0], ...trial.looks.map((look) => [look.number, look.z[each.label]])].filter(([, z]) => z !== undefined);
      return [
        s("path", {
          d: `M${points.map(([look, z]) => `${x(look)},${y(z)}`).join("L")}`,
          fill: "none",
          stroke: `var(${each.colour})`,
          "stroke-width": 2.4,
        }),
        points.slice(1).map(([look, z]) => s("circle", { cx: x(look), cy: y(z), r: 4.5, fill: `var(${each.colour})` })),
        points.length > 1 &&
          text(x(points.at(-1)[0]) - 4, Math.max(y(points.at(-1)[1]) - 10, 12), `${each.label} ${points.at(-1)[1].toFixed(2)}`, {
            class: "strong",
            "text-anchor": "end",
          }),
      ];
    }),
  );
}

const KINDS = { better: "good", worse: "bad" };

/** What each number does, times and divided by 2 and 4: to the left what is better, to the right what is worse. */
export function tornado(study, ranking) {
  const places = new Map(ranking.map(([setting], i) => [setting, i]));
  const rows = study.rows.toSorted(
    (a, b) => (places.get(a.arm.setting) ?? 99) - (places.get(b.arm.setting) ?? 99) || a.arm.factor - b.arm.factor,
  );
  const steps = study.measure === "steps";
  const size = (value) => (steps ? Math.log(Math.max(value, 1e-9)) : -value);
  const ends = rows
    .flatMap((row) => [row.effect, row.low, row.high])
    .filter((value) => value !== null && Number.isFinite(value))
    .map((value) => Math.abs(size(value)));
  const reach = Math.max(...ends, steps ? Math.log(1.25) : 1e-9);
  const half = (WIDE - LEFT - RIGHT) / 2,
    middle = LEFT + half,
    step = 24,
    high = 34 + step * rows.length;
  const x = (value) => middle + half * Math.min(1, Math.max(-1, size(value) / reach));
  let before = null;
  return s(
    "svg",
    {
      class: "figure",
      viewBox: `0 0 ${WIDE} ${high}`,
      role: "img",
      "aria-label": `What each number does: ${rows.map((row) => `${row.arm.name} ${num(row.effect)}, ${row.verdict}`).join("; ")}`,
    },
    text(middle - 8, 14, "← better", { "text-anchor": "end", class: "good" }),
    text(middle + 8, 14, "worse →", { class: "bad" }),
    line(middle, 20, middle, high - 4, { class: "axis" }),
    rows.map((row, i) => {
      const y = 26 + step * i;
      const name = row.arm.setting.replace(/^algo\./, ""),
        factor = row.arm.factor >= 1 ? `×${num(row.arm.factor)}` : `÷${num(1 / row.arm.factor)}`;
      const first = name !== before;
      before = name;
      if (row.effect === null) return text(LEFT - 10, y + 13, `${name} ${factor}: –`, { "text-anchor": "end" });
      const end = x(row.effect);
      return [
        first && i > 0 && line(12, y - 1, WIDE - 12, y - 1, { class: "grid" }),
        first && text(12, y + 14, name, { class: "strong" }),
        text(LEFT - 10, y + 14, factor, { "text-anchor": "end" }),
        s(
          "rect",
          {
            x: Math.min(middle, end),
            y: y + 4,
            width: Math.max(Math.abs(end - middle), 1),
            height: step - 10,
            rx: 2,
            class: KINDS[row.verdict] ?? "none",
            opacity: 0.75,
          },
          s("title", null, `${row.arm.name}: ${JSON.stringify(row.arm.value)}`),
        ),
        row.low !== null && row.high !== null && line(x(row.low), y + 11, x(row.high), y + 11, { class: "whisker" }),
        text(
          WIDE - RIGHT + 14,
          y + 14,
          `${steps ? `${num(row.effect, 2)}×` : num(row.effect, 2)}${row.low !== null ? ` [${num(row.low, 2)}, ${num(row.high, 2)}]` : ""}${row.reached !== null ? `  ${row.reached}/${row.n}` : ""}`,
        ),
      ];
    }),
  );
}

/** A search: each config at the env steps it was tried at, the best so far as a stair. Lower is better. */
export function search(ledger) {
  let spent = 0;
  const points = ledger.rounds.flatMap((round) => {
    spent += round.used_env_steps;
    // A confirmation is scored as a ratio, by its trial.
    return round.entries
      .filter((entry) => entry.score !== null && round.kind !== "confirm")
      .map((entry) => ({ at: spent, score: entry.score, entry, round }));
  });
  if (!points.length) return null;
  const low = Math.min(...points.map((point) => point.score)),
    top = Math.max(...points.map((point) => point.score));
  const high = 240,
    left = 60;
  const x = (at) => left + (WIDE - left - 20) * (at / Math.max(ledger.budget, spent));
  const y = (score) => 14 + (high - 50) * (1 - (score - low) / (top - low || 1));
  let best = Infinity;
  const stair = points
    .toSorted((a, b) => a.at - b.at)
    .flatMap((point) => {
      const from = best;
      best = Math.min(best, point.score);
      return Number.isFinite(from)
        ? [
            [point.at, from],
            [point.at, best],
          ]
        : [[point.at, best]];
    });
  return s(
    "svg",
    {
      class: "figure",
      viewBox: `0 0 ${WIDE} ${high}`,
      role: "img",
      "aria-label": `${points.length} configs tried; the best score is ${num(best)}`,
    },
    [low, (low + top) / 2, top].map((at) => [
      line(left, y(at), WIDE - 20, y(at), { class: "grid" }),
      text(left - 8, y(at) + 4, num(at), { "text-anchor": "end" }),
    ]),
    s("path", {
      d: `M${stair.map(([at, score]) => `${x(at)},${y(score)}`).join("L")}L${x(spent)},${y(best)}`,
      fill: "none",
      stroke: "var(--c1)",
      "stroke-width": 2,
    }),
    points.map((point) =>
      s(
        "circle",
        {
          cx: x(point.at),
          cy: y(point.score),
          r: 4.5,
          fill: point.entry.name === ledger.best?.entry.name ? "var(--c1)" : "var(--c0)",
          opacity: 0.85,
        },
        s("title", null, `${point.entry.name}: ${num(point.score)}, ${point.entry.reached} of ${point.entry.n} reached`),
      ),
    ),
    text(left, high - 6, "0"),
    text(WIDE - 20, high - 6, `${num(ledger.budget)} env steps`, { "text-anchor": "end" }),
  );
}
