// The server's JSON, its errors, and its events.

import { at, inside } from "./root.js";

const ROOT = "/api/v1";

/** What the server says went wrong (problem+json), with its status. */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail ?? body.title ?? `the server answered ${status}`);
    this.status = status;
    this.title = body.title;
    this.detail = body.detail;
    this.advice = body.advice ?? [];
  }
}

async function ask(method, path, body, headers = {}, root = ROOT, again = false) {
  const sent = { Accept: "application/json", ...headers };
  // What takes long is sent as soon as it is there; after ten seconds the server says when to ask again.
  if (method === "GET") sent.Prefer = "wait=10";
  if (body !== undefined) sent["Content-Type"] = "application/json";
  if (method !== "GET" && path !== "/session") sent["X-CSRF-Token"] = (await session()).csrf ?? "";
  let answer;
  try {
    answer =
      (await begun(method, root + path)) ??
      (await fetch(at(root + path), {
        method,
        headers: sent,
        body: body === undefined ? undefined : JSON.stringify(body),
        credentials: "same-origin",
      }));
  } catch {
    if (method === "GET" && !again) {
      // A network that changes under way (a cable, a tunnel) cuts requests that the server would answer.
      await new Promise((done) => setTimeout(done, 300));
      return ask(method, path, body, headers, root, true);
    }
    throw new Problem(0, { title: "The server does not answer", detail: "Trainings go on without it.", advice: ["rlclinic serve"] });
  }
  if (method === "GET" && answer.status === 202) {
    // It is being made, and others wait too: the server says when to ask again.
    await new Promise((done) => setTimeout(done, 1000 * Number(answer.headers.get("Retry-After") ?? 1)));
    return ask(method, path, body, headers, root);
  }
  const text = await answer.text();
  let found = {};
  try {
    found = text ? JSON.parse(text) : {};
  } catch {
    found = { title: answer.ok ? "The answer is not JSON" : `The server answered ${answer.status}`, detail: text.slice(0, 400) };
  }
  if (answer.status === 401 && inside(location.pathname) !== "/login") location.assign(at("/login"));
  if (!answer.ok) throw new Problem(answer.status, found);
  return found;
}

/** The answer that the page asked for before its modules were there; it is used once. */
function begun(method, url) {
  const early = window.rlclinicEarly;
  if (method !== "GET" || early?.url !== url) return null;
  window.rlclinicEarly = null;
  return early.answer;
}

let known = null;

/** Who is asking and what they may do; asked once. */
export function session() {
  known ??= ask("GET", "/session").catch((error) => {
    known = null;
    throw error;
  });
  return known;
}

export const get = (path, query = {}) => ask("GET", path + queryOf(query));
/** A change, sent at most once: the same key again gives the first answer. */
export const post = (path, body = {}, key = crypto.randomUUID?.() ?? String(Math.random())) =>
  ask("POST", path, body, { "Idempotency-Key": key });
export const putJson = (path, body) => ask("PUT", path, body, { "Idempotency-Key": crypto.randomUUID?.() ?? String(Math.random()) });

function queryOf(query) {
  const pairs = Object.entries(query)
    .flatMap(([key, value]) => [value].flat().map((each) => [key, each]))
    .filter(([, value]) => value !== null && value !== undefined && value !== "");
  return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
}

export const curves = (of, names, { points = 400, axis = "steps" } = {}) => get("/curves", { of, names, points, axis });

/** A file of ours that is JSON. */
export const fetchJson = (path) => ask("GET", path, undefined, {}, "");

let prepared = false;
/** Somebody looks at checkpoints: the server imports ahead what an episode needs. Once a page is enough, and nothing waits for it. */
export function prepareFilms() {
  if (!prepared) ask("POST", "/prepare-films", undefined, {}, "").catch(() => {});
  prepared = true;
}

/** The return of a group or run as far as it can be had at once; `rough` where the rest is still to be read. */
export const firstCurve = (of, axis) => ask("GET", `/first-curve${queryOf({ of, axis })}`, undefined, {}, "");
