"""Graph formats of others.

- `dot`: Graphviz; `stg`: Standard Task Graph Set; `wfformat`: WfCommons; `dax`: Pegasus
- `task_table`: CSV with one row per task
- `taskgraph`, `static_graph`: tasks in columns; cost matrices
- `callgraph`: conditional call graphs
"""

__all__ = ["callgraph", "dax", "dot", "static_graph", "stg", "task_table", "taskgraph", "wfformat"]
