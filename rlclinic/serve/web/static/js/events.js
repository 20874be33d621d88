// What happens in the store, as it happens. One stream for the whole page; it connects again by itself.

import { at } from "./root.js";

const listeners = new Set();
let source = null;

/** Call `heard({runs, groups})` for every change, states by id; returns what ends it. */
export function listen(heard) {
  listeners.add(heard);
  return () => listeners.delete(heard);
}

/** Open the stream of the whole store; `told(state)` says on or off. */
export function connect(told) {
  source?.close();
  source = new EventSource(at("/api/v1/events"));
  source.onopen = () => told("on");
  source.onerror = () => told("off");
  source.addEventListener("changed", (message) => {
    const found = JSON.parse(message.data);
    for (const heard of listeners) heard(found);
  });
  // What came while the connection was broken is not known any more.
  source.addEventListener("reload", () => {
    for (const heard of listeners) heard({ runs: {}, groups: {} });
  });
}

/**
 * Follow one run or group: `rows()` after new rows, `state()` after a change of state; returns what ends it.
 * `opened()` when the stream begins, or begins again: what was written before that, and after the page was drawn, it does not tell.
 */
export function follow(kind, id, rows, state, opened = () => {}) {
  const stream = new EventSource(at(`/api/v1/${kind}/${encodeURIComponent(id)}/events?names=ep_rew_mean`));
  let missed = false;
  stream.addEventListener("rows", () => {
    // Nobody looks: the trainings have better use for the processor.
    if (document.hidden) missed = true;
    else rows();
  });
  stream.addEventListener("state", () => state());
  stream.addEventListener("open", () => opened());
  const seen = () => {
    if (document.hidden || !missed) return;
    missed = false;
    rows();
  };
  document.addEventListener("visibilitychange", seen);
  return () => {
    stream.close();
    document.removeEventListener("visibilitychange", seen);
  };
}

/** Calls that come in a burst become one now and one at its end, never closer than `gap` milliseconds. */
export function calm(work, gap) {
  let timer = null,
    last = -Infinity,
    again = false,
    busy = false;
  const go = async () => {
    timer = null;
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    last = performance.now();
    try {
      await work();
    } catch (error) {
      // What the server could not answer now is asked again with the next event.
      if (error.status === undefined) console.error(error);
    } finally {
      busy = false;
      if (again) {
        again = false;
        plan();
      }
    }
  };
  const plan = () => {
    timer ??= setTimeout(go, Math.max(0, gap - (performance.now() - last)));
  };
  return plan;
}
