"""All four source documents at once: their experiments and one page of verdicts.

experiment  run the four experiments, two of them side by side, and write the page
verdicts    one row per claim: document, claim, published, measured, verdict
"""

__all__ = ["experiment", "verdicts"]
