// Checkpoints of a run, and an episode of each where the environment renders.

import { post } from "./api.js";
import { command, h, problem, put, table } from "./dom.js";
import { bytes, count } from "./format.js";

/** What a run kept, each with an episode to watch. */
export function checkpointsOf(run, kept) {
  const film = h("div");
  const rows = kept.map((each) => [
    count(each.step),
    [each.best && h("span", { class: "tag" }, "best"), " ", each.last && h("span", { class: "tag" }, "last")],
    each.valid ? "whole" : h("strong", null, "damaged"),
    bytes(each.bytes),
    h("button", { type: "button", class: "small", onclick: (event) => record(run, each.step, film, event.target) }, "Watch an episode"),
  ]);
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

/** Record an episode of a checkpoint, or fetch the one that was recorded before. */
async function record(run, step, host, button) {
  button.disabled = true;
  put(host, h("p", { class: "loading" }, "Playing an episode… (the environment starts in a process of its own)"));
  try {
    const film = await post(`/runs/${run}/videos`, { checkpoint: String(step) });
    const source = `/api/v1/runs/${run}/videos/${film.file}`;
    put(
      host,
      h("p", { class: "faint" }, `Env step ${count(step)}, the most likely actions, from the first evaluation start.`),
      film.file.endsWith(".mp4")
        ? h("video", { class: "film", src: source, controls: true, autoplay: true, loop: true, muted: true })
        : h("img", { class: "film", src: source, alt: `An episode of ${run} at env step ${step}` }),
    );
  } catch (error) {
    put(host, problem(error), command(`rlclinic evaluate ${run}@${step} --video episode.gif`));
  }
  button.disabled = false;
}
