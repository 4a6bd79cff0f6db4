"""Families of real workflows at any size, with duration laws fitted to traces.

Each kind of task has a median duration, a spread (standard deviation of the logarithm) and bytes to
each successor. The constants were fitted, rounded to two digits, to the medians over executed
instances: scientific workflows in WfInstances (Coleman et al. 2022, WfFormat 1.5 of March 2025),
TPC-H stages on Spark in the traces of Decima (Mao et al. 2019), and profiled neural networks of
dnn-partitioning (Tarnawski et al. 2020) and dagbench (GPT-2 on one host). `montage`, `epigenomics`
and `genome` are in `generators.scientific`, tiled factorisations in `generators.linear_algebra`.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from weft.arguments import whole
from weft.generators.generators import register_generator
from weft.generators.sketch import Sketch
from weft.model import Workflow
from weft.rng import generator


class DurationLaw(NamedTuple):
    """Median seconds, spread of their logarithm, and bytes to each successor."""

    seconds: float
    spread: float
    output: float = 0.0


BLAST = {
    "split_fasta": DurationLaw(1.5, 0.5, 1e3),
    "blastall": DurationLaw(1400.0, 0.4, 2.9e3),
    "cat_blast": DurationLaw(7.7, 0.5),
    "cat": DurationLaw(0.011, 0.16),
}
BWA = {
    "fastq_reduce": DurationLaw(3.8, 0.14, 250.0),
    "bwa_index": DurationLaw(600.0, 0.5, 1e6),
    "bwa": DurationLaw(5.2, 0.93, 2.9e4),
    "cat_bwa": DurationLaw(270.0, 0.5),
    "cat": DurationLaw(0.062, 0.07),
}
CYCLES = {
    "baseline_cycles": DurationLaw(51.0, 0.7, 3.8e4),
    "cycles": DurationLaw(28.0, 1.28, 6.3e3),
    "fertilizer_increase_cycles": DurationLaw(28.0, 1.28, 6.3e3),
    "output_parser": DurationLaw(0.05, 0.3, 8.4e3),
    "output_summary": DurationLaw(0.055, 0.3, 7.5e4),
    "increase_summary": DurationLaw(0.059, 0.4),
    "cycles_plots": DurationLaw(130.0, 0.35),
}
SEISMOLOGY = {
    "sG1IterDecon": DurationLaw(0.42, 0.81, 4.7e3),
    "siftSTFByMisfit": DurationLaw(0.28, 0.76),
}
SOYKB = {
    "alignment_to_reference": DurationLaw(43.0, 0.79, 1.1e5),
    "sort_sam": DurationLaw(59.0, 0.87, 1.6e5),
    "dedup": DurationLaw(59.0, 0.85, 1.65e5),
    "add_replace": DurationLaw(52.0, 0.88, 1.65e5),
    "realign_target_creator": DurationLaw(130.0, 0.32, 40.0),
    "indel_realign": DurationLaw(110.0, 0.87, 1.7e5),
    "haplotype_caller": DurationLaw(120.0, 0.52, 8.8e4),
    "merge_gcvf": DurationLaw(9400.0, 0.79),
    "genotype_gvcfs": DurationLaw(270.0, 0.45, 8.8e4),
    "combine_variants": DurationLaw(5.4, 0.89, 7.7e4),
    "select_variants": DurationLaw(53.0, 0.44, 7.4e4),
    "filtering": DurationLaw(30.0, 1.3),
}
SRASEARCH = {
    "bowtie2-build": DurationLaw(12.0, 1.28, 8.5e6),
    "fasterq-dump": DurationLaw(1400.0, 1.06, 1.4e9),
    "bowtie2": DurationLaw(50.0, 0.5, 340.0),
    "merge": DurationLaw(0.23, 0.76, 4.7e3),
}
QUERY = {
    "scan": DurationLaw(12.0, 1.6, 1e8),
    "join": DurationLaw(16.0, 1.2, 1e8),
    "aggregate": DurationLaw(3.4, 1.8, 1e7),
}
GPT = {
    "embed": DurationLaw(1.5e-3, 0.05, 3.9e5),
    "qkv": DurationLaw(18e-3, 0.05, 2e6),
    "attn_shard": DurationLaw(0.83e-3, 0.11, 3.3e4),
    "attn_merge": DurationLaw(6.4e-3, 0.05, 3.9e5),
    "mlp_shard": DurationLaw(2.6e-3, 0.08, 1.3e5),
    "mlp_merge": DurationLaw(23e-3, 0.05, 3.9e5),
    "lm_head": DurationLaw(0.37, 0.05),
}
LAYERS = {
    "convolution": DurationLaw(0.9e-3, 0.75, 2.8e7),
    "normalise": DurationLaw(0.5e-3, 0.75, 2.8e7),
    "activate": DurationLaw(0.3e-3, 0.75, 2.8e7),
    "join": DurationLaw(0.4e-3, 0.5, 2.8e7),
}


class _FamilyRecipe(Sketch):
    """A sketch whose kinds have laws."""

    def __init__(self, name: str, laws: dict[str, DurationLaw], seed: int) -> None:
        super().__init__(name)
        self._laws, self._rng = laws, generator(seed, "families", name)
        self._count = itertools.count()

    def add(self, kind: str, after: list[int] | None = None) -> int:
        """Add a task behind others, with a duration drawn by its law."""
        law = self._laws[kind]
        factor = float(np.exp(law.spread * self._rng.standard_normal()))
        name, seconds = f"{kind}_{next(self._count)}", law.seconds * factor
        return self.task(name, kind, seconds, after=after or (), output=law.output)

    def row(self, kind: str, behind: list[list[int]]) -> list[int]:
        """Add one task behind each of several lists of parents."""
        return [self.add(kind, parents) for parents in behind]


@register_generator("blast", size="parts", estimate=lambda parts: parts + 3)
def blast(*, parts: int = 40, seed: int = 0) -> Workflow:
    """Search of sequences: split, search every part, join twice; parts + 3 tasks.

    Examples
    --------
    >>> blast(parts=40).n, blast(parts=40).m
    (43, 120)
    """
    s = _FamilyRecipe("blast", BLAST, seed)
    split = s.add("split_fasta")
    searches = s.row("blastall", [[split]] * whole(parts, "parts"))
    s.add("cat_blast", searches)
    s.add("cat", searches)
    return s.finish()


@register_generator("bwa", size="parts", estimate=lambda parts: parts + 4)
def bwa(*, parts: int = 100, seed: int = 0) -> Workflow:
    """Alignment of reads: an index, every part, two joins; parts + 4 tasks.

    Examples
    --------
    >>> bwa(parts=1000).n, bwa(parts=1000).m
    (1004, 4000)
    """
    s = _FamilyRecipe("bwa", BWA, seed)
    inputs = [s.add("fastq_reduce"), s.add("bwa_index")]
    aligned = s.row("bwa", [inputs] * whole(parts, "parts"))
    s.add("cat_bwa", aligned)
    s.add("cat", aligned)
    return s.finish()


@register_generator(
    "cycles", size="locations", estimate=lambda locations, runs: (4 * runs + 2) * locations + 1
)
def cycles(*, locations: int = 2, runs: int = 8, seed: int = 0) -> Workflow:
    """Crop simulations: 4 tasks per run and 2 summaries per location, then plots.

    Examples
    --------
    >>> cycles(locations=10, runs=16).n, cycles(locations=10, runs=16).m
    (661, 970)
    """
    s = _FamilyRecipe("cycles", CYCLES, seed)
    summaries = []
    for _ in range(whole(locations, "locations")):
        base = [[s.add("baseline_cycles")] for _ in range(whole(runs, "runs"))]
        plain, more = s.row("cycles", base), s.row("fertilizer_increase_cycles", base)
        parsed = s.row("output_parser", [list(pair) for pair in zip(plain, more, strict=True)])
        summaries.append(s.add("output_summary", plain))
        s.add("increase_summary", parsed)
    s.add("cycles_plots", summaries)
    return s.finish()


@register_generator("seismology", size="signals", estimate=lambda signals: signals + 1)
def seismology(*, signals: int = 100, seed: int = 0) -> Workflow:
    """Deconvolution of seismic signals, then one sieve: signals + 1 tasks."""
    s = _FamilyRecipe("seismology", SEISMOLOGY, seed)
    s.add("siftSTFByMisfit", [s.add("sG1IterDecon") for _ in range(whole(signals, "signals"))])
    return s.finish()


@register_generator(
    "soykb",
    size="samples",
    estimate=lambda samples, chromosomes: samples * (6 + chromosomes) + chromosomes + 6,
)
def soykb(*, samples: int = 5, chromosomes: int = 10, seed: int = 0) -> Workflow:
    """Soybean genomes: six steps per sample, calls per chromosome, filters.

    Examples
    --------
    >>> soykb(samples=5).n, soykb(samples=5).m
    (96, 194)
    """
    s = _FamilyRecipe("soykb", SOYKB, seed)
    chromosomes = whole(chromosomes, "chromosomes")
    called: list[list[int]] = [[] for _ in range(chromosomes)]
    for _ in range(whole(samples, "samples")):
        last = s.add("alignment_to_reference")
        for kind in ("sort_sam", "dedup", "add_replace"):
            last = s.add(kind, [last])
        target = s.add("realign_target_creator", [last])
        realigned = s.add("indel_realign", [last, target])
        for row in called:
            row.append(s.add("haplotype_caller", [realigned]))
    s.add("merge_gcvf", [task for row in called for task in row])
    combined = s.add("combine_variants", s.row("genotype_gvcfs", called))
    for _ in range(2):
        s.add("filtering", [s.add("select_variants", [combined])])
    return s.finish()


@register_generator("srasearch", size="accessions", estimate=lambda accessions: 2 * accessions + 2)
def srasearch(*, accessions: int = 20, seed: int = 0) -> Workflow:
    """Search in sequence archives: fetch and align each accession, then merge.

    Up to 25 accessions have one merge; more have two and a last one.

    Examples
    --------
    >>> [srasearch(accessions=a).n for a in (10, 20, 30, 50)]
    [22, 42, 64, 104]
    """
    s = _FamilyRecipe("srasearch", SRASEARCH, seed)
    index = s.add("bowtie2-build")
    fetched = [s.add("fasterq-dump") for _ in range(whole(accessions, "accessions"))]
    aligned = s.row("bowtie2", [[index, task] for task in fetched])
    if accessions <= 25:
        s.add("merge", aligned)
    else:
        half = len(aligned) // 2
        s.add("merge", s.row("merge", [aligned[:half], aligned[half:]]))
    return s.finish()


@register_generator(
    "query", size="scans", estimate=lambda scans, queries: (2 * scans + 1) * queries
)
def query(*, scans: int = 4, queries: int = 1, seed: int = 0) -> Workflow:
    """Queries on Spark: scans joined in a random tree, then two aggregations.

    A join has two inputs, so a query of s scans has 2 s + 1 stages.

    Examples
    --------
    >>> query(scans=4).n, int(query(scans=4).level.max()) >= 4
    (9, True)
    """
    s = _FamilyRecipe("query", QUERY, seed)
    rng = generator(seed, "families", "query", "tree")
    for _ in range(whole(queries, "queries")):
        roots = [s.add("scan") for _ in range(whole(scans, "scans"))]
        while len(roots) > 1:
            left = roots.pop(int(rng.integers(len(roots))))
            right = roots.pop(int(rng.integers(len(roots))))
            roots.append(s.add("join", [left, right]))
        s.add("aggregate", [s.add("aggregate", roots)])
    return s.finish()


@register_generator(
    "transformer", size="layers", estimate=lambda layers, shards: layers * (3 + 2 * shards) + 2
)
def transformer(*, layers: int = 4, shards: int = 12, seed: int = 0) -> Workflow:
    """A transformer: sharded attention and MLP, layers * (3 + 2 shards) + 2 tasks.

    Examples
    --------
    >>> transformer(layers=12).n, transformer(layers=12).m
    (326, 613)
    """
    s = _FamilyRecipe("transformer", GPT, seed)
    last, shards = s.add("embed"), whole(shards, "shards")
    for _ in range(whole(layers, "layers")):
        values = s.add("qkv", [last])
        attention = s.row("attn_shard", [[values]] * shards)
        merged = s.add("attn_merge", [values, *attention])
        last = s.add("mlp_merge", [merged, *s.row("mlp_shard", [[merged]] * shards)])
    s.add("lm_head", [last])
    return s.finish()


@register_generator(
    "inception", size="blocks", estimate=lambda blocks, branches: (6 * branches + 1) * blocks + 1
)
def inception(*, blocks: int = 4, branches: int = 4, seed: int = 0) -> Workflow:
    """A convolutional network: blocks of parallel branches of one to three layers.

    A layer is a convolution, a normalisation and an activation; a block with one branch and a short
    cut is that of a residual network.
    """
    s = _FamilyRecipe("inception", LAYERS, seed)
    rng, last = generator(seed, "families", "inception", "shape"), s.add("convolution")
    for _ in range(whole(blocks, "blocks")):
        ends = [last] if whole(branches, "branches") == 1 else []
        for _ in range(branches):
            end = last
            for _ in range(int(rng.integers(1, 4))):
                for kind in ("convolution", "normalise", "activate"):
                    end = s.add(kind, [end])
            ends.append(end)
        last = s.add("join", ends)
    return s.finish()
