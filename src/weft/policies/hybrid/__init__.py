"""`hybrid`: decisions by expected durations, from models that learn online.

features          checked features and durations
duration_process  durations on one device: a Gaussian process that detects changes
policy            the registered policy, with queues and parallelism
"""

__all__ = ["duration_process", "features", "policy"]
