"""The command `weft`, one file per verb.

A verb is a module with SUMMARY, EXAMPLE, `add_arguments` and `run`; heavy imports are inside `run`.

- `main`: finds the verb, runs it and turns failures into one line and an exit code
- `arguments`: arguments that verbs share; `values`: readers of their values
- `output`: JSON, text and progress; failures of the user's scripts

Verbs, each in the module of its name:

- `plan`, `compare`, `simulate`, `evaluate`: planners and policies on problems and streams
- `generate`: problems and workflows; `export`: a plan as jobs of a batch system
- `run`: functions on real machines; `history`: what earlier runs measured
- `train`: one subcommand per kind of policy
- `list`: names to choose from; `bench`: speed, or quality of plans, on this machine
- `reproduce`: the experiments of the source documents
- `answers`: the verbs `explain`, `view`, `whatif` and `size`
- `services`: the verbs `serve` and `cascade`
- `machine`: the verbs `profile` and `compile`
- `contests`: the verbs `attack` and `arena`
"""

__all__ = [
    "answers",
    "arguments",
    "bench",
    "compare",
    "contests",
    "evaluate",
    "export",
    "generate",
    "history",
    "list",
    "machine",
    "main",
    "output",
    "plan",
    "reproduce",
    "run",
    "services",
    "simulate",
    "train",
    "values",
]
