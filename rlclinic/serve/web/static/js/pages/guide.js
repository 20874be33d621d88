// Questions that people bring: what answers them here, and what cannot be told.

import { get } from "../api.js";
import { command, h, heading, problem, put } from "../dom.js";
import { state } from "../state.js";

export async function draw(main, [name]) {
  if (name) await one(main, name);
  else await all(main);
}

async function all(main) {
  document.title = "Guide · rlclinic";
  const st = state({ ask: "" });
  const { guides } = await get("/guides");
  const said = h("div");
  const question = h("input", {
    type: "search",
    value: st.ask,
    placeholder: "Why is my reward not going up?",
    "aria-label": "Ask in your own words",
  });
  const answer = async () => {
    if (!question.value.trim()) return put(said);
    put(said, h("section", { class: "card" }, h("p", { class: "loading" }, "Looking through guides, rules and the last group…")));
    try {
      put(said, understood(await get("/ask", { question: question.value.trim() })));
    } catch (error) {
      put(said, problem(error, answer));
    }
  };
  put(
    main,
    heading("Guide", "Questions that people bring, and what answers them here."),
    h(
      "form",
      {
        class: "card ask",
        role: "search",
        onsubmit: (event) => {
          event.preventDefault();
          st.set({ ask: question.value.trim() });
          answer();
        },
      },
      h("label", null, "Ask in your own words", question),
      h("button", { type: "submit", class: "primary" }, "Ask"),
    ),
    said,
    h(
      "section",
      { class: "card" },
      h(
        "ol",
        { class: "questions" },
        guides.map((each) =>
          h(
            "li",
            null,
            h("a", { href: `/guide/${each.name}` }, each.question),
            each.cannot.length > 0 && h("span", { class: "faint" }, " partly not assessable"),
          ),
        ),
      ),
    ),
  );
  if (st.ask) await answer();
}

/** The answer to a question in words; numbers of the store first. */
function understood(found) {
  const others =
    found.nearby.length > 0 &&
    h(
      "div",
      { class: "stack" },
      h("h3", null, found.known ? "Or did you mean" : "What can be asked, for example"),
      h(
        "ul",
        null,
        found.nearby.map((each) => h("li", null, each.title, " ", h("code", null, each.command))),
      ),
    );
  if (!found.known) return h("section", { class: "card stack" }, h("h2", null, "I do not know"), h("p", null, "Nothing here answers that. Other words may help; questions are understood in English."), others);
  return h(
    "section",
    { class: "card stack answered" },
    h("h2", null, found.title),
    found.facts.length > 0 &&
      h(
        "ul",
        null,
        found.facts.map((fact) => h("li", null, fact)),
      ),
    h("p", null, found.answer),
    found.steps.length > 0 &&
      h(
        "ol",
        null,
        found.steps.map((step) => h("li", null, step)),
      ),
    found.commands.map(command),
    found.about && h("p", null, h("a", { href: `/groups/${encodeURIComponent(found.about)}` }, `The page of ${found.about}`)),
    found.cannot.map((text) => h("p", { class: "faint" }, `Not assessable: ${text}`)),
    others,
  );
}

async function one(main, name) {
  const { guide, references } = await get(`/guides/${encodeURIComponent(name)}`);
  document.title = `${guide.name} · rlclinic`;
  const list = (title, kind, texts, ...classes) =>
    texts.length > 0 &&
    h(
      "section",
      { class: "card stack" },
      h("h2", null, title),
      h(
        kind,
        { class: classes.join(" ") || null },
        texts.map((text) => h("li", null, text)),
      ),
    );
  put(
    main,
    h(
      "div",
      { class: "head" },
      h(
        "div",
        { class: "grow" },
        h("p", { class: "crumbs" }, h("a", { href: "/guide" }, "Guide"), ` / ${guide.name}`),
        h("h1", null, guide.question),
      ),
    ),
    h(
      "div",
      { class: "stack wideset" },
      h(
        "section",
        { class: "card stack" },
        h("p", null, guide.answer),
        h("p", null, h("a", { href: guide.page.href }, "On these pages"), `: ${guide.page.text}`),
      ),
      list("In this order", "ol", guide.steps),
      h("section", { class: "card stack" }, h("h2", null, "In the terminal"), guide.type.map(command)),
      list("Not assessable here", "ul", guide.cannot),
      list("Known from", "ul", references, "faint"),
    ),
  );
}
