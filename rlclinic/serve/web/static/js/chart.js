// A curve with what belongs to it: seeds, their band, what is healthy, the threshold, and the region that a finding rests on.
// Drawing is uPlot's (vendored, MIT); its cursor is shared between the charts of a page, and so is the zoom.

import { h } from "./dom.js";
import { duration, num, short } from "./format.js";
import { css, decades, logRange, logTicks, parts, positive, powers, span } from "./plotting.js";

const uPlot = () => window.uPlot;
/** An exponential moving average that skips holes and is not pulled to its first value; weight 0 leaves everything as it is. */
export function smooth(values, weight) {
  if (!weight) return values;
  let last = 0,
    seen = 0;
  return values.map((value) => {
    if (value === null || value === undefined) return null;
    seen += 1;
    last = weight * last + (1 - weight) * value;
    return last / (1 - weight ** seen);
  });
}

/** Values of one axis read off at the places of another; null outside. */
export function onto(x, steps, values) {
  let at = 0;
  return x.map((place) => {
    if (!steps.length || place < steps[0] || place > steps[steps.length - 1]) return null;
    while (at < steps.length - 2 && steps[at + 1] < place) at += 1;
    while (at > 0 && steps[at] > place) at -= 1;
    if (steps.length === 1) return values[0];
    const share = (place - steps[at]) / (steps[at + 1] - steps[at] || 1);
    return values[at] + share * (values[at + 1] - values[at]);
  });
}

/** The same for values with holes: between two that are there it is read off, before the first and after the last it is null. */
export function align(x, steps, values) {
  const known = steps.map((_, i) => i).filter((i) => values[i] !== null && values[i] !== undefined);
  return onto(
    x,
    known.map((i) => steps[i]),
    known.map((i) => values[i]),
  );
}

/** A series colour as text: dark (or light) enough to be read. */
export const inked = (colour) => `color-mix(in srgb, var(${colour}) 60%, var(--ink))`;

/** What curves can be drawn against. */
export const AXES = [
  ["steps", "env steps"],
  ["seconds", "wall time"],
  ["updates", "updates"],
  ["episodes", "episodes"],
];
export const axisName = (axis) => AXES.find(([name]) => name === axis)?.[1] ?? axis;
export const axisText = (axis, value) => (axis === "seconds" ? duration(value) : short(value));
const CSV_NAMES = { steps: "env_steps", seconds: "wall_seconds", updates: "updates", episodes: "episodes" };

/** Charts that share a cursor and a zoom: what one is asked to show, all show. */
export class Sheet {
  constructor(onzoom = () => {}) {
    this.key = `sheet-${Math.random()}`;
    this.charts = new Set();
    this.view = null;
    this.onzoom = onzoom;
  }

  zoom(view, tell = true) {
    this.view = view;
    for (const chart of this.charts) chart.applyView();
    if (tell) this.onzoom(view);
  }

  /** Mark env steps on every chart; `series` is the one that is meant most. */
  mark(regions) {
    for (const chart of this.charts) chart.mark(regions);
  }

  destroy() {
    for (const chart of this.charts) chart.destroy();
  }
}

/**
 * One picture. spec: { title, unit, meaning, axis, x, height, log, logX, threshold, band: [low, high], healthy: {low, high}, changes: [{x, text}],
 * hidden: labels that are left out, onhide, lines: [{ label, colour, values, raw, low, high, points, dash, width, alpha, quiet }] }.
 */
export class Chart {
  constructor(sheet, spec) {
    this.sheet = sheet;
    this.regions = [];
    this.readout = h("div", { class: "readout" });
    this.keys = new Map();
    this.hidden = new Set(spec.hidden ?? []);
    this.canvas = h("div", { class: "canvas" });
    this.title = h("h3", { class: spec.bare ? "unseen" : null }, spec.title);
    this.unit = h("span", { class: "unit" });
    this.note = h("span", { class: "note" });
    this.node = h(
      "figure",
      { class: "chart", css: { margin: "0" } },
      h(
        "figcaption",
        { class: "chart-head", title: spec.meaning },
        this.title,
        this.unit,
        this.note,
        h(
          "span",
          { class: "menu" },
          (this.logs = h("button", { type: "button", class: "quiet", "aria-label": `${spec.title}: logarithmic`, onclick: () => this.spec.onlog?.(!this.spec.log) }, "log")),
          h("button", { type: "button", class: "quiet", "aria-label": `${spec.title}: save as PNG`, onclick: () => this.savePng() }, "PNG"),
          h("button", { type: "button", class: "quiet", "aria-label": `${spec.title}: save as CSV`, onclick: () => this.saveCsv() }, "CSV"),
        ),
      ),
      this.readout,
      this.canvas,
    );
    this.watcher = new ResizeObserver(() => this.resize());
    this.watcher.observe(this.canvas);
    this.rebuild = () => {
      this.shape = null;
      this.update(this.given);
    };
    document.addEventListener("themechange", this.rebuild);
    sheet.charts.add(this);
    this.update(spec);
  }

  destroy() {
    this.watcher.disconnect();
    document.removeEventListener("themechange", this.rebuild);
    this.plot?.destroy();
    this.sheet.charts.delete(this);
  }

  /** Draw new data; the canvas is kept where only the numbers changed. */
  update(given) {
    this.given = given;
    const spec = (this.spec = given.logX ? positive(given) : given);
    this.logs.hidden = !spec.onlog;
    this.logs.setAttribute("aria-pressed", String(Boolean(spec.log)));
    this.unit.textContent = spec.unit && spec.unit !== "-" ? spec.unit : "";
    const { series, bands, data } = parts({ ...spec, lines: this.shown() });
    const shape = JSON.stringify([spec.axis, spec.log, spec.logX, series.map((each) => each.label), bands.map((band) => band.series)]);
    if (this.plot && shape === this.shape) {
      this.plot.setData(data, !this.sheet.view);
      if (this.sheet.view) this.plot.redraw();
    } else {
      this.plot?.destroy();
      this.shape = shape;
      this.build(series, bands, data);
    }
    this.describe();
    return this;
  }

  shown() {
    return this.spec.lines.filter((each) => !this.hidden.has(each.label));
  }

  /** Leave a line out, or draw it again. */
  toggle(label) {
    if (!this.hidden.delete(label)) this.hidden.add(label);
    this.spec.onhide?.([...this.hidden]);
    this.update(this.given);
  }

  build(series, bands, data) {
    const { spec } = this;
    const ink = css("--ink-2"),
      grid = { stroke: css("--grid"), width: 1 };
    const font = `11px ${css("--sans")}`;
    const axis = { stroke: ink, grid, ticks: { show: false }, font };
    this.plot = new (uPlot())(
      {
        width: Math.max(this.canvas.clientWidth, 200),
        height: spec.height ?? 150,
        legend: { show: false },
        series,
        bands,
        padding: [8, 10, 0, 0],
        scales: {
          x: spec.logX ? { time: false, distr: 3, range: (u, low, high) => [low, high > low ? high : low * 10] } : { time: false },
          y: spec.log ? { distr: 3, range: logRange } : { range: (u, low, high) => span({ ...this.spec, lines: this.shown() }, low, high) },
        },
        axes: [
          {
            ...axis,
            ...(spec.logX ? { splits: logTicks, filter: (u, ticks) => ticks } : {}),
            size: 26,
            space: 70,
            values: (u, ticks) => ticks.map((tick) => axisText(spec.axis, tick)),
          },
          {
            ...axis,
            ...(spec.log ? { splits: powers, filter: decades, grid: { ...grid, filter: decades } } : {}),
            size: 46,
            space: 26,
            values: (u, ticks) => ticks.map((tick) => (tick === null ? "" : num(tick, 4))),
          },
        ],
        cursor: {
          sync: { key: this.sheet.key, setSeries: false },
          drag: { x: true, y: false, setScale: false },
          points: { size: 6 },
          y: false,
        },
        select: { show: true },
        hooks: {
          drawClear: [(u) => this.paintBelow(u)],
          draw: [(u) => this.paintAbove(u)],
          setCursor: [(u) => this.place && this.tell(u)],
          setSelect: [(u) => this.selected(u)],
          ready: [(u) => this.reachable(u)],
        },
      },
      data,
      this.canvas,
    );
    if (this.sheet.view) this.applyView();
  }

  applyView() {
    if (!this.plot) return;
    const { x } = this.spec;
    const [from, to] = this.sheet.view ?? [x[0] ?? 0, x[x.length - 1] ?? 1];
    this.plot.setScale("x", { min: this.spec.logX ? Math.max(from, x[0] ?? 1) : from, max: to });
  }

  selected(u) {
    if (u.select.width < 6) return;
    const view = [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")];
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.sheet.zoom(view);
  }

  resize() {
    const width = this.canvas.clientWidth;
    if (this.plot && width && Math.abs(width - this.plot.width) > 1) this.plot.setSize({ width, height: this.spec.height ?? 150 });
  }

  mark(regions) {
    this.regions = regions;
    this.plot?.redraw(false);
  }

  // ── painting ──

  paintBelow(u) {
    const { ctx, bbox } = u;
    const { band } = this.spec;
    ctx.save();
    if (band) {
      const top = band[1] === null ? bbox.top : clamp(u.valToPos(band[1], "y", true), bbox.top, bbox.top + bbox.height);
      const bottom = band[0] === null ? bbox.top + bbox.height : clamp(u.valToPos(band[0], "y", true), bbox.top, bbox.top + bbox.height);
      ctx.fillStyle = css("--healthy");
      ctx.fillRect(bbox.left, top, bbox.width, bottom - top);
    }
    for (const region of this.regions) {
      const left = clamp(u.valToPos(region.start, "x", true), bbox.left, bbox.left + bbox.width);
      const right = clamp(u.valToPos(region.end, "x", true), bbox.left, bbox.left + bbox.width);
      ctx.fillStyle = css("--mark");
      ctx.fillRect(left, bbox.top, Math.max(right - left, 2), bbox.height);
      ctx.fillStyle = css("--mark-edge");
      for (const edge of [left, right]) ctx.fillRect(edge - 1, bbox.top, 2, bbox.height);
      ctx.fillRect(left, bbox.top - 3 * devicePixelRatio, Math.max(right - left, 2), 3 * devicePixelRatio);
    }
    ctx.restore();
  }

  paintAbove(u) {
    const { ctx, bbox } = u;
    const { threshold, changes } = this.spec;
    ctx.save();
    ctx.font = `${Math.round(11 * devicePixelRatio)}px ${css("--sans")}`;
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    if (threshold !== null && threshold !== undefined) {
      const y = u.valToPos(threshold, "y", true);
      if (y >= bbox.top && y <= bbox.top + bbox.height) {
        line(ctx, css("--threshold"), [bbox.left, y], [bbox.left + bbox.width, y], [6, 4]);
        ctx.fillStyle = css("--threshold");
        ctx.fillText(`threshold ${num(threshold)}`, bbox.left + 6 * devicePixelRatio, y + 13 * devicePixelRatio);
      }
    }
    const written = []; // where the last text of each row ends: seeds that were changed together stand close to each other
    for (const change of [...(changes ?? [])].sort((one, other) => one.x - other.x)) {
      const x = u.valToPos(change.x, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      line(ctx, css("--c3"), [x, bbox.top], [x, bbox.top + bbox.height], [2, 3]);
      if (written.some((row) => row.text === change.text && row.end > x)) continue;
      const free = written.findIndex((row) => row.end < x);
      const row = free < 0 ? written.length : free;
      const place = x + 4 * devicePixelRatio;
      written[row] = { text: change.text, end: place + ctx.measureText(change.text).width };
      ctx.fillStyle = css("--c3");
      ctx.fillText(change.text, place, bbox.top + (11 + 13 * row) * devicePixelRatio);
    }
    ctx.restore();
  }

  // ── saying ──

  /** What the cursor points at, in numbers. */
  tell(u) {
    const { idx } = u.cursor;
    const pointed = idx !== null && idx !== undefined && u.cursor.left >= 0;
    this.place.textContent = pointed ? axisText(this.spec.axis, this.spec.x[idx]) : "";
    for (const [each, key] of this.keys.values()) {
      const values = each.raw ?? each.values;
      const at = before(values, pointed ? idx : values.length - 1);
      const between = pointed && at >= 0 && (each.low?.[at] ?? null) !== null && each.low[at] !== each.high[at];
      key.number.textContent = at < 0 ? "–" : num(values[at]);
      key.ends.textContent = between ? ` [${num(each.low[at])}, ${num(each.high[at])}]` : "";
    }
  }

  /** One key for each line, with its newest number while nobody points: a button that leaves the line out, where there are several.
   *  The same in words for those who cannot see the picture. */
  describe() {
    const read = this.spec.lines.filter((each) => !each.quiet && each.values.some((value) => value !== null && value !== undefined));
    const labels = read.map((each) => each.label).join("\n");
    if (labels !== this.labels) {
      this.labels = labels;
      this.place = h("b");
      this.keys.clear();
      const nodes = read.map((each) => {
        const number = h("b"),
          ends = h("span");
        const node =
          read.length > 1
            ? h("button", { type: "button", class: "line-key", title: "Show or hide this line", onclick: () => this.toggle(each.label) })
            : h("span");
        node.append(h("span", null, `${each.label} `), number, ends);
        this.keys.set(each.label, [each, { node, number, ends }]);
        return node;
      });
      this.readout.replaceChildren(this.place, ...nodes);
    }
    for (const each of read) {
      const [, key] = this.keys.get(each.label);
      this.keys.set(each.label, [each, key]);
      key.node.style.setProperty("color", inked(each.colour));
      if (read.length > 1) key.node.setAttribute("aria-pressed", String(!this.hidden.has(each.label)));
    }
    if (this.plot) this.tell(this.plot);
    const words = read.map((each) => {
      const values = (each.raw ?? each.values).filter((value) => value !== null && value !== undefined);
      const [low, high] = [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
      return `${each.label}: from ${num(values[0])} to ${num(values.at(-1))}, between ${num(low)} and ${num(high)}`;
    });
    this.plot?.over.setAttribute("aria-label", `${this.spec.title}. ${words.join(". ")}. Arrow keys read values, 0 shows all.`);
  }

  /** Arrow keys move the cursor, 0 undoes the zoom. */
  reachable(u) {
    u.over.tabIndex = 0;
    u.over.setAttribute("role", "img");
    u.over.addEventListener("dblclick", () => this.sheet.zoom(null));
    u.over.addEventListener("blur", () => u.setCursor({ left: -10, top: -10 }));
    u.over.addEventListener("keydown", (event) => {
      const last = this.spec.x.length - 1;
      const now = u.cursor.idx ?? last;
      const step = event.shiftKey ? 10 : 1;
      const to = { ArrowLeft: now - step, ArrowRight: now + step, Home: 0, End: last }[event.key];
      if (event.key === "0") this.sheet.zoom(null);
      if (to === undefined) return;
      event.preventDefault();
      this.readout.setAttribute("aria-live", "polite");
      u.setCursor({ left: u.valToPos(this.spec.x[clamp(to, 0, last)], "x"), top: 10 });
    });
  }

  // ── saving ──

  savePng() {
    const source = this.canvas.querySelector("canvas");
    const scale = devicePixelRatio,
      head = 34 * scale;
    const made = document.createElement("canvas");
    made.width = source.width + 20 * scale;
    made.height = source.height + head + 12 * scale;
    const ctx = made.getContext("2d");
    ctx.fillStyle = css("--card");
    ctx.fillRect(0, 0, made.width, made.height);
    ctx.font = `600 ${14 * scale}px ${css("--sans")}`;
    ctx.fillStyle = css("--ink");
    ctx.fillText(`${this.spec.title} · ${document.title.split(" · ")[0]}`, 12 * scale, 22 * scale);
    ctx.drawImage(source, 10 * scale, head);
    made.toBlob((blob) => save(blob, `${file(this.spec.title)}.png`));
  }

  saveCsv() {
    const { x, axis, lines } = this.spec;
    const columns = lines.flatMap((each) => [
      [each.label, each.raw ?? each.values],
      ...(each.low
        ? [
            [`${each.label} low`, each.low],
            [`${each.label} high`, each.high],
          ]
        : []),
    ]);
    const rows = x.map((place, i) => [place, ...columns.map(([, values]) => values[i] ?? "")].join(","));
    const head = [CSV_NAMES[axis] ?? axis, ...columns.map(([label]) => `"${label.replaceAll('"', '""')}"`)].join(
      ",",
    );
    save(new Blob([[head, ...rows].join("\n"), "\n"], { type: "text/csv" }), `${file(this.spec.title)}.csv`);
  }
}

/** Hand a file to the browser. */
export function save(blob, name) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const file = (text) =>
  text
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-|-$/g, "");
/** The last place at or before this one that has a value; -1 if there is none. */
function before(values, at) {
  while (at >= 0 && (values[at] === null || values[at] === undefined)) at -= 1;
  return at;
}

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

function line(ctx, colour, from, to, dash) {
  ctx.strokeStyle = colour;
  ctx.lineWidth = 1.4 * devicePixelRatio;
  ctx.setLineDash(dash.map((each) => each * devicePixelRatio));
  ctx.beginPath();
  ctx.moveTo(...from);
  ctx.lineTo(...to);
  ctx.stroke();
}
