// One race: the ranking with the ranks that each arm may have, its distance from the first, and the rounds.

import { get } from "../api.js";
import { adoptDialog } from "../actions.js";
import { command, h, put, status, table } from "../dom.js";
import { calm, listen } from "../events.js";
import { forest } from "../figures.js";
import { ago, count, num, range, short } from "../format.js";
import { studyButton } from "../studying.js";

const WORDS = { best: "best shown", "less reliable": "faster but less reliable", several: "not told apart", undecided: "undecided" };
const KINDS = { best: "good", "less reliable": "bad", several: "warn", undecided: "warn" };
const SHOWN = { best: "good", "among the best": "quiet", worse: "bad", "faster but less reliable": "bad" };

export async function draw(main, [id]) {
  document.title = `${id} · rlclinic`;
  let progress;
  const load = async () => {
    const found = await get(`/races/${encodeURIComponent(id)}`);
    const { race } = found;
    progress = found.progress;
    put(
      main,
      headOf(found),
      race.arms.length > 0 && pictureCard(race),
      race.arms.length > 0 && rankingCard(race),
      race.rounds.length > 0 && roundsCard(race),
      race.notes.map((text) => h("p", { class: "faint" }, text)),
      command(progress.done ? `rlclinic race --show ${race.id}` : `rlclinic race --resume ${race.id}`),
    );
  };
  await load();
  const soon = calm(async () => {
    if (!progress.done) await load();
  }, 2500);
  const stop = listen(soon);
  const beat = setInterval(soon, 2500);
  return () => {
    stop();
    clearInterval(beat);
  };
}

function headOf({ race, progress, job }) {
  const live = !progress.done;
  const runs = race.arms.reduce((sum, each) => sum + each.arm.n, 0);
  return [
    h(
      "div",
      { class: "head" },
      h(
        "div",
        { class: "grow" },
        h("p", { class: "crumbs" }, h("a", { href: "/studies" }, "Studies"), ` / ${race.id}`),
        h("h1", null, race.question),
        h(
          "p",
          { class: "sub" },
          h("span", { class: "mono" }, race.id),
          h("span", null, `${race.env_id}:${race.algo}`),
          h("span", null, `${runs || progress.runs} runs, ${short(race.used_env_steps || progress.env_steps)} env steps`),
          h("span", null, ago(race.created)),
        ),
      ),
      h(
        "div",
        { class: "actions" },
        studyButton("race", progress, job),
        race.state === "finished" &&
          race.plan.trial.source !== "command" &&
          h("button", { type: "button", class: race.verdict === "best" ? "primary" : null, onclick: () => adoptDialog(race) }, "Adopt…"),
      ),
    ),
    h(
      "div",
      { class: `verdict ${live ? "live" : (KINDS[race.verdict] ?? "warn")}`, role: "status" },
      h("b", null, (live ? progress.state : (WORDS[race.verdict] ?? race.state)).toUpperCase()),
      h("strong", null, race.winner ?? race.best.join(", ")),
      h("span", null, race.reason || race.not_afforded || soFar(race, progress)),
    ),
  ];
}

function soFar(race, progress) {
  if (progress.state === "queued") return `it ${progress.reason}; it begins by itself`;
  if (!progress.done) return `${count(progress.ended)} of ${count(progress.runs)} runs have ended`;
  const needed = Math.max(0, ...race.arms.map((each) => (race.best.includes(each.arm.name) && each.seeds_needed) || 0));
  return needed ? `about ${count(needed)} seeds an arm would tell the closest from the first` : "";
}

const ranks = ({ ranks: [low, high] }) => (low === high ? `${low}` : `${low}–${high}`);

function distance(race, each) {
  if (each.place === 1) return "first";
  if (each.ratio) return each.ratio.value === null ? `at least ${num(each.ratio.low, 2)}× the steps` : `${range(each.ratio)}× the steps`;
  if (each.gain) return range(each.gain);
  return each.behind ? `the first does better in ${range(each.behind)} of pairs` : "–";
}

function pictureCard(race) {
  const others = race.arms.slice(1);
  const log = others.every((each) => each.ratio);
  const of = (each) => (log ? each.ratio : (each.gain ?? each.behind)) ?? { value: null, low: null, high: null };
  const gains = !log && others.every((each) => each.gain);
  const middle = log ? 1 : gains ? 0 : 0.5;
  const rows = race.arms.map((each) => ({
    label: `${ranks(each)}  ${each.arm.name}`,
    ...(each.place === 1 ? { value: middle, low: middle, high: middle } : of(each)),
    kind: SHOWN[each.shown] ?? "quiet",
    said: distance(race, each),
  }));
  const level = `${num(100 * (1 - race.alpha), 3)} %`;
  return h(
    "section",
    { class: "card", "aria-label": "Ranking" },
    h(
      "header",
      null,
      h("h2", null, "Against the first"),
      h("span", { class: "faint" }, `ranks and intervals hold for all arms together (${level}), whenever an arm was dropped`),
    ),
    forest(rows, { middle, log, better: gains ? "lower" : "better", worse: gains ? "higher" : "worse", label: "Ranking" }),
  );
}

function rankingCard(race) {
  const figure = (arm) => range(race.outcome === "steps" ? arm.steps : race.outcome === "success" ? arm.success : arm.final);
  return h(
    "section",
    { class: "card" },
    h("header", null, h("h2", null, "Ranking")),
    table(
      ["rank", "arm", "seeds", race.threshold === null ? "not collapsed" : "stayed there", race.outcome, "shown", "settings", "groups"],
      race.arms.map((each) => [
        ranks(each),
        each.arm.name,
        each.arm.n,
        `${each.arrived} of ${each.arm.n}${each.arm.failed ? `, ${each.arm.failed} failed` : ""}`,
        figure(each.arm),
        each.less_reliable_than.length ? `faster but less reliable than ${each.less_reliable_than.join(", ")}` : status(each.shown),
        h("span", { class: "mono" }, each.arm.changes.slice(0, 4).join(" ")),
        each.arm.groups.flatMap((group) => [h("a", { href: `/groups/${group}` }, group), " "]),
      ]),
      { label: "Ranking" },
    ),
  );
}

function roundsCard(race) {
  return h(
    "section",
    { class: "card" },
    h("header", null, h("h2", null, "Rounds"), h("span", { class: "faint" }, "seeds go to arms that may still be best")),
    table(
      ["round", "trained", "out", "left", "leads", "env steps"],
      race.rounds.map((each) => [
        each.number,
        Object.keys(each.seeds).join(", "),
        Object.entries(each.dropped)
          .map(([arm, by]) => `${arm} (worse than ${by})`)
          .join(", ") || "–",
        each.left,
        each.leader,
        short(each.env_steps),
      ]),
      { label: "Rounds" },
    ),
  );
}
