"""Graph networks that rate ready tasks: compiled passes over plain arrays.

After Decima (Mao et al., SIGCOMM 2019, section 5.1) and Lachesis (Luo et al. 2021, arXiv
2103.06980), as we read them. The embedding of a task v comes from its own features and its
children's embeddings, from the leaves up:

    e_v = prepare(x_v) + update(mean over children u of message(e_u))

A job has a summary over its unfinished tasks, y_j = job_update(sum of job_message([prepare(x_v),
e_v]) / tasks of the job), all jobs in the system together z = all_update(mean of all_message(y_j)),
and the rating of a ready task is score([present features, e_v, y_j, z]). The same weights serve any
number of tasks, jobs and devices.

Ours: means where the papers have sums (sums over many children grow without limit in deep, dense
graphs); small ReLU networks; task features relative to the job's own mean, so that the unit of time
does not matter. x_v does not change before a task runs, so embeddings are computed once per
problem; summaries and present features are computed at every event. Decima has mean durations and
ranks, and no features of devices. Lachesis also has features of the devices and transfers, and the
placement by DEFT.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from weft.errors import InvalidInput
from weft.model.columns import Numbers
from weft.policies.conditional.networks import Network, arrays_of, network_of

WIDTH, HIDDEN = 8, 16
"""Numbers in an embedding or a summary, and units of hidden layers."""

TASK_FEATURES = {"decima": 4, "lachesis": 9}
"""Number of the features of `task_features` that each kind reads, from the first on."""


class ReadyFeatures(NamedTuple):
    """Features of a ready task at present; Decima reads those before DEFT's."""

    rank: int  # relative to the highest of all ready tasks
    rank_in_job: int  # relative to the highest of the job
    work: int  # logarithm of the job's remaining work relative to the mean
    age: int  # of the job, relative to its critical path
    duration: int  # relative to the mean of the ready tasks
    ready: int  # logarithm of the number of ready tasks
    idle: int  # share of the devices that are idle
    jobs: int  # logarithm of the number of jobs present
    parallelism: int  # the job's remaining work per device, relative to the rank of the task
    deft_span: int  # seconds to the finish by DEFT, relative to the mean duration
    deft_idle: int  # 1: DEFT's device is idle
    deft_copy: int  # 1: DEFT copies a parent
    deft_share: int  # share of the duration in that span


FEATURE = ReadyFeatures(*range(len(ReadyFeatures._fields)))
SEEN = {"decima": FEATURE.deft_span, "lachesis": len(ReadyFeatures._fields)}
"""Number of present features that each kind reads."""


class GraphNetwork(NamedTuple):
    """The eight small networks of the formulas above."""

    prepare: Network
    message: Network
    update: Network
    job_message: Network
    job_update: Network
    all_message: Network
    all_update: Network
    score: Network


def layer_sizes(kind: str) -> dict[str, list[int]]:
    """Return the sizes of the layers of each part.

    Examples
    --------
    >>> layer_sizes("decima")["score"]
    [33, 32, 16, 1]
    """
    if kind not in SEEN:
        raise InvalidInput(
            f"a graph network of kind '{kind}' is not known; known: {', '.join(SEEN)}"
        )
    inner = [WIDTH, HIDDEN, WIDTH]
    return {
        "prepare": [TASK_FEATURES[kind], HIDDEN, WIDTH],
        "message": inner,
        "update": inner,
        "job_message": [2 * WIDTH, HIDDEN, WIDTH],
        "job_update": inner,
        "all_message": inner,
        "all_update": inner,
        "score": [SEEN[kind] + 3 * WIDTH, 2 * HIDDEN, HIDDEN, 1],
    }


def graph_network_of(arrays: Mapping[str, Numbers]) -> GraphNetwork:
    """Build a network from arrays named "message.0.weight", "message.0.bias", ...

    See `weft.policies.conditional.networks.network_of`.
    """
    named: dict[str, dict[str, Numbers]] = {}
    for name, array in arrays.items():
        part, _, rest = name.partition(".")
        named.setdefault(part, {})[rest] = array
    differ = sorted(set(named) ^ set(GraphNetwork._fields))
    if differ:
        raise InvalidInput(f"graph network: parts missing or not known: {', '.join(differ)}")
    network = GraphNetwork(
        *(
            network_of(_with_input(own, part), units=1, actions=_outputs(own, part))
            for part, own in ((part, named[part]) for part in GraphNetwork._fields)
        )
    )
    _check_joints(network)
    return network


def graph_arrays_of(network: GraphNetwork) -> dict[str, Numbers]:
    """Return the named arrays that `graph_network_of` takes."""
    named: dict[str, Numbers] = {}
    for part, one in zip(GraphNetwork._fields, network, strict=True):
        named |= {
            f"{part}.{name}": array
            for name, array in arrays_of(one).items()
            if not name.startswith("input.")
        }
    return named


def _with_input(own: Mapping[str, Numbers], part: str) -> dict[str, Numbers]:
    if "0.weight" not in own or own["0.weight"].ndim != 2:
        raise InvalidInput(f"graph network: '{part}.0.weight' must be a matrix")
    inputs = own["0.weight"].shape[1]
    return {
        **own,
        "input.mean": np.zeros(inputs, np.float32),
        "input.scale": np.ones(inputs, np.float32),
    }


def _outputs(own: Mapping[str, Numbers], part: str) -> int:
    last = max(int(name.split(".")[0]) for name in own if name.split(".")[0].isdigit())
    if f"{last}.bias" not in own:
        raise InvalidInput(f"graph network: '{part}.{last}.bias' is missing")
    return int(own[f"{last}.bias"].size)


def _check_joints(network: GraphNetwork) -> None:
    width = int(network.prepare.sizes[-1])
    wide = {"prepare": int(network.prepare.sizes[0]), "job_message": 2 * width}
    fits = all(
        (one.sizes[0], one.sizes[-1]) == (wide.get(part, width), width)
        for part, one in zip(GraphNetwork._fields[:-1], network[:-1], strict=True)
    )
    if not fits or network.score.sizes[-1] != 1 or network.score.sizes[0] <= 3 * width:
        raise InvalidInput(
            f"graph network: its parts do not fit together; embeddings have {width} numbers"
        )
