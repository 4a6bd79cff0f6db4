"""Several ways to run a task.

- `variant`: `Variant`, checks, and problems with chosen variants
"""

from weft.model.variants.variant import (
    Variant,
    checked_variants,
    mean_accuracy,
    refuse_variants,
    resolve,
    variants_by_task,
)

__all__ = [
    "Variant",
    "checked_variants",
    "mean_accuracy",
    "refuse_variants",
    "resolve",
    "variants_by_task",
]
