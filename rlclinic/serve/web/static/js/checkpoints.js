// Checkpoints of a run, and episodes that were recorded: films where the environment has pictures, and every step's numbers.

import { fetchJson, get, post, prepareFilms } from "./api.js";
import { Chart, Sheet } from "./chart.js";
import { command, h, problem, put, table } from "./dom.js";
import { bytes, count, num } from "./format.js";

const COLOURS = ["--c0", "--c1", "--c2", "--c3", "--c4", "--c6", "--c5", "--c7"];

/** What a run kept, each with an episode to watch, and the episodes that were recorded while it trained. */
export function checkpointsOf(run, kept) {
  const film = h("div");
  const rows = kept.map((each) => [
    count(each.step),
    [each.best && h("span", { class: "tag" }, "best"), " ", each.last && h("span", { class: "tag" }, "last")],
    each.valid ? "whole" : h("strong", null, "damaged"),
    bytes(each.bytes),
    h("button", { type: "button", class: "small", onclick: (event) => record(run, each.step, film, event.target) }, "Watch an episode"),
  ]);
  if (rows.length) prepareFilms();
  return h(
    "section",
    { class: "card" },
    h("header", null, h("h2", null, "Checkpoints")),
    rows.length
      ? table([{ text: "env step", num: true }, "mark", "files", { text: "size", num: true }, "episode"], rows, { label: "Checkpoints" })
      : h("p", { class: "quiet" }, "None yet: the first is saved with the first evaluation."),
    film,
  );
}

/** Record an episode of a checkpoint, or fetch the one that was recorded before. `again`: trained again up to there, if it was not kept. */
async function record(run, step, host, button, again = false) {
  button.disabled = true;
  const began = performance.now();
  const clock = h("span");
  const tick = () => put(clock, `${((performance.now() - began) / 1000).toFixed(1)} s`);
  tick();
  const beat = setInterval(tick, 100);
  put(host, h("p", { class: "loading", role: "status" }, h("progress", { "aria-label": "Recording" }), " Playing an episode in a process of its own… ", clock));
  try {
    await showEpisode(host, await post(`/runs/${run}/videos`, { checkpoint: String(step), again }));
  } catch (error) {
    put(host, problem(error), command(again ? `rlclinic diagnose ${run} --film` : `rlclinic evaluate ${run}@${step} --video episode.gif`));
  }
  clearInterval(beat);
  button.disabled = false;
}

/** A film with its numbers, or the numbers alone. */
async function showEpisode(host, film) {
  const source = `/api/v1/runs/${film.run}/videos/${film.file}`;
  const pictured = film.file !== film.trace;
  const numbers = h("div", { class: "strip" });
  put(
    host,
    h("p", { class: "faint" }, `Env step ${count(film.step)}, from the first evaluation start.${pictured ? "" : " This environment has no pictures: its numbers, step by step."}`),
    pictured &&
      (film.file.endsWith(".mp4")
        ? h("video", { class: "film", src: source, controls: true, autoplay: true, loop: true, muted: true })
        : h("img", { class: "film", src: source, alt: `An episode of ${film.run} at env step ${film.step}`, onload: () => performance.mark("film-shown") })),
    numbers,
  );
  if (!film.trace) return;
  const trace = await fetchJson(`/api/v1/runs/${film.run}/videos/${film.trace}`);
  drawTrace(numbers, trace);
  performance.mark("trace-shown");
}

/** Rewards with their terms, observations and actions over an episode. */
function drawTrace(host, trace) {
  const x = trace.rewards.map((_, i) => i + 1);
  let sum = 0;
  const total = trace.rewards.map((value) => (sum += value ?? 0));
  const terms = Object.entries(trace.terms);
  const named = (kind, entries) => entries.map(([name, values]) => [`${kind} ${name}`, values]);
  const pictures = [
    ["Reward", [["reward", trace.rewards], ...terms]],
    ["Sum of rewards", [["return so far", total]]],
    ["Observation", named("observation", Object.entries(trace.observations))],
    ["Action", named("action", Object.entries(trace.actions))],
  ].filter(([, entries]) => entries.length);
  const sheet = new Sheet();
  put(
    host,
    h(
      "p",
      { class: "faint full" },
      `${x.length} steps, return ${num(sum)}${trace.success === null ? "" : trace.success ? ", a success" : ", no success"}${terms.length ? `; the reward is reported in ${terms.length} terms` : ""}.`,
    ),
  );
  for (const [title, entries] of pictures) {
    const lines = entries.map(([label, values], i) => ({ label, colour: COLOURS[i % COLOURS.length], values, width: i ? 1.4 : 1.8, dash: i >= COLOURS.length ? [4, 3] : undefined }));
    const chart = new Chart(sheet, { title, unit: "by step of the episode", axis: "episode step", x, height: 150, lines });
    host.append(chart.node);
    chart.resize();
  }
}

/** What a gamed reward is paid for: an episode from before and one from when it was, recorded with one click where there are none. */
export function gamedCard(films) {
  const slots = films.episodes.map((each) => ({ each, host: h("div"), known: each.file !== null }));
  const film = h("button", { type: "button", class: "small", hidden: true, onclick: () => recordMissing() }, "Film both");
  const recordMissing = async () => {
    for (const slot of slots.filter((slot) => !slot.known)) {
      await record(slot.each.run, slot.each.step, slot.host, film, true);
      slot.known = slot.host.querySelector(".problem") === null;
    }
    film.hidden = slots.every((slot) => slot.known);
  };
  const refresh = async () => {
    for (const run of new Set(slots.map((slot) => slot.each.run))) {
      const { films: made } = await get(`/runs/${encodeURIComponent(run)}/videos`).catch(() => ({ films: [] }));
      for (const slot of slots.filter((slot) => slot.each.run === run)) {
        const { step, low, high } = slot.each;
        const [nearest] = made.filter((each) => each.step >= low && each.step <= high).sort((a, b) => Math.abs(a.step - step) - Math.abs(b.step - step));
        slot.known = nearest !== undefined;
        if (nearest) await showEpisode(slot.host, nearest).catch((error) => put(slot.host, problem(error)));
      }
    }
    film.hidden = slots.every((slot) => slot.known);
    if (!film.hidden) prepareFilms();
  };
  refresh();
  return h(
    "section",
    { class: "card stack", "aria-label": "What it is paid for" },
    h("header", null, h("h2", null, "What it is paid for"), h("div", { class: "end" }, slots.length > 0 && film)),
    h("p", { class: "faint" }, `Seen from env step ${count(films.start)} to ${count(films.end)} (${films.rule}).`),
    films.note && h("p", { class: "quiet" }, films.note),
    slots.map(({ each, host }) => [h("h3", null, each.when === "before" ? "Before" : "Within"), host]),
  );
}

/** Episodes recorded while it trained, to leaf through; nothing where there are none. */
export function episodesCard(run) {
  const shown = h("div"),
    label = h("span", { class: "faint" });
  let films = [],
    at = -1,
    last = "";
  const slider = h("input", { type: "range", min: "0", step: "1", "aria-label": "Recorded episode", oninput: () => show(Number(slider.value)) });
  const card = h("section", { class: "card", hidden: true }, h("header", null, h("h2", null, "Recorded episodes"), h("div", { class: "end" }, label, slider)), shown);
  const show = async (place) => {
    at = place;
    slider.value = String(place);
    slider.setAttribute("aria-valuetext", `env step ${count(films[place].step)}`);
    put(label, `${place + 1} of ${films.length}`);
    try {
      await showEpisode(shown, films[place]);
    } catch (error) {
      put(shown, problem(error));
    }
  };
  card.refresh = async () => {
    const found = await get(`/runs/${encodeURIComponent(run)}/videos`).catch(() => ({ films: [] }));
    const now = found.films.map((film) => film.file).join(" ");
    if (now === last) return;
    const newest = at < 0 || at === films.length - 1; // whoever looks at the newest sees the next one come
    last = now;
    films = found.films;
    card.hidden = !films.length;
    slider.max = String(Math.max(films.length - 1, 0));
    slider.hidden = films.length < 2;
    if (films.length) await show(newest ? films.length - 1 : Math.min(at, films.length - 1));
  };
  card.refresh();
  return card;
}
