// The curves of a group or a run: the return first, then the health of its updates, all on one axis with one cursor.

import { curves, firstCurve } from "./api.js";
import { AXES, axisName, Chart, onto, Sheet, smooth } from "./chart.js";
import { h, problem, put } from "./dom.js";
import { metric } from "./format.js";
import { COLOURS, judge, STRIP, usual } from "./health.js";
import { segments } from "./state.js";

export const TRAIN = "train/roll/ep_rew_mean",
  EVAL = "val/roll/ep_rew_mean";
/** State of the address that a panel uses. */
export const USUAL = { axis: "steps", smooth: 0, seeds: true, band: true, logx: false, logy: "", hide: "", from: "", to: "", finding: "", more: "" };

export class Panel {
  constructor(of, st) {
    this.of = of;
    this.st = st;
    this.sheet = new Sheet((view) => st.set({ from: view ? Math.round(view[0]) : "", to: view ? Math.round(view[1]) : "" }));
    if (st.from !== "" && st.to !== "") this.sheet.view = [Number(st.from), Number(st.to)];
    this.drawn = new Map();
    this.main = h("div", { class: "main-chart" }, h("p", { class: "loading" }, "Reading the curve…"));
    this.legend = h("div", { class: "legend" });
    this.strip = h("div", { class: "strip" });
    this.note = h("p", { class: "faint" });
    this.picker = h("select", { "aria-label": "Draw another metric", onchange: () => this.addMore(this.picker.value) });
    this.node = h(
      "div",
      { class: "stack wideset" },
      h(
        "section",
        { class: "card return", "aria-label": "Return" },
        h("header", null, h("h2", null, "Return"), this.legend, h("div", { class: "end" }, this.controls())),
        this.main,
        this.note,
      ),
      h(
        "section",
        { class: "card", "aria-label": "Health of the updates" },
        h(
          "header",
          null,
          h("h2", null, "Health of the updates"),
          h("span", { class: "key" }, h("i", { class: "area", css: { color: "var(--c2)" } }), "where healthy runs usually are"),
          h("div", { class: "end" }, this.picker),
        ),
        this.strip,
      ),
    );
  }

  controls() {
    const { st } = this;
    const slider = h("input", {
      type: "range",
      min: "0",
      max: "0.98",
      step: "0.02",
      value: st.smooth,
      "aria-label": "Smoothing",
      oninput: () => {
        st.set({ smooth: Number(slider.value) });
        this.redraw();
      },
    });
    return [
      segments(h, "Against", AXES, st.axis, (axis) => {
        st.set({ axis, from: "", to: "" });
        this.sheet.view = null;
        this.load();
      }),
      h("label", { class: "check" }, "smooth", slider),
      ...[
        ["seeds", "seeds", "A line for each seed"],
        ["band", "band", "The interval over seeds"],
        ["logx", "log x", "A logarithmic axis; each chart has a button for its own"],
      ].map(([key, text, title]) =>
        h(
          "label",
          { class: "check", title },
          h("input", {
            type: "checkbox",
            checked: st[key],
            onchange: (event) => {
              st.set({ [key]: event.target.checked });
              this.redraw();
            },
          }),
          text,
        ),
      ),
      h("button", { type: "button", class: "small", onclick: () => this.sheet.zoom(null) }, "Show all"),
    ];
  }

  /** The return first and alone, so that something is there at once; then the rest. */
  async load() {
    this.first = await firstCurve(this.of[0], this.st.axis);
    this.drawMain();
    performance.mark("first-curve");
    if (this.first.rough) {
      this.first = await curves(this.of, [TRAIN, EVAL], this.how());
      this.drawMain();
    }
    performance.mark("whole-curve");
    await this.loadStrip();
  }

  how() {
    return { axis: this.st.axis, points: 400 };
  }

  /** New rows are there: the return at once, the rest when there is time. */
  async refresh(whole = true) {
    this.first = await curves(this.of, [TRAIN, EVAL], this.how());
    this.drawMain();
    if (whole) await this.loadStrip();
  }

  async loadStrip() {
    const there = new Set(this.first.available);
    const more = this.st.more ? this.st.more.split(",") : [];
    const wanted = [...STRIP, ...more.map((name) => ({ title: metric(name), of: [name], own: name }))]
      .map((each) => ({ ...each, of: each.of.filter((name) => there.has(name)).slice(0, each.most ? 2 : each.first ? 1 : undefined) }))
      .filter((each) => each.of.length)
      .map((each) => ({ ...each, title: each.titles?.[each.of[0]] ?? each.title }));
    this.fillPicker(there, wanted);
    const names = [...new Set(wanted.flatMap((each) => each.of))];
    if (!names.length) {
      put(this.strip, h("p", { class: "quiet" }, "Nothing about updates was logged."));
      return;
    }
    try {
      this.rest = await curves(this.of, names, { ...this.how(), points: 240 });
    } catch (error) {
      put(
        this.strip,
        problem(error, () => this.loadStrip()),
      );
      return;
    }
    this.wanted = wanted.map((each) => this.choose(each));
    this.strip.querySelector(":scope > p, :scope > .problem")?.remove();
    this.drawStrip();
  }

  /** The picture of its first series, or of the second where the first is not what it is called. */
  choose(each) {
    if (!each.most) return each;
    const beyond = this.rest.series.some((series) => series.name === each.of[0] && series.center.some((value) => value > each.most + 1e-6));
    const name = (beyond && each.of[1]) || each.of[0];
    return { ...each, of: [name], title: each.titles?.[name] ?? (beyond ? "Entropy" : each.title) };
  }

  /** How the chart of this name is drawn, as the address has it: its scales and which lines are left out. */
  view(key) {
    const { st } = this;
    const logs = st.logy.split(";").filter(Boolean);
    const hidden = st.hide.split(";").filter((each) => each.startsWith(`${key}=`));
    return {
      logX: st.logx,
      log: logs.includes(key),
      onlog: (on) => {
        st.set({ logy: [...logs.filter((each) => each !== key), ...(on ? [key] : [])].join(";") });
        this.redraw();
      },
      hidden: hidden.map((each) => each.slice(key.length + 1)),
      onhide: (labels) => st.set({ hide: [...st.hide.split(";").filter((each) => each && !each.startsWith(`${key}=`)), ...labels.map((label) => `${key}=${label}`)].join(";") }),
    };
  }

  redraw() {
    if (this.first) this.drawMain();
    if (this.rest) this.drawStrip();
  }

  drawMain() {
    if (this.gone) return;
    const { first, st } = this;
    if (!first.x.length) {
      put(
        this.main,
        h(
          "p",
          { class: "quiet" },
          first.runs.some((run) => run.env_steps > 0) && st.axis !== "steps"
            ? `No ${st.axis === "seconds" ? "clock was" : `${st.axis} were`} logged: there is no ${axisName(st.axis)} axis to draw against.`
            : "No row has been written yet.",
        ),
      );
      this.drawn.delete("main");
      return;
    }
    const train = first.series.find((each) => each.name === TRAIN),
      evaluated = first.series.find((each) => each.name === EVAL);
    const many = first.runs.length > 1;
    const lines = [];
    if (st.seeds && many && train)
      for (const seed of train.seeds)
        lines.push({ label: seed.run, colour: "--c0", values: smooth(seed.mean, st.smooth), width: 1, alpha: 0.32, quiet: true });
    if (train) lines.push(this.middle(train, many ? "training, IQM" : "training", "--c0"));
    if (evaluated)
      lines.push({
        ...this.middle(evaluated, many ? "evaluation, IQM" : "evaluation", "--c1"),
        points: evaluated.center.filter((value) => value !== null).length < 120,
        fill: 0.07,
      });
    const healthy = first.healthy && {
      low: onto(first.x, first.healthy.steps, first.healthy.low),
      high: onto(first.x, first.healthy.steps, first.healthy.high),
    };
    const spec = {
      title: "Return",
      bare: true,
      ...this.view("return"),
      unit: `by ${axisName(st.axis)}`,
      meaning: train?.meaning,
      axis: st.axis,
      x: first.x,
      height: 340,
      threshold: first.threshold,
      healthy,
      lines,
      changes: marksOf(first),
    };
    this.place("main", this.main, spec);
    this.explain(train, evaluated, many);
  }

  /** A series as a line with its interval over seeds; of one run with its lowest and highest rows. */
  middle(series, label, colour) {
    const alone = series.seeds.length === 1;
    return {
      label,
      colour,
      values: smooth(series.center, this.st.smooth),
      raw: this.st.smooth ? series.center : null,
      low: !this.st.band ? null : alone ? series.lowest : series.low,
      high: !this.st.band ? null : alone ? series.highest : series.high,
      width: 2.4,
    };
  }

  explain(train, evaluated, many) {
    const { first } = this;
    const key = (colour, mark, text) =>
      h(
        "span",
        { class: "key", css: { color: `var(${colour})` } },
        h("i", { class: mark }),
        h("span", { css: { color: "var(--ink-2)" } }, text),
      );
    put(
      this.legend,
      train && key("--c0", "", "training"),
      evaluated && key("--c1", "dot", "evaluation"),
      many && this.st.band && key("--c0", "area", "95 % interval over seeds (below 8: their range)"),
      first.healthy && this.st.axis === "steps" && key("--c2", "area", `90 % of ${first.healthy.runs} healthy runs`),
      first.threshold !== null && key("--threshold", "dash", "threshold"),
    );
    const thinned =
      first.rows > first.x.length
        ? `${first.rows.toLocaleString("en-US")} rows drawn as ${first.x.length} places, each with its lowest and highest`
        : `${first.rows.toLocaleString("en-US")} row${first.rows === 1 ? "" : "s"}`;
    if (first.rough) {
      put(this.note, "A first look at rows here and there; reading all of them…");
      return;
    }
    put(this.note, `${thinned}. Drag to zoom, double click shows all; arrow keys read values off.`);
  }

  drawStrip() {
    if (this.gone) return;
    for (const each of this.wanted) {
      const found = each.of.map((name) => this.rest.series.find((series) => series.name === name)).filter(Boolean);
      if (!found.length) continue;
      const lines = found.map((series, i) => ({
        ...this.middle(series, found.length > 1 ? metric(series.name).replace(/^grad norm /, "") : metric(series.name), COLOURS[i]),
        width: 1.8,
        fill: found.length > 1 ? 0 : 0.17,
      }));
      if (found.length === 1 && found[0].seeds.length > 1 && this.st.band) lines.unshift(envelope(found[0]));
      const key = each.own ?? each.title;
      const view = this.view(key);
      const band = found.length === 1 ? usual(found[0]) : null;
      const spec = {
        title: each.of.length === 1 && each.own ? metric(each.own) : each.title,
        unit: found[0].unit,
        meaning: found[0].meaning,
        axis: this.st.axis,
        x: this.rest.x,
        height: 130,
        ...view,
        log: each.log ? !view.log : view.log,
        onlog: (on) => view.onlog(each.log ? !on : on),
        changes: marksOf(this.rest).map(({ x }) => ({ x, text: "" })),
        band,
        lines,
      };
      const chart = this.place(key, this.strip, spec);
      chart.series = each.of;
      judge(chart, found[0], band);
    }
  }

  /** A chart under its name: made the first time, given new numbers after that. */
  place(key, host, spec) {
    const known = this.drawn.get(key);
    if (known && known.node.isConnected) return known.update(spec);
    if (key === "main") host.replaceChildren();
    const slot = h("div");
    host.append(slot);
    const chart = new Chart(this.sheet, spec);
    slot.replaceWith(chart.node);
    chart.resize();
    chart.regions = this.marked ?? [];
    this.drawn.set(key, chart);
    return chart;
  }

  fillPicker(there, wanted) {
    const shown = new Set([TRAIN, EVAL, ...wanted.flatMap((each) => each.of)]);
    const left = [...there].filter((name) => !shown.has(name)).toSorted();
    put(
      this.picker,
      h("option", { value: "" }, `draw another metric (${left.length})`),
      left.map((name) => h("option", { value: name }, name)),
    );
    this.picker.value = "";
  }

  async addMore(name) {
    if (!name) return;
    const more = this.st.more ? this.st.more.split(",") : [];
    if (!more.includes(name)) this.st.set({ more: [...more, name].join(",") });
    await this.loadStrip();
  }

  /** Show where a finding lies: its region on every chart, and its own charts lit; returns the chart to look at. */
  async highlight(finding) {
    for (const chart of this.sheet.charts) chart.node.classList.remove("lit");
    if (!finding) {
      this.marked = [];
      this.sheet.mark([]);
      return;
    }
    if (this.st.axis !== "steps") {
      this.st.set({ axis: "steps", from: "", to: "" });
      await this.load();
    }
    this.marked = regions(finding, this.first.x.at(-1) ?? 0);
    for (const name of seriesOf(finding)) if (!this.chartOf(name) && this.first.available.includes(name)) await this.addMore(name);
    const lit = [
      ...new Set(
        seriesOf(finding)
          .map((name) => this.chartOf(name))
          .filter(Boolean),
      ),
    ];
    const looked = lit.length ? lit : [this.drawn.get("main")].filter(Boolean);
    this.sheet.mark(this.marked);
    for (const chart of looked) chart.node.classList.add("lit");
    looked[0]?.node.scrollIntoView({
      block: "center",
      behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth",
    });
  }

  chartOf(name) {
    if (name === TRAIN || name === EVAL) return this.drawn.get("main");
    return [...this.drawn.values()].find((chart) => chart.series?.includes(name));
  }

  destroy() {
    this.gone = true;
    this.sheet.destroy();
  }
}

/** All rows of all seeds, faint behind their middle: a spike of one row in one seed is seen. */
const envelope = (series) => ({
  label: "all rows",
  colour: "--c0",
  values: series.lowest.map(() => null),
  low: series.lowest,
  high: series.highest,
  fill: 0.08,
  width: 0,
  quiet: true,
  envelope: true,
});

/** Numbers that were changed while it ran, once for all seeds that were changed together. */
function marksOf(found) {
  const marks = new Map();
  for (const { x, text } of found.changes) if (x !== null) marks.set(`${found.axis === "seconds" ? Math.round(x) : x} ${text}`, { x, text });
  return [...marks.values()];
}

const seriesOf = (finding) => finding.evidence.map((part) => part.series).filter((name) => !name.startsWith("config:"));

/** From the finding's beginning (or its evidence's) to the evidence's end; all of the axis where it has no place in time. */
export function regions(finding, end) {
  const parts = finding.evidence.filter((part) => !part.series.startsWith("config:"));
  const one = parts[0];
  const start = finding.onset ?? one?.start ?? 0;
  const stop = one?.end !== null && one?.end !== undefined && one.end > start ? one.end : end;
  return [{ start, end: stop }];
}
