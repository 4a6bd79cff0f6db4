"""Why a plan or trace takes as long as it does.

- `causes`: the latest event that each execution waited for
- `capacity`: waits for the capacities of nodes
- `chain`: the critical chain in pieces that sum to the makespan
- `alternatives`: finishes on other devices
- `explanation`: `explain` and its result; `difference`: two results beside each other
- `quantities`: numbers with units, shares and lists in sentences
"""

from weft.model.explain.causes import KINDS
from weft.model.explain.chain import PARTS, Segment
from weft.model.explain.difference import ExplanationDifference, compare_explanations
from weft.model.explain.explanation import Explanation, IdleGap, explain

__all__ = [
    "KINDS",
    "PARTS",
    "Explanation",
    "ExplanationDifference",
    "IdleGap",
    "Segment",
    "compare_explanations",
    "explain",
]
