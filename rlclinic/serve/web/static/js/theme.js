// Runs before the page is drawn: a dark page must not flash white. A choice of the user's wins over the system's.
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => {
    try {
      return localStorage.getItem("rlclinic-theme");
    } catch {
      return null; // storage is switched off: the system decides
    }
  };
  const follow = () => {
    document.documentElement.dataset.theme = chosen() ?? (system.matches ? "dark" : "light");
  };
  follow();
  system.addEventListener("change", () => {
    follow();
    document.dispatchEvent(new CustomEvent("themechange"));
  });
})();
