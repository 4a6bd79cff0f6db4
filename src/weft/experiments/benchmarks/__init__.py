"""Benchmarks behind `weft bench`.

speed           planning, simulation and start-up times
large           one large plan in its own process
scale           ten million tasks, changes of plans, search on large graphs
parts           large graphs in parts, beside HEFT
peer            HEFT of the package anrg-saga on the same problem
quality         gap to the best known makespan at equal time limits
search          `anytime` in processor time of one thread
conditional     training and decision speed for streams of conditional jobs
conditional_peers  sb3-contrib, torch and onnxruntime on the same streams
"""

__all__ = [
    "conditional",
    "conditional_peers",
    "large",
    "parts",
    "peer",
    "quality",
    "scale",
    "search",
    "speed",
]
