// Every trial of the store: what it asked, and what came of it.

import { get } from "../api.js";
import { empty, h, put, status, table } from "../dom.js";
import { calm, listen } from "../events.js";
import { ago } from "../format.js";

export async function draw(main) {
  document.title = "Trials · rlclinic";
  const list = h("div");
  const load = async () => {
    const { trials } = await get("/trials");
    if (!trials.length) {
      put(
        list,
        empty(
          "No trial was made yet",
          "A trial tries a change against the config as it is, on fresh seeds, and says whether it helps.",
          "rlclinic trial @last --rx 1",
          "rlclinic trial @last --set algo.learning_rate=3e-4",
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
          ["trial", "verdict", "question", "winner", "made"],
          trials.map((each) => [
            h("a", { href: `/trials/${each.id}` }, each.id),
            status(each.verdict ?? each.state),
            each.question,
            each.winner ?? "–",
            ago(each.created),
          ]),
          { label: "Trials" },
        ),
      ),
    );
  };
  put(
    main,
    h(
      "div",
      { class: "head" },
      h(
        "div",
        { class: "grow" },
        h("h1", null, "Trials"),
        h("p", { class: "quiet" }, "A change against its control, on fresh seeds, judged at a few looks."),
      ),
    ),
    list,
  );
  await load();
  return listen(calm(() => load().catch(() => {}), 2500));
}
