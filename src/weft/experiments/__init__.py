"""Experiments of the source documents, and benchmarks.

Each experiment has a module `experiment` with `reproduce(folder, quick=, track=)` and
`table(results)`; `weft reproduce NAME` runs it and `weft bench` runs the benchmarks.

harness      processes, checkpoints, machine description, result files
batch_curves policies on machines whose batches take longer when fuller
conditional  conditional task graphs on CPUs and batching GPUs
families     families of real workflows
gpu_cluster  workflows on a heterogeneous GPU cluster
imitation    networks that imitate HEFT (DeepSched) or a search
shift        learned device choice under a shift of the workload
streams      a published testbed (DWS-Testbed): its rules, its rivals and weft's policies
arena        contests of planners and policies: attacks, benchmark instances, records
benchmarks   speed and plan quality
documents    the verdicts of all documents on one page
onnx_session onnxruntime on one thread, for timings
"""

__all__ = [
    "arena",
    "batch_curves",
    "benchmarks",
    "conditional",
    "documents",
    "families",
    "gpu_cluster",
    "harness",
    "imitation",
    "onnx_session",
    "shift",
    "streams",
]
