"""How the engines of a lab are started."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks.lab import engines
from benchmarks.lab.faults import LIMIT
from benchmarks.lab.spec import HEAD, parse_spec


def test_all_nodes_of_ray_give_up_silent_ones_in_half_the_time_of_a_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    started: dict[str, dict[str, str]] = {}

    def start(host: str, command: list[str], *, environment: dict[str, str]) -> None:
        started[host] = environment

    lab = SimpleNamespace(
        spec=parse_spec({"host": [{"name": "a"}, {"name": "b"}]}),
        address=lambda host: f"address of {host}",
        folder=tmp_path,
        start=start,
    )
    monkeypatch.setattr(engines, "_ready", lambda *_: None)
    monkeypatch.setattr(engines, "_wait_for", lambda *_: None)
    engines.start_ray(lab)  # type: ignore[arg-type]  # records what is started
    assert list(started) == [HEAD, "a", "b"]
    for environment in started.values():
        period, timeout, checks = (
            int(environment[f"RAY_health_check_{name}"])
            for name in ("period_ms", "timeout_ms", "failure_threshold")
        )
        assert checks * (period + timeout) / 1000 <= LIMIT / 2
        assert checks > 3  # a host with a tenth of a core may miss one
