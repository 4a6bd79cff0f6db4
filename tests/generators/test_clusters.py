"""Clusters from the catalogue, and streams of jobs."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from weft.errors import InvalidInput
from weft.generators import (
    arrivals,
    catalogue,
    conditional_paper,
    dag_jobs,
    device_model,
    gpu_cluster,
    measure_ccr,
    minimum_path,
    mixed_cluster,
    random_cluster,
    rate_for_load,
    stream_of,
)
from weft.generators.machines.catalogue import link_model
from weft.model import Cluster, Problem, Workflow


class TestCatalogue:
    def test_every_device_is_sound(self):
        for name, model in catalogue().items():
            assert 0 < model.fp64 <= model.fp32, name
            assert model.fp16 is None or model.fp16 > model.fp32, name
            assert 1e9 < model.memory < 1e12, name
            assert 1e11 < model.memory_bandwidth < 1e13, name
            assert 50 < model.tdp < 1000, name
            assert model.source
            assert model.peer is None or model.peer.bandwidth > model.host.bandwidth, name

    def test_agrees_with_the_fact_table(self, data):
        facts = {
            f"{g['vendor']} {g['name']}": g
            for g in json.loads((data / "gpu_specs" / "gpu_specs.json").read_text())["gpus"]
        }
        seen = 0
        for model in catalogue().values():
            if model.title in facts:
                seen += 1
                g = facts[model.title]
                assert (model.fp64, model.fp32, model.fp16) == (
                    g["fp64_tflops"],
                    g["fp32_tflops"],
                    g["fp16_matrix_dense_tflops"],
                )
                assert (model.memory, model.tdp) == (g["memory_gb"] * 1e9, g["tdp_w"])
                assert (
                    2 * model.peer.bandwidth / 1e9 == g["peer_link_total_gbps"]
                    if model.peer
                    else g["peer_link_total_gbps"] is None
                )
        assert seen == 30

    def test_names(self):
        assert device_model("A100-40") is device_model("a100") is catalogue()["A100"]
        assert device_model("cpu").cores == 64


class TestGpuCluster:
    def test_nodes_and_links(self):
        c = gpu_cluster("4xV100+2xA100+8xT4", network="InfiniBand-EDR")
        assert c.p == 14
        assert c.kinds == ("V100",) * 4 + ("A100",) * 2 + ("T4",) * 8
        assert c.nodes == ("node0",) * 4 + ("node1",) * 2 + ("node2",) * 8
        gb = c.bandwidth / 1e9
        # NVLink 2 within the V100s, NVLink 3 within the A100s, PCIe 3 within the T4s, the network
        # between
        assert gb[0, 1] == 150
        assert gb[4, 5] == 300
        assert gb[6, 7] == pytest.approx(15.75)
        assert gb[0, 4] == gb[5, 6] == pytest.approx(12.1)
        assert (c.bandwidth == c.bandwidth.T).all()
        assert c.latency[0, 1] < c.latency[6, 7] < c.latency[0, 13]
        assert c.power[0] == 300
        assert c.idle_power[0] == 60

    def test_nodes_of_several_kinds_and_many_nodes(self):
        c = gpu_cluster("2xA100,1xCPU+3x2xT4 + L4", per_node=8)
        assert c.nodes == ("node0",) * 3 + ("node1",) * 2 + ("node2",) * 2 + ("node3",) * 2 + (
            "node4",
        )
        assert c.names[-3:] == ("T4:4", "T4:5", "L4:0")
        assert c.bandwidth[0, 2] / 1e9 == pytest.approx(31.51)  # PCIe 4
        assert c.cores.tolist() == [1, 1, 64] + [1] * 7
        assert gpu_cluster("5xT4", per_node=2).nodes == (
            "node0",
            "node0",
            "node1",
            "node1",
            "node2",
        )

    def test_work_is_counted_in_tflop(self):
        c = gpu_cluster("1xV100", precision="fp16", efficiency=0.5)
        p = Problem.bind(Workflow(work=[125.0], src=[], dst=[], data=[]), c)
        assert p.duration(0, 0) == 2.0  # 125 TFLOP at half of 125 TFLOP/s

    @pytest.mark.parametrize(
        ("call", "says"),
        [
            (lambda: gpu_cluster("4xV1000"), "unknown device 'V1000'; did you mean 'V100'?"),
            (
                lambda: gpu_cluster("4xV100+"),
                (
                    "cluster '4xV100+' has the term ''; write terms like 4xV100 or 3x4xV100, "
                    "joined by +"
                ),
            ),
            (
                lambda: gpu_cluster("0xT4"),
                (
                    "cluster '0xT4' has the term '0xT4'; write terms like 4xV100 or 3x4xV100, "
                    "joined by +"
                ),
            ),
            (
                lambda: gpu_cluster("2x2xT4,1xL4"),
                (
                    "cluster '2x2xT4,1xL4' has the term '2x2xT4,1xL4'; a node of several kinds is "
                    "written like 4xV100,2xCPU"
                ),
            ),
            (
                lambda: gpu_cluster("1xK80", precision="fp16"),
                "device 'K80' has no fp16 matrix units; choose fp32 or fp64",
            ),
            (
                lambda: gpu_cluster("1xT4", precision="fp31"),
                "precision is 'fp31'; did you mean 'fp32'?",
            ),
            (
                lambda: gpu_cluster("1xT4", network="Ethernet-10"),
                "unknown link 'Ethernet-10'; did you mean 'Ethernet-10G'?",
            ),
            (
                lambda: gpu_cluster("1xT4", efficiency=0),
                "efficiency is 0; it must be a number above 0, at most 1",
            ),
        ],
    )
    def test_refusals(self, call, says):
        with pytest.raises(InvalidInput, match=f"^{re.escape(says)}$"):
            call()

    def test_random(self):
        c = random_cluster(
            devices=6, nodes=3, heterogeneity=1.0, link_heterogeneity=1.0, latency=1e-3, seed=2
        )
        assert (c.bandwidth == c.bandwidth.T).all()
        assert len(set(c.speed.tolist())) == 6
        off = c.bandwidth[~np.eye(6, dtype=bool)]
        assert 0.5e9 <= off.min() < off.max() <= 1.5e9
        assert mixed_cluster(1, kinds=4, most=2, cpus=2).kinds[-2:] == ("EPYC-7763",) * 2
        assert link_model("PCIe3").latency == pytest.approx(1e-5)


class TestArrivals:
    def test_processes(self):
        assert arrivals(4, "batch").tolist() == [0.0] * 4
        assert arrivals(4, "regular", rate=125.0).tolist() == pytest.approx(
            [0.008, 0.016, 0.024, 0.032]
        )
        gaps = np.diff(arrivals(40_000, "poisson", rate=4.0))
        assert gaps.mean() == pytest.approx(0.25, rel=0.02)  # relative error of the mean: 1 / 200
        assert gaps.std() == pytest.approx(0.25, rel=0.03)
        gaps = np.diff(arrivals(40_000, "normal", rate=125.0, deviation=0.5))
        assert gaps.mean() == pytest.approx(0.008, rel=0.02)
        assert gaps.std() == pytest.approx(0.004, rel=0.03)
        assert gaps.min() < 0

    def test_trace(self):
        assert arrivals(3, "trace", times=[7.0, 3.0, 5.0], rate=0.5).tolist() == [0.0, 2.0, 4.0]
        with pytest.raises(InvalidInput, match="a trace of 1 times cannot give 2 arrivals"):
            arrivals(2, "trace", times=[1.0])
        with pytest.raises(InvalidInput, match="process is 'poison'; did you mean 'poisson'"):
            arrivals(2, "poison")


class TestLoad:
    def test_fluid_of_unrelated_machines(self):
        # Two kinds, two devices, each device quick (1 s) at one and slow (4 s) at the other. A job
        # has one of each: every device takes its own kind, one job per second. The means would
        # say 2 devices / (2.5 + 2.5) s = 0.4; the best 2 / (1 + 1) = 1.
        p = Problem.from_arrays([[1.0, 4.0], [4.0, 1.0]])
        assert rate_for_load([p], 1.0) == pytest.approx(1.0)
        assert rate_for_load([p], 1.0, capacity="mean") == pytest.approx(0.4)
        assert rate_for_load([p], 0.5, capacity="best") == pytest.approx(0.5)

    def test_fluid_shares_a_device(self):
        # Task 0 runs only on device 0 (1 s); task 1 takes 3 s on either. r jobs per s: device 1
        # does 1/3 of task 1 at full time; device 0 has 1 - r left for it: r = 1/3 + (1 - r) / 3.
        p = Problem.from_arrays([[1.0, np.inf], [3.0, 3.0]])
        assert rate_for_load([p], 1.0) == pytest.approx(0.5)

    def test_mix_and_units(self):
        small, large = (Problem.from_arrays(work=[w * 1e9], speed=[1.0, 3.0]) for w in (1.0, 5.0))
        assert rate_for_load([small, large], 1.0) == pytest.approx(4 / 3e9)
        assert rate_for_load([small, large], 1.0, weights=[1, 0]) == pytest.approx(4e-9)

    def test_choices_count_by_how_often_they_run(self):
        p = conditional_paper(p_c=0.5)
        # A, B always, C and D half, E and F a quarter: 10 + 10 + 5 + 5 + 2.5 + 25 = 57.5 ms on a
        # GPU, 46 ms on a CPU, mean 51.75 ms
        assert rate_for_load([p], 1.0, capacity="mean") == pytest.approx(4 / 0.05175, rel=0.05)
        assert rate_for_load([p], 1.0) == pytest.approx(2 / 0.0575 + 2 / 0.046, rel=0.05)

    def test_poisson_stream_offers_the_load(self):
        p = Problem.from_arrays(work=[2.0, 4.0], speed=[1.0, 2.0])
        w = stream_of(p, jobs=20_000, load=0.8, seed=1)
        assert 6.0 * w.jobs / 3.0 / w.arrival[-1] == pytest.approx(0.8, rel=0.03)

    def test_refusals(self):
        p = Problem.from_arrays(work=[0.0], speed=[1.0])
        with pytest.raises(InvalidInput, match="give a rate instead of a load"):
            rate_for_load([p], 0.5)
        with pytest.raises(InvalidInput, match="load is 0; it must be a number above 0"):
            rate_for_load([p], 0)
        with pytest.raises(InvalidInput, match="not both"):
            stream_of(p, load=0.5, rate=1.0)
        with pytest.raises(InvalidInput, match="weights are"):
            stream_of(p, weights=[1, 2])
        assert stream_of(p, process="batch", jobs=2).arrival.tolist() == [0.0, 0.0]


class TestStreams:
    def test_deadlines_and_priorities(self):
        p = Problem.from_arrays(
            [[2.0, 1.0], [3.0, 4.0], [1.0, 1.0]], [[0, 1]], [9.0], bandwidth=1.0
        )
        assert minimum_path(p) == 4.0  # 1 on the second device, then 3 on the first
        w = stream_of(p, jobs=300, rate=1.0, slack=1.5, levels=3)
        assert (w.deadline - w.arrival).tolist() == pytest.approx([6.0] * 300)
        assert set(w.priority.tolist()) == {0.0, 1.0, 2.0}

    def test_minimum_path_of_shuffled_numbers(self):
        p = Problem.from_arrays([[1.0], [2.0], [4.0]], [[2, 1], [1, 0]], [0.0, 0.0], bandwidth=1.0)
        assert minimum_path(p) == 7.0

    def test_dag_jobs(self):
        cluster = gpu_cluster("2xV100+2xT4")
        w = dag_jobs(cluster, jobs=12, load=0.9, ccr=0.5, slack=3.0, kinds=2, seed=3)
        assert w.jobs == 12
        assert w.template.tolist() == list(range(12))
        assert all(20 <= p.n <= 150 for p in w.problems)
        assert [measure_ccr(p) for p in w.problems] == pytest.approx([0.5] * 12)
        slacks = [w.deadline[j] - w.arrival[j] for j in range(12)]
        assert slacks == pytest.approx([3.0 * minimum_path(p) for p in w.problems])
        few = dag_jobs(cluster, jobs=50, templates=3, tasks=(5, 5), seed=3)
        assert len(few.problems) == 3
        assert set(few.template.tolist()) == {0, 1, 2}
        assert dag_jobs(Cluster(speed=[1.0]), jobs=2).jobs == 2
        with pytest.raises(
            InvalidInput, match="dag_jobs has no option 'kind'; did you mean 'kinds'"
        ):
            dag_jobs(cluster, kind=3)
        with pytest.raises(InvalidInput, match="tasks is 3; it must be a whole number, 9 or more"):
            dag_jobs(cluster, tasks=(9, 3))


def test_conditional_paper():
    p = conditional_paper(p_c=0.2)
    assert p.workflow.task_names == tuple("ABCDEF")
    assert p.workflow.kinds == tuple("ABCDEF")
    assert p.durations().tolist() == [[0.008, 0.008, 0.01, 0.01]] * 5 + [[0.08, 0.08, 0.1, 0.1]]
    assert p.cluster.batch.tolist() == [1, 1, 5, 10]
    assert p.cluster.kinds == ("CPU", "CPU", "GPU1", "GPU2")
    c = p.workflow.choices
    assert dict(zip(c.labels, c.probability.tolist(), strict=True)) == {
        "C": 0.5,
        "D": 0.5,
        "E": 0.2,
        "F": 0.8,
    }
    edges = [
        (p.workflow.task_name(u) + p.workflow.task_name(v))
        for u, v in zip(p.workflow.src, p.workflow.dst, strict=True)
    ]
    assert edges == ["AB", "BC", "BD", "DE", "DF"]
    assert c.edge_choice.tolist() == [-1, 0, 0, 1, 1]
    with pytest.raises(InvalidInput, match=r"p_c is 1\.1"):
        conditional_paper(1.1)


@pytest.mark.parametrize("text", ["1000000000xV100", "9" * 5000 + "xV100", "100x100xV100"])
def test_clusters_that_no_memory_holds_are_refused(text):
    with pytest.raises(InvalidInput, match="more than 4096 devices"):
        gpu_cluster(text)


def test_digits_of_other_scripts_are_no_counts():
    with pytest.raises(InvalidInput):
        gpu_cluster("\u00b2xV100")
