// The frame: which page a path is, where links lead, colours, and whether the server still answers.

import { h, problem, put } from "./dom.js";
import { connect } from "./events.js";
import { startDialog } from "./actions.js";
import { session } from "./api.js";
import { at, inside } from "./root.js";

const PAGES = [
  [/^\/$/, () => import("./pages/groups.js")],
  [/^\/login$/, () => import("./pages/login.js")],
  [/^\/groups\/([^/]+)$/, () => import("./pages/group.js")],
  [/^\/runs\/([^/]+)$/, () => import("./pages/run.js")],
  [/^\/compare$/, () => import("./pages/compare.js")],
  [/^\/trials$/, () => import("./pages/trials.js")],
  [/^\/trials\/([^/]+)$/, () => import("./pages/trial.js")],
  [/^\/studies$/, () => import("./pages/studies.js")],
  [/^\/sensitivity\/([^/]+)$/, () => import("./pages/sensitivity.js")],
  [/^\/race\/([^/]+)$/, () => import("./pages/race.js")],
  [/^\/optimize\/([^/]+)$/, () => import("./pages/optimize.js")],
  [/^\/environments$/, () => import("./pages/environments.js")],
  [/^\/guide$/, () => import("./pages/guide.js")],
  [/^\/guide\/([^/]+)$/, () => import("./pages/guide.js")],
];

const main = document.getElementById("page");
let leave = null;
let shown = 0;

/** Draw the page of the present address; what the last one still does is ended first. */
async function show() {
  const turn = ++shown;
  leave?.();
  leave = null;
  const match = PAGES.map(([pattern, load]) => [pattern.exec(inside(location.pathname)), load]).find(([found]) => found);
  mark();
  if (!match) {
    put(main, h("h1", null, "There is no such page"), h("p", null, h("a", { href: "/" }, "All groups")));
    return;
  }
  try {
    const page = await match[1]();
    const drawn = await page.draw(main, match[0].slice(1).map(decodeURIComponent));
    if (turn !== shown) drawn?.();
    else leave = drawn ?? null;
  } catch (error) {
    if (turn === shown) put(main, problem(error, show));
    if (!error.status && error.status !== 0) console.error(error);
  }
}

function mark() {
  const path = inside(location.pathname);
  const of = (href) =>
    href === "/"
      ? path === "/" || path.startsWith("/groups") || path.startsWith("/runs")
      : href === "/studies"
        ? /^\/(studies|sensitivity|optimize|race)/.test(path)
        : path.startsWith(href);
  for (const link of document.querySelectorAll("#nav a")) {
    if (of(inside(link.getAttribute("href")))) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

/** Go to an address of ours without loading the frame again. */
export function go(href) {
  history.pushState(null, "", at(href));
  scrollTo(0, 0);
  show().then(() => main.focus({ preventScroll: true }));
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (link.origin !== location.origin || link.hasAttribute("download") || link.target || link.hash) return;
  if (!PAGES.some(([pattern]) => pattern.test(inside(link.pathname)))) return;
  event.preventDefault();
  go(inside(link.pathname) + link.search);
});
addEventListener("popstate", show);
// As in many places: / goes to the search field.
document.addEventListener("keydown", (event) => {
  const field = document.querySelector("main input[type=search]");
  if (event.key !== "/" || !field || event.target.closest?.("input, textarea, select, dialog")) return;
  event.preventDefault();
  field.focus();
});
document.addEventListener("navigate-to", (event) => go(event.detail));

const root = document.documentElement;
const button = document.getElementById("theme");
const label = () => button.setAttribute("aria-label", root.dataset.theme === "dark" ? "Use light colours" : "Use dark colours");
button.addEventListener("click", () => {
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  try {
    localStorage.setItem("rlclinic-theme", root.dataset.theme);
  } catch {
    /* storage is switched off: it holds until the page is left */
  }
  document.dispatchEvent(new CustomEvent("themechange"));
});
document.addEventListener("themechange", label);
label();

document.getElementById("start").addEventListener("click", () => startDialog());

// On a server with several projects: which one is looked at. Nothing on the page waits for it.
(window.requestIdleCallback ?? setTimeout)(async () => {
  const { project, projects } = await session().catch(() => ({ projects: [] }));
  if (projects.length < 2) return;
  const options = projects.map((name) => h("option", { value: name, selected: name === project }, name || "own store"));
  const choose = (event) => location.assign(at(`/projects/${encodeURIComponent(event.target.value)}`));
  document.querySelector(".top-end").prepend(h("select", { "aria-label": "Project", onchange: choose }, options));
});

const link = document.getElementById("link");
connect((state) => {
  link.className = `link ${state}`;
  link.textContent = state === "on" ? "live" : "not connected";
});
show();
