// Where the server is reached: behind a proxy its pages may begin with a path of their own, which the frame says.

export const ROOT = document.querySelector("meta[name=rlclinic-root]")?.content ?? "";

/** An address of ours as the browser must ask for it. */
export const at = (path) => (path.startsWith("/") && !path.startsWith("//") ? ROOT + path : path);

/** The path of an address without what the proxy puts before it. */
export const inside = (pathname) => (ROOT && pathname.startsWith(ROOT) ? pathname.slice(ROOT.length) || "/" : pathname);
