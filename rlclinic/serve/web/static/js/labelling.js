// A run whose expert is a person: the state that it asks about, and buttons to answer with.

import { get, post } from "./api.js";
import { h, problem, put } from "./dom.js";
import { num } from "./format.js";

const LOOK = 500;

/** Looks for the next question as long as the page is open; nothing where somebody else is the expert. */
export function labelCard(run, found) {
  if (found.config?.algo?.expert !== "person") return false;
  const body = h("div", { "aria-live": "polite" }, h("p", { class: "loading" }, "Waiting for a question…"));
  const card = h("section", { class: "card" }, h("h2", null, "What would you do?"), body);
  const path = `/runs/${encodeURIComponent(run)}/question`;
  let shown = null,
    answered = 0;
  const look = async () => {
    if (shown && !card.isConnected) return;
    try {
      show(await get(path));
      setTimeout(look, LOOK);
    } catch (error) {
      put(body, problem(error, look));
    }
  };
  const send = async (id, action) => {
    try {
      await post(path, { id, action });
      answered += 1;
      shown = "sent";
      put(body, h("p", { class: "loading" }, `${answered} answered. Waiting for the next question…`));
    } catch (error) {
      put(body, problem(error, look));
    }
  };
  const show = (question) => {
    if ((question.id ?? "none") === shown || (!question.id && shown === "sent" && question.training)) return;
    shown = question.id ?? "none";
    if (!question.id) {
      const why = question.training ? "Nothing is asked now." : "The run does not train. Resume it, and it asks again.";
      put(body, h("p", { class: "quiet" }, `${answered ? `${answered} answered. ` : ""}${why}`));
      return;
    }
    put(
      body,
      h("p", null, `Round ${question.round}, step ${question.step}, env ${question.env}`),
      state(question.observation),
      question.choices === null ? numbers(question, send) : choices(question, send),
    );
  };
  look();
  return card;
}

/** The observation, a bar for each number. */
function state(observation) {
  const widest = Math.max(...observation.map(Math.abs), 1e-9);
  return h(
    "table",
    null,
    h(
      "tbody",
      null,
      observation.slice(0, 40).map((value, index) =>
        h(
          "tr",
          null,
          h("th", { scope: "row" }, `[${index}]`),
          h("td", { class: "num" }, num(value)),
          h("td", null, h("meter", { min: -widest, max: widest, value, "aria-label": `[${index}]` })),
        ),
      ),
    ),
  );
}

function choices(question, send) {
  const button = (choice) => h("button", { type: "button", onclick: () => send(question.id, [choice]) }, String(choice));
  return h("p", { class: "actions" }, (question.allowed ?? Array.from({ length: question.choices }, (_, choice) => choice)).map(button));
}

function numbers(question, send) {
  const inputs = question.low.map((low, index) =>
    h("input", {
      type: "range",
      min: low,
      max: question.high[index],
      step: (question.high[index] - low) / 100,
      value: (low + question.high[index]) / 2,
      "aria-label": `number ${index} of the action, from ${num(low)} to ${num(question.high[index])}`,
    }),
  );
  const chosen = () => inputs.map((input) => Number(input.value));
  const quick = (title, action) => h("button", { type: "button", onclick: () => send(question.id, action) }, title);
  const middle = question.low.map((low, index) => (low + question.high[index]) / 2);
  return h(
    "div",
    null,
    inputs,
    h(
      "p",
      { class: "actions" },
      quick("Lowest", question.low),
      quick("Middle", middle),
      quick("Highest", question.high),
      h("button", { type: "button", class: "primary", onclick: () => send(question.id, chosen()) }, "As set"),
    ),
  );
}
