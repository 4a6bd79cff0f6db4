"""Machines to rent: cheapest for a deadline, fastest for a budget, the front.

- `offers`: devices or nodes of a catalogue that can replace each other
- `search`: clusters of the catalogue, planned or excluded by a bound
- `answer`: `size` and its result
"""

from weft.planners.sizing.answer import Sizing, size
from weft.planners.sizing.offers import Offer, offers_of
from weft.planners.sizing.search import Rental

__all__ = ["Offer", "Rental", "Sizing", "offers_of", "size"]
