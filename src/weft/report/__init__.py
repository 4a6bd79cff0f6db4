"""Reports: tables, statistics, charts, figures and self-contained HTML pages.

- `compare`: planners and policies on the same problems and scenarios; `comparison`: its result
- `statistics`, `tables`, `labels`: tests and intervals, tables, names of users on pages
- `gantt`: Gantt charts, as pages and as pictures
- `causes`: why a result takes as long as it does; `charts`: charts without scripts
- `dag_svg`, `layers`: drawings of workflows; `figures`, `matplot`: figures through matplotlib
- `page`, `document`, `palette`: HTML pages and their colours
- `pages`: pages of saved results and live runs, and results in notebooks
- `run_report`: the report of a real run
- `answers`: what if, and which machines to rent, as tables, pictures and pages
"""

__all__ = [
    "answers",
    "causes",
    "charts",
    "compare",
    "comparison",
    "dag_svg",
    "document",
    "figures",
    "gantt",
    "labels",
    "layers",
    "matplot",
    "page",
    "pages",
    "palette",
    "run_report",
    "statistics",
    "tables",
]
