// Coming in where the server asks for a token.

import { at } from "../root.js";
import { post, session } from "../api.js";
import { h, problem, put } from "../dom.js";

export async function draw(main) {
  // A link with a token that was followed from another site: its cookie comes with the next request.
  if ((await session().catch(() => null))?.read) return location.replace(at("/"));
  document.title = "Log in · rlclinic";
  const token = h("input", { type: "password", autocomplete: "current-password", required: true, "aria-label": "Token", size: "40" });
  const wrong = h("div");
  const form = h(
    "form",
    {
      class: "card stack",
      onsubmit: async (event) => {
        event.preventDefault();
        try {
          await post("/session", { token: token.value });
          location.assign(at("/"));
        } catch (error) {
          put(wrong, problem(error));
        }
      },
    },
    h("h1", null, "Log in"),
    h("p", { class: "quiet" }, "This server asks for a token. It printed a link with one when it started; whoever runs it makes others with"),
    h("pre", null, "rlclinic serve token add NAME"),
    h("label", { class: "field" }, "token", token),
    wrong,
    h("p", null, h("button", { type: "submit", class: "primary" }, "Log in")),
  );
  put(main, form);
  token.focus();
}
