// Searches and sensitivity studies.

import { get } from "../api.js";
import { empty, h, heading, put, status, table } from "../dom.js";
import { calm, listen } from "../events.js";
import { ago } from "../format.js";
import { optimizeDialog, sensitivityDialog } from "../studying.js";

export async function draw(main) {
  document.title = "Studies · rlclinic";
  const list = h("div");
  const load = async () => {
    const { studies } = await get("/studies");
    if (!studies.length) {
      put(
        list,
        empty(
          "No study was made yet",
          "A sensitivity study says which numbers of a config matter; a search looks for a better config within a budget.",
          "rlclinic sensitivity CartPole-v1:ppo",
          "rlclinic optimize @last --budget 3M",
        ),
      );
      return;
    }
    put(
      list,
      h(
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
      "Which numbers matter, and searches for better ones.",
      h(
        "div",
        { class: "actions" },
        h("button", { type: "button", onclick: () => sensitivityDialog() }, "Sensitivity…"),
        h("button", { type: "button", onclick: () => optimizeDialog() }, "Search…"),
      ),
    ),
    list,
  );
  await load();
  return listen(calm(() => load().catch(() => {}), 2500));
}
