// A page that follows a service while it goes on, and the start of all live pages.

class LiveService {
  constructor() {
    Object.assign(this, {
      applications: make("table"),
      devices: make("table"),
      waiting: new WaitingAreas("Waiting tasks", "task"),
      runs: make("table"),
    });
    byId("title").textContent = "weft serve";
    byId("live").replaceChildren(
      section("Applications", wideBox(this.applications)),
      section("Runs", wideBox(this.runs)),
      columns(section("Devices", wideBox(this.devices)), this.waiting.section),
    );
  }

  take(kind, s) {
    if (kind !== "status") return;
    const budget = (a) =>
      a.budget
        ? `${formatTime(Math.max(0, a.left))} of ${formatTime(a.budget.seconds)} ` +
          `per ${formatTime(a.budget.period)}`
        : "none";
    fillTable(
      this.applications,
      ["application", "share", "budget left", "running", "waiting", "ends in about"],
      Object.entries(s.applications).map(([name, a]) => [
        name,
        a.share,
        figure(budget(a)),
        a.running,
        a.waiting,
        figure(a.eta === null ? "" : formatTime(a.eta)),
      ]),
    );
    fillTable(
      this.runs,
      ["run", "name", "application", "state", "tasks"],
      s.runs.map((run) => [
        make("a", { href: `/runs/${encodeURIComponent(run.id)}` }, run.id),
        run.name,
        run.application,
        run.state,
        run.tasks,
      ]),
    );
    fillDevices(this.devices, s.devices, s.now);
    if (s.history) this.waiting.load(s.history);
    this.waiting.add(s.now, s.waiting);
    this.waiting.show(s.waiting, false);
  }
}

async function startLive() {
  const found = /^\/runs\/([^/]+)$/.exec(location.pathname),
    base = found && `/v1/runs/${found[1]}`;
  if (!found) {
    let page = null; // a service or a cascade: the first status tells
    follow(
      "/v1/live",
      (kind, event) => {
        page = page || (event.cascade ? new LiveCascade(event) : new LiveService());
        page.take(kind, event);
      },
      tellLink,
    );
    return;
  }
  for (let wait = 0.25; ; wait = Math.min(5, wait * 1.6)) {
    try {
      const opening = await ask(`${base}/chart`);
      if (opening.chart) {
        const run = new LiveRun(decodeURIComponent(found[1]), opening);
        byId("live").run = run;
        follow(`${base}/events?status=1`, (kind, event) => run.take(kind, event), tellLink);
        return;
      }
      tellLink("live", "starting devices");
    } catch (error) {
      if (error.status) {
        tellLink("token", error.message);
        return;
      }
      tellLink("lost", "The server does not answer; trying again …");
    }
    await pause(wait);
  }
}
startLive();
