// Runs before the first paint, so that a page whose reader chose dark does not flash white.
(() => {
  try {
    const chosen = localStorage.getItem("turngate.theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // Without storage the system's choice holds.
  }
})();
