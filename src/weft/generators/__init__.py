"""Generators of problems.

- `generators`: the table of workflow generators and `generate`
- `layered`, `shapes`, `linear_algebra`, `scientific`, `conditional`: workflows
- `families`: families of real workflows, and the cases drawn from them
- `machines`: clusters of published devices and random ones, and costs on them; `ccr`: transfers
- `workloads`: arrivals, load, deadlines; `conditional_streams`: random conditional streams
- `instances`: the instances of the GPU-cluster experiments
- `sketch`: a workflow under construction
"""

from weft.generators.ccr import measure_ccr, scale_ccr
from weft.generators.conditional import cascade, cascade_cluster, conditional, conditional_paper
from weft.generators.families import draw_case, draw_workflow
from weft.generators.generators import GENERATORS, generate, generate_problem, generator_options
from weft.generators.instances import (
    CONDITIONS,
    Condition,
    Instance,
    draw_instance,
    draw_problem,
    draw_scenario,
    fit_workflow,
    heterogeneous_gpus,
    instance_of,
)
from weft.generators.layered import layered
from weft.generators.linear_algebra import cholesky, lu, qr
from weft.generators.machines.catalogue import DeviceModel, catalogue, device_model
from weft.generators.machines.clusters import gpu_cluster, mixed_cluster, random_cluster
from weft.generators.machines.costs import related_speeds, unrelated_problem, with_affinity
from weft.generators.scientific import cybershake, epigenomics, genome, montage
from weft.generators.shapes import (
    bag,
    fft,
    fork_join,
    gauss,
    in_tree,
    map_reduce,
    out_tree,
    pipeline,
)
from weft.generators.workloads import (
    arrivals,
    dag_jobs,
    deadlines,
    minimum_path,
    priorities,
    rate_for_load,
    stream_of,
)

__all__ = [
    "CONDITIONS",
    "GENERATORS",
    "Condition",
    "DeviceModel",
    "Instance",
    "arrivals",
    "bag",
    "cascade",
    "cascade_cluster",
    "catalogue",
    "cholesky",
    "conditional",
    "conditional_paper",
    "cybershake",
    "dag_jobs",
    "deadlines",
    "device_model",
    "draw_case",
    "draw_instance",
    "draw_problem",
    "draw_scenario",
    "draw_workflow",
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
    "heterogeneous_gpus",
    "in_tree",
    "instance_of",
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
    "unrelated_problem",
    "with_affinity",
]
