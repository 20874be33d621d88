// What a page shows lies in its address: a link shows somebody else the same.

/** The settings of a page, read from the address over its usual ones; writing one replaces the address. */
export function state(usual) {
  const read = () => {
    const given = new URLSearchParams(location.search);
    return Object.fromEntries(Object.entries(usual).map(([key, value]) => [key, given.has(key) ? parse(given.get(key), value) : value]));
  };
  const values = read();
  return {
    ...values,
    /** Change settings; those at their usual value are left out of the address. */
    set(changes) {
      Object.assign(this, changes);
      const query = new URLSearchParams(location.search);
      for (const key of Object.keys(usual)) {
        if (this[key] === usual[key] || this[key] === null || this[key] === "") query.delete(key);
        else query.set(key, this[key]);
      }
      const text = query.toString();
      history.replaceState(history.state, "", location.pathname + (text ? `?${text}` : ""));
    },
  };
}

function parse(text, like) {
  if (typeof like === "number") return Number.isFinite(Number(text)) ? Number(text) : like;
  if (typeof like === "boolean") return text === "true" || text === "1";
  return text;
}

/** Buttons of which one is pressed. */
export function segments(h, label, options, chosen, pick) {
  const node = h("div", { class: "segments", role: "group", "aria-label": label });
  const draw = (now) => {
    node.replaceChildren(
      ...options.map(([value, text]) =>
        h(
          "button",
          {
            type: "button",
            "aria-pressed": String(value === now),
            onclick: () => {
              draw(value);
              pick(value);
            },
          },
          text,
        ),
      ),
    );
  };
  draw(chosen);
  return node;
}
