// What is wrong, how sure that is, and what to change. Each finding shows where on the curves it lies.

import { trialDialog, trainRxDialog } from "./actions.js";
import { gamedCard } from "./checkpoints.js";
import { chip, command, h, status } from "./dom.js";
import { metric, percent, short } from "./format.js";
import { regions } from "./panel.js";

export const calmly = (cause) => ["nothing wrong", "cannot tell"].includes(cause.kind);
const MARKS = { high: ["bad", "▲"], medium: ["warn", "◆"], low: ["live", "●"] };

/** The whole column beside the curves. `id` is a group; null for a single run, which trials do not take. */
export function diagnosisCard(report, panel, st, id) {
  const { diagnosis } = report;
  return [answerCard(report, diagnosis), report.films && gamedCard(report.films), rxCard(report, id), findingsCard(diagnosis, panel, st), moreCard(report, diagnosis)];
}

function answerCard(report, diagnosis) {
  const [first, ...others] = diagnosis.causes;
  const calm = calmly(first);
  const rows = [
    ["moved first", first.moved_first],
    ["with it", first.with_it],
    ["because", first.because],
  ].filter(([, text]) => text);
  return h(
    "section",
    { class: "card answer", "aria-label": "Diagnosis" },
    h("header", null, h("h2", null, "Diagnosis"), h("div", { class: "end" }, status(diagnosis.verdict))),
    diagnosis.cannot_tell && h("p", { class: "doubt" }, diagnosis.cannot_tell.text),
    diagnosis.cannot_tell && diagnosis.cannot_tell.paste.length > 0 && h("pre", { tabindex: "0" }, diagnosis.cannot_tell.paste.join("\n")),
    h("p", { class: "cause" }, first.title, " ", !calm && chip(first.severity, ...MARKS[first.severity])),
    odds(first),
    rows.length > 0 &&
      h(
        "dl",
        { class: "why" },
        rows.flatMap(([name, text]) => [h("dt", null, name), h("dd", null, text)]),
      ),
    possible(first),
    others
      .filter((cause) => cause.probability >= 0.02)
      .map((cause) => h("div", null, h("p", { class: "quiet" }, cause.title, cause.consequence_of && " (a consequence)"), odds(cause), possible(cause))),
    report.standing && h("p", { class: "faint" }, `Seeds: ${report.standing}.`),
  );
}

/** What may lie behind a symptom, what tells, and the command that finds out. */
function possible(cause) {
  if (!cause.possible?.length) return null;
  return h(
    "details",
    { class: "possible", open: "" },
    h("summary", null, "A symptom: what may lie behind it"),
    h(
      "ul",
      null,
      cause.possible.map((each) =>
        h("li", null, h("strong", null, `p ${each.probability.toFixed(2)} ${each.title}`), `: ${each.tells} `, each.find && command(each.find)),
      ),
    ),
  );
}

function odds(cause) {
  return h(
    "div",
    { class: "odds" },
    h(
      "span",
      { class: "bar", role: "img", "aria-label": `probability ${percent(cause.probability)}` },
      h("span", { css: { width: percent(cause.probability).replace(" ", "") } }),
    ),
    `p ${cause.probability.toFixed(2)}`,
    cause.of > 0 && cause.rules.length > 0 && ` · ${cause.agree} of ${cause.of} ${cause.of === 1 ? "seed agrees" : "seeds agree"}`,
  );
}

function rxCard(report, id) {
  const [first] = report.diagnosis.causes;
  // Without a threshold nobody knows whether it is well: what could be changed may be of use.
  if (!report.recommendations.length || (calmly(first) && first.id !== "no-reference")) return null;
  return h(
    "section",
    { class: "card", "aria-label": "What to change" },
    h("header", null, h("h2", null, "What to change")),
    h(
      "div",
      { class: "stack" },
      report.recommendations.map((rx, i) =>
        h(
          "div",
          { class: i === 0 ? "rx first" : "rx" },
          h(
            "div",
            { class: "row" },
            chip(rx.priority, { critical: "bad", high: "warn" }[rx.priority] ?? "quiet", "℞"),
            h("strong", { class: "change" }, rx.change),
          ),
          h("p", { class: "quiet" }, rx.rationale),
          // What no setting can express has no trial, and will have none.
          rx.overrides.length > 0 &&
            h("p", { class: "faint" }, rx.expected && rx.expected !== "no data" ? `Expect ${rx.expected}` : "No recorded trial yet"),
          rx.risk && h("p", { class: "faint" }, `Risk: ${rx.risk}`),
          rx.held_back && h("p", { class: "faint" }, h("strong", null, "Held back: "), rx.held_back),
          rx.foreign && h("pre", { tabindex: "0" }, rx.foreign),
          // Advice about the code or the environment changes no setting: there is nothing that a trial could try.
          rx.prescribed &&
            rx.overrides.length > 0 &&
            id &&
            h(
              "div",
              { class: "row" },
              h(
                "button",
                { type: "button", class: i === 0 ? "primary" : null, onclick: () => trialDialog(id, rx.number) },
                "Prove it in a trial…",
              ),
              !rx.held_back && h("button", { type: "button", onclick: () => trainRxDialog(id, rx.number) }, "Use it untried…"),
            ),
        ),
      ),
    ),
  );
}

function findingsCard(diagnosis, panel, st) {
  const { checks } = diagnosis;
  const list = h("ul", { class: "findings" });
  const buttons = diagnosis.findings.map((finding) => {
    const [region] = regions(finding, diagnosis.facts.env_steps ?? 0);
    const placed = finding.evidence.some((part) => !part.series.startsWith("config:"));
    const button = h(
      "button",
      {
        type: "button",
        class: `finding ${finding.severity}`,
        "aria-pressed": "false",
        "data-rule": finding.rule,
        onclick: () => choose(button.getAttribute("aria-pressed") === "true" ? null : button, finding),
      },
      h("span", { class: "title" }, finding.name.replaceAll("-", " "), h("span", { class: "rule" }, finding.rule)),
      h("span", { class: "text" }, finding.text),
      h(
        "span",
        { class: "span" },
        `${finding.severity} · ${finding.runs.length} of ${finding.judged} ${finding.judged === 1 ? "seed" : "seeds"}`,
        placed &&
          ` · ${short(region.start)} to ${short(region.end)} · ${[...new Set(finding.evidence.map((part) => metric(part.series.replace("config:", ""))))].slice(0, 3).join(", ")}`,
      ),
    );
    return [finding, button];
  });
  const choose = (chosen, finding) => {
    for (const [, button] of buttons) button.setAttribute("aria-pressed", String(button === chosen));
    st.set({ finding: chosen ? finding.rule : "" });
    panel.highlight(chosen ? finding : null);
  };
  list.append(...buttons.map(([, button]) => h("li", null, button)));
  const wanted = buttons.find(([finding]) => finding.rule === st.finding);
  if (wanted) setTimeout(() => choose(wanted[1], wanted[0]), 0);
  return h(
    "section",
    { class: "card", "aria-label": "Findings" },
    h(
      "header",
      null,
      h("h2", null, "Findings"),
      h(
        "span",
        { class: "faint" },
        `${checks.total} checks: ${checks.failed} fail, ${checks.passed} pass, ${checks.not_applicable} do not apply, ${checks.not_assessable} not assessable`,
      ),
    ),
    buttons.length
      ? [h("p", { class: "faint" }, "Choose one to see where on the curves it lies."), list]
      : h("p", { class: "quiet" }, "Nothing was found."),
  );
}

function moreCard(report, diagnosis) {
  const { ruled_out, unassessable, watch } = diagnosis;
  if (![ruled_out, unassessable, watch, report.next].some((list) => list.length) && !report.comparable) return null;
  return h(
    "section",
    { class: "card stack" },
    diagnosis.ruled_out.length > 0 &&
      h(
        "details",
        null,
        h("summary", null, `Ruled out (${diagnosis.ruled_out.length})`),
        h(
          "ul",
          null,
          diagnosis.ruled_out.map((each) => h("li", null, h("strong", null, each.title), ` ${each.because}`)),
        ),
      ),
    diagnosis.unassessable.length > 0 &&
      h(
        "details",
        null,
        h("summary", null, `Not assessable (${diagnosis.unassessable.length})`),
        h(
          "ul",
          null,
          diagnosis.unassessable.map((each) =>
            h("li", null, h("strong", null, each.name.replaceAll("-", " ")), ` needs ${each.missing.join(", ")}`),
          ),
        ),
      ),
    diagnosis.watch.length > 0 &&
      h(
        "details",
        null,
        h("summary", null, "Watch next time"),
        h(
          "ul",
          null,
          diagnosis.watch.map((each) => h("li", null, each.text)),
        ),
      ),
    report.comparable &&
      h(
        "details",
        null,
        h("summary", null, "The best comparable group"),
        h("p", null, h("a", { href: `/groups/${report.comparable.group}` }, report.comparable.group), ` ${report.comparable.said}`),
      ),
    report.next.length > 0 && h("div", { class: "stack" }, h("h3", null, "In the terminal"), report.next.map(command)),
  );
}
