"""Reports: tables, statistics, Gantt charts, figures and self-contained HTML pages.

- `compare`: planners and policies on the same problems and scenarios; `comparison`: its result
- `statistics`, `tables`, `quantities`: tests and intervals, tables, numbers with units
- `gantt`: Gantt charts, as pages and as pictures
- `causes`: why a result takes as long as it does, on pages and in notebooks
- `dag_svg`, `layers`: drawings of workflows; `figures`, `matplot`: figures through matplotlib
- `page`, `document`, `palette`: HTML pages and their colours
- `run_report`: the report of a real run
- `answers`: what if, and which machines to rent, as tables, pictures and pages
"""

__all__ = [
    "answers",
    "causes",
    "compare",
    "comparison",
    "dag_svg",
    "document",
    "figures",
    "gantt",
    "layers",
    "matplot",
    "page",
    "palette",
    "quantities",
    "run_report",
    "statistics",
    "tables",
]
