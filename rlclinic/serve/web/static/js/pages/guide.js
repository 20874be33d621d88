// Questions that people bring: what answers them here, and what cannot be told.

import { get } from "../api.js";
import { command, h, heading, put } from "../dom.js";

export async function draw(main, [name]) {
  if (name) await one(main, name);
  else await all(main);
}

async function all(main) {
  document.title = "Guide · rlclinic";
  const { guides } = await get("/guides");
  put(
    main,
    heading("Guide", "Questions that people bring, and what answers them here."),
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
