// One search: every config that was tried, the best so far, and whether it was confirmed.

import { get } from "../api.js";
import { search } from "../figures.js";
import { command, h, put, status, table } from "../dom.js";
import { calm, listen } from "../events.js";
import { ago, change, duration, num, percent, short } from "../format.js";
import { studyButton } from "../studying.js";

export async function draw(main, [id]) {
  document.title = `${id} · rlclinic`;
  let view;
  const load = async () => {
    view = await get(`/studies/optimize/${encodeURIComponent(id)}`);
    const { ledger } = view;
    const unit = { steps: "env steps to the threshold", wall: "seconds to the threshold", return: "minus the return", stability: "spread" }[
      ledger.outcome
    ];
    const rounds = ledger.rounds.flatMap((round) =>
      round.entries.map((entry, i) => [
        i === 0 ? `${round.number} ${round.kind}` : "",
        entry.name === round.winner ? h("strong", null, entry.name) : entry.name,
        entry.source,
        h("span", { class: "mono" }, entry.changes.map(change).join("; ") || "as it is"),
        round.kind === "confirm" ? entry.score !== null && `${num(entry.score)}×` : num(entry.score),
        round.kind === "confirm" ? round.verdict : `${entry.reached} of ${entry.n}`,
        entry.group && round.kind !== "confirm"
          ? h("a", { href: `/groups/${entry.group}` }, entry.group)
          : round.trial
            ? h("a", { href: `/trials/${round.trial}` }, round.trial)
            : "",
        h("span", { class: "faint" }, entry.why),
      ]),
    );
    put(
      main,
      h(
        "div",
        { class: "head" },
        h(
          "div",
          { class: "grow" },
          h("p", { class: "crumbs" }, h("a", { href: "/studies" }, "Studies"), ` / ${ledger.id}`),
          h("h1", null, `A better config for ${ledger.target}`, " ", status(view.progress.state)),
          h(
            "p",
            { class: "sub" },
            h("span", { class: "mono" }, ledger.id),
            h("span", null, `${ledger.env_id}:${ledger.algo}`),
            h("span", null, ago(ledger.created)),
            h("span", null, `${ledger.rounds.length} rounds, ${duration(ledger.rounds.reduce((sum, round) => sum + round.seconds, 0))}`),
          ),
          !view.progress.done && view.progress.reason && h("p", { class: "quiet" }, `It ${view.progress.reason}.`),
        ),
        h("div", { class: "actions" }, studyButton("optimize", view.progress, view.job)),
      ),
      bestCard(view),
      h(
        "section",
        { class: "card" },
        h(
          "header",
          null,
          h("h2", null, "What was tried"),
          h("span", { class: "faint" }, `${unit}; lower is better; the stair is the best so far`),
          h(
            "div",
            { class: "end" },
            h(
              "span",
              { class: "faint" },
              `${short(view.spent)} of ${short(ledger.budget)} env steps (${percent(view.spent / ledger.budget)})`,
            ),
          ),
        ),
        search(ledger) ?? h("p", { class: "quiet" }, "Nothing has ended yet."),
      ),
      h(
        "section",
        { class: "card" },
        h("header", null, h("h2", null, "Rounds")),
        table(["round", "config", "from", "change", { text: "score", num: true }, "reached", "runs", "why"], rounds, { label: "Rounds" }),
      ),
      h(
        "section",
        { class: "card stack" },
        ledger.notes.map((note) => h("p", { class: "faint" }, note)),
        command(`rlclinic optimize --resume ${ledger.id}`),
      ),
    );
  };
  await load();
  return listen(
    calm(async () => {
      if (!view.progress.done) await load();
    }, 2500),
  );
}

function bestCard({ ledger, changes, confirmed }) {
  const trials = ledger.rounds.filter((round) => round.trial);
  if (!ledger.best) return null;
  const kind = confirmed ? "good" : ledger.state === "finished" ? "warn" : "live";
  return h(
    "div",
    { class: `verdict ${kind}` },
    h("b", null, (ledger.verdict || "searching").toUpperCase()),
    h("span", null, "best so far: ", h("strong", { class: "mono" }, changes.map(change).join("; ") || "the start")),
    h("span", { class: "quiet" }, `score ${num(ledger.best.score)}, ${ledger.best.reached} of ${ledger.best.n} reached`),
    trials.map((round) => h("a", { href: `/trials/${round.trial}` }, `${round.verdict || "trying"}: ${round.trial}`)),
  );
}
