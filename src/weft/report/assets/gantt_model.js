// The data of a chart, indexed: lanes, executions of an instance, parents and children, arrival of
// data.
const DONE = 0,
  LOST = 1,
  CANCELLED = 2;
const STATUS = ["done", "lost", "cancelled"];

class Model {
  constructor(data) {
    const rows = data.rows,
      n = rows.task.length,
      zeros = new Int32Array(n);
    Object.assign(this, {
      data,
      n,
      title: data.title,
      begin: data.span[0],
      end: data.span[1],
      kinds: data.kinds,
    });
    this.task = Int32Array.from(rows.task);
    this.device = Int32Array.from(rows.device);
    this.start = Float64Array.from(rows.start);
    this.finish = Float64Array.from(rows.finish);
    this.job = rows.job ? Int32Array.from(rows.job) : zeros;
    this.status = rows.status ? Uint8Array.from(rows.status) : zeros;
    this.copy = rows.copy ? Uint8Array.from(rows.copy) : zeros;
    this.batch = rows.batch ? Int32Array.from(rows.batch) : null;
    this.decided = rows.decided ? Float64Array.from(rows.decided) : null;
    this.indexLanes(data.devices);
    this.indexBatches();
    this.indexTasks(data);
    this.indexCauses(data.why);
  }

  // Causes as written by Python: the binding event of each row, and the critical chain in segments.
  indexCauses(why) {
    this.why = why;
    this.onChain = new Uint8Array(this.n);
    this.chain = why ? why.chain : [];
    for (const r of this.chain) this.onChain[r] = 1;
    this.segments = why
      ? why.segments.map(([part, start, finish, row, bytes, source]) => ({
          part: why.parts[part],
          start,
          finish,
          row,
          bytes,
          source,
        }))
      : [];
    this.source = why ? Int32Array.from(why.source) : new Int32Array(this.n).fill(-1);
  }
  cause(r) {
    return this.why ? this.why.kinds[this.why.kind[r]] : "";
  }
  explanation(r) {
    const known = this.why && this.why.tasks[r];
    return known ? { sentence: known[0], slack: known[1], others: known[2] } : null;
  }

  // The row a row waited for, and the row that waited for it: the one on the chain, else the first
  // to start.
  bindingParent(r) {
    return this.source[r];
  }
  bindingChild(r) {
    let best = -1;
    for (let k = 0; k < this.n; k++) {
      if (this.source[k] !== r || k === r) continue;
      if (
        best < 0 ||
        this.onChain[k] > this.onChain[best] ||
        (this.onChain[k] === this.onChain[best] && this.start[k] < this.start[best])
      )
        best = k;
    }
    return best;
  }

  indexLanes(devices) {
    this.lanes = devices.lanes;
    this.laneOf = new Int32Array(devices.names.length);
    this.lanes.forEach((device, lane) => {
      this.laneOf[device] = lane;
    });
    this.lanePtr = new Int32Array(this.lanes.length + 1);
    for (let r = 0; r < this.n; r++) this.lanePtr[this.laneOf[this.device[r]] + 1]++;
    for (let l = 0; l < this.lanes.length; l++) this.lanePtr[l + 1] += this.lanePtr[l];
    // Latest finish so far within the lane: never falls, so the first visible row is found by
    // bisection.
    this.latest = new Float64Array(this.n);
    for (let l = 0; l < this.lanes.length; l++) {
      let latest = -Infinity;
      for (let r = this.lanePtr[l]; r < this.lanePtr[l + 1]; r++)
        this.latest[r] = latest = Math.max(latest, this.finish[r]);
    }
    this.busy = new Float64Array(this.lanes.length);
    this.grouped = new Set(devices.nodes).size > 1;
    this.failures = this.lanes.map(() => []);
    for (const [device, from, to, slowdown] of this.data.pauses)
      this.failures[this.laneOf[device]].push({ from, to, slowdown });
  }

  indexBatches() {
    this.slot = new Int32Array(this.n);
    this.size = new Int32Array(this.n).fill(1);
    this.indexBatched();
    const span = this.data.end - this.begin || 1;
    for (let r = 0; r < this.n; r++)
      if (this.slot[r] === 0)
        this.busy[this.laneOf[this.device[r]]] += (this.finish[r] - this.start[r]) / span;
  }

  indexBatched() {
    if (!this.batch) return;
    for (let r = 0, e; r < this.n; r = e) {
      for (
        e = r + 1;
        e < this.n && this.batch[e] === this.batch[r] && this.device[e] === this.device[r];
      )
        e++;
      for (let k = r; k < e; k++) {
        this.slot[k] = k - r;
        this.size[k] = e - r;
      }
    }
  }

  indexTasks(data) {
    this.templates = data.templates;
    this.template = Int32Array.from(data.jobs);
    this.firstTask = new Int32Array(data.jobs.length + 1);
    this.firstChoice = new Int32Array(data.jobs.length + 1);
    data.jobs.forEach((t, j) => {
      this.firstTask[j + 1] = this.firstTask[j] + data.templates[t].n;
      this.firstChoice[j + 1] = this.firstChoice[j] + (data.templates[t].choices || 0);
    });
    this.kind = new Int32Array(this.n);
    for (let r = 0; r < this.n; r++) {
      const kind = this.templates[this.template[this.job[r]]].kind;
      this.kind[r] = typeof kind === "number" ? kind : kind[this.task[r]];
    }
    // Rows of an instance as linked lists: the head by instance, the next one by row.
    this.head = new Int32Array(this.firstTask[data.jobs.length]).fill(-1);
    this.next = new Int32Array(this.n).fill(-1);
    for (let r = this.n - 1; r >= 0; r--) {
      const i = this.firstTask[this.job[r]] + this.task[r];
      this.next[r] = this.head[i];
      this.head[i] = r;
    }
  }

  taskName(job, task) {
    const names = this.templates[this.template[job]].names;
    return names ? names[task] : "t" + task;
  }
  name(r) {
    return this.taskName(this.job[r], this.task[r]);
  }
  deviceName(d) {
    return this.data.devices.names[d];
  }

  executions(job, task) {
    const rows = [];
    for (let r = this.head[this.firstTask[job] + task]; r >= 0; r = this.next[r]) rows.push(r);
    return rows;
  }

  // Edges by target, made when first needed; by source they are sorted already.
  edges(t) {
    const template = this.templates[t];
    if (!template.index) {
      const { n, src, dst } = template;
      const out = new Int32Array(n + 1),
        into = new Int32Array(n + 1),
        incoming = new Int32Array(src.length);
      for (let e = 0; e < src.length; e++) {
        out[src[e] + 1]++;
        into[dst[e] + 1]++;
      }
      for (let i = 0; i < n; i++) {
        out[i + 1] += out[i];
        into[i + 1] += into[i];
      }
      const at = into.slice();
      for (let e = 0; e < src.length; e++) incoming[at[dst[e]]++] = e;
      template.index = { out, into, incoming };
    }
    return template.index;
  }

  taken(job, e) {
    const template = this.templates[this.template[job]];
    if (!template.choice || template.choice[e] < 0) return true;
    return (
      !this.data.outcome ||
      this.data.outcome[this.firstChoice[job] + template.choice[e]] === template.branch[e]
    );
  }

  transfer(a, b, bytes) {
    const links = this.data.links;
    if (a === b) return 0;
    if (!links) return null;
    const k = links.which ? links.which[a * this.lanes.length + b] : links.every;
    return links.latency[k] + bytes * links.perByte[k];
  }

  // When the data of an edge is at its target, from the execution of the source that delivers
  // first.
  delivery(edge, job, row) {
    const template = this.templates[this.template[job]],
      bytes = template.data[edge];
    let best = null;
    for (const from of this.executions(job, template.src[edge])) {
      if (this.status[from] !== DONE) continue;
      const sent = this.decided
        ? Math.max(this.finish[from], this.decided[row])
        : this.finish[from];
      const seconds = this.transfer(this.device[from], this.device[row], bytes);
      const arrival = sent + (seconds || 0);
      if (!best || arrival < best.arrival)
        best = { from, to: row, bytes, arrival, sent, seconds, taken: this.taken(job, edge) };
    }
    return best;
  }

  parents(row) {
    const job = this.job[row],
      { into, incoming } = this.edges(this.template[job]),
      found = [];
    for (let k = into[this.task[row]]; k < into[this.task[row] + 1]; k++) {
      const delivery = this.delivery(incoming[k], job, row);
      if (delivery) found.push(delivery);
    }
    return found;
  }

  // Children read from the execution that delivers first, which may be another copy: those are left
  // out.
  children(row) {
    const job = this.job[row],
      template = this.templates[this.template[job]],
      { out } = this.edges(this.template[job]),
      found = [];
    for (let e = out[this.task[row]]; e < out[this.task[row] + 1]; e++) {
      for (const to of this.executions(job, template.dst[e])) {
        const delivery = this.delivery(e, job, to);
        if (delivery && delivery.from === row) found.push(delivery);
      }
    }
    return found;
  }

  firstVisible(lane, time) {
    let low = this.lanePtr[lane],
      high = this.lanePtr[lane + 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.latest[middle] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // The time before a row in which its device runs nothing, or null.
  gapAt(lane, time) {
    let free = this.begin;
    for (let r = this.lanePtr[lane]; r < this.lanePtr[lane + 1]; r++) {
      if (this.start[r] > time)
        return time >= free ? { from: free, to: this.start[r], row: r } : null;
      free = Math.max(free, this.finish[r]);
    }
    return time >= free && time <= this.data.end
      ? { from: free, to: this.data.end, row: -1 }
      : null;
  }

  // Where the time before a row went: its parents ran, its data moved, it waited, it runs.
  phases(r, parents) {
    const start = this.start[r],
      first = r > this.lanePtr[this.laneOf[this.device[r]]] ? this.latest[r - 1] : this.begin;
    const free =
      this.laneOf[this.device[Math.max(0, r - 1)]] === this.laneOf[this.device[r]]
        ? first
        : this.begin;
    const ended = Math.min(
      start,
      Math.max(this.begin, ...parents.filter((d) => d.taken).map((d) => this.finish[d.from])),
    );
    const there = Math.min(
      start,
      Math.max(ended, ...parents.filter((d) => d.taken).map((d) => d.arrival)),
    );
    const queue = free > there ? "the device is busy" : "it waits";
    return [
      ["parents run", this.begin, ended],
      ["data moves", ended, there],
      [queue, there, start],
      ["it runs", start, this.finish[r]],
    ].filter(([, a, b]) => b > a);
  }

  // Busy devices over time, in bins: the picture above the chart.
  load(bins) {
    const busy = new Float64Array(bins),
      width = (this.end - this.begin) / bins || 1;
    for (let r = 0; r < this.n; r++) {
      if (this.slot[r] > 0) continue;
      const a = (this.start[r] - this.begin) / width,
        b = (this.finish[r] - this.begin) / width;
      const last = Math.min(bins - 1, Math.floor(b));
      for (let k = Math.max(0, Math.floor(a)); k <= last; k++)
        busy[k] += Math.max(0, Math.min(b, k + 1) - Math.max(a, k));
    }
    return busy.map((x) => x / this.lanes.length);
  }

  waited(r) {
    const kind = this.cause(r),
      source = this.source[r];
    return source < 0 || kind === "decision"
      ? kind
      : `${{ input: "data of", device: "its device, after" }[kind] ?? kind} ${this.name(source)}`;
  }

  facts(r) {
    const facts = [
      ["kind", this.kinds[this.kind[r]]],
      ["device", this.deviceName(this.device[r])],
    ];
    if (this.grouped) facts.push(["node", this.data.devices.nodes[this.device[r]]]);
    if (this.template.length > 1)
      facts.push(["job", `${this.job[r]} (${this.templates[this.template[this.job[r]]].name})`]);
    facts.push(["start", formatTime(this.start[r])], ["finish", formatTime(this.finish[r])]);
    facts.push(["duration", formatTime(this.finish[r] - this.start[r])]);
    if (this.why && this.why.kind[r] !== undefined) facts.push(["waited for", this.waited(r)]);
    if (this.size[r] > 1) facts.push(["batch", `${this.size[r]} together (no. ${this.batch[r]})`]);
    if (this.copy[r]) facts.push(["copy", "yes, runs elsewhere too"]);
    if (this.status[r] !== DONE) facts.push(["status", STATUS[this.status[r]]]);
    return facts;
  }
}
