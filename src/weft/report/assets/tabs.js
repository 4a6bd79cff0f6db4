// Tabs as the WAI-ARIA authoring practices describe them; without script all panels stay visible.
function openTab(tabs, panels, k) {
  tabs.forEach((tab, i) => { tab.setAttribute("aria-selected", String(i === k)); tab.tabIndex = i === k ? 0 : -1; });
  panels.forEach((panel, i) => { panel.hidden = i !== k; });
  dispatchEvent(new Event("resize")); // charts that were hidden have room now
}

function startTabs(root) {
  const panels = [...root.querySelectorAll(":scope > .panel")], list = root.querySelector(":scope > .tablist");
  const tabs = panels.map((panel, k) => {
    const id = `${panel.id}-tab`, tab = make("button", { type: "button", role: "tab", id, "aria-controls": panel.id }, panel.dataset.label);
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", id);
    tab.addEventListener("click", () => openTab(tabs, panels, k));
    tab.addEventListener("keydown", (e) => {
      const to = { ArrowRight: k + 1, ArrowLeft: k - 1, Home: 0, End: panels.length - 1 }[e.key];
      if (to === undefined) return;
      e.preventDefault();
      const next = (to + panels.length) % panels.length;
      openTab(tabs, panels, next);
      tabs[next].focus();
    });
    return tab;
  });
  list.setAttribute("role", "tablist");
  list.append(...tabs);
  if (tabs.length) openTab(tabs, panels, 0);
}
