"""Networks for conditional streams that decide by a `View`, simulated or real.

The observation equals that of `weft.sim.vector.observation`, number by number; a test compares
them.
"""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from weft.errors import InvalidInput, Unsupported
from weft.model import Workload
from weft.model.columns import BoolArray, FloatArray, IntArray, Numbers
from weft.policies.conditional.evaluate import options_of, reads_pairs
from weft.policies.conditional.networks import Network, choose, working_space
from weft.policies.conditional.pair_network import PairPolicy
from weft.policies.conditional.trained_network import TrainedNetwork
from weft.policies.conditional.view_policy import UnitPolicy, chosen_kinds
from weft.policies.load import load_kind
from weft.sim.renumbering import Renumbering
from weft.sim.view import Policy, View


def nothing_due(view: View) -> bool:
    """Return whether waiting would never end: no unit is busy and no job will arrive.

    A unit that waits for data is busy; one that is down is not.
    """
    return bool(
        (view.idle | np.isinf(view.free_at)).all()
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
        """Return the action of each unit: a kind, or the number of kinds to wait.

        `weft/Conditional-v0` has the mask, the tasks that remain in each queue and the capacity of
        each unit in `info`; the mask may be flat.
        """
        n, kinds = self.network, self.network.actions - 1
        if np.shape(mask) == (n.units * n.actions,):
            mask = np.reshape(mask, (n.units, n.actions))
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
        """Return the last batch of each unit, and the estimates with their tasks."""
        return {
            **super().state(),
            "estimate": self._estimate.tolist(),
            "counted": list(self._counted),
            "reported": np.flatnonzero(self._reported).tolist(),
        }

    def resume(self, state: dict[str, Any], numbers: Renumbering) -> None:
        """Go on from a state, after `begin`."""
        super().resume(state, numbers)
        self._estimate[:], self._counted = state["estimate"], list(state["counted"])
        self._reported[numbers.of(state["reported"])] = True

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
        self._deciding: dict[tuple[int, int], list[int]] = {}
        """(problem, task) -> places of its choices in the list of watched ones."""
        for at, (template, task, *_) in enumerate(self._watched):
            self._deciding.setdefault((template, task), []).append(at)
        self._reported = np.zeros(workload.instances, bool)

    def _watched_names(self) -> list[str] | None:
        """Return the tasks whose choices are estimated; None: all."""
        names: list[str] = self.learned.observation.get("watched", [])
        return names

    def _learn_outcomes(self, view: View) -> None:
        """Update the estimates by new outcomes, in the order in which tasks finished."""
        if view.outcome is None:
            return
        new = np.flatnonzero((view.ran_on >= 0) & ~self._reported)
        if not len(new):
            return
        self._reported[new] = True
        for instance in new[np.lexsort((view.ran_on[new], view.finished_at[new]))].tolist():
            job, task = view.workload.task_of(instance)
            for at in self._deciding.get((int(view.workload.template[job]), task), ()):
                _, _, choice, branches, slot = self._watched[at]
                branch = int(view.outcome[int(view.workload.first_choice[job]) + choice])
                self._learn(at, branch, slice(slot, slot + branches - 1))

    def _learn(self, at: int, branch: int, slots: slice) -> None:
        """Move the estimates of a choice towards the branch that was taken."""
        self._counted[at] += 1
        weight = max(1.0 / (self._counted[at] + self.options.prior), 1.0 / self.options.window)
        for b in range(slots.stop - slots.start):
            taken = 1.0 if branch == b else 0.0
            self._estimate[slots.start + b] += weight * (taken - self._estimate[slots.start + b])

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


def load_network(policy: str | PathLike[str] | Policy | TrainedNetwork) -> TrainedNetwork:
    """Load the network of a policy for one stream, by name, path or object.

    Examples
    --------
    >>> load_network("conditional-pi4").network.sizes.tolist()
    [31, 64, 64, 28]
    """
    refusal = (
        "has no network for one stream; use 'conditional-best', 'conditional-pi4' or one that "
        "weft train conditional wrote"
    )
    if not isinstance(policy, TrainedNetwork):
        policy = load_kind(policy, NetworkPolicy, refusal).learned
    if reads_pairs(policy):
        raise Unsupported(f"policy '{policy.name}' {refusal}")
    return policy
