"""`weft run`: a script's task graph, for real."""

from __future__ import annotations

import argparse
import inspect
import os
import sys
from contextlib import nullcontext, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from weft.cli.arguments import add_flag, add_option, add_seed, needs
from weft.cli.output import users_code
from weft.cli.values import chart, number, page, port, result_file, whole

if TYPE_CHECKING:
    from weft.runtime.execution import RunTrace
    from weft.runtime.web.live.board import LiveBoard

SUMMARY = "run a task graph of Python functions on real devices"
EXAMPLE = """\
  weft run examples/cholesky.py --backend local --policy heft --report run.html
  weft run examples/cholesky.py --live
  weft run examples/cholesky.py --devices machine.toml

  The script has a function build() that returns the task graph: calls of functions decorated
  with @weft.task, a networkx graph, or (workflow, functions). It may have a function devices()
  that returns the devices."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "script", type=Path, metavar="SCRIPT", help="a Python file with a function build()"
    )
    add_option(parser, "--backend", str, "NAME", "where tasks run", default="local")
    text = "processes, or a cluster file (default: the script's, else one process per core)"
    add_option(parser, "--devices", str, "N|FILE", text)
    text = "a running cluster: folder of a HyperQueue server, address of Ray"
    add_option(parser, "--address", str, "WHERE", text)
    text = (
        "a planner or policy, by name (see: weft list) or file (default: heft, or eft if the "
        "workflow has choices)"
    )
    add_option(parser, "--policy", str, "POLICY", text)
    text = "a second policy, by name or file: its decisions are compared, not carried out"
    add_option(parser, "--shadow", str, "POLICY", text)
    add_flag(parser, "--fixed", "keep the first plan and the first estimates, whatever happens")
    trouble = parser.add_argument_group("when something goes wrong")
    add_option(trouble, "--retries", whole(0), "N", "retries of a task that failed", default=0)
    add_option(trouble, "--timeout", number(above=0), "S", "time limit of a task in seconds")
    add_flag(
        trouble,
        "--keep-going",
        "after a failure, run all tasks that do not depend on the failed one",
    )
    memory = parser.add_argument_group("memory")
    text = "file of earlier measurements (default: that of the script's project)"
    which = memory.add_mutually_exclusive_group()
    add_option(which, "--history", Path, "FILE", text)
    add_flag(which, "--no-history", "neither read nor write measurements")
    text = "store a journal and results under this name; a run of the name that ended early resumes"
    add_option(memory, "--run-id", str, "NAME", text)
    add_seed(parser)
    shown = parser.add_argument_group("watching")
    add_flag(shown, "--live", "serve a page on this machine that shows the run")
    add_option(shown, "--port", port, "N", "port of --live (default: a free one)", default=0)
    files = parser.add_argument_group("files to write")
    add_option(files, "--out", result_file, "FILE", "the trace, as JSON or NPZ")
    add_option(files, "--gantt", chart, "FILE", "the Gantt chart, as HTML, SVG or PNG")
    add_option(
        files, "--report", page, "HTML", "a page with charts, and predicted against measured"
    )


def run(args: argparse.Namespace) -> None:
    """Run, write and print."""
    from weft.cli.output import emit, name_written, notice, stdout_aside
    from weft.errors import WeftError

    needs(args, "--port", "--live")
    _check_script(args.script)
    with notice(f"reading {args.script.name}"):
        from weft.report.run_report import accuracy, run_text
        from weft.runtime.engine.failure import TaskFailed
        from weft.runtime.journal import check_run_id, resume_promise

    if args.run_id is not None:
        check_run_id(args.run_id)
    if args.json and args.run_id is None:  # otherwise the run itself says so
        print(resume_promise(None, keep=True), file=sys.stderr)
    try:
        with stdout_aside() if args.json else nullcontext(), notice("starting devices"):
            trace = _run_live(args) if args.live else _run(args, None)
    except TaskFailed as error:
        print(error.failure.traceback, end="", file=sys.stderr)
        raise WeftError(str(error).split("\n", maxsplit=1)[0]) from None
    predicted = _predicted(trace, args.policy)
    try:
        _write(args, trace, predicted)
    finally:  # a full disk does not take the summary of a run
        if args.json:
            emit({**_figures(trace, predicted), "accuracy": accuracy(trace)})
        else:
            print(run_text(trace, predicted, name=args.script.stem))
    name_written(args, args.out, args.gantt, args.report)


def _write(args: argparse.Namespace, trace: RunTrace, predicted: Any) -> None:
    """Write the files that are asked for."""
    from weft.formats import save
    from weft.report.run_report import write_run_report

    if args.out is not None:
        save(trace, args.out)
    if args.gantt is not None:
        from weft.report.gantt.static import save_gantt

        save_gantt(trace, args.gantt)
    if args.report is not None:
        write_run_report(trace, args.report, predicted, name=args.script.stem)


def _run_live(args: argparse.Namespace) -> RunTrace:
    """Run while a page shows it."""
    from weft.report.pages.live import draw_live, live_page
    from weft.runtime.engine.failure import TaskFailed
    from weft.runtime.web.live.board import LiveBoard
    from weft.runtime.web.live.server import LiveServer

    board = LiveBoard(draw_live, name=args.script.stem)
    with LiveServer(board, live_page(), port=args.port) as server:
        print(f"live: {server.url}", file=sys.stderr)
        try:
            trace = _run(args, board)
        except TaskFailed as error:
            board.finish("failed", error.trace, str(error).split("\n", maxsplit=1)[0])
            raise
        board.finish("done", trace)
    return trace


def _run(args: argparse.Namespace, live: LiveBoard | None) -> RunTrace:
    from weft.runtime.api import run as launch

    module = _load(args.script)
    what = _call(module, "build", args.script)
    functions = None
    if isinstance(what, tuple) and len(what) == 2 and isinstance(what[1], dict):
        what, functions = what
    devices: Any = _devices(args.devices)
    if devices is None and hasattr(module, "devices"):
        devices = _call(module, "devices", args.script)
    return launch(
        what,
        functions=functions,
        policy=args.policy,
        backend=args.backend,
        devices=devices,
        address=args.address,
        history=False if args.no_history else args.history or _history_of(args.script),
        run_id=args.run_id,
        retries=args.retries,
        timeout=args.timeout,
        on_error="continue" if args.keep_going else "stop",
        adapt=not args.fixed,
        shadow=args.shadow,
        progress=not args.json,
        live=live,
        seed=args.seed,
    )


def _devices(text: str | None) -> int | str | None:
    """Return a number of processes, the path of a cluster file, or None."""
    from weft.errors import InvalidInput

    if text is None or not text.lstrip("-").isdigit():
        return text
    if int(text) < 1:
        raise InvalidInput(f"--devices is {text}; it must be 1 or more, or a cluster file")
    return int(text)


def _history_of(script: Path) -> Path:
    """Return the history of the script's project, unless $WEFT_HISTORY names one."""
    from weft.runtime.costs.project import default_path

    return default_path(None if os.environ.get("WEFT_HISTORY") else script.resolve().parent)


def _check_script(path: Path) -> None:
    """Refuse what is no script, before anything slow is imported."""
    from weft.errors import InvalidInput

    if path.is_dir():
        raise InvalidInput(f"{path}: this is a directory; give a file")
    if not path.is_file():
        raise InvalidInput(f"{path}: there is no such file")
    if path.suffix != ".py" or not path.stem.isidentifier():
        raise InvalidInput(f"{path}: the name of a script must be a Python name that ends in .py")


def _load(path: Path) -> ModuleType:
    """Import a script under its own name, so that other processes can import it too."""
    from weft.errors import InvalidInput

    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    with users_code(f"{path}: the script"):
        module = import_module(path.stem)
    if Path(module.__file__ or "").resolve() != path.resolve():
        raise InvalidInput(
            f"{path}: another module is called '{path.stem}' ({module.__file__}); rename the script"
        )
    return module


def _call(module: ModuleType, name: str, path: Path) -> Any:
    from weft.errors import InvalidInput

    function = getattr(module, name, None)
    if not callable(function):
        raise InvalidInput(f"{path}: has no function {name}(); it must return the task graph")
    try:
        with suppress(ValueError):  # of functions without a signature
            inspect.signature(function).bind()
    except TypeError as error:
        raise InvalidInput(
            f"{path}: {name}() is called without arguments: {error}; give them defaults"
        ) from None
    with users_code(f"{path}: {name}()"):
        return function()


def _predicted(trace: RunTrace, policy: str | None) -> Any:
    from weft.errors import Stuck, Unsupported
    from weft.report.run_report import predicted_trace
    from weft.runtime.deciders.contender import default_contender, load_contender

    workflow = trace.workload.problems[0].workflow
    try:
        decider = default_contender(workflow) if policy is None else load_contender(policy)
        return predicted_trace(trace, decider)
    except (Unsupported, Stuck):
        return None


def _figures(trace: RunTrace, predicted: Any) -> dict[str, object]:
    from weft.model.metrics import trace_capacity_use

    return {
        "workflow": trace.workload.name,
        "policy": trace.policy,
        "tasks": trace.workload.instances,
        "devices": list(trace.workload.cluster.names),
        "makespan": trace.makespan,
        "predicted": None if predicted is None else predicted.makespan,
        "forecast": None if trace.forecast is None else trace.forecast.as_dict(),
        "utilisation": trace.utilisation,
        "capacity_use": trace_capacity_use(trace),
        "executions": len(trace),
        "plans": trace.plans,
        "replaced": trace.replaced or None,
        "failures": [{"task": f.task, "fault": f.fault, "text": f.text} for f in trace.failures],
    }
