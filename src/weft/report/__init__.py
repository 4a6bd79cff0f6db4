"""Reports: tables, statistics, Gantt charts, figures and self-contained HTML pages.

- `compare`: planners and policies on the same problems and scenarios
- `statistics`, `tables`, `quantities`: tests and intervals, tables, numbers with units
- `chart`: rows and lanes of a Gantt chart; `gantt_html`, `gantt_static`: its files
- `dag_svg`, `layers`: drawings of workflows; `figures`, `matplot`: figures through matplotlib
- `page`, `document`, `palette`: HTML pages and their colours
- `run_report`: the report of a real run
- `answers`: what if, and which machines to rent, as tables, pictures and pages
"""

__all__ = [
    "answers",
    "chart",
    "compare",
    "dag_svg",
    "document",
    "figures",
    "gantt_html",
    "gantt_static",
    "layers",
    "matplot",
    "page",
    "palette",
    "quantities",
    "run_report",
    "statistics",
    "tables",
]
