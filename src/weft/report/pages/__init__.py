"""Whole pages, and results in notebooks.

- `live`: the page that follows a run
- `notebook`: results in notebooks, without scripts
- `results`: pages about saved results
"""

__all__ = ["live", "notebook", "results"]
