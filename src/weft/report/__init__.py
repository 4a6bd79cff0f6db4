"""What is shown: tables, statistics, Gantt charts, figures, and one self-contained HTML page."""
