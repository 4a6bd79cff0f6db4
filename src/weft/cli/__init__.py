"""The command `weft`, one file per verb.

A verb is a module with SUMMARY, EXAMPLE, `add_arguments` and `run`; heavy imports are inside `run`.

- `main`: finds the verb, runs it and turns failures into one line and an exit code
- `arguments`: arguments that verbs share; `values`: readers of their values
- `output`: JSON, text and progress; failures of the user's scripts
- `answers`: the verbs `explain`, `view`, `whatif` and `size`; `engines`: `compile` and `export`
- `contests`: the verbs `attack` and `arena`; `services`: `serve` and `cascade`
- `train`: one trainer per kind of policy; every other module is the verb of its name
"""

__all__ = [
    "answers",
    "arguments",
    "bench",
    "compare",
    "contests",
    "engines",
    "evaluate",
    "generate",
    "history",
    "list",
    "main",
    "output",
    "plan",
    "profile",
    "reproduce",
    "run",
    "services",
    "simulate",
    "train",
    "values",
]
