// Tabs as the WAI-ARIA authoring practices describe them; without script all panels stay visible.
function openTab(tabs, panels, k) {
  tabs.forEach((tab, i) => {
    tab.setAttribute("aria-selected", String(i === k));
    tab.tabIndex = i === k ? 0 : -1;
  });
  const chartOf = (panel) => {
    const found = panel && panel.querySelector("section.gantt");
    return found && found.chart;
  };
  const before = chartOf(panels.find((panel) => !panel.hidden)),
    after = chartOf(panels[k]);
  panels.forEach((panel, i) => {
    panel.hidden = i !== k;
  });
  if (before && after && before !== after) after.follow(before);
  dispatchEvent(new Event("resize")); // charts that were hidden have room now
}

function startTabs(root) {
  const panels = [...root.querySelectorAll(":scope > .panel")],
    list = root.querySelector(":scope > .tablist");
  const tabs = panels.map((panel, k) => {
    const id = `${panel.id}-tab`,
      tab = make(
        "button",
        { type: "button", role: "tab", id, "aria-controls": panel.id },
        panel.dataset.label,
      );
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
  root.open = (name) => {
    const k = panels.findIndex((panel) => panel.dataset.label === name);
    if (k >= 0) {
      openTab(tabs, panels, k);
      root.scrollIntoView({ block: "start" });
      tabs[k].focus({ preventScroll: true });
    }
  };
}

// Charts of one problem in tabs: each can show another one below its bars.
function startBeside(root) {
  const charts = [...root.querySelectorAll("section.gantt")].map((section) => section.chart),
    data = root.querySelector(":scope > script");
  if (charts.length < 2) return;
  const pairs = data ? JSON.parse(data.textContent) : {},
    first = root.dataset.beside;
  for (const chart of charts) {
    chart.pairs = pairs;
    const others = charts.filter((other) => other !== chart);
    const select = make(
      "select",
      { "aria-label": "Compare with" },
      make("option", { value: "" }, "Compare with …"),
      ...others.map((other, k) =>
        make("option", { value: k }, `With: ${shortened(other.model.title, 24)}`),
      ),
    );
    select.addEventListener("change", () =>
      chart.compareWith(select.value === "" ? null : others[+select.value]),
    );
    chart.parts.tools.insertBefore(select, chart.parts.tools.lastChild);
    const wanted = others.findIndex((other) => other.model.title === first);
    if (wanted >= 0) {
      select.value = String(wanted);
      chart.compareWith(others[wanted]);
    }
  }
}
