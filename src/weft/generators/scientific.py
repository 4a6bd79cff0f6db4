"""Scientific workflows: their published structure, with log-normal work.

Structures follow Bharathi et al. (2008, "Characterization of scientific workflows") and Juve et al.
(2013, "Characterizing and profiling scientific workflows"). The mean seconds and bytes per kind are
round numbers of the order those papers and the traces of WfInstances (Coleman et al. 2022) report,
not their tables. Work is seconds on a device of speed 1.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

from weft.arguments import whole
from weft.generators.generators import register_sketch
from weft.generators.sketch import Sketch
from weft.model import Workflow


class _TaskProfile(NamedTuple):
    seconds: float
    output: float  # bytes to each successor


_MONTAGE = {
    "mProject": _TaskProfile(2.0, 8e6),
    "mDiffFit": _TaskProfile(0.7, 0.3e3),
    "mConcatFit": _TaskProfile(0.05, 1e6),  # per difference
    "mBgModel": _TaskProfile(0.15, 0.1e6),  # per image
    "mBackground": _TaskProfile(1.7, 8e6),
    "mImgtbl": _TaskProfile(0.01, 0.1e6),  # per image
    "mAdd": _TaskProfile(0.15, 3e6),  # seconds and bytes per image
    "mShrink": _TaskProfile(0.03, 0.2e6),  # seconds and bytes per image
    "mJPEG": _TaskProfile(0.7, 0.0),
}
_EPIGENOMICS = {
    "fastqSplit": _TaskProfile(35.0, 10e6),
    "filterContams": _TaskProfile(2.5, 10e6),
    "sol2sanger": _TaskProfile(0.5, 8e6),
    "fastq2bfq": _TaskProfile(1.4, 2e6),
    "map": _TaskProfile(200.0, 1e6),
    "mapMerge": _TaskProfile(10.0, 100e6),
    "maqIndex": _TaskProfile(45.0, 100e6),
    "pileup": _TaskProfile(55.0, 0.0),
}
_CYBERSHAKE = {
    "ExtractSGT": _TaskProfile(110.0, 150e6),
    "SeismogramSynthesis": _TaskProfile(80.0, 24e3),
    "PeakValCalc": _TaskProfile(1.0, 0.2e3),
    "ZipSeis": _TaskProfile(250.0, 0.0),
    "ZipPSA": _TaskProfile(200.0, 0.0),
}
_GENOME = {
    "individuals": _TaskProfile(75.0, 10e6),
    "individuals_merge": _TaskProfile(40.0, 100e6),
    "sifting": _TaskProfile(3.0, 1e6),
    "mutation_overlap": _TaskProfile(10.0, 0.0),
    "frequency": _TaskProfile(110.0, 0.0),
}


class _Profiled(Sketch):
    """A sketch in which each kind of task has its seconds and its output."""

    def __init__(self, name: str, profile: dict[str, _TaskProfile]) -> None:
        super().__init__(name)
        self._profile = profile

    def drawn(self, *, sigma: float, seed: int) -> Workflow:
        """Return the workflow, with work and data drawn."""
        return self.finish(sigma=sigma, data_sigma=sigma, seed=seed)

    def add(
        self, kind: str, label: object = "", *, after: list[int] | None = None, times: float = 1.0
    ) -> int:
        """Add a task after others; `times` scales its seconds and output with its input."""
        profile, name = self._profile[kind], f"{kind}_{label}" if label != "" else kind
        seconds, output = profile.seconds * times, profile.output * times
        return self.task(name, kind, seconds, after=after or (), output=output)


@register_sketch(
    "montage",
    size="images",
    estimate=lambda images: 5 * images,
    sketch=partial(_Profiled, profile=_MONTAGE),
)
def montage(s: _Profiled, *, images: int = 16) -> None:
    """Mosaics of the sky: project images, fit overlaps, correct backgrounds, add up.

    Images lie on a nearly square grid; each overlaps its right, lower and lower right neighbour,
    which gives close to three overlaps per image, as in Juve et al.; 2 * images + overlaps + 6
    tasks.

    Examples
    --------
    >>> w = montage(images=4)  # 8 + (2 + 2 + 1) + 6
    >>> w.n, w.kinds[:3]
    (19, ('mProject', 'mDiffFit', 'mConcatFit'))
    """
    images = whole(images, "images", least=2)
    columns = math.ceil(math.sqrt(images))
    project = [s.add("mProject", i) for i in range(images)]
    pairs = [
        (i, j)
        for i in range(images)
        for j, wraps in ((i + 1, True), (i + columns, False), (i + columns + 1, True))
        if j < images and not (wraps and j % columns == 0)
    ]
    fits = [s.add("mDiffFit", f"{i}_{j}", after=[project[i], project[j]]) for i, j in pairs]
    concat = s.add("mConcatFit", after=fits, times=len(fits))
    model = s.add("mBgModel", after=[concat], times=images)
    flat = [s.add("mBackground", i, after=[project[i], model]) for i in range(images)]
    table = s.add("mImgtbl", after=flat, times=images)
    mosaic = s.add("mAdd", after=[*flat, table], times=images)
    small = s.add("mShrink", after=[mosaic], times=images)
    s.add("mJPEG", after=[small])


@register_sketch(
    "epigenomics",
    size="chunks",
    estimate=lambda chunks, lanes: lanes * (4 * chunks + 2),
    sketch=partial(_Profiled, profile=_EPIGENOMICS),
)
def epigenomics(s: _Profiled, *, chunks: int = 8, lanes: int = 2) -> None:
    """A DNA read mapping workflow: lanes * (4 * chunks + 2) + 3 tasks.

    Each lane is split, its chunks pass four steps, then all chunks are merged.

    Examples
    --------
    >>> w = epigenomics(chunks=3, lanes=2)
    >>> w.n, int(w.level.max()) + 1
    (31, 9)
    """
    merged = []
    for lane in range(whole(lanes, "lanes")):
        split = s.add("fastqSplit", lane)
        mapped = []
        for chunk in range(whole(chunks, "chunks")):
            last = split
            for kind in ("filterContams", "sol2sanger", "fastq2bfq", "map"):
                last = s.add(kind, f"{lane}_{chunk}", after=[last])
            mapped.append(last)
        merged.append(s.add("mapMerge", lane, after=mapped))
    whole_map = s.add("mapMerge", "all", after=merged)
    index = s.add("maqIndex", after=[whole_map])
    s.add("pileup", after=[index])


@register_sketch(
    "cybershake",
    size="sites",
    estimate=lambda sites, variations: sites * (1 + 2 * variations),
    sketch=partial(_Profiled, profile=_CYBERSHAKE),
)
def cybershake(s: _Profiled, *, sites: int = 4, variations: int = 10) -> None:
    """A seismic hazard workflow: sites * (1 + 2 * variations) + 2 tasks.

    It synthesises seismograms from strain tensors, takes peaks, and zips both.

    Examples
    --------
    >>> cybershake(sites=2, variations=3).n
    16
    """
    seismograms, peaks = [], []
    for site in range(whole(sites, "sites")):
        extract = s.add("ExtractSGT", site)
        for v in range(whole(variations, "variations")):
            seismograms.append(s.add("SeismogramSynthesis", f"{site}_{v}", after=[extract]))
            peaks.append(s.add("PeakValCalc", f"{site}_{v}", after=[seismograms[-1]]))
    s.add("ZipSeis", after=seismograms)
    s.add("ZipPSA", after=peaks)


@register_sketch(
    "genome",
    size="chromosomes",
    estimate=lambda chromosomes, individuals, populations: (
        chromosomes * (individuals + 2 + 2 * populations)
    ),
    sketch=partial(_Profiled, profile=_GENOME),
)
def genome(
    s: _Profiled, *, chromosomes: int = 4, individuals: int = 10, populations: int = 7
) -> None:
    """1000 Genomes: chromosomes * (individuals + 2 + 2 * populations) tasks.

    Examples
    --------
    >>> genome(chromosomes=2, individuals=3, populations=1).n
    14
    """
    for c in range(whole(chromosomes, "chromosomes")):
        parts = [s.add("individuals", f"{c}_{i}") for i in range(whole(individuals, "individuals"))]
        merge = s.add("individuals_merge", c, after=parts)
        sifting = s.add("sifting", c)
        for p in range(whole(populations, "populations")):
            s.add("mutation_overlap", f"{c}_{p}", after=[merge, sifting])
            s.add("frequency", f"{c}_{p}", after=[merge, sifting])
