"""Networks for conditional streams that decide by a `View`, of a simulation or of a real run.

The observation equals that of `weft.sim.vector.step`, number by number; a test compares them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.errors import InvalidInput, Unsupported
from weft.model import Workload
from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.policies.conditional.evaluate import options_of
from weft.policies.conditional.networks import Network, Numbers, choose, working_space
from weft.policies.conditional.pair_network import SOON, PairPolicy, choose_pairs, make_pair_state
from weft.policies.conditional.trained_network import TrainedNetwork
from weft.policies.conditional.view_policy import UnitPolicy, chosen_kinds
from weft.policies.rules import task_kinds
from weft.sim.renumbering import Renumbering
from weft.sim.view import View


def nothing_due(view: View) -> bool:
    """Return whether no task runs and no job is to arrive: then waiting would never end."""
    return bool(
        (view.running < 0).all()
        and len(view.workload.arrival)
        == np.searchsorted(view.workload.arrival, view.now, side="right")
    )


class NetworkPolicy(UnitPolicy):
    """A network for one stream. Units wait until the next event.

    Parameters
    ----------
    learned : the network with its card
    tick : seconds in one unit of the workload's clock
    """

    def __init__(self, learned: TrainedNetwork, *, tick: float = 1.0) -> None:
        self.learned, self.tick, self.name = learned, tick, learned.name
        self.stepwise: TrainedNetwork | PairPolicy = learned
        self.options = options_of(learned)
        self._space = working_space(learned.network)

    @property
    def network(self) -> Network:
        """Return the arrays of the network."""
        return self.learned.network

    def act(
        self, observation: Numbers, mask: BoolArray, remaining: IntArray, capacity: IntArray
    ) -> IntArray:
        """Return the action of each unit: a kind, or the number of kinds to wait."""
        n, kinds = self.network, self.network.actions - 1
        shapes = {
            "observation": (np.shape(observation), (int(n.sizes[0]),)),
            "mask": (np.shape(mask), (n.units, n.actions)),
            "remaining": (np.shape(remaining), (kinds,)),
            "capacity": (np.shape(capacity), (n.units,)),
        }
        for what, (given, needed) in shapes.items():
            if given != needed:
                raise InvalidInput(f"{what} has shape {given}; '{self.name}' needs {needed}")
        action = np.zeros(n.units, np.int64)
        choose(
            n,
            np.ascontiguousarray(observation, dtype=np.float32),
            np.ascontiguousarray(mask, dtype=np.bool_),
            np.array(remaining, np.int64),
            np.ascontiguousarray(capacity, np.int64),
            self._space,
            action,
        )
        return action

    def begin(self, workload: Workload, *, seed: int = 0) -> None:
        """Reset all estimates."""
        self._begin_units(workload)
        self._job = np.repeat(np.arange(workload.jobs), np.diff(workload.first_instance))
        quickest = np.concatenate(
            [problem.durations().min(axis=1) for problem in workload.problems]
        )
        self._typical = max(float(np.median(quickest)), 1e-12) if quickest.size else 1.0
        self._watch_choices(workload)
        self._check_fits(workload)

    def state(self) -> dict[str, Any]:
        """Return the last batch of each unit, and the estimates with the tasks they include."""
        return {
            **super().state(),
            "estimate": self._estimate.tolist(),
            "counted": list(self._counted),
            "reported": [
                [job, task]
                for job, left in self._open.items()
                for template, task, choice, _, _ in self._watched
                if template == self._template[job] and choice not in [entry[2] for entry in left]
            ],
        }

    def resume(self, state: dict[str, Any], numbers: Renumbering) -> None:
        """Go on from a state, after `begin`."""
        super().resume(state, numbers)
        self._estimate[:], self._counted = state["estimate"], list(state["counted"])
        new = {old: job for job, old in enumerate(numbers.jobs.tolist())}
        for old, task in state["reported"]:
            if old in new:
                job = new[old]
                self._open[job] = [entry for entry in self._open[job] if entry[1] != task]

    def _choose(self, view: View) -> list[tuple[int, int]]:
        self._learn_outcomes(view)
        if not view.idle.any():
            return []
        mask = self._mask(view)
        queue = np.bincount(self._kind[view.ready], minlength=len(view.workload.kinds))
        return chosen_kinds(view, self.act(self.observe(view), mask, queue, self._batch))

    def _mask(self, view: View) -> BoolArray:
        kinds = len(view.workload.kinds)
        mask = np.zeros((self.network.units, kinds + 1), np.bool_)
        mask[:, kinds] = True
        for k in np.unique(self._kind[view.ready]).tolist():
            first = int(view.ready[self._kind[view.ready] == k][0])
            for d in np.flatnonzero(view.idle).tolist():
                mask[d, k] = view.duration(first, d) < np.inf
        mask[mask[:, :kinds].any(axis=1), kinds] = not nothing_due(view)
        return mask

    def observe(self, view: View) -> Numbers:
        """Return the observation of a view."""
        o = self.options
        kinds = len(view.workload.kinds)
        queue, mean, first = np.zeros(kinds), np.zeros(kinds), np.zeros((kinds, o.ages))
        for k in range(kinds):
            mine = view.ready[self._kind[view.ready] == k]
            age = view.now - view.workload.arrival[self._job[mine]]
            queue[k] = min(len(mine) / o.queue_scale, 1.0)
            if len(mine):
                # The sum has the order of the compiled twin.
                mean[k] = min(sum(age.tolist()) / len(mine) * (self.tick / o.age_scale), 1.0)
                first[k, : min(o.ages, len(mine))] = np.minimum(
                    age[: o.ages] * (self.tick / o.age_scale), 1.0
                )
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
                size = len(self._members[d]) or 1
                rows[d, 1 + self._kind[view.running[d]]] = (
                    size / self._batch[d] if self.options.detail else 1.0
                )
        more = [min(len(view.jobs) / self.options.queue_scale, 1.0)]
        if self.options.detail:
            last = int(np.searchsorted(view.workload.arrival, view.now, side="right")) - 1
            ago = view.now - float(view.workload.arrival[last]) if last >= 0 else 0.0
            more.append(ago / (ago + self._typical))
        return np.concatenate((rows.reshape(-1), more))

    def _watch_choices(self, workload: Workload) -> None:
        """Find the choices to estimate, by the names of their tasks, in every problem."""
        # template, task, choice, branches, slot
        self._watched: list[tuple[int, int, int, int, int]] = []
        slots = 0
        names = self._watched_names()
        for template, problem in enumerate(workload.problems):
            w = problem.workflow
            for c in np.argsort(w.choices.task, kind="stable").tolist():
                if names is None or w.task_name(int(w.choices.task[c])) in names:
                    branches = len(w.choices.branches(c))
                    self._watched.append((template, int(w.choices.task[c]), c, branches, slots))
                    slots += branches - 1
        priors = [np.full(branches - 1, 1.0 / branches) for _, _, _, branches, _ in self._watched]
        self._estimate = np.concatenate([np.zeros(0), *priors])
        self._counted = [0] * len(self._watched)
        self._template: list[int] = workload.template.tolist()
        self._open = {
            j: [entry for entry in self._watched if entry[0] == workload.template[j]]
            for j in range(workload.jobs)
        }

    def _watched_names(self) -> list[str] | None:
        """Return the tasks whose choices are estimated; None: all."""
        names: list[str] = self.learned.observation.get("watched", [])
        return names

    def _learn_outcomes(self, view: View) -> None:
        """Update the estimates by new outcomes, in the order in which tasks finished."""
        if view.outcome is None:
            return
        news = []
        for job in [j for j in self._open if self._open[j]]:
            if job > (view.jobs[-1] if len(view.jobs) else -1) and not np.isfinite(
                view.finished_at[view.workload.first_instance[job]]
            ):
                break  # jobs are in order of arrival: later ones have not arrived
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
                self._estimate[entry[4] + b] += weight * (
                    (1.0 if branch == b else 0.0) - self._estimate[entry[4] + b]
                )

    def _check_fits(self, workload: Workload) -> None:
        kinds, units = len(workload.kinds), workload.cluster.p
        o = self.options
        size = (
            kinds * (2 + o.ages)
            + (len(self._estimate) if o.estimate else 0)
            + (units * (1 + kinds) + 1 + o.detail if o.units else 0)
        )
        if (units, kinds + 1, size) != (
            self.network.units,
            self.network.actions,
            self.network.sizes[0],
        ):
            raise Unsupported(
                f"policy '{self.name}' is for {self.network.units} units and "
                f"{self.network.actions - 1} kinds of task; workload '{workload.name}' has "
                f"{units} and {kinds}; train one for it: weft train"
            )


class PairNetworkPolicy(NetworkPolicy):
    """A network over pairs of unit and kind, for any workload. It estimates all choices."""

    def __init__(self, learned: TrainedNetwork, *, tick: float = 1.0) -> None:
        super().__init__(learned, tick=tick)
        self.stepwise = PairPolicy(learned.network, learned.name)

    def act(
        self, observation: Numbers, mask: BoolArray, remaining: IntArray, capacity: IntArray
    ) -> IntArray:
        """Refuse: this policy reads pairs of unit and kind, not one observation."""
        raise Unsupported(f"policy '{self.name}' reads no single observation; use decide")

    def begin(self, workload: Workload, *, seed: int = 0) -> None:
        """Reset all estimates."""
        super().begin(workload, seed=seed)
        tasks = [problem.n for problem in workload.problems]
        self._first_task = np.concatenate(([0], np.cumsum(tasks))).astype(np.int64)
        self._pairs = make_pair_state(workload)
        self._seconds = np.concatenate(
            [
                np.zeros((0, workload.cluster.p)),
                *(problem.durations() for problem in workload.problems),
            ]
        )
        self._remaining = np.zeros(len(self._seconds))
        self._visit = np.zeros(len(self._seconds))
        self._task_kind = np.concatenate([np.zeros(0, np.int64), *task_kinds(workload)])
        self._known: FloatArray | None = None
        self._gone = np.zeros(len(workload.problems), np.int64)

    def state(self) -> dict[str, Any]:
        """Return also how many jobs of each problem left."""
        return {**super().state(), "gone": self._gone.tolist()}

    def resume(self, state: dict[str, Any], numbers: Renumbering) -> None:
        """Go on from a state, after `begin`."""
        super().resume(state, numbers)
        known = len(state["gone"])
        self._gone[:known] = state["gone"] + numbers.gone[:known]

    def _choose(self, view: View) -> list[tuple[int, int]]:
        self._learn_outcomes(view)
        if not view.idle.any():
            return []
        self._fill(view)
        action = np.zeros(len(view.idle), np.int64)
        choose_pairs(self._pairs, self.network, self._space, action)
        return chosen_kinds(view, action)

    def _fill(self, view: View) -> None:
        """Fill in the state, as `pair_network.read_simulation` does from a simulation."""
        pairs, kinds = self._pairs, len(view.workload.kinds)
        if self._known is None or not np.array_equal(self._known, self._estimate):
            self._known = self._estimate.copy()
            self._look_ahead(view)
        pairs.idle[:] = view.idle
        pairs.busy[:] = np.where(
            np.isfinite(view.free_at), np.maximum(view.free_at - view.now, 0.0), np.inf
        )
        pairs.running[:] = np.where(view.running >= 0, self._kind[view.running], -1)
        pairs.left[:] = np.bincount(self._kind[view.ready], minlength=kinds)
        pairs.age[:] = pairs.remaining[:] = 0.0
        for k in np.flatnonzero(pairs.left).tolist():
            mine = view.ready[self._kind[view.ready] == k]
            pairs.age[k] = view.now - view.workload.arrival[self._job[mine[0]]]
            pairs.remaining[k] = self._remaining[self._task(view, int(mine[0]))]
            for d in range(len(view.idle)):
                own = [self._seconds[self._task(view, int(i)), d] for i in mine]
                pairs.duration[k, d] = next((x for x in own if x < np.inf), np.inf)
        if view.setup is not None:
            pairs.setup[:] = view.setup
        self._expect(view)
        pairs.context[0] = self._typical, len(view.jobs), not nothing_due(view)

    def _expect(self, view: View) -> None:
        """Fill in the tasks expected soon, and the tasks expected per time."""
        pairs = self._pairs
        pairs.coming[:] = pairs.flow[:] = 0.0
        for d in range(len(view.idle)):
            if view.running[d] >= 0 and pairs.busy[d] <= SOON * self._typical:
                for instance in self._members[d]:
                    job, task = view.workload.task_of(instance)
                    template = int(view.workload.template[job])
                    w = view.workload.problems[template].workflow
                    for e in range(int(w.succ_ptr[task]), int(w.succ_ptr[task + 1])):
                        pairs.coming[self._task_kind[self._first_task[template] + w.dst[e]]] += (
                            self._chance(view, template, e)
                        )
        arrived = int(np.searchsorted(view.workload.arrival, view.now, side="right"))
        share = (
            (
                np.bincount(view.workload.template[:arrived], minlength=len(view.workload.problems))
                + self._gone
            )
            / view.now
            if view.now > 0
            else None
        )
        for t in range(len(self._visit)):
            template = int(np.searchsorted(self._first_task, t, side="right")) - 1
            pairs.flow[self._task_kind[t]] += self._visit[t] * (
                share[template] if share is not None else 0.0
            )

    def _look_ahead(self, view: View) -> None:
        """Update the expected time to the end of the job, and how often a job runs each task."""
        for template, problem in enumerate(view.workload.problems):
            w, base = problem.workflow, int(self._first_task[template])
            self._visit[base : base + w.n] = np.diff(w.pred_ptr) == 0
            for t in w.order.tolist():
                for e in range(int(w.succ_ptr[t]), int(w.succ_ptr[t + 1])):
                    v = base + int(w.dst[e])
                    self._visit[v] = 1.0 - (1.0 - self._visit[v]) * (
                        1.0 - self._visit[base + t] * self._chance(view, template, e)
                    )
            for t in w.order[::-1].tolist():
                total = float(self._seconds[base + t].min())
                for e in range(int(w.succ_ptr[t]), int(w.succ_ptr[t + 1])):
                    total += self._chance(view, template, e) * float(
                        self._remaining[base + int(w.dst[e])]
                    )
                self._remaining[base + t] = total

    def _chance(self, view: View, template: int, edge: int) -> float:
        """Return the estimated probability of an edge."""
        choices = view.workload.problems[template].workflow.choices
        choice = int(choices.edge_choice[edge])
        if choice < 0:
            return 1.0
        branches, slot = self._slot[template, choice]
        branch = int(choices.edge_branch[edge])
        if branch < branches - 1:
            return float(self._estimate[slot + branch])
        rest = 1.0
        for b in range(branches - 1):
            rest -= float(self._estimate[slot + b])
        return rest

    def _task(self, view: View, instance: int) -> int:
        job, task = view.workload.task_of(instance)
        return int(self._first_task[view.workload.template[job]]) + task

    def _watched_names(self) -> None:
        return None

    def _check_fits(self, workload: Workload) -> None:
        self._slot = {
            (template, choice): (branches, slot)
            for template, _, choice, branches, slot in self._watched
        }
