"""Routers by predicted completion, on their own and in the real packages."""

import asyncio
import importlib.util

import pytest

from tests.support.waiting import WAIT_LIMIT
from weft.runtime.routers.online_times import HALF_LIFE, LEAST, OnlineTimes


def with_answers(speeds):
    times = OnlineTimes(clock=lambda: 0.0)
    for k in range(LEAST):
        for server, seconds in speeds.items():
            times.answered(times.sent(server, at=10.0 * k), at=10.0 * k + seconds)
    return times, 10.0 * (LEAST - 1) + max(speeds.values())


def test_one_at_a_time_waits_for_those_before():
    times, now = with_answers({"fast": 1.0})
    for _ in range(3):
        times.sent("fast", at=now)
    assert times.predicted("fast", at=now) == 4.0  # three before it, and itself


def test_many_at_a_time_take_the_time_of_one():
    times = OnlineTimes(clock=lambda: 0.0)
    sent = [times.sent("wide", at=0.0) for _ in range(9)]
    for request in sent:
        times.answered(request, at=3.0)  # all answers come together
    for _ in range(5):
        times.sent("wide", at=3.0)
    assert times.predicted("wide", at=3.0) == pytest.approx(3.0)


def test_slow_server_is_used_when_the_fast_one_has_enough():
    times, now = with_answers({"fast": 1.0, "slow": 4.0})
    chosen = []
    for _ in range(10):
        chosen.append(times.best(["fast", "slow"], at=now))
        times.sent(chosen[-1], at=now)
    assert chosen[0] == "fast"
    assert 2 <= chosen.count("slow") <= 4


def test_sizes_count():
    times, now = with_answers({"fast": 1.0, "slow": 4.0})
    times.sent("fast", 10.0, at=now)
    assert times.predicted("fast", 1.0, at=now) == 11.0
    assert times.best(["fast", "slow"], 1.0, at=now) == "slow"  # 4 s, not 11 s
    assert times.best(["fast", "slow"], 10.0, at=now) == "fast"  # 20 s, not 40 s


def test_new_server_is_tried_first_and_a_cold_start_does_not_count():
    times, now = with_answers({"fast": 1.0})
    for k, seconds in enumerate([50.0, 0.5, 0.5]):
        at = now + 100.0 * k
        times.answered(times.sent("fast", at=at), at=at + 1.0)
        assert times.best(["fast", "new"], at=at + 1.0) == "new"
        times.answered(times.sent("new", at=at + 1.0), at=at + 1.0 + seconds)
    assert times.predicted("new", at=now + 201.5) == pytest.approx(0.5)


def test_idle_server_is_tried_again_after_a_while():
    times, now = with_answers({"fast": 1.0, "slow": 4.0})
    later = now + 3 * HALF_LIFE
    times.answered(times.sent("fast", at=later - 1.0), at=later)
    assert times.best(["fast", "slow"], at=later) == "slow"


def test_failed_and_dropped_requests_leave_nothing():
    times, now = with_answers({"fast": 1.0})
    request = times.sent("fast", at=now)
    times.answered(request, good=False, at=now + 60.0)
    assert times.predicted("fast", at=now + 60.0) == 1.0
    late = times.sent("fast", at=now)
    times.drop("fast")
    times.answered(late, at=now)
    assert times.predicted("fast", at=now) == 0.0


def test_fast_server_is_kept_free_for_those_to_come():
    """0.8 requests per second, of size 1, on servers of speed 1 and 0.25.

    Speeds are 1 and 0.25, so free capacity goes by their roots, 2 to 1: 0.3 and 0.15, and the rates
    are 0.7 and 0.1. A request costs its own 1 s, and 0.7 / (2 * 0.3) * 1 s for those to come.
    """
    times, now = with_answers({"fast": 1.0, "slow": 4.0})
    times._since, times._recent, times._recent_size = now, 8.0, 8.0
    times._servers["fast"].last = now  # it answered just now
    rates = times._rates(now)
    assert rates == pytest.approx({"fast": 0.7, "slow": 0.1})
    assert times._cost("fast", 1.0, now, rates) == pytest.approx(1.0 + 0.7 / 0.6)


# -- real packages --------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")  # of the package and what it imports
def test_litellm_prefers_the_deployment_that_answers_first(monkeypatch):
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # it would ask the network
    litellm = pytest.importorskip(
        "litellm", reason="not installed: pip install 'weft-scheduling[routers]'"
    )
    from weft.runtime.routers.litellm_strategy import CompletionStrategy

    def deployment(name, delay):
        options = {"model": f"openai/{name}", "api_key": "none", "mock_response": name}
        return {"model_name": "m", "litellm_params": {**options, "mock_delay": delay}}

    router = litellm.Router(model_list=[deployment("fast", 0.0), deployment("slow", 3.0)])
    strategy = CompletionStrategy(router)
    strategy.install()

    async def answers(count):
        found = []
        for _ in range(count):
            messages = [{"role": "user", "content": "hello"}]
            answer = await router.acompletion(model="m", messages=messages)
            found.append(answer.choices[0].message.content)
            while strategy._sent:  # noqa: ASYNC110  # callbacks come later, without an event
                await asyncio.sleep(0.01)
        return found

    found = asyncio.run(answers(16))
    assert found.count("slow") == LEAST
    assert set(found[-8:]) == {"fast"}


@pytest.mark.filterwarnings("ignore")  # of the package and what it imports
def test_ray_serve_prefers_the_replica_that_answers_first(tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed")
    for needed in ("grpc", "fastapi"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip("Ray Serve is not installed: pip install 'weft-scheduling[routers]'")
    import ray
    from ray import serve
    from ray.serve.config import RequestRouterConfig

    class Replica:
        def __init__(self):
            self.slow = (tmp_path / "first").exists()
            (tmp_path / "first").touch()

        async def __call__(self):
            await asyncio.sleep(4.0 if self.slow else 0.0)
            return self.slow

    router = "weft.runtime.routers.ray_serve:CompletionRouter"
    made = serve.deployment(
        num_replicas=2,
        ray_actor_options={"num_cpus": 0},
        request_router_config=RequestRouterConfig(request_router_class=router),
    )
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        handle = serve.run(made(Replica).bind(), route_prefix=None)
        slow = [handle.remote().result(timeout_s=WAIT_LIMIT) for _ in range(20)]
    finally:
        serve.shutdown()
        ray.shutdown()
    assert sum(slow) <= LEAST + 1
    assert not any(slow[-8:])
