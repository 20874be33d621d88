// Every group of the store: found by any word of it, with its curve, its seeds and how it ended.

import { curves, get } from "../api.js";
import { startDialog } from "../actions.js";
import { empty, h, problem, put, s, status, table, unseen } from "../dom.js";
import { calm, listen } from "../events.js";
import { ago, count, num, percent, range, short } from "../format.js";
import { EVAL, TRAIN } from "../panel.js";
import { segments, state } from "../state.js";

const KINDS = [
  ["", "all"],
  ["running", "running"],
  ["solved", "solved"],
  ["unsolved", "not solved"],
];

export async function draw(main) {
  document.title = "Groups · rlclinic";
  const st = state({ q: "", show: "", inner: false, list: "groups" });
  const picked = new Set();
  const list = h("div", { class: "card" }, h("p", { class: "loading" }, "Loading…"));
  const compare = h("button", { type: "button", disabled: true, onclick: () => go(`/compare?of=${[...picked].join(",")}`) }, "Compare");
  const search = h("input", {
    type: "search",
    placeholder: "Search: environment, algorithm, label, tag, note, id",
    "aria-label": "Search groups",
    value: st.q,
    oninput: () => {
      st.set({ q: search.value });
      soon();
    },
  });
  const title = h("h1", null, "Groups");
  let rows = [],
    total = 0,
    cursor = null;

  const pick = (id, on) => {
    if (on) picked.add(id);
    else picked.delete(id);
    compare.disabled = picked.size < 2;
    compare.textContent = picked.size ? `Compare ${picked.size}` : "Compare";
  };
  const render = () => {
    const runs = st.list === "runs";
    const solved = (row) => (runs ? row.threshold_reached_at !== null && !row.lost : row.verdict === "SOLVED"),
      over = (row) => row.threshold !== null && row.state !== "running";
    const kept = rows
      .filter((row) => st.show !== "solved" || solved(row))
      .filter((row) => st.show !== "unsolved" || (over(row) && !solved(row)));
    title.textContent = runs ? "Runs" : "Groups";
    if (runs && kept.length) {
      put(
        list,
        runsTable(kept),
        cursor && h("p", null, h("button", { type: "button", onclick: () => load(cursor) }, `${count(total - rows.length)} more`)),
      );
    } else if (!rows.length && !st.q && !st.show) {
      put(
        list,
        empty(
          "No runs here yet",
          "Train something; this page fills by itself.",
          "rlclinic train CartPole-v1:ppo --seeds 4",
          "rlclinic demo",
        ),
        h("p", null, h("button", { type: "button", class: "primary", onclick: () => startDialog() }, "Train CartPole from here")),
      );
    } else if (!kept.length) {
      put(
        list,
        empty("Nothing matches", "No group has all of these words and this state."),
        h(
          "button",
          {
            type: "button",
            onclick: () => {
              st.set({ q: "", show: "", inner: true });
              draw(main);
            },
          },
          "Show all",
        ),
      );
    } else {
      put(
        list,
        tableOf(kept, picked, pick),
        cursor && h("p", null, h("button", { type: "button", onclick: () => load(cursor) }, `${count(total - rows.length)} more`)),
      );
    }
  };
  const load = async (after = null) => {
    const found = await get(`/${st.list}`, {
      q: st.q,
      state: st.show === "running" ? "running" : null,
      trials: st.inner,
      limit: after ? 200 : 100,
      cursor: after,
    });
    rows = [...(after ? rows : []), ...found.items];
    ({ total, next_cursor: cursor } = found);
    render();
  };
  const soon = calm(() => load().catch((error) => put(list, problem(error, soon))), 250);

  put(
    main,
    h(
      "div",
      { class: "head" },
      h("div", { class: "grow" }, title, h("p", { class: "quiet" }, "A group is the runs of one config that differ only in their seed.")),
      h("div", { class: "actions" }, compare),
    ),
    h(
      "div",
      { class: "tools" },
      search,
      segments(
        h,
        "What to list",
        [
          ["groups", "groups"],
          ["runs", "runs"],
        ],
        st.list,
        (list) => {
          st.set({ list });
          soon();
        },
      ),
      segments(h, "Which groups", KINDS, st.show, (show) => {
        st.set({ show });
        soon();
      }),
      h(
        "label",
        { class: "check" },
        h("input", {
          type: "checkbox",
          checked: st.inner,
          onchange: (event) => {
            st.set({ inner: event.target.checked });
            soon();
          },
        }),
        "with those of trials and studies",
      ),
    ),
    list,
  );
  try {
    await load();
  } catch (error) {
    put(
      list,
      problem(error, () => draw(main)),
    );
  }
  const later = calm(() => (rows.length > 100 ? null : load().catch(() => {})), 2000);
  return listen(later);
}

const go = (href) => document.dispatchEvent(new CustomEvent("navigate-to", { detail: href }));

const ENDED_EARLY = new Set(["failed", "crashed", "stopped"]);

function tableOf(rows, picked, pick) {
  const heads = [unseen("select"), "group", "verdict", "seeds", "return", "curve", "env steps", "last change"];
  return h(
    "div",
    { class: "wide", role: "region", tabindex: "0", "aria-label": "Groups" },
    h(
      "table",
      { class: "groups" },
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          heads.map((head, i) => h("th", { scope: "col", class: [4, 6].includes(i) ? "num" : i === 5 ? "hide-small" : null }, head)),
        ),
      ),
      h(
        "tbody",
        null,
        rows.map((row) => line(row, picked, pick)),
      ),
    ),
  );
}

function line(row, picked, pick) {
  const budget = (row.max_env_steps ?? 0) * row.runs;
  const share = budget ? Math.min(1, row.env_steps / budget) : 0;
  const live = row.state === "running" || row.state === "queued";
  return h(
    "tr",
    { "aria-selected": String(picked.has(row.id)) },
    h(
      "td",
      null,
      h("input", {
        type: "checkbox",
        checked: picked.has(row.id),
        "aria-label": `Select ${row.id} for comparison`,
        onchange: (event) => {
          pick(row.id, event.target.checked);
          event.target.closest("tr").setAttribute("aria-selected", String(event.target.checked));
        },
      }),
    ),
    h(
      "td",
      null,
      h("a", { class: "name", href: `/groups/${encodeURIComponent(row.id)}` }, row.label || row.name),
      h("span", { class: "faint" }, `${row.label ? `${row.name} · ` : ""}${row.id}${row.trial ? ` · of ${row.trial}` : ""} `),
      (row.tags ?? []).map((tag) => [h("span", { class: "tag" }, tag), " "]),
    ),
    h("td", null, status(live ? row.state : row.verdict), ENDED_EARLY.has(row.state) && row.verdict !== "FAILED" && [" ", status(row.state)]),
    h("td", null, seeds(row)),
    h(
      "td",
      { class: "num keep" },
      h("strong", null, num(row.eval_mean ?? row.return_mean)),
      row.threshold !== null && h("div", { class: "faint" }, `of ${num(row.threshold)}`),
    ),
    h("td", { class: "hide-small" }, spark(row)),
    h(
      "td",
      { class: "num keep" },
      live && budget
        ? [
            `${short(row.env_steps)} of ${short(budget)}`,
            h(
              "div",
              {
                class: "bar",
                role: "progressbar",
                "aria-valuenow": Math.round(100 * share),
                "aria-valuemin": "0",
                "aria-valuemax": "100",
                "aria-label": "trained",
              },
              h("span", { css: { width: `${100 * share}%` } }),
            ),
          ]
        : short(row.env_steps),
    ),
    h("td", { class: "keep faint" }, ago(row.heartbeat ?? row.created)),
  );
}

function runsTable(rows) {
  const reports = rows.some((row) => row.success_rate !== null);
  return table(
    [
      "run",
      "state",
      { text: "seed", num: true },
      { text: "last evaluation", num: true },
      reports && { text: "success", num: true },
      { text: "best", num: true },
      { text: "threshold reached at", num: true },
      { text: "env steps", num: true },
      "last change",
    ].filter(Boolean),
    rows.map((row) => [
      [
        h("a", { href: `/runs/${encodeURIComponent(row.id)}` }, row.id),
        h("span", { class: "faint" }, ` ${row.label ? `${row.label}, ` : ""}${row.name} `),
        row.tags.map((tag) => h("span", { class: "tag" }, tag)),
      ],
      status(row.state),
      row.seed,
      num(row.eval_mean),
      ...(reports ? [percent(row.success_rate)] : []),
      num(row.best_eval),
      row.threshold_reached_at === null ? "–" : `${short(row.threshold_reached_at)}${row.lost ? ", lost" : ""}`,
      count(row.env_steps),
      ago(row.heartbeat || row.created),
    ]),
    { label: "Runs" },
  );
}

function seeds(row) {
  const judged = (row.threshold !== null && row.threshold !== undefined) || row.success_rate !== null;
  const lost = row.lost ? `, ${row.lost} lost it again` : "";
  const text = judged ? `${row.reached} of ${row.runs}${lost}` : `${row.runs}`;
  if (row.runs > 24) return text;
  const dots = Array.from({ length: row.runs }, (_, i) => h("i", { class: i < row.reached - row.lost ? "in" : i < row.reached ? "lost" : null }));
  return h(
    "span",
    { title: `${text} reached the threshold` },
    h("span", { class: "seeds", "aria-hidden": "true" }, dots),
    h("span", { class: "faint" }, ` ${text}`),
  );
}

// ── small curves, fetched when they come into view ──

const kept = new Map();
const queue = [];
let busy = 0;
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    seen.unobserve(entry.target);
    queue.push(entry.target);
  }
  next();
});

function next() {
  while (busy < 3 && queue.length) {
    const node = queue.shift();
    const row = node.row;
    busy += 1;
    curves(row.id, [EVAL, TRAIN], { points: 60 })
      .then((found) => {
        kept.set(row.id, [row.env_steps, found]);
        sketch(node, found, row.threshold);
      })
      .catch(() => {})
      .finally(() => {
        busy -= 1;
        next();
      });
  }
}

function spark(row) {
  const node = s("svg", {
    class: "spark",
    viewBox: "0 0 100 30",
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": `Return of ${row.id} by env steps`,
  });
  node.row = row;
  const known = kept.get(row.id);
  if (known) sketch(node, known[1], row.threshold);
  if (!known || known[0] !== row.env_steps) seen.observe(node);
  return node;
}

function sketch(node, found, threshold) {
  // As the number beside it: evaluations, where there are enough for a line.
  const evaluated = found.series.find((each) => each.name === EVAL && each.center.filter((value) => value !== null).length > 2);
  const series = evaluated ?? found.series.find((each) => each.name === TRAIN);
  if (!series) return;
  const values = [...series.low, ...series.high, threshold].filter((value) => value !== null && value !== undefined);
  const low = Math.min(...values),
    high = Math.max(...values);
  const end = found.x[found.x.length - 1] || 1;
  const at = (i, value) => `${((100 * found.x[i]) / end).toFixed(1)},${(28 - (26 * (value - low)) / (high - low || 1)).toFixed(1)}`;
  const known = found.x.map((_, i) => i).filter((i) => series.center[i] !== null);
  if (!known.length) return;
  const band = [...known.map((i) => at(i, series.high[i])), ...known.toReversed().map((i) => at(i, series.low[i]))];
  const y = 28 - (26 * (threshold - low)) / (high - low || 1);
  put(
    node,
    s("path", { class: "band", d: `M${band.join("L")}Z` }),
    threshold !== null && threshold !== undefined && s("line", { x1: 0, x2: 100, y1: y, y2: y }),
    s("path", { d: `M${known.map((i) => at(i, series.center[i])).join("L")}` }),
  );
  node.setAttribute("aria-label", `Return ${range({ value: series.center[known.at(-1)] })} at ${short(end)} env steps`);
}
