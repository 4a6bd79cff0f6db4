"""Streams of workflows on a published testbed (DWS-Testbed, of GOODRL).

experiment  reproduce, table
testbed     its machines, workflows, arrivals and published results, as weft's workloads
contenders  the testbed's rules, with its clock and with the right one, and weft's policies
runs        steps of the experiment: one setting each
statistics  means over settings, wins, verdicts
report      the page
"""

__all__ = ["contenders", "experiment", "report", "runs", "statistics", "testbed"]
