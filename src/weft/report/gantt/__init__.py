"""Gantt charts of plans, traces and runs.

- `chart`: lanes and boxes, the same for every file
- `html`: an interactive page without a server; `static`: SVG and PNG
"""

__all__ = ["chart", "html", "static"]
