// Searches, sensitivity studies and races.

import { get } from "../api.js";
import { empty, h, heading, put, status, table } from "../dom.js";
import { calm, listen } from "../events.js";
import { ago } from "../format.js";
import { optimizeDialog, raceDialog, sensitivityDialog } from "../studying.js";

export async function draw(main) {
  document.title = "Studies · rlclinic";
  const list = h("div");
  const load = async () => {
    const [{ studies }, { races }] = await Promise.all([get("/studies"), get("/races")]);
    if (!studies.length && !races.length) {
      put(
        list,
        empty(
          "No study was made yet",
          "A sensitivity study says which numbers of a config matter; a search looks for a better config within a budget; a race says which of many is best.",
          "rlclinic sensitivity CartPole-v1:ppo",
          "rlclinic optimize @last --budget 3M",
          "rlclinic race @last --set algo.learning_rate=1e-4,3e-4,1e-3",
        ),
      );
      return;
    }
    put(
      list,
      races.length > 0 &&
        h(
          "div",
          { class: "card" },
          table(
            ["race", "verdict", "best", "question", "made"],
            races.map((each) => [
              h("a", { href: `/race/${each.id}` }, each.id),
              status(each.verdict ?? each.state),
              each.best.join(", ") || "–",
              each.question,
              ago(each.created),
            ]),
            { label: "Races" },
          ),
        ),
      studies.length > 0 && h(
        "div",
        { class: "card" },
        table(
          ["study", "kind", "of", "environment", "state", "made"],
          studies.map((each) => [
            h("a", { href: `/${each.kind}/${each.id}` }, each.id),
            each.kind === "optimize" ? "search" : "sensitivity",
            each.target,
            `${each.env}:${each.algo}`,
            status(each.state),
            ago(each.created),
          ]),
          { label: "Studies" },
        ),
      ),
    );
  };
  put(
    main,
    heading(
      "Studies",
      "Which numbers matter, searches for better ones, and races of many configs.",
      h(
        "div",
        { class: "actions" },
        h("button", { type: "button", onclick: () => sensitivityDialog() }, "Sensitivity…"),
        h("button", { type: "button", onclick: () => optimizeDialog() }, "Search…"),
        h("button", { type: "button", onclick: () => raceDialog() }, "Race…"),
      ),
    ),
    list,
  );
  await load();
  return listen(calm(() => load().catch(() => {}), 2500));
}
