"""Steps of a conditional stream in plain Python: the slow twin of `weft.sim.vector`."""

import numpy as np

from weft.model.conditional_stream import ticked


class SlowSteps:
    def __init__(
        self, stream, arrival, outcome, *, waiting="block", idle=10.0, prior=2.0, window=np.inf
    ):
        self.stream, self.arrival, self.outcome = stream, arrival, outcome
        self.blocking, self.idle, self.prior, self.window = waiting == "block", idle, prior, window
        self.problem = ticked(stream.problem, stream.tick)
        w = self.workflow = self.problem.workflow
        self.n, self.units, self.kinds = w.n, self.problem.p, len(w.kinds)
        self.seconds = self.problem.durations()
        self.kind = [int(k) for k in w.kind]
        self.batch = [int(b) for b in self.problem.cluster.batch]
        jobs = len(arrival)
        self.pending = [[int(x) for x in np.diff(w.pred_ptr)] for _ in range(jobs)]
        self.taken = [[0] * self.n for _ in range(jobs)]
        self.left = [self.n] * jobs
        self.finish = np.full(jobs, np.nan)
        self.ready = []  # (job, task), kept sorted: oldest job first
        self.group = [None] * self.units
        self.free = [-np.inf] * self.units
        self.now, self.next_job, self.cost = 0.0, 0, 0.0
        self.estimate = {
            c: [1.0 / len(w.choices.branches(c))] * (len(w.choices.branches(c)) - 1)
            for c in stream.watched
        }
        self.seen = dict.fromkeys(stream.watched, 0)

    # -- a step --

    def begin(self):
        return self._proceed()

    def step(self, actions):
        for d in range(self.units):
            if not self.is_idle(d):
                continue
            if actions[d] == self.kinds:
                if self.blocking:
                    self.free[d] = self.now + self.idle
                continue
            queue = [
                x
                for x in self.ready
                if self.kind[x[1]] == actions[d] and self.seconds[x[1], d] < np.inf
            ][: self.batch[d]]
            if queue:
                self.ready = [x for x in self.ready if x not in queue]
                self.group[d] = queue
                self.free[d] = self.now + max(self.seconds[t, d] for _, t in queue)
        return self._proceed()

    def is_idle(self, d):
        return self.group[d] is None and self.free[d] <= self.now

    def _proceed(self):
        self.cost, begin = 0.0, self.now
        while True:
            at = self._next()
            if at == np.inf and self.blocking:
                self.free = [f if f > self.now else self.now + self.idle for f in self.free]
                at = min(self.free)
            if at == np.inf:
                return "stuck"
            here = self.next_job - int((~np.isnan(self.finish)).sum())
            self.cost += (at - self.now) * here
            self.now = at
            self._moment()
            if not np.isnan(self.finish).any():
                self.elapsed = self.now - begin
                return "ended"
            if (
                self.ready
                and any(self.is_idle(d) for d in range(self.units))
                and self._next() > self.now
            ):
                self.elapsed = self.now - begin
                return "decide"

    def _next(self):
        due = [self.free[d] for d in range(self.units) if self.group[d] is not None]
        return min(
            [*due, self.arrival[self.next_job] if self.next_job < len(self.arrival) else np.inf],
            default=np.inf,
        )

    def _moment(self):
        ended = [
            d for d in range(self.units) if self.group[d] is not None and self.free[d] == self.now
        ]
        for d in ended:
            members, self.group[d] = self.group[d], None
            for job, task in members:
                self._learn(job, task)
                self._settle(job, task, alive=True)
        while self.next_job < len(self.arrival) and self.arrival[self.next_job] == self.now:
            self.ready += [
                (self.next_job, t) for t in range(self.n) if self.pending[self.next_job][t] == 0
            ]
            self.next_job += 1
        self.ready.sort()

    def _settle(self, job, task, *, alive):
        w, choices = self.workflow, self.workflow.choices
        self.left[job] -= 1
        for e in range(int(w.succ_ptr[task]), int(w.succ_ptr[task + 1])):
            v, c = int(w.dst[e]), int(choices.edge_choice[e])
            self.pending[job][v] -= 1
            self.taken[job][v] += alive and (
                c < 0 or self.outcome[job, c] == choices.edge_branch[e]
            )
            if self.pending[job][v] == 0:
                if self.taken[job][v]:
                    self.ready.append((job, v))
                else:
                    self._settle(job, v, alive=False)
        if self.left[job] == 0:
            self.finish[job] = self.now

    def _learn(self, job, task):
        for c in self.stream.watched:
            if self.workflow.choices.task[c] == task:
                self.seen[c] += 1
                weight = max(1.0 / (self.seen[c] + self.prior), 1.0 / self.window)
                self.estimate[c] = [
                    p + weight * ((self.outcome[job, c] == b) - p)
                    for b, p in enumerate(self.estimate[c])
                ]

    # -- what is seen --

    def observation(self, *, ages=3):
        by_kind = [
            [self.now - self.arrival[j] for j, t in self.ready if self.kind[t] == k]
            for k in range(self.kinds)
        ]
        scale = self.stream.tick / 5.0
        length = [min(len(q) / 50, 1.0) for q in by_kind]
        mean = [min(sum(q) / len(q) * scale, 1.0) if q else 0.0 for q in by_kind]
        first = [
            min(q[i] * scale, 1.0) if i < len(q) else 0.0 for q in by_kind for i in range(ages)
        ]
        owner = self.workflow.choices.task
        return np.array(
            [
                *length,
                *mean,
                *first,
                *(
                    p
                    for c in sorted(self.estimate, key=lambda c: owner[c])
                    for p in self.estimate[c]
                ),
            ]
        )

    def mask(self):
        rows = []
        for d in range(self.units):
            can = [
                self.is_idle(d)
                and any(self.kind[t] == k and self.seconds[t, d] < np.inf for _, t in self.ready)
                for k in range(self.kinds)
            ]
            rows += [*can, self.blocking or self._next() < np.inf or not any(can)]
        return np.array(rows)
