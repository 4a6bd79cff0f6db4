"""The known end of a queue equals the computed one after any event."""

from __future__ import annotations

import numpy as np
import pytest

from weft.model import Problem, Workload
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.sim.lifecycle import Lifecycle


@pytest.mark.parametrize("seed", range(6))
def test_the_known_end_of_a_queue_is_the_computed_one(seed):
    """Commits, copies, starts, ends, losses, slower devices and a cancelled job, at random.

    Whole numbers make queues begin again at the same time.
    """
    rng = np.random.default_rng(seed)
    edges = [(u, v) for v in range(4, 24) for u in {v // 2, int(rng.integers(v // 2, v))} if u < v]
    cost, data = rng.integers(1, 4, (24, 3)), rng.integers(1, 20, len(edges))
    problem = Problem.from_arrays(cost, edges, data, bandwidth=1.0)
    life, now, copies = LiveLifecycle(Workload.of([problem] * 3), modelled=True), 0.0, 0
    for job in range(3):
        life.arrive(job, now)
    for step in range(300):
        d = int(rng.integers(3))
        event, running = rng.random(), life.machines[d].running
        if event < 0.5 and life.ready:
            i = life.ready[int(rng.integers(len(life.ready)))]
            parents = [p for p, _ in life.inputs[i] if not life.copy_refusal(p, i, d)]
            if parents and rng.random() < 0.5:
                life.commit_with_copy([i], d, now, parents[0])
                copies += 1
            else:
                life.commit([i], d, now)
        elif event < 0.55:
            life.change_slowdown(d, float(rng.choice([1.0, 2.0])), now)
        elif event < 0.6 and running is not None:
            life.lose(d, now)
        elif running is not None:
            now = max(now, running.expected - float(rng.integers(3)))
            life.finish(d, now)
        if step == 200:
            life.cancel(1, now)
        life.start_due(d, now)
        for device in range(3):
            for time in (now, now + 0.5, now):
                assert life.free_at(device, time) == Lifecycle.free_at(life, device, time)
    assert copies > 0
