"""Generators: structure by formula, exact ratios, repeatable bytes, clear refusals."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import InvalidInput, UnknownName
from weft.generators import (
    GENERATORS,
    cholesky,
    conditional,
    cybershake,
    epigenomics,
    fft,
    fork_join,
    gauss,
    generate,
    generate_problem,
    generator_options,
    genome,
    gpu_cluster,
    in_tree,
    layered,
    lu,
    map_reduce,
    measure_ccr,
    mixed_cluster,
    montage,
    out_tree,
    pipeline,
    qr,
    random_cluster,
    related_speeds,
    scale_ccr,
    unrelated_problem,
    with_affinity,
)
from weft.generators.generators import _SIZE
from weft.generators.layered import layer_widths
from weft.model import Cluster, Problem, Workflow
from weft.rng import generator


def entries(w: Workflow) -> int:
    return int((np.diff(w.pred_ptr) == 0).sum())


def exits(w: Workflow) -> int:
    return int((np.diff(w.succ_ptr) == 0).sum())


def depth(w: Workflow) -> int:
    return int(w.level.max()) + 1


def width(w: Workflow) -> int:
    return int(np.bincount(w.level).max())


def columns(w: Workflow) -> list[object]:
    c = w.choices
    arrays = (
        w.work,
        w.src,
        w.dst,
        w.data,
        w.kind,
        w.memory,
        c.task,
        c.first,
        c.probability,
        c.edge_choice,
        c.edge_branch,
    )
    return [a.tobytes() for a in arrays] + [w.kinds, w.task_names, c.labels]


class TestLayered:
    @settings(max_examples=40)
    @given(
        tasks=st.integers(1, 200),
        alpha=st.sampled_from([0.1, 0.5, 1.0, 2.0, 30.0]),
        density=st.sampled_from([0.0, 0.2, 1.0]),
        regularity=st.sampled_from([0.0, 0.5, 1.0]),
        jump=st.integers(1, 4),
        seed=st.integers(0, 1000),
    )
    def test_layers_are_levels(self, tasks, alpha, density, regularity, jump, seed):
        w = layered(
            tasks=tasks, alpha=alpha, density=density, regularity=regularity, jump=jump, seed=seed
        )
        widths = layer_widths(
            tasks, alpha=alpha, regularity=regularity, rng=generator(seed, "layered", "widths")
        )
        layer = np.repeat(np.arange(len(widths)), widths)
        assert w.n == tasks == widths.sum()
        assert (
            w.level.tolist() == layer.tolist()
        )  # each task has a parent in the layer above and none below it
        span = layer[w.dst] - layer[w.src]
        assert ((span >= 1) & (span <= jump)).all()
        parents = np.diff(w.pred_ptr)
        assert parents.max() <= 8
        assert (parents[layer == 0] == 0).all()
        assert (parents[layer > 0] >= 1).all()

    def test_equal_layers(self):
        w = layered(tasks=10_000, alpha=2.0, regularity=1.0, density=0.0)
        assert width(w) == 200  # 2 * sqrt(10000)
        assert depth(w) == 50
        assert w.m == 9_800  # density 0: one parent each

    def test_full_density(self):
        # 3 layers of 3, everything above is a candidate: 1, 2 or 3 parents, all different
        counts = {
            tuple(
                np.diff(layered(tasks=9, regularity=1.0, density=1.0, seed=s).pred_ptr)[3:].tolist()
            )
            for s in range(50)
        }
        assert {c for row in counts for c in row} == {1, 2, 3}

    def test_mean_work_and_spread(self):
        w = layered(tasks=200_000, work=3.0, sigma=0.8, kinds=4)
        # The mean of 200,000 log-normals with sd/mean = sqrt(exp(0.64) - 1) = 0.947 has a relative
        # error of 0.0021.
        assert w.work.mean() == pytest.approx(3.0, rel=0.01)
        assert np.log(w.work).std() == pytest.approx(0.8, rel=0.01)
        assert np.bincount(w.kind).tolist() == pytest.approx([50_000] * 4, rel=0.03)

    def test_a_large_one(self):
        w = layered(tasks=200_000, jump=2)
        assert w.n == 200_000
        assert w.m > w.n
        assert measure_ccr(
            Problem.bind(w, Cluster(speed=np.ones(2), bandwidth=1e9))
        ) == pytest.approx(1.0, rel=1e-12)


class TestCcr:
    @settings(max_examples=30)
    @given(
        ccr=st.sampled_from([0.1, 0.5, 1.0, 5.0, 20.0]),
        devices=st.integers(2, 9),
        seed=st.integers(0, 100),
        name=st.sampled_from(["layered", "montage", "cholesky", "conditional"]),
    )
    def test_exact_on_any_cluster(self, ccr, devices, seed, name):
        cluster = random_cluster(
            devices=devices,
            nodes=min(2, devices),
            heterogeneity=1.5,
            link_heterogeneity=1.0,
            latency=1e-4,
            seed=seed,
        )
        problem = generate_problem(name, cluster, ccr=ccr, seed=seed)
        # By the definition, written out: over pairs of different devices, over edges; over devices,
        # over tasks.
        pairs = [(a, b) for a in range(devices) for b in range(devices) if a != b]
        transfer = np.mean([problem.transfer(e, a, b) for e in range(problem.m) for a, b in pairs])
        assert transfer / problem.durations().mean() == pytest.approx(ccr, rel=1e-9)
        assert measure_ccr(problem) == pytest.approx(ccr, rel=1e-12)

    def test_devices_that_cannot_run_a_task_do_not_count(self):
        problem = Problem.from_arrays([[2.0, np.inf], [2.0, 2.0]], [[0, 1]], [4.0], bandwidth=1.0)
        assert measure_ccr(problem) == 2.0  # 4 s over 2 s
        assert measure_ccr(Problem.from_arrays([[1.0, 1.0]])) == 0.0

    def test_reference(self):
        w = generate("montage", ccr=3.0)
        assert w.data.mean() / 1e9 / w.work.mean() == pytest.approx(3.0)
        assert layered(ccr=0.0).data.max() == 0.0

    def test_keeps_the_graph_and_the_ratios(self):
        w = montage(images=5)
        s = scale_ccr(w, 7.0)
        assert s.src.tolist() == w.src.tolist()
        assert (s.data / s.data.sum()).tolist() == pytest.approx((w.data / w.data.sum()).tolist())

    def test_data_from_nothing(self):
        w = Workflow(work=[1.0, 3.0], src=[0], dst=[1], data=[0.0])
        assert scale_ccr(w, 1.0).data.tolist() == pytest.approx([2e9])

    @pytest.mark.parametrize(
        ("cluster", "says"),
        [
            (Cluster(speed=[1.0]), "one device"),
            (Cluster(speed=[1.0, 1.0]), "takes no time on cluster 'cluster'"),
            (Cluster(speed=[1.0, 1.0], bandwidth=1.0, latency=50.0), "latency alone gives"),
        ],
    )
    def test_refusals(self, cluster, says):
        with pytest.raises(InvalidInput, match=says):
            scale_ccr(layered(tasks=10), 1.0, cluster)
        with pytest.raises(InvalidInput, match="take no time"):
            scale_ccr(Workflow(work=[0, 0], src=[0], dst=[1], data=[1]), 1.0)


class TestShapes:
    def test_fork_join(self):
        w = fork_join(width=5, stages=3)
        assert (w.n, w.m, depth(w), width(w), entries(w), exits(w)) == (
            3 * 6 + 1,
            3 * 10,
            7,
            5,
            1,
            1,
        )

    def test_pipeline(self):
        w = pipeline(items=7, stages=3)
        assert (w.n, w.m, depth(w), entries(w), exits(w)) == (21, 7 * 2 + 6 * 3, 9, 1, 1)
        assert (
            depth(pipeline(items=7, stages=3, ordered=False)),
            pipeline(items=7, stages=3, ordered=False).m,
        ) == (3, 14)

    def test_map_reduce(self):
        w = map_reduce(maps=6, reduces=4)
        assert (w.n, w.m, depth(w), width(w), entries(w), exits(w)) == (12, 6 + 24 + 4, 4, 6, 1, 1)

    def test_trees(self):
        w, v = out_tree(depth=4, arity=3), in_tree(depth=4, arity=3)
        assert (w.n, w.m, entries(w), exits(w), depth(w)) == (40, 39, 1, 27, 4)  # 1 + 3 + 9 + 27
        assert (v.n, v.m, entries(v), exits(v), depth(v)) == (40, 39, 27, 1, 4)

    @pytest.mark.parametrize("levels", [1, 2, 3, 5])
    def test_fft(self, levels):
        w, points = fft(levels=levels), 2**levels
        assert w.n == 2 * points - 1 + points * levels
        assert w.m == 2 * points - 2 + 2 * points * levels
        assert (depth(w), width(w), entries(w), exits(w)) == (2 * levels + 1, points, 1, points)
        # Every output depends on every leaf of the calls: that is what a Fourier transform is.
        reach = np.eye(w.n, dtype=bool)
        for u, v in zip(w.src.tolist(), w.dst.tolist(), strict=True):
            reach[v] |= reach[u]
        assert reach[-points:, points - 1 : 2 * points - 1].all()

    @pytest.mark.parametrize("size", [2, 3, 5, 9])
    def test_gauss(self, size):
        w = gauss(size=size)
        assert w.n == (size**2 + size - 2) // 2
        assert (depth(w), width(w), entries(w)) == (2 * (size - 1), size - 1, 1)


class TestLinearAlgebra:
    @pytest.mark.parametrize("tiles", [1, 2, 3, 4, 7, 10])
    def test_counts_and_operations(self, tiles):
        c, u, q = (
            cholesky(tiles=tiles, tile_size=100),
            lu(tiles=tiles, tile_size=100),
            qr(tiles=tiles, tile_size=100),
        )
        n = 100.0 * tiles
        assert c.n == tiles * (tiles + 1) * (tiles + 2) // 6
        assert u.n == q.n == tiles * (tiles + 1) * (2 * tiles + 1) // 6
        for w, operations in ((c, n**3 / 3), (u, 2 * n**3 / 3), (q, 4 * n**3 / 3)):
            assert w.work.sum() * 1e12 == pytest.approx(operations, rel=1e-12)
            assert (entries(w), exits(w)) == (1, 1)
        assert depth(c) == depth(u) == 3 * tiles - 2

    def test_kernels_of_cholesky(self):
        w = cholesky(tiles=5)
        counts = dict(zip(w.kinds, np.bincount(w.kind).tolist(), strict=True))
        assert counts == {"potrf": 5, "trsm": 10, "syrk": 10, "gemm": 10}
        assert set(w.data.tolist()) == {960.0 * 960 * 8}

    def test_qr_by_hand(self):
        # 2 x 2: geqrt(0) -> ormqr(0,1) and tpqrt(1,0); both -> tpmqrt(1,1,0) -> geqrt(1)
        w = qr(tiles=2)
        named = {(w.task_name(u), w.task_name(v)) for u, v in zip(w.src, w.dst, strict=True)}
        assert named == {
            ("geqrt(0)", "ormqr(0,1)"),
            ("geqrt(0)", "tpqrt(1,0)"),
            ("ormqr(0,1)", "tpmqrt(1,1,0)"),
            ("tpqrt(1,0)", "tpmqrt(1,1,0)"),
            ("tpmqrt(1,1,0)", "geqrt(1)"),
        }

    def test_qr_depth(self):
        # T = 3, levels from 1: geqrt(0) 1; tpqrt(1,0) 2, tpqrt(2,0) 3; tpmqrt(1,j,0) 3,
        # tpmqrt(2,j,0) 4; geqrt(1) 4; tpqrt(2,1) and ormqr(1,2) 5; tpmqrt(2,2,1) 6; geqrt(2) 7.
        # Each step begins three levels after the one before: 3 T - 2.
        assert [depth(qr(tiles=t)) for t in (1, 2, 3, 6)] == [1, 4, 7, 16]

    @pytest.mark.parametrize(
        ("ours", "theirs", "tiles"),
        [
            *((cholesky, "cholesky", t) for t in (2, 4, 6, 8, 12)),
            *((lu, "denselu", t) for t in (2, 6, 10, 12)),
        ],
    )
    def test_equals_published_graphs(self, data, ours, theirs, tiles):
        path = data / "tiled_dags" / "dev" / f"{theirs}_{tiles:02d}.json.gz"
        graph = json.loads(gzip.decompress(path.read_bytes()))
        w = ours(tiles=tiles)
        same_kernel = {"lu": "getrf", "fwd": "trsm", "bdiv": "trsm", "bmod": "gemm"}
        assert [w.kinds[k] for k in w.kind] == [
            same_kernel.get(k, k) for k in graph["tasks"]["type"]
        ]
        theirs = sorted(zip(graph["edges"]["src"], graph["edges"]["dst"], strict=True))
        assert list(zip(w.src.tolist(), w.dst.tolist(), strict=True)) == theirs


class TestScientific:
    def test_montage(self):
        w = montage(images=9)  # 3 x 3: 6 right, 6 below, 4 diagonal overlaps
        assert w.n == 2 * 9 + 16 + 6
        counts = dict(zip(w.kinds, np.bincount(w.kind).tolist(), strict=True))
        assert counts["mDiffFit"] == 16
        assert (depth(w), entries(w), exits(w)) == (9, 9, 1)
        assert (
            dict(zip(w.kinds, np.bincount(montage(images=7).kind).tolist(), strict=True))[
                "mDiffFit"
            ]
            == 4 + 4 + 2
        )

    def test_epigenomics(self):
        w = epigenomics(chunks=5, lanes=3)
        assert (w.n, depth(w), entries(w), exits(w)) == (3 * 22 + 3, 9, 3, 1)

    def test_cybershake(self):
        w = cybershake(sites=3, variations=4)
        assert (w.n, depth(w), entries(w), exits(w)) == (3 * 9 + 2, 4, 3, 2)

    def test_genome(self):
        w = genome(chromosomes=2, individuals=4, populations=3)
        assert (w.n, w.m, depth(w), entries(w), exits(w)) == (2 * 12, 2 * (4 + 12), 3, 10, 12)

    @pytest.mark.parametrize(
        ("ours", "app", "path"),
        [
            (
                genome(chromosomes=10, individuals=10, populations=7),
                "1000genome",
                "1000genome-chameleon-10ch-100k-001",
            ),
            (
                epigenomics(chunks=9, lanes=1),
                "epigenomics",
                "epigenomics-chameleon-hep-1seq-100k-001",
            ),
        ],
    )
    def test_equals_recorded_runs(self, data, ours, app, path):
        graph = json.loads(
            gzip.decompress((data / "wfinstances" / "dev" / app / f"{path}.json.gz").read_bytes())
        )
        renamed = {"fast2bfq": "fastq2bfq", "chr21": "maqIndex"}
        kinds = [
            kind if app == "1000genome" else kind.split("_")[0] for kind in graph["tasks"]["type"]
        ]
        kinds = [renamed.get(kind, kind) for kind in kinds]
        theirs = Counter(
            (kinds[u], kinds[v])
            for u, v in zip(graph["edges"]["src"], graph["edges"]["dst"], strict=True)
        )
        k = [ours.kinds[i] for i in ours.kind]
        assert Counter(k) == Counter(kinds)
        assert Counter((k[u], k[v]) for u, v in zip(ours.src, ours.dst, strict=True)) == theirs


class TestConditional:
    @settings(max_examples=30)
    @given(
        tasks=st.integers(1, 80),
        branches=st.integers(2, 5),
        nothing=st.sampled_from([0.0, 1.0]),
        seed=st.integers(0, 1000),
    )
    def test_every_branch_has_edges_but_nothing(self, tasks, branches, nothing, seed):
        w = conditional(
            tasks=tasks, share=1.0, branches=branches, nothing=nothing, jump=2, seed=seed
        )
        out = np.diff(w.succ_ptr)
        assert sorted(w.choices.task.tolist()) == np.flatnonzero(out >= 2).tolist()
        for c in range(len(w.choices)):
            labels = [w.choices.labels[b] for b in w.choices.branches(c)]
            used = set(w.choices.edge_branch[w.choices.edge_choice == c].tolist())
            full = len(labels) - (labels[-1] == "nothing")
            assert used == set(range(full))
            assert 2 <= full <= branches
            assert (labels[-1] == "nothing") == (nothing == 1.0)

    def test_no_share_is_plain(self):
        w = conditional(tasks=30, share=0.0, seed=4)
        assert not w.conditional
        assert w.src.tolist() == layered(tasks=30, seed=4, kinds=3).src.tolist()


class TestCosts:
    def test_related(self):
        speeds = related_speeds(2000, heterogeneity=1.0, speed=4.0)
        assert 2.0 <= speeds.min() < 2.1
        assert 5.9 < speeds.max() <= 6.0

    def test_unrelated(self):
        w, c = layered(tasks=500, sigma=0.0), Cluster(speed=np.full(40, 2.0), bandwidth=1e9)
        uniform = unrelated_problem(w, c, heterogeneity=1.0, seed=1).durations() * 2
        assert uniform.min() >= 0.5
        assert uniform.max() <= 1.5
        gamma = unrelated_problem(w, c, heterogeneity=0.7, method="gamma", seed=1).durations() * 2
        assert gamma.mean() == pytest.approx(1.0, rel=0.02)  # 20,000 draws: 0.7 / 141 = 0.005
        assert gamma.std() == pytest.approx(0.7, rel=0.05)
        assert not (np.diff(gamma, axis=1) >= 0).all()
        assert (np.diff(unrelated_problem(w, c, consistent=True).durations(), axis=1) >= 0).all()

    def test_what_cannot_run_still_cannot(self):
        w = Workflow(work=[1.0, 1.0], src=[], dst=[], data=[], memory=[5.0, 1.0])
        found = unrelated_problem(w, Cluster(speed=[1.0, 1.0], memory=[4.0, 8.0])).durations()
        assert np.isinf(found).tolist() == [[True, False], [False, False]]

    def test_affinity_is_by_kind(self):
        c = with_affinity(gpu_cluster("2xV100+2xT4"), ("k0", "k1"))
        p = Problem.bind(layered(kinds=2), c)
        assert p.per_work.shape == (2, 4)
        assert (p.per_work[:, 0] == p.per_work[:, 1]).all()
        assert p.per_work[0, 0] / p.per_work[0, 2] != p.per_work[1, 0] / p.per_work[1, 2]


def _sized(name: str) -> Workflow:
    return generate(name, tasks=60, seed=3)


class TestTable:
    @pytest.mark.parametrize("name", GENERATORS.names())
    def test_every_generator(self, name):
        w = _sized(name)
        assert 1 <= w.n <= 60
        assert columns(w) == columns(_sized(name))
        assert len(set(w.task_names)) == w.n
        assert "tasks" in generator_options(name)
        assert Problem.bind(w, gpu_cluster("2xV100+1xT4")).p == 3
        if w.m:
            assert measure_ccr(
                generate_problem(name, "2xV100+1xT4", tasks=60, ccr=2.5)
            ) == pytest.approx(2.5)

    @pytest.mark.parametrize("name", GENERATORS.names())
    def test_tasks_never_shrink_with_size(self, name):
        sizes = {"fft": 7, "in_tree": 7, "out_tree": 7}.get(name, 30)
        counts = [GENERATORS.create(name, **{_SIZE[name]: s}).n for s in range(2, sizes)]
        assert (np.diff(counts) > 0).all()

    @pytest.mark.parametrize("name", ["layered", "montage", "bag", "conditional", "fork_join"])
    def test_seeds_differ(self, name):
        assert columns(generate(name, seed=1)) != columns(generate(name, seed=2))

    def test_same_bytes_in_other_processes(self):
        code = (
            "import hashlib; from weft.generators import *; from weft.generators import dag_jobs\n"
            "h = hashlib.sha256()\n"
            "for n in GENERATORS.names():\n"
            "    w = generate(n, tasks=60, seed=3); c = w.choices\n"
            "    for a in (w.work, w.src, w.dst, w.data, w.kind, c.task, c.probability, "
            "c.edge_branch): h.update(a.tobytes())\n"
            "    h.update(repr((w.kinds, w.task_names, c.labels)).encode())\n"
            "m = mixed_cluster(7); s = dag_jobs(m, jobs=4, slack=2.0, levels=3, kinds=2, seed=5)\n"
            "for a in (m.speed, m.bandwidth, m.latency, s.arrival, s.deadline, s.priority, "
            "*(p.workflow.data for p in s.problems)):\n"
            "    h.update(a.tobytes())\n"
            "print(h.hexdigest())"
        )
        found = set()
        for seed in ("1", "2"):
            env = {
                **os.environ,
                "PYTHONHASHSEED": seed,
                "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
            }
            found.add(
                subprocess.run(
                    [sys.executable, "-c", code],
                    env=env,
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
            )
        assert len(found) == 1

    def test_tasks_is_the_most(self):
        assert generate("cholesky", tasks=120).n == 120  # T = 8: 8 * 9 * 10 / 6
        assert generate("cholesky", tasks=119).n == 84
        assert generate("fft", tasks=40).n == 39  # 8 points: 15 + 24
        assert generate("pipeline", tasks=20, stages=3).n == 18
        assert generate("layered", tasks=77).n == 77

    @pytest.mark.parametrize(
        ("call", "says"),
        [
            (lambda: generate("montag"), "unknown generator 'montag'; did you mean 'montage'?"),
            (
                lambda: generate("layered", taks=3),
                "generator 'layered' has no option 'taks'; did you mean 'tasks'?",
            ),
            (
                lambda: generate("layered", tasks=0),
                "tasks is 0; it must be a whole number, 1 or more",
            ),
            (
                lambda: generate("layered", tasks=2.5),
                "tasks is 2.5; it must be a whole number, 1 or more",
            ),
            (
                lambda: generate("layered", tasks="many"),
                "tasks is 'many'; it must be a whole number, 1 or more",
            ),
            (
                lambda: generate("layered", density=1.5),
                "density is 1.5; it must be a number 0 or more, at most 1",
            ),
            (lambda: generate("layered", alpha=0), "alpha is 0; it must be a number above 0"),
            (
                lambda: generate("layered", sigma=float("nan")),
                "sigma is nan; it must be a number 0 or more",
            ),
            (
                lambda: generate("layered", sigma="0.5"),
                "sigma is '0.5'; it must be a number 0 or more",
            ),
            (
                lambda: generate("layered", seed=-1),
                "seed is -1; it must be a whole number, 0 or more",
            ),
            (lambda: generate("layered", ccr=-1), "ccr is -1; it must be a number 0 or more"),
            (
                lambda: generate("montage", tasks=5),
                "tasks is 5, but the smallest 'montage' has 11 tasks",
            ),
            (
                lambda: generate("cholesky", tasks=9, tiles=2),
                "give generator 'cholesky' either tasks or tiles, not both",
            ),
            (lambda: generate("gauss", size=1), "size is 1; it must be a whole number, 2 or more"),
            (
                lambda: generate("conditional", branches=1),
                "branches is 1; it must be a whole number, 2 or more",
            ),
            (
                lambda: related_speeds(3, heterogeneity=2),
                "heterogeneity is 2; it must be a number 0 or more, at most 1.999",
            ),
            (
                lambda: unrelated_problem(layered(), Cluster(speed=[1.0]), method="gama"),
                "method is 'gama'; did you mean 'gamma'?",
            ),
        ],
    )
    def test_refusals(self, call, says):
        with pytest.raises(InvalidInput, match=f"^{re.escape(says)}$"):
            call()

    def test_unknown_names_are_unknown_names(self):
        with pytest.raises(UnknownName):
            generate("nothing of the kind")


def test_mixed_cluster_differs_by_seed():
    assert len({mixed_cluster(s).name for s in range(8)}) > 4
