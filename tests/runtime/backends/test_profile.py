"""`weft profile --cluster`: the links and speeds of a Dask cluster."""

from __future__ import annotations

import json

import numpy as np
import pytest

from weft.cli.main import main
from weft.formats import load_cluster
from weft.runtime import History

pytest.importorskip(
    "distributed", reason="Dask is not installed: pip install 'weft-scheduling[dask]'"
)

from distributed import Scheduler, SpecCluster, Worker

from weft.runtime.backends.dask.profile import ClusterProfile, LinkSample


def test_a_link_is_the_slope_between_small_and_large_blocks() -> None:
    # 10 MB/s and 5 ms: 0.1 MB take 15 ms, 4.1 MB take 415 ms. The slow transfers were disturbed.
    link = LinkSample("a", "b", (1e5, 1e5, 4.1e6, 4.1e6), (0.015, 0.03, 0.9, 0.415))
    assert link.bandwidth == pytest.approx(1e7)
    assert link.latency == pytest.approx(0.005)


def test_a_profile_is_a_cluster_and_rows_of_a_history(tmp_path) -> None:
    links = (
        LinkSample("h1", "h2", (1e5, 1e6), (0.01, 0.1)),
        LinkSample("h2", "h1", (1e5, 1e6), (0.001, 0.01)),
    )
    found = ClusterProfile(("h1", "h2"), ("a", "b"), (1.0, 0.5), links)
    cluster = found.cluster()
    assert cluster.speed.tolist() == [1.0, 0.5]
    assert cluster.bandwidth[0, 1] == pytest.approx(1e7)
    assert cluster.bandwidth[1, 0] == pytest.approx(1e8)
    assert np.isinf(cluster.bandwidth[0, 0])
    history = History(tmp_path / "history.sqlite")
    history.add([], found.rows() + found.rows())
    assert [(x.source, x.target, x.count) for x in history.links()] == [
        ("h1", "h2", 4),
        ("h2", "h1", 4),
    ]
    assert history.links()[0].bandwidth == pytest.approx(1e7)


def test_two_hosts_are_measured_and_kept(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("WEFT_HISTORY", str(tmp_path / "history.sqlite"))
    workers = {
        name: {
            "cls": Worker,
            "options": {"host": host, "nthreads": 1, "memory_limit": 0, "dashboard": False},
        }
        for name, host in (("a", "127.0.0.1"), ("b", "127.0.0.2"))
    }
    scheduler = {"cls": Scheduler, "options": {"host": "127.0.0.1", "port": 0, "dashboard": False}}
    with SpecCluster(workers=workers, scheduler=scheduler, silence_logs=60) as cluster:
        address = cluster.scheduler_address
        out = tmp_path / "cluster.toml"
        code = main(["profile", "--cluster", address, "--quick", "--json", "--out", str(out)])
        text = capsys.readouterr().out
    assert code == 0
    found = json.loads(text)
    assert [host["host"] for host in found["hosts"]] == ["127.0.0.1", "127.0.0.2"]
    assert max(host["speed"] for host in found["hosts"]) == 1.0
    assert [(x["source"], x["target"]) for x in found["links"]] == [("a", "b"), ("b", "a")]
    assert all(x["bandwidth"] > 1e6 for x in found["links"])
    assert load_cluster(out).names == ("a", "b")
    kept = History(found["kept"]).links()
    assert [(link.source, link.count) for link in kept] == [("127.0.0.1", 4), ("127.0.0.2", 4)]


def test_a_scheduler_that_does_not_answer_is_named(capsys, monkeypatch) -> None:
    dask = pytest.importorskip("dask")
    with dask.config.set({"distributed.comm.timeouts.connect": "200ms"}):
        assert main(["profile", "--cluster", "tcp://127.0.0.1:1", "--dry"]) == 2
    assert "no Dask scheduler answers at 'tcp://127.0.0.1:1'" in capsys.readouterr().err
