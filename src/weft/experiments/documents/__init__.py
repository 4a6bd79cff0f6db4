"""All four source documents at once: their experiments and one page of verdicts.

experiment  run the four experiments, two of them side by side
verdicts    one row per claim: document, claim, published, measured, verdict
report      the page
"""

__all__ = ["experiment", "report", "verdicts"]
