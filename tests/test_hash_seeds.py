"""The order of a set depends on PYTHONHASHSEED; no plan may."""

from __future__ import annotations

from tests.support.programs import run_python

SCRIPT = """
import hashlib, sys
import weft
from weft.generators import generate, generate_problem, gpu_cluster

problems = [
    generate_problem("layered", "2xV100+2xT4", tasks=40, seed=3),
    weft.Problem.bind(generate("cholesky", tiles=4), gpu_cluster("3xT4")),
]
for name in weft.list_planners():
    digest = hashlib.sha256()
    for problem in problems:
        for column in weft.plan(problem, name, seed=5).schedule.to_arrays().values():
            digest.update(column.tobytes())
    print(name, digest.hexdigest())
"""


def _digests(hash_seed: int) -> dict[str, str]:
    done = run_python("-c", SCRIPT, PYTHONHASHSEED=str(hash_seed))
    return dict(line.split() for line in done.stdout.splitlines())


def test_every_planner_gives_the_same_bytes_under_two_hash_seeds():
    one, other = _digests(0), _digests(4242)
    assert len(one) > 10
    assert one == other
