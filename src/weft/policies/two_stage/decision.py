"""The decision that is due: its candidates, their features, and the rewards."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.model.columns import FloatArray, IntArray
from weft.sim.kernel.records import record
from weft.sim.kernel.tables import RecordTable, Sim

TASK, DEVICE = 0, 1
"""Stages of a decision."""


class TaskFeatures(NamedTuple):
    """Places of the features of a candidate task, or of waiting."""

    planned: int  # 1: the plan starts it now
    delay: int  # planned start; of waiting, the next end of a running task
    rank: int  # relative to the highest
    urgency: int  # key of the job and rank, below the highest
    duration: int  # logarithm, relative to the mean of the ready tasks
    least: int  # least / mean duration
    later: int  # earliest finish on an idle device, after the planned one
    children: int
    slack: int  # seconds to the deadline
    age: int  # of the job
    left: int  # share of the job that is unfinished
    opens: int  # children that wait for this task alone
    joins: int  # largest share of the parents of a child that have ended
    transfer: int  # to the child with the highest rank, relative to the duration
    depth: int  # share of the critical path of the job that is behind the task
    ready: int  # ready tasks per device
    idle: int  # share of the devices that are idle
    jobs: int  # number of jobs present
    none: int  # 1: wait
    one: int


class DeviceFeatures(NamedTuple):
    """Places of the features of a candidate device, or of holding the task."""

    planned: int  # 1: the plan starts the task there now
    chosen: int  # 1: the plan has the task there; of holding, the delay of the planned start
    later: int  # finish there, after the planned one
    wait: int  # for inputs
    longer: int  # its duration there above the least one
    ahead: int  # optimistic remainder there, against that on the planned device
    delays: int  # how long the first planned task of the device would wait
    other_rank: int  # of that task, relative to the rank of this one
    other_ready: int  # 1: that task is ready
    slowed: int  # present slowdown of the device
    bias: int  # expected / estimated duration
    near: int  # share of the parents that ran there
    copy: int  # 1: a copy of a parent there comes before its data
    elsewhere: int  # earliest finish on a busy device, after the finish there
    speed: int  # least duration / duration there
    ready: int
    idle: int
    jobs: int
    none: int  # 1: hold
    one: int


FEATURES = len(TaskFeatures._fields)


OF_TASK, OF_DEVICE = TaskFeatures(*range(FEATURES)), DeviceFeatures(*range(FEATURES))


OWN_FEATURES = OF_TASK.ready
"""Features before this place differ between the candidates of a decision; the others do not."""


class Rewards(NamedTuple):
    """Reward terms, in mean critical paths; all but the first are at most zero."""

    promise: int  # minus the change of the predicted completions, see above
    elapsed: int  # minus the elapsed time; the next three are factors of it
    idle: int  # share of idle devices
    imbalance: int  # standard deviation of being busy over the devices
    late: int  # jobs past their deadline
    energy: int  # power of the busy devices, as a share of all


REWARD = Rewards(*range(len(Rewards._fields)))


REWARDS = Rewards._fields


FeatureRows = NDArray[np.float32]


CANDIDATES_STATE = record("", "stage task count ready idle busy jobs")
"""Stage of the decision; chosen task; candidates; ready tasks; idle and busy devices; jobs."""


class Candidates(NamedTuple):
    """The decision that is due, and its candidates."""

    state: RecordTable  # (1,)
    ready: IntArray  # (instances,) ready tasks that are not held
    idle: IntArray  # (p,) 1: idle
    item: IntArray  # (most candidates,) a task or a device; -1: wait, or hold
    feature: FeatureRows  # (most candidates, FEATURES)
    predicted: FloatArray  # (jobs,) finish by the last plan; NaN: not present
    reward: FloatArray  # (rewards,) since the last decision


def make_candidates(sim: Sim) -> Candidates:
    """Allocate the candidates of a simulation."""
    instances, p, jobs = len(sim.inst), len(sim.device), len(sim.job) - 1
    most = max(instances, p) + 1
    return Candidates(
        state=np.zeros(1, CANDIDATES_STATE),
        ready=np.zeros(max(instances, 1), np.int64),
        idle=np.zeros(p, np.int64),
        item=np.zeros(most, np.int64),
        feature=np.zeros((most, FEATURES), np.float32),
        predicted=np.full(jobs, np.nan),
        reward=np.zeros(len(REWARDS)),
    )


def candidates_of(feature: FeatureRows, stage: int) -> Candidates:
    """Return the candidates of these features, numbered by row, as networks read them."""
    count = len(feature)
    state = np.zeros(1, CANDIDATES_STATE)
    state["stage"], state["count"] = stage, count
    return Candidates(
        state=state,
        ready=np.zeros(0, np.int64),
        idle=np.zeros(0, np.int64),
        item=np.where(feature[:, OF_TASK.none] == 1.0, -1, np.arange(count)),
        feature=feature,
        predicted=np.zeros(0),
        reward=np.zeros(len(REWARDS)),
    )
