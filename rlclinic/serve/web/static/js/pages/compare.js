// Groups side by side: curves, tests that say how sure a difference is, and what differs in their configs.

import { get } from "../api.js";
import { inked } from "../chart.js";
import { command, empty, h, heading, problem, put, status, table } from "../dom.js";
import { censored, num, range, short, task } from "../format.js";
import { Overlay, USUAL } from "../overlay.js";
import { state } from "../state.js";

const COLOURS = ["--c0", "--c1", "--c2", "--c3", "--c4", "--c6", "--c5", "--c7"];

export async function draw(main) {
  document.title = "Compare · rlclinic";
  const st = state({ of: "", ...USUAL });
  const chosen = st.of ? st.of.split(",").filter(Boolean) : [];
  const body = h("div", { class: "stack wideset" });
  const overlay = new Overlay(st);
  const to = (ids) => document.dispatchEvent(new CustomEvent("navigate-to", { detail: `/compare?of=${ids.join(",")}` }));
  const pick = h(
    "select",
    { "aria-label": "Add a group", onchange: () => pick.value && to([...chosen, pick.value]) },
    h("option", { value: "" }, "add a group…"),
  );
  put(
    main,
    heading("Compare", "All against the first. Differences come with how sure they are."),
    h(
      "div",
      { class: "tools" },
      chosen.map((id, i) =>
        h(
          "span",
          { class: "tag" },
          h("strong", { css: { color: `var(${COLOURS[i % 8]})` } }, String.fromCharCode(65 + i)),
          " ",
          h("a", { href: `/groups/${id}` }, id),
          h("button", { type: "button", "aria-label": `Leave out ${id}`, onclick: () => to(chosen.filter((other) => other !== id)) }, "✕"),
        ),
      ),
      pick,
    ),
    body,
  );
  const { items } = await get("/groups", { limit: 200 });
  for (const row of items.filter((each) => !chosen.includes(each.id)))
    pick.append(h("option", { value: row.id }, `${row.id}  ${row.label ? `${row.label}, ` : ""}${task(row.name)}`));
  if (chosen.length < 2) {
    put(body, empty("Pick two or more groups", "Choose them above, or tick them in the list of groups.", "rlclinic compare @last~1 @last"));
    return () => overlay.destroy();
  }
  put(body, h("p", { class: "loading" }, "Comparing…"));
  try {
    const found = await get("/compare", { of: chosen });
    const names = Object.fromEntries(items.map((row) => [row.id, row.label]));
    show(body, found, overlay, names);
  } catch (error) {
    put(
      body,
      problem(error, () => draw(main)),
    );
  }
  return () => overlay.destroy();
}

function show(body, { compared, next }, overlay, names) {
  const colour = Object.fromEntries(compared.sides.map((side, i) => [side.label, COLOURS[i % 8]]));
  const sides = compared.sides.map((side) => ({ label: nameOf(compared, side.label, names), colour: colour[side.label], of: [side.name] }));
  put(
    body,
    verdicts(compared, names),
    overlay.node,
    outcomes(compared, colour, names),
    configs(compared, colour),
    phases(compared),
    next.map(command),
    compared.notes.map((note) => h("p", { class: "faint" }, note)),
  );
  overlay.load([{ title: "Curves", threshold: compared.threshold, sides }]);
}

const nameOf = (compared, label, names) => {
  const side = compared.sides.find((each) => each.label === label);
  return `${label} ${names[side.name] || side.name}`;
};

function verdicts(compared, names) {
  return compared.pairs.map((pair) =>
    h(
      "div",
      { class: `verdict ${{ better: "good", worse: "bad", mixed: "warn" }[pair.verdict] ?? ""}` },
      h("b", null, nameOf(compared, pair.second, names)),
      status(pair.verdict),
      h("span", null, `${["better", "worse"].includes(pair.verdict) ? "than" : "against"} ${nameOf(compared, pair.first, names)}`),
      pair.improvement && h("span", null, `P(higher return) ${range(pair.improvement, 2)}`),
      h("span", { class: "quiet" }, pair.reason),
      h(
        "details",
        null,
        h("summary", null, "tests"),
        table(
          ["outcome", { text: "means", num: true }, { text: "IQM", num: true }, { text: "p", num: true }, { text: "p, corrected", num: true }, "test"],
          pair.contrasts.map((each) => [
            each.outcome,
            each.ratio ? `${range(each.ratio)}×` : range(each.difference),
            each.middle ? `${range(each.middle)}${each.ratio ? "×" : ""}` : "–",
            num(each.p, 2),
            num(each.p_holm, 2),
            `${each.method} (${each.why})`,
          ]),
          { label: "Tests" },
        ),
      ),
    ),
  );
}

function outcomes(compared, colour, names) {
  const heads = [
    "outcome",
    ...compared.outcomes.map((each) => ({
      text: h("span", { css: { color: inked(colour[each.label]) } }, nameOf(compared, each.label, names)),
      num: true,
    })),
  ];
  const row = (name, value) => [name, ...compared.outcomes.map(value)];
  const rows = [
    row("seeds", (each) => each.runs),
    compared.threshold !== null &&
      row(`reached ${num(compared.threshold)}`, (each) => (each.reached === null ? "–" : `${each.reached} of ${each.runs}${each.kept < each.reached ? `, ${each.reached - each.kept} lost it` : ""}`)),
    row(`return at ${short(compared.common_env_steps)}, IQM`, (each) => range(each.common)),
    row("mean return over all steps", (each) => range(each.area)),
    compared.threshold !== null &&
      row("env steps to the threshold", (each) =>
        stepsOf(each, compared.horizon_env_steps),
      ),
    row("best", (each) => num(each.best)),
    row("spread over seeds", (each) => range(each.spread)),
    row("fell below its best by", (each) => range(each.fall)),
    row("env steps/s of a run", (each) => short(each.fps)),
  ].filter(Boolean);
  return h("section", { class: "card" }, h("header", null, h("h2", null, "Outcomes")), table(heads, rows, { label: "Outcomes" }));
}

/** Mean env steps to the threshold. Seeds that never got there count the whole horizon: the mean is then only known to be larger. */
function stepsOf(side, horizon) {
  if (!side.steps) return "–";
  if (!side.reached) return censored(null, horizon);
  const cut = side.reached < side.runs;
  const high = cut ? censored(null, horizon) : short(side.steps.high);
  return `${cut ? "> " : ""}${short(side.steps.value)}${side.steps.low !== null ? ` (${short(side.steps.low)} – ${high})` : ""}`;
}

function configs(compared, colour) {
  const { differences, same } = compared.config;
  const heads = [
    "setting",
    ...compared.sides.map((side) => ({ text: h("span", { css: { color: inked(colour[side.label]) } }, side.label) })),
    "change",
    "what that usually does",
  ];
  return h(
    "section",
    { class: "card config" },
    h("header", null, h("h2", null, "Settings that differ"), h("span", { class: "faint" }, `${same} are the same`)),
    differences.length
      ? table(
          heads,
          differences.map((each) => [
            each.key,
            ...each.shown.map((text) => h("span", { class: "mono" }, text)),
            each.change,
            h("span", { class: "faint prose" }, each.usual, each.trials > 0 && `${each.usual ? ". " : ""}It helped in ${each.adopted} of ${each.trials} trial${each.trials === 1 ? "" : "s"} of it here.`),
          ]),
          { label: "Settings that differ" },
        )
      : h("p", { class: "quiet" }, "None."),
  );
}

function phases(compared) {
  if (!compared.phases.length) return null;
  const heads = [
    "metric",
    ...compared.sides.flatMap((side) => ["first third", "second", "last"].map((part) => ({ text: `${side.label} ${part}`, num: true }))),
  ];
  return h(
    "details",
    { class: "card" },
    h("summary", null, "Metrics by third of the run"),
    table(
      heads,
      compared.phases.map((row) => [h("span", { title: row.meaning }, row.metric), ...row.values.flat().map((value) => num(value))]),
      { label: "Metrics by third" },
    ),
  );
}
