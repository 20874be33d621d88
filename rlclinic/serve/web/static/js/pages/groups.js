// Every group or run of the store in one table: sorted, filtered and grouped by any result or setting; the address keeps the view.

import { get, post } from "../api.js";
import { startDialog } from "../actions.js";
import { deleteMany, diagnoseMany, exportMany, stopMany, tagMany } from "../bulk.js";
import { empty, h, problem, put, status, toast, unseen } from "../dom.js";
import { calm, listen } from "../events.js";
import { ago, censored, count, duration, num, percent, short, task } from "../format.js";
import { spark } from "../spark.js";
import { segments, state } from "../state.js";

const KINDS = [
  ["", "all"],
  ["running", "running"],
  ["solved", "solved"],
  ["unsolved", "not solved"],
];
const PRESETS = {
  groups: { running: ["state=running"], solved: ["verdict=SOLVED"], unsolved: ["verdict!=SOLVED", "state!=running", "threshold!=none"] },
  runs: { running: ["state=running"], solved: ["reached_at!=none"], unsolved: ["reached_at=none", "state!=running", "threshold!=none"] },
};
const USUAL = {
  groups: ["verdict", "seeds", "last", "curve", "best", "success", "env_steps", "wall_time", "changed"],
  runs: ["state", "seed", "last", "best", "success", "reached_at", "env_steps", "wall_time", "changed"],
};
const LATER = new Set(["env_steps", "budget", "wall_time", "steps_per_second", "created", "changed", "reason", "note"]); // behind the settings
const ROW = 54,
  CHUNK = 60,
  SPARE = 8,
  MOST_PICKED = 1000;

export async function draw(main) {
  document.title = "Groups · rlclinic";
  const st = state({
    q: "",
    show: "",
    inner: false,
    archived: false,
    list: "groups",
    sort: "created",
    up: false,
    by: "",
    where: "",
    cols: "",
    settings: "",
  });
  const picked = new Set(),
    closed = new Set();
  let view = null, // what the last answer said of the whole table
    rows = new Map(), // by offset
    asking = new Set(),
    round = 0;

  // ── asking the server ──

  const conditions = () => st.where.split(";").filter(Boolean);
  const query = () => ({
    of: st.list,
    q: st.q,
    where: [...conditions(), ...(PRESETS[st.list][st.show] ?? [])],
    sort: st.sort,
    descending: !st.up,
    group_by: st.by,
    columns: st.settings ? st.settings.split(",") : [],
    trials: st.inner,
    archived: st.archived,
  });
  const fetchChunk = async (at, mine) => {
    asking.add(at);
    try {
      const found = await get("/table", { ...query(), offset: at * CHUNK, limit: CHUNK });
      if (mine !== round) return;
      view = found;
      found.rows.forEach((row, i) => rows.set(found.offset + i, row));
    } finally {
      asking.delete(at);
    }
  };
  /** Ask anew for what is in sight; what is shown stays until the answer is there. False where the server refused it. */
  const load = async ({ top = true } = {}) => {
    const mine = ++round;
    const [first] = top ? [0] : inSight();
    const at = Math.floor(first / CHUNK);
    try {
      const kept = rows;
      asking = new Set();
      rows = new Map();
      try {
        await fetchChunk(at, mine);
      } catch (error) {
        if (mine === round) rows = kept;
        throw error;
      }
      if (mine !== round) return;
      if (top && view.sections.length && view.total > 200) view.sections.forEach((_, i) => closed.add(i));
      if (top) list.scrollTop = 0;
      render();
      requestAnimationFrame(() => setTimeout(() => performance.mark("table-shown"), 0));
      put(wrong);
    } catch (error) {
      if (mine !== round) return true;
      put(wrong, problem(error));
      return false;
    }
    return true;
  };
  const change = (changes) => {
    st.set(changes);
    closed.clear();
    return load();
  };
  const soon = calm(() => load(), 200);

  // ── rows of which only those in sight are drawn ──

  /** Where everything lies: heads of sections and the rows below them, by the place on the screen. */
  const layout = () => {
    if (!view.sections.length) return { size: view.total, parts: [{ at: 0, first: 0, rows: view.total }] };
    const parts = [];
    let at = 0,
      first = 0;
    view.sections.forEach((section, i) => {
      parts.push({ at, section, i });
      at += 1;
      if (!closed.has(i)) {
        parts.push({ at, first, rows: section.rows });
        at += section.rows;
      }
      first += section.rows;
    });
    return { size: at, parts };
  };
  let placed = { size: 0, parts: [] };
  const partAt = (place) => {
    let low = 0,
      high = placed.parts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (placed.parts[middle].at <= place) low = middle;
      else high = middle - 1;
    }
    return placed.parts[low];
  };
  const inSight = () => {
    const from = Math.max(0, Math.floor(list.scrollTop / ROW) - SPARE);
    return [from, Math.min(placed.size, from + Math.ceil((list.clientHeight || 800) / ROW) + 2 * SPARE)];
  };
  const body = h("tbody"),
    headRow = h("tr");
  const grid = h("table", { class: "groups" }, h("thead", null, headRow), body);
  const list = h("div", { class: "wide tall", role: "region", tabindex: "0", "aria-label": "Table", onscroll: () => drawRows() }, grid);
  const wrong = h("div");
  const card = h("div", { class: "card flush" }, h("p", { class: "loading" }, "Loading…"));

  const drawRows = () => {
    if (!view) return;
    const [from, to] = inSight();
    const drawn = [];
    const gap = (size) => h("tr", { class: "gap", "aria-hidden": "true" }, h("td", { colspan: headRow.children.length, css: { height: `${size * ROW}px` } }));
    if (from > 0) drawn.push(gap(from));
    for (let place = from; place < to; place += 1) {
      const part = partAt(place);
      if (part.section) {
        drawn.push(sectionRow(part));
        continue;
      }
      const row = rows.get(part.first + place - part.at);
      const chunk = Math.floor((part.first + place - part.at) / CHUNK);
      if (!row && !asking.has(chunk)) {
        const mine = round;
        fetchChunk(chunk, mine)
          .then(() => mine === round && drawRows())
          .catch(() => {});
      }
      drawn.push(row ? line(row) : h("tr", { class: "data" }, h("td", { colspan: headRow.children.length, class: "faint" }, "…")));
    }
    if (to < placed.size) drawn.push(gap(placed.size - to));
    body.replaceChildren(...drawn);
  };

  const sectionRow = ({ section, i }) => {
    const solved = section.solved === null ? "" : ` · ${section.solved} solved`;
    const figures = [`return ${num(section.last)}`, `best ${num(section.best)}`, section.success !== null && `success ${percent(section.success)}`];
    return h(
      "tr",
      { class: "section" },
      h(
        "td",
        { colspan: headRow.children.length },
        h(
          "button",
          {
            type: "button",
            class: "quiet",
            "aria-expanded": String(!closed.has(i)),
            onclick: () => {
              if (!closed.delete(i)) closed.add(i);
              placed = layout();
              drawRows();
            },
          },
          closed.has(i) ? "▸ " : "▾ ",
          h("strong", null, `${titleOf(st.by)} ${section.value ?? "–"}`),
        ),
        h("span", { class: "faint" }, `${count(section.rows)} ${st.list}${solved} · ${figures.filter(Boolean).join(" · ")}`),
      ),
    );
  };

  // ── columns ──

  const titleOf = (name) => name === "curve" ? name : view?.columns.find((column) => column.name === name || column.name.endsWith(`.${name}`))?.title ?? name;
  /** The columns of results that are shown. */
  const chosen = () => {
    const names = st.cols ? st.cols.split(",") : USUAL[st.list];
    const reports = [...rows.values()].some((row) => row.results.success !== null && row.results.success !== undefined);
    return names.filter((name) => name !== "success" || st.cols || reports);
  };
  /** How it went, what was set, and the rest. */
  const inOrder = (ofResult, ofSetting) => {
    const names = chosen();
    return [
      names.filter((name) => !LATER.has(name)).map(ofResult),
      view.shown.map(ofSetting),
      names.filter((name) => LATER.has(name)).map(ofResult),
    ];
  };
  const sortButton = (name, text) =>
    h(
      "button",
      {
        type: "button",
        class: "sort",
        title: `Sort by ${name}`,
        onclick: () => change(st.sort === name ? { up: !st.up } : { sort: name, up: name === "name" }),
      },
      text,
      st.sort === name && h("span", { "aria-hidden": "true" }, st.up ? " ▲" : " ▼"),
    );
  const headOf = (name, text, cls) =>
    h(
      "th",
      { scope: "col", class: cls, "data-column": name, "aria-sort": st.sort === name ? (st.up ? "ascending" : "descending") : null },
      name === "curve" ? text : sortButton(name, text),
    );
  const numeric = (name) => {
    const kind = view.columns.find((column) => column.name === name)?.kind;
    return ["number", "count", "share", "seconds"].includes(kind);
  };
  const drawHead = () => {
    const all = h("input", {
      type: "checkbox",
      "aria-label": "Select all that match",
      checked: view.total > 0 && picked.size >= Math.min(view.total, MOST_PICKED),
      onchange: (event) => pickAll(event.target.checked),
    });
    put(
      headRow,
      h("th", { scope: "col", class: "pick" }, unseen("select"), all),
      headOf("name", st.list === "runs" ? "run" : "group", "first"),
      inOrder(
        (name) =>
          headOf(name, titleOf(name), [numeric(name) && name !== "seeds" && "num", name === "curve" && "hide-small"].filter(Boolean).join(" ") || null),
        (name) => headOf(name, titleOf(name), "num setting"),
      ),
    );
  };

  const line = (row) => {
    const found = row.results,
      href = `/${st.list}/${encodeURIComponent(row.id)}`;
    const apart = Object.entries(row.differs).map(([name, value]) => `${name} ${value}`);
    const second = [found.label && task(found.name), row.id !== (found.label || found.name) && row.id, found.trial && `of ${found.trial}`, ...apart].filter(Boolean).join(" · ");
    return h(
      "tr",
      { class: "data", "aria-selected": String(picked.has(row.id)) },
      h(
        "td",
        { class: "pick" },
        h("input", {
          type: "checkbox",
          checked: picked.has(row.id),
          "aria-label": `Select ${row.id} for comparison`,
          onchange: (event) => {
            pick([row.id], event.target.checked);
            event.target.closest("tr").setAttribute("aria-selected", String(event.target.checked));
          },
        }),
      ),
      h(
        "td",
        { class: "first" },
        h("div", { class: "clip" }, h("a", { class: "name", href, title: found.name }, found.label || task(found.name)), " ", (found.tag ?? []).map((tag) => [h("span", { class: "tag" }, tag), " "])),
        h("div", { class: "faint clip", title: second }, second),
      ),
      inOrder(
        (name) =>
          h("td", { class: [numeric(name) && name !== "seeds" ? "num keep" : "keep", name === "curve" && "hide-small"].filter(Boolean).join(" ") }, cell(name, row)),
        (name) => h("td", { class: "num setting" }, row.settings[name] ?? "–"),
      ),
    );
  };

  // ── selecting and acting ──

  const compare = h("button", { type: "button", disabled: true, onclick: () => go(`/compare?of=${[...picked].slice(0, 16).join(",")}`) }, "Compare");
  const acts = h("div", { class: "actions" });
  const act = (text, onclick, cls = null) => h("button", { type: "button", class: cls, onclick }, text);
  const unpickAndLoad = async () => {
    picked.clear();
    pick([], true);
    await load();
  };
  const showActs = () => {
    compare.disabled = picked.size < 2;
    compare.textContent = picked.size ? `Compare ${picked.size}` : "Compare";
    compare.title = picked.size > 16 ? "The first 16 are compared" : "";
    put(
      acts,
      picked.size > 0 && [
        act("Diagnose", () => diagnoseMany([...picked], st.list)),
        act("Export…", () => exportMany([...picked], st.list)),
        act("Tag…", () => tagMany([...picked], st.list, () => load({ top: false }))),
        act("Archive", () => setTags({ add: ["archived"] }, "archived")),
        act("Stop…", () => stopMany([...picked], st.list, () => load({ top: false }))),
        act("Delete…", () => deleteMany([...picked], st.list, unpickAndLoad), "danger"),
        h(
          "button",
          {
            type: "button",
            class: "quiet",
            onclick: () => {
              picked.clear();
              pick([], true);
              render();
            },
          },
          `Clear ${picked.size}`,
        ),
      ],
      compare,
    );
  };
  const pick = (ids, on) => {
    for (const id of ids) {
      if (on) picked.add(id);
      else picked.delete(id);
    }
    showActs();
  };
  const pickAll = async (on) => {
    picked.clear();
    for (let offset = 0; on && offset < Math.min(view.total, MOST_PICKED); offset += 500) {
      const found = await get("/table", { ...query(), offset, limit: 500 });
      pick(
        found.rows.map((row) => row.id),
        true,
      );
    }
    pick([], on);
    render();
    if (on && view.total > MOST_PICKED) toast(`The first ${count(MOST_PICKED)} of ${count(view.total)} are selected.`);
  };
  const setTags = async (change, word) => {
    try {
      const done = await post("/tags", { of: [...picked], ...change });
      toast(`${word}: ${done.changed.length} of ${done.of.length}`);
      if (word === "archived") picked.clear();
      pick([], true);
      await load({ top: false });
    } catch (error) {
      toast(error.detail ?? error.message, "bad");
    }
  };
  // ── what to show ──

  const title = h("h1", null, "Groups"),
    total = h("p", { class: "quiet" }),
    chips = h("div", { class: "row chips" });
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
  const offers = h("datalist", { id: "conditions" });
  const filter = h("input", {
    list: "conditions",
    placeholder: "Filter: learning_rate>=1e-3",
    "aria-label": "Filter",
    autocomplete: "off",
    oninput: () => offer(),
    onfocus: () => offer(),
    onkeydown: async (event) => {
      if (event.key !== "Enter" || !filter.value.trim()) return;
      const [typed, before] = [filter.value, st.where];
      const all = [...conditions(), typed.trim().replaceAll(";", " ")];
      filter.value = "";
      if (await change({ where: all.join(";") })) return;
      // What is refused is no part of the view: it stays where it was typed, to be put right.
      st.set({ where: before });
      if (!filter.value) filter.value = typed;
    },
  });
  let offered = "";
  /** Columns while a name is typed; values of a column once there is one. */
  const offer = async () => {
    if (!view) return;
    const name = filter.value.replace(/[=!<>~].*$/, "").trim();
    const column = view.columns.find((each) => each.name === name || each.title === name);
    const key = column ? column.name : "";
    if (key === offered && offers.children.length) return;
    offered = key;
    const names = view.columns.map((each) => each.name);
    const values = column ? (await get("/table", { ...query(), limit: 1, values_of: column.name }).catch(() => ({ values: [] }))).values : [];
    if (offered !== key) return;
    put(
      offers,
      column
        ? values.map((each) => h("option", { value: `${name}=${each.value}` }, `${count(each.rows)} ${st.list}`))
        : names.map((each) => h("option", { value: each })),
    );
  };
  const by = h("select", { "aria-label": "Group by", onchange: () => change({ by: by.value }) });
  const columnsBox = h("div", { class: "columns" });
  const columnsMenu = h("details", { class: "menu" }, h("summary", null, "Columns"), columnsBox);

  const drawTools = () => {
    const settings = view.columns.filter((column) => column.setting),
      results = view.columns.filter((column) => !column.setting);
    const option = (column) => h("option", { value: column.name }, column.setting ? column.name : column.title);
    put(
      by,
      h("option", { value: "" }, "not grouped"),
      h("optgroup", { label: "results" }, results.filter((column) => column.kind === "text" || column.kind === "count").map(option)),
      h("optgroup", { label: "settings that differ" }, settings.filter((column) => column.distinct > 1).map(option)),
    );
    by.value = view.columns.find((column) => column.name === st.by || column.name.endsWith(`.${st.by}`))?.name ?? "";
    const ticked = chosen();
    const tick = (name, on, text, pickOne) =>
      h("label", { class: "check" }, h("input", { type: "checkbox", checked: on, onchange: (event) => pickOne(name, event.target.checked) }), text);
    const pickResult = (name, on) => {
      const names = [...new Set([...USUAL[st.list], ...results.map((column) => column.name)])].filter((each) => (each === name ? on : ticked.includes(each)));
      change({ cols: names.join(",") || "name" });
    };
    const pickSetting = (name, on) => change({ settings: view.columns.filter((column) => column.setting && (column.name === name ? on : view.shown.includes(column.name))).map((column) => column.name).join(",") });
    const open = columnsMenu.open;
    put(
      columnsBox,
      h("h3", null, "Results"),
      tick("curve", ticked.includes("curve"), "curve", pickResult),
      results.filter((column) => column.name !== "name").map((column) => tick(column.name, ticked.includes(column.name), column.title, pickResult)),
      h(
        "h3",
        null,
        "Settings ",
        h("button", { type: "button", class: "small", disabled: !st.settings, onclick: () => change({ settings: "" }) }, "only those that differ"),
      ),
      settings.map((column) => tick(column.name, view.shown.includes(column.name), [column.name, column.distinct > 1 && h("span", { class: "faint" }, ` ${column.distinct} values`)], pickSetting)),
    );
    columnsMenu.open = open;
    put(
      chips,
      conditions().map((condition) =>
        h(
          "span",
          { class: "tag" },
          condition,
          h("button", { type: "button", "aria-label": `Remove ${condition}`, onclick: () => change({ where: conditions().filter((each) => each !== condition).join(";") }) }, "×"),
        ),
      ),
      (conditions().length > 0 || st.by || st.cols || st.settings || st.sort !== "created") &&
        h(
          "button",
          {
            type: "button",
            class: "small",
            onclick: () => {
              st.set({ where: "", by: "", cols: "", settings: "", sort: "created", up: false });
              closed.clear();
              load();
            },
          },
          "Usual view",
        ),
    );
  };

  const render = () => {
    const runs = st.list === "runs";
    title.textContent = runs ? "Runs" : "Groups";
    const narrowed = st.q || st.show || st.where;
    total.textContent = `${count(view.total)} ${view.total === 1 ? st.list.slice(0, -1) : st.list}${narrowed ? (view.total === 1 ? " that matches" : " that match") : ""}. A group is the runs of one config that differ only in their seed.`;
    drawTools();
    showActs();
    if (!view.total && !narrowed && !runs) {
      put(
        card,
        empty(
          "No runs here yet",
          "Train something; this page fills by itself.",
          "rlclinic train CartPole-v1:ppo --seeds 4",
          "rlclinic demo",
        ),
        h("p", null, h("button", { type: "button", class: "primary", onclick: () => startDialog() }, "Train CartPole from here")),
      );
      return;
    }
    if (!view.total) {
      put(
        card,
        empty("Nothing matches", "No row has all of these words, conditions and this state."),
        h(
          "button",
          {
            type: "button",
            onclick: () => {
              st.set({ q: "", show: "", inner: true, archived: true, where: "" });
              draw(main);
            },
          },
          "Show all",
        ),
      );
      return;
    }
    if (list.parentNode !== card) put(card, list);
    placed = layout();
    drawHead();
    drawRows();
  };

  const toggle = (key, text) =>
    h("label", { class: "check" }, h("input", { type: "checkbox", checked: st[key], onchange: (event) => change({ [key]: event.target.checked }) }), text);
  put(
    main,
    h("div", { class: "head" }, h("div", { class: "grow" }, title, total), acts),
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
          picked.clear();
          change({ list, cols: "", by: "" });
        },
      ),
      segments(h, "Which groups", KINDS, st.show, (show) => change({ show })),
      filter,
      offers,
      by,
      columnsMenu,
      toggle("inner", "with those of trials and studies"),
      toggle("archived", "archived"),
    ),
    chips,
    wrong,
    card,
  );
  showActs();
  await load();
  const resized = () => drawRows();
  const away = (event) => {
    if (columnsMenu.open && !columnsMenu.contains(event.target)) columnsMenu.open = false;
  };
  addEventListener("resize", resized);
  document.addEventListener("click", away);
  // Looking again costs the server a little: with very many rows it is asked less often.
  const later = calm(() => (document.hidden ? null : load({ top: false })), 2000);
  const silent = listen(later);
  return () => {
    silent();
    removeEventListener("resize", resized);
    document.removeEventListener("click", away);
  };
}

const go = (href) => document.dispatchEvent(new CustomEvent("navigate-to", { detail: href }));

const ENDED_EARLY = new Set(["failed", "crashed", "stopped"]);

/** A result as people read it. */
function cell(name, row) {
  const found = row.results,
    value = found[name];
  const live = found.state === "running" || found.state === "queued";
  if (name === "verdict") return [status(live ? found.state : value), ENDED_EARLY.has(found.state) && value !== "FAILED" && [" ", status(found.state)]];
  if (name === "state") return status(value);
  if (name === "seeds") return seeds(found);
  if (name === "curve") return spark(row);
  if (name === "last")
    return [h("strong", null, num(value ?? found.return_mean)), (found.threshold ?? null) !== null && h("div", { class: "faint" }, `of ${num(found.threshold)}`)];
  if (name === "env_steps") return steps(found, live);
  if (name === "reached_at") return (found.threshold ?? null) === null && (value ?? null) === null ? "–" : `${censored(value, found.env_steps)}${found.lost ? ", lost" : ""}`;
  if (name === "success") return percent(value);
  if (name === "wall_time") return duration(value);
  if (name === "created" || name === "changed") return h("span", { class: "faint" }, ago(value || found.created));
  if (name === "tag") return (value ?? []).join(" ");
  if (name === "budget") return short(value);
  if (name === "seed") return value;
  if (name === "group") return h("a", { href: `/groups/${encodeURIComponent(value)}` }, value);
  if (typeof value === "number") return num(value);
  return h("span", { class: "clip", title: value ?? "" }, value ?? "–");
}

function steps(found, live) {
  const budget = (found.budget ?? 0) * (found.seeds ?? 1);
  if (!live || !budget) return short(found.env_steps);
  const share = Math.min(1, found.env_steps / budget);
  return [
    `${short(found.env_steps)} of ${short(budget)}`,
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
  ];
}

function seeds(found) {
  const judged = (found.threshold ?? null) !== null || (found.success ?? null) !== null;
  const lost = found.lost ? `, ${found.lost} lost it again` : "";
  const text = judged ? `${found.reached} of ${found.seeds}${lost}` : `${found.seeds}`;
  if (found.seeds > 24) return text;
  const dots = Array.from({ length: found.seeds }, (_, i) => h("i", { class: i < found.reached - found.lost ? "in" : i < found.reached ? "lost" : null }));
  return h(
    "span",
    { title: `${text} reached the threshold` },
    h("span", { class: "seeds", "aria-hidden": "true" }, dots),
    h("span", { class: "faint" }, ` ${text}`),
  );
}
