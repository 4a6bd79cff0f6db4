"""Networks for planners, trained on other planners' schedules.

- `amortised`: one decoder pass in place of a search
- `deepsched`: imitation of HEFT
"""

__all__ = ["amortised", "deepsched"]
