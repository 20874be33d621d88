// Any metric of several groups in one picture: the curves of a comparison and of a trial's arms.

import { curves } from "./api.js";
import { align, AXES, axisName, axisText, Chart, Sheet, smooth } from "./chart.js";
import { h, problem, put } from "./dom.js";
import { metric } from "./format.js";
import { EVAL, TRAIN } from "./panel.js";
import { segments } from "./state.js";

/** State of the address that an overlay uses. */
export const USUAL = { metric: "", axis: "steps", smooth: 0, seeds: false, band: true, logx: false, logy: false, hide: "", from: "", to: "" };

export class Overlay {
  /** places: [{ title, threshold, sides: [{ label, colour, of: [ids] }] }], a picture for each. */
  constructor(st) {
    this.st = st;
    if (st.axis === "env steps") st.axis = "steps"; // as links were written before there were four axes
    this.sheet = new Sheet((view) => st.set({ from: view ? Math.round(view[0]) : "", to: view ? Math.round(view[1]) : "" }));
    if (st.from !== "" && st.to !== "") this.sheet.view = [Number(st.from), Number(st.to)];
    this.charts = [];
    this.pictures = h("div", null, h("p", { class: "loading" }, "Reading the curves…"));
    this.title = h("h2", null, "Return");
    this.note = h("p", { class: "faint" });
    this.picker = h("select", {
      "aria-label": "Metric",
      onchange: () => {
        st.set({ metric: this.picker.value, hide: "" });
        this.load(this.places);
      },
    });
    this.node = h(
      "section",
      { class: "card", "aria-label": "Curves" },
      h("header", null, this.title, h("div", { class: "end" }, this.picker, this.controls())),
      this.pictures,
      this.note,
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
        this.draw();
      },
    });
    const tick = (key, text, title) =>
      h(
        "label",
        { class: "check", title },
        h("input", {
          type: "checkbox",
          checked: st[key],
          onchange: (event) => {
            st.set({ [key]: event.target.checked });
            this.draw();
          },
        }),
        text,
      );
    return [
      segments(h, "Against", AXES, st.axis, (axis) => {
        st.set({ axis, from: "", to: "" });
        this.sheet.view = null;
        this.load(this.places);
      }),
      h("label", { class: "check" }, "smooth", slider),
      tick("seeds", "seeds", "A line for each seed"),
      tick("band", "band", "The 95 % interval over seeds; below 8 seeds their range"),
      tick("logx", "log x", "A logarithmic axis"),
      h("button", { type: "button", class: "small", onclick: () => this.sheet.zoom(null) }, "Show all"),
    ];
  }

  /** Read the chosen metric of every side; without a choice the evaluations, or the return in training where nobody evaluated. */
  async load(places) {
    this.places = places;
    const { st } = this;
    const wanted = st.metric ? [st.metric] : [EVAL, TRAIN];
    try {
      this.found = await Promise.all(
        places.map((place) =>
          Promise.all(
            place.sides.filter((side) => side.of.length).map(async (side) => ({ side, got: await curves(side.of, wanted, { axis: st.axis, points: 300 }) })),
          ),
        ),
      );
    } catch (error) {
      put(
        this.pictures,
        problem(error, () => this.load(places)),
      );
      return;
    }
    const all = this.found.flat();
    const evaluated = all.length > 0 && all.every(({ got }) => got.series.some((each) => each.name === EVAL));
    this.metric = st.metric || (evaluated ? EVAL : TRAIN);
    this.fillPicker([...new Set(all.flatMap(({ got }) => got.available))].toSorted());
    this.draw();
  }

  fillPicker(names) {
    const first = [EVAL, TRAIN].filter((name) => names.includes(name));
    put(
      this.picker,
      [...first, ...names.filter((name) => !first.includes(name))].map((name) => h("option", { value: name }, first.includes(name) ? metric(name) : name)),
    );
    if (!names.includes(this.metric)) this.picker.prepend(h("option", { value: this.metric }, this.metric));
    this.picker.value = this.metric;
  }

  draw() {
    if (this.gone || !this.found) return;
    this.title.textContent = [EVAL, TRAIN].includes(this.metric) ? "Return" : metric(this.metric);
    const specs = this.found.map((sides, i) => this.specOf(this.places[i], sides)).filter(Boolean);
    if (!specs.length) {
      this.charts.splice(0).forEach((chart) => chart.destroy());
      put(this.pictures, h("p", { class: "quiet" }, this.found.flat().length ? `None of them has ${metric(this.metric)} by ${axisName(this.st.axis)}.` : "No row has been written yet."));
    } else if (this.charts.length === specs.length) specs.forEach((spec, i) => this.charts[i].update(spec));
    else {
      this.charts.splice(0).forEach((chart) => chart.destroy());
      this.charts.push(...specs.map((spec) => new Chart(this.sheet, spec)));
      put(
        this.pictures,
        specs.map((spec, i) => [this.places.length > 1 && h("h3", null, spec.title), this.charts[i].node]),
      );
      for (const chart of this.charts) chart.resize();
    }
    this.explain();
  }

  specOf(place, sides) {
    const { st } = this;
    const drawn = sides
      .map(({ side, got }) => ({ side, got, series: got.series.find((each) => each.name === this.metric) }))
      .filter(({ series }) => series);
    if (!drawn.length) return null;
    const x = [...new Set(drawn.flatMap(({ got }) => got.x))].toSorted((a, b) => a - b);
    const lines = drawn.flatMap(({ side, got, series }) => {
      const read = (values) => align(x, got.x, values);
      const middle = read(series.center);
      const several = series.seeds.length > 1;
      return [
        ...(st.seeds && several
          ? series.seeds.map((seed) => ({ label: seed.run, colour: side.colour, values: smooth(read(seed.mean), st.smooth), width: 1, alpha: 0.35, quiet: true, of: side.label }))
          : []),
        {
          label: side.label,
          colour: side.colour,
          values: smooth(middle, st.smooth),
          raw: st.smooth ? middle : null,
          low: st.band && several ? read(series.low) : null,
          high: st.band && several ? read(series.high) : null,
          width: 2.4,
        },
      ];
    });
    const isReturn = [EVAL, TRAIN].includes(this.metric);
    return {
      title: place.title,
      bare: true,
      unit: `${metric(this.metric)} by ${axisName(st.axis)}`,
      meaning: drawn[0].series.meaning,
      axis: st.axis,
      x,
      height: 330,
      threshold: isReturn ? place.threshold : null,
      logX: st.logx,
      log: st.logy,
      onlog: (on) => {
        st.set({ logy: on });
        this.draw();
      },
      hidden: st.hide.split(";").filter(Boolean),
      onhide: (labels) => st.set({ hide: labels.join(";") }),
      lines,
    };
  }

  /** What the bands are, and where a curve ends before the others. */
  explain() {
    const texts = [];
    if (this.st.band) texts.push("Interquartile mean over seeds and its 95 % interval (below 8 seeds their range).");
    for (const [i, sides] of this.found.entries()) {
      const end = ({ got }) => got.x.at(-1) ?? 0;
      const last = Math.max(...sides.map(end));
      const early = sides.filter((each) => end(each) > 0 && end(each) < 0.98 * last);
      const where = this.places.length > 1 ? `${this.places[i].title}: ` : "";
      if (early.length)
        texts.push(`${where}${early.map((each) => `${each.side.label} ends at ${axisText(this.st.axis, end(each))}${reasonOf(each.got)}`).join("; ")}.`);
    }
    put(this.note, texts.join(" "));
  }

  destroy() {
    this.gone = true;
    this.sheet.destroy();
  }
}

/** Why runs ended before their budget, as far as their states tell. */
function reasonOf({ runs, max_env_steps: budget }) {
  if (runs.some((run) => run.state === "running")) return ", and still trains";
  if (runs.every((run) => run.state === "finished") && budget && runs.every((run) => run.env_steps < budget)) return ": its runs stopped at the threshold";
  const states = [...new Set(runs.map((run) => run.state).filter((state) => state !== "finished"))];
  return states.length ? `: ${states.join(", ")}` : "";
}
