"""A learned policy behind the protocol of all policies: it sees a `View`, from a simulation or a real run, and decides.

The observation is the one of `weft.sim.steps`, number by number, read from the view; a test holds the two together.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from weft.errors import Unsupported
from weft.model import Workload
from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.policies.files import Learned, find_policy, read_policy
from weft.policies.networks import Network, Numbers, choose, working_space
from weft.policies.playing import options_of
from weft.sim.view import Decision, View


def load_policy(name_or_path: str | Path = "conditional") -> LearnedPolicy:
    """Load a learned policy that comes with weft, by name, or one from a file (see `weft train`). Loading runs no code.

    "conditional" is the best one for the stream `conditional-paper`.

    Examples
    --------
    >>> policy = load_policy("conditional-pi4")
    >>> policy.network.sizes.tolist(), policy.learned.training["algorithm"]
    ([31, 64, 64, 28], 'PPO with masked actions (weft.learn.ppo)')
    """
    return LearnedPolicy(read_policy(find_policy(name_or_path)))


class LearnedPolicy:
    """A network at work. Waiting is until the next event.

    Parameters
    ----------
    learned : the network and its card
    tick : seconds in one unit of the workload's clock
    """

    def __init__(self, learned: Learned, *, tick: float = 1.0) -> None:
        self.learned, self.tick = learned, tick
        self.options = options_of(learned)
        self._space = working_space(learned.network)

    @property
    def name(self) -> str:
        """What it is called."""
        return self.learned.name

    @property
    def network(self) -> Network:
        """The arrays it acts through."""
        return self.learned.network

    def act(self, observation: Numbers, mask: BoolArray, remaining: IntArray, capacity: IntArray) -> IntArray:
        """Return the action of each unit: a kind, or the number of kinds to wait."""
        action = np.zeros(self.network.units, np.int64)
        seen = np.ascontiguousarray(observation, dtype=np.float32)
        choose(self.network, seen, mask, np.array(remaining, np.int64), np.asarray(capacity, np.int64), self._space, action)
        return action

    def begin(self, workload: Workload, *, seed: int = 0) -> None:  # noqa: ARG002
        """Forget all estimates."""
        kinds = [np.array([workload.kinds.index(k) for k in p.workflow.kinds], np.int64)[p.workflow.kind] for p in workload.problems]
        self._kind = np.concatenate([np.zeros(0, np.int64), *(kinds[t] for t in workload.template)])
        self._arrival = np.repeat(workload.arrival, np.diff(workload.first_instance))
        quickest = np.concatenate([problem.durations().min(axis=1) for problem in workload.problems])
        self._typical = max(float(np.median(quickest)), 1e-12)
        self._capacity = np.asarray(workload.cluster.batch, np.int64).copy()
        self._members = np.ones(workload.cluster.p, np.int64)
        self._pending: list[tuple[int, int]] | None = None
        self._moment = -np.inf
        self._watch_choices(workload)
        self._check_fits(workload)

    def decide(self, view: View) -> Decision | None:
        """Choose for all idle units at once, then commit one by one."""
        if self._pending is None or view.now != self._moment:  # nobody asks again once nothing is ready
            self._pending, self._moment = self._choose(view), view.now
        while self._pending:
            device, kind = self._pending.pop(0)
            ready = view.ready[self._kind[view.ready] == kind]
            if len(ready):
                self._members[device] = min(len(ready), int(self._capacity[device]))
                return Decision(int(ready[0]), device)
        self._pending = None
        return None

    def _choose(self, view: View) -> list[tuple[int, int]]:
        self._learn_outcomes(view)
        if not view.idle.any():
            return []
        mask = self._mask(view)
        queue = np.bincount(self._kind[view.ready], minlength=len(view.workload.kinds))
        action = self.act(self.observe(view), mask, queue, self._capacity)
        return [(d, int(action[d])) for d in np.flatnonzero(view.idle).tolist() if action[d] < len(queue)]

    def _mask(self, view: View) -> BoolArray:
        kinds = len(view.workload.kinds)
        mask = np.zeros((self.network.units, kinds + 1), np.bool_)
        mask[:, kinds] = True
        for k in np.unique(self._kind[view.ready]).tolist():
            first = int(view.ready[self._kind[view.ready] == k][0])
            for d in np.flatnonzero(view.idle).tolist():
                mask[d, k] = view.duration(first, d) < np.inf
        nothing_due = (view.running < 0).all() and len(view.jobs) and view.jobs[-1] == view.workload.jobs - 1
        mask[mask[:, :kinds].any(axis=1), kinds] = not nothing_due
        return mask

    def observe(self, view: View) -> Numbers:
        """Return what the network reads, from a view."""
        o = self.options
        kinds = len(view.workload.kinds)
        queue, mean, first = np.zeros(kinds), np.zeros(kinds), np.zeros((kinds, o.ages))
        for k in range(kinds):
            mine = view.ready[self._kind[view.ready] == k]
            age = view.now - self._arrival[mine]
            queue[k] = min(len(mine) / o.queue_scale, 1.0)
            if len(mine):
                # Sums in the order of addition, as the compiled twin has them.
                mean[k] = min(sum(age.tolist()) / len(mine) * (self.tick / o.age_scale), 1.0)
                first[k, : min(o.ages, len(mine))] = np.minimum(age[: o.ages] * (self.tick / o.age_scale), 1.0)
        parts = [queue, mean, first.reshape(-1)]
        if o.estimate:
            parts.append(self._estimate)
        if o.units:
            parts.append(self._units(view))
        return np.concatenate(parts).astype(np.float32)

    def _units(self, view: View) -> FloatArray:
        kinds = len(view.workload.kinds)
        rows = np.zeros((len(view.idle), 1 + kinds))
        for d in range(len(rows)):
            busy = max(float(view.free_at[d]) - view.now, 0.0)
            rows[d, 0] = busy / (busy + self._typical) if busy < np.inf else 1.0
            if view.running[d] >= 0:
                rows[d, 1 + self._kind[view.running[d]]] = self._members[d] / self._capacity[d] if self.options.detail else 1.0
        more = [min(len(view.jobs) / self.options.queue_scale, 1.0)]
        if self.options.detail:
            came = int(np.searchsorted(view.workload.arrival, view.now, side="right")) - 1  # of those that came: nothing of what will
            ago = view.now - float(view.workload.arrival[came]) if came >= 0 else 0.0
            more.append(ago / (ago + self._typical))
        return np.concatenate((rows.reshape(-1), more))

    def _watch_choices(self, workload: Workload) -> None:
        """Find the choices to estimate, by the names of their tasks, in every problem."""
        self._watched: list[tuple[int, int, int, int, int]] = []  # template, task, choice, branches, slot
        slots = 0
        names = self.learned.observation.get("watched", [])
        for template, problem in enumerate(workload.problems):
            w = problem.workflow
            for c in np.argsort(w.choices.task, kind="stable").tolist():
                if w.task_name(int(w.choices.task[c])) in names:
                    branches = len(w.choices.branches(c))
                    self._watched.append((template, int(w.choices.task[c]), c, branches, slots))
                    slots += branches - 1
        priors = [np.full(branches - 1, 1.0 / branches) for _, _, _, branches, _ in self._watched]
        self._estimate = np.concatenate([np.zeros(0), *priors])
        self._counted = [0] * len(self._watched)
        self._open = {j: [entry for entry in self._watched if entry[0] == workload.template[j]] for j in range(workload.jobs)}

    def _learn_outcomes(self, view: View) -> None:
        """Take in the outcomes that have become known, in the order in which tasks finished."""
        if view.outcome is None:
            return
        news = []
        for job in [j for j in self._open if self._open[j]]:
            if job > (view.jobs[-1] if len(view.jobs) else -1) and not np.isfinite(view.finished_at[view.workload.first_instance[job]]):
                break  # jobs are in order of arrival: the rest has not come yet
            for entry in list(self._open[job]):
                instance = int(view.workload.first_instance[job]) + entry[1]
                done = view.finished_at[instance]
                if np.isfinite(done):
                    news.append((float(done), int(view.ran_on[instance]), instance, job, entry))
                    self._open[job].remove(entry)
        for *_, job, entry in sorted(news, key=lambda n: n[:3]):
            at = self._watched.index(entry)
            self._counted[at] += 1
            weight = max(1.0 / (self._counted[at] + self.options.prior), 1.0 / self.options.window)
            branch = int(view.outcome[int(view.workload.first_choice[job]) + entry[2]])
            for b in range(entry[3] - 1):
                self._estimate[entry[4] + b] += weight * ((1.0 if branch == b else 0.0) - self._estimate[entry[4] + b])

    def _check_fits(self, workload: Workload) -> None:
        kinds, units = len(workload.kinds), workload.cluster.p
        o = self.options
        size = kinds * (2 + o.ages) + (len(self._estimate) if o.estimate else 0) + (units * (1 + kinds) + 1 + o.detail if o.units else 0)
        if (units, kinds + 1, size) != (self.network.units, self.network.actions, self.network.sizes[0]):
            raise Unsupported(
                f"policy '{self.name}' is for {self.network.units} units and {self.network.actions - 1} kinds of task; "
                f"workload '{workload.name}' has {units} and {kinds}; train one for it: weft train"
            )
