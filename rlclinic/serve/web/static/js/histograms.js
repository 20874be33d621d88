// What numbers look like over a run: returns, advantages, actions, observations, and each layer's weights and steps.

import { get } from "./api.js";
import { command, h, problem, put } from "./dom.js";
import { count, num, short } from "./format.js";
import { css } from "./plotting.js";

const HEIGHT = 110;

/** Closed until somebody opens it; then drawn anew whenever the page is. */
export function histogramsCard(run) {
  const body = h("div", null, h("p", { class: "loading" }, "Reading…"));
  const load = async () => {
    try {
      draw(body, run, await get(`/runs/${encodeURIComponent(run)}/histograms`));
    } catch (error) {
      put(body, problem(error, load));
    }
  };
  const card = h("details", { class: "card", ontoggle: () => card.open && load() }, h("summary", null, "Histograms"), body);
  card.refresh = () => {
    if (!card.isConnected) document.removeEventListener("themechange", card.refresh);
    else if (card.open) load();
  };
  document.addEventListener("themechange", card.refresh);
  return card;
}

function draw(body, run, { histograms }) {
  if (!histograms.length) {
    put(
      body,
      h("p", { class: "quiet" }, "This run records none. They are off unless asked for, and cost a few milliseconds each:"),
      command(`rlclinic train ${run} --set run.histograms_every_env_steps=5000`),
    );
    return;
  }
  const part = (phase, title) => {
    const own = histograms.filter((each) => each.phase === phase);
    return own.length > 0 && [h("h3", null, title), h("div", { class: "strip" }, own.map(picture))];
  };
  put(body, part("collect", "While acting"), part("learn", "Layers, and the steps that learning took"));
}

/** Env steps to the right, values upwards, darker where more of them lie. */
function picture(found) {
  const canvas = h("canvas", { class: "histogram", role: "img", tabindex: "0" });
  const said = h("span", { class: "unit" });
  const low = Math.min(...found.low),
    high = Math.max(...found.high);
  const last = found.steps.length - 1;
  const rest = `${num(low)} to ${num(high)}`;
  said.textContent = rest;
  canvas.setAttribute(
    "aria-label",
    `${found.name}: at ${short(found.steps[0])} between ${num(found.low[0])} and ${num(found.high[0])}, at ${short(found.steps[last])} between ${num(found.low[last])} and ${num(found.high[last])}. Arrow keys read times off.`,
  );
  let at = last;
  const tell = (place) => {
    at = Math.max(0, Math.min(last, place));
    const counts = found.counts[at];
    const fullest = counts.indexOf(Math.max(...counts)),
      width = (found.high[at] - found.low[at]) / counts.length;
    const all = counts.reduce((a, b) => a + b, 0);
    said.textContent = `at ${short(found.steps[at])}: ${num(found.low[at])} to ${num(found.high[at])}, most (${count(counts[fullest])} of ${count(all)}) at ${num(found.low[at] + (fullest + 0.5) * width)}`;
  };
  canvas.addEventListener("mousemove", (event) => tell(Math.floor((event.offsetX / canvas.clientWidth) * found.steps.length)));
  canvas.addEventListener("mouseleave", () => (said.textContent = rest));
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) {
      event.preventDefault();
      said.setAttribute("aria-live", "polite");
      tell(at + step);
    }
  });
  new ResizeObserver(() => paint(canvas, found, low, high)).observe(canvas);
  return h("figure", { class: "chart", css: { margin: "0" } }, h("figcaption", { class: "chart-head" }, h("h4", null, found.name), said), canvas, h("div", { class: "ends" }, h("span", null, short(found.steps[0])), h("span", null, `${short(found.steps[last])} env steps`)));
}

function paint(canvas, found, low, high) {
  const scale = devicePixelRatio;
  const width = Math.round(canvas.clientWidth * scale),
    height = HEIGHT * scale;
  if (!width) return;
  canvas.width = width;
  canvas.height = height;
  const ctx = canvas.getContext("2d");
  ctx.fillStyle = css("--c0");
  const column = width / found.steps.length;
  const y = (value) => height * (1 - (value - low) / (high - low || 1));
  found.counts.forEach((counts, i) => {
    const most = Math.max(...counts),
      size = (found.high[i] - found.low[i]) / counts.length;
    counts.forEach((number, bin) => {
      if (!number) return;
      const top = y(found.low[i] + (bin + 1) * size),
        bottom = y(found.low[i] + bin * size);
      ctx.globalAlpha = 0.12 + 0.88 * (number / most);
      ctx.fillRect(Math.floor(i * column), Math.min(top, height - 2 * scale), Math.ceil(column), Math.max(bottom - top, 2 * scale));
    });
  });
}
