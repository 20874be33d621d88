// Environments: tuned variants and what they were measured to do; or one looked at closely before anything is trained on it.

import { get, post } from "../api.js";
import { startDialog } from "../actions.js";
import { box } from "../ask.js";
import { command, h, heading, problem, put, status, table } from "../dom.js";
import { num, percent, short } from "../format.js";
import { state } from "../state.js";

export async function draw(main) {
  document.title = "Environments · rlclinic";
  const st = state({ env: "" });
  const { environments } = await get("/environments");
  const shown = h("div", { "aria-live": "polite" });
  const wanted = box(st.env, { list: "known", required: true, placeholder: "CartPole-v1", "aria-label": "Environment" });
  const look = async (env) => {
    wanted.value = env;
    st.set({ env });
    put(shown, h("section", { class: "card" }, h("p", { class: "loading" }, `Stepping ${env} for some seconds…`)));
    try {
      put(shown, seen((await post("/environments/examine", { env })).lint, env));
    } catch (error) {
      put(shown, h("section", { class: "card" }, problem(error, () => look(env))));
    }
  };
  put(
    main,
    heading(
      "Environments",
      "Any Gymnasium id trains; these have tuned variants.",
      h(
        "form",
        {
          class: "actions",
          onsubmit: (event) => {
            event.preventDefault();
            look(wanted.value.trim());
          },
        },
        wanted,
        h(
          "datalist",
          { id: "known" },
          environments.map((env) => h("option", { value: env.id })),
        ),
        h("button", { type: "submit" }, "Look closely"),
      ),
    ),
    shown,
    h("section", { class: "card" }, listOf(environments, look)),
  );
  if (st.env) look(st.env);
}

function listOf(environments, look) {
  const rows = environments.map((env) => [
    h("strong", null, env.id),
    env.threshold === null ? "–" : num(env.threshold),
    env.variants.map((variant, i) => [
      i ? " " : "",
      h(
        "button",
        { type: "button", class: "small", title: env.measured[variant] ?? null, onclick: () => startDialog(`${env.id}:${variant}`) },
        variant,
      ),
    ]),
    h("span", { class: "faint" }, env.problem ?? env.description),
    h("button", { type: "button", onclick: () => look(env.id), "aria-label": `Look closely at ${env.id}` }, "Look closely"),
  ]);
  return table(["environment", { text: "threshold", num: true }, "train", "", ""], rows, { label: "Environments" });
}

/** What some seconds of stepping showed. */
function seen(found, env) {
  const facts = [
    ["observation", found.observation],
    ["action", found.action],
    ["time limit", found.time_limit ?? "none"],
    found.rewards.mean !== undefined && [
      "reward",
      `${num(found.rewards.min)} to ${num(found.rewards.max)}, mean ${num(found.rewards.mean)}; ${percent(found.rewards.nonzero)} of steps not 0`,
    ],
    ["random episodes", Object.entries(found.ends).map(([how, many]) => `${many} ${how}`).join(", ") || "none ended"],
    typeof found.success === "number" && ["success", `${percent(found.success)} of random episodes`],
    found.steps_per_second && ["speed", `${short(found.steps_per_second)} steps/s on one core`],
  ].filter(Boolean);
  const played = found.played.map((each) => [
    each.label,
    num(each.mean),
    each.low === null ? "" : `[${num(each.low)}, ${num(each.high)}]`,
    num(each.length),
    each.episodes,
  ]);
  const number = (text) => ({ text, num: true });
  return h(
    "section",
    { class: "card stack" },
    h("header", null, h("h2", null, `${found.name}, looked at closely`)),
    h(
      "dl",
      { class: "why" },
      facts.flatMap(([name, text]) => [h("dt", null, name), h("dd", null, text)]),
    ),
    h("h3", null, "What simple actions return"),
    table(["actions", number("return"), "95 %", number("length"), number("episodes")], played, { label: "Returns of simple actions" }),
    h("h3", null, `${found.checks} checks, ${found.findings.length} finding${found.findings.length === 1 ? "" : "s"}`),
    found.findings.map((each) => h("p", null, status(each.severity), ` ${each.rule}: ${each.text}`)),
    Object.entries(found.skipped).map(([phase, why]) => h("p", { class: "faint" }, `not looked at: ${phase} (${why})`)),
    command(`rlclinic lint --env ${env}`),
  );
}
