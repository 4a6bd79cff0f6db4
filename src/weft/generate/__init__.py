"""Making problems: random and structured workflows, clusters from published devices, streams of jobs.

Called, the package makes a workflow: ``weft.generate("cholesky", tiles=8)``.
"""

import sys

from weft.generate.catalogue import DeviceModel, catalogue, device_model
from weft.generate.ccr import measure_ccr, scale_ccr
from weft.generate.clusters import gpu_cluster, mixed_cluster, random_cluster
from weft.generate.conditional import cascade, cascade_cluster, conditional, conditional_paper
from weft.generate.conditions import CONDITIONS, Case, Condition, case_of, draw_case, draw_future, draw_problem, fit_workflow, unlike_gpus
from weft.generate.costs import related_speeds, unrelated_problem, with_affinity
from weft.generate.generators import GENERATORS, generate, generate_problem, generator_options
from weft.generate.layered import layered
from weft.generate.linear_algebra import cholesky, lu, qr
from weft.generate.scientific import cybershake, epigenomics, genome, montage
from weft.generate.shapes import bag, fft, fork_join, gauss, in_tree, map_reduce, out_tree, pipeline
from weft.generate.workloads import (
    arrivals,
    dag_jobs,
    deadlines,
    minimum_path,
    priorities,
    rate_for_load,
    stream_of,
)
from weft.registry import CallableModule

__all__ = [
    "CONDITIONS",
    "GENERATORS",
    "Case",
    "Condition",
    "DeviceModel",
    "arrivals",
    "bag",
    "called",
    "cascade",
    "cascade_cluster",
    "case_of",
    "catalogue",
    "cholesky",
    "conditional",
    "conditional_paper",
    "cybershake",
    "dag_jobs",
    "deadlines",
    "device_model",
    "draw_case",
    "draw_future",
    "draw_problem",
    "epigenomics",
    "fft",
    "fit_workflow",
    "fork_join",
    "gauss",
    "generate",
    "generate_problem",
    "generator_options",
    "genome",
    "gpu_cluster",
    "in_tree",
    "layered",
    "lu",
    "map_reduce",
    "measure_ccr",
    "minimum_path",
    "mixed_cluster",
    "montage",
    "out_tree",
    "pipeline",
    "priorities",
    "qr",
    "random_cluster",
    "rate_for_load",
    "related_speeds",
    "scale_ccr",
    "stream_of",
    "unlike_gpus",
    "unrelated_problem",
    "with_affinity",
]

called = generate
sys.modules[__name__].__class__ = CallableModule
