"""Submitted documents as applications: a workflow, and the call of each task.

A document is WfFormat with commands, or ``{"workflow": ..., "tasks": {task or kind: ...}}`` with a
workflow in weft JSON or WfFormat. A task is ``{"function": name, "args": [...], "kwargs": {...}}``
with a function that the operator registered, or ``{"command": [program, argument, ...]}`` if the
operator allows commands. A task that is not named calls the registered function of its name or
kind. Documents are data: nothing in them is unpickled or evaluated.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from weft.arguments import shown
from weft.errors import InvalidInput, UnknownName
from weft.formats.graphs.wfformat import is_wfformat, read_wfformat, recorded_commands
from weft.formats.native.weft_schema import decode
from weft.formats.parsing.record import Record
from weft.formats.parsing.source import decode_text, one_line, parse_json
from weft.model import Problem, Workflow
from weft.registry import closest
from weft.runtime.backends.protocol import Call, Input
from weft.runtime.inputs.commands import run_command
from weft.runtime.inputs.functions import Application
from weft.runtime.inputs.promises import Task
from weft.runtime.web.work import JsonFunction, kept

MAX_BATCH = 1000
"""Submissions in one request."""

KNOWN = 256
"""Documents whose applications are kept, for those that come again and again."""

KNOWN_BYTES = 1 << 16
"""Size of a document above which its application is not kept."""


class Documents:
    """Reader of submissions; equal documents give the same application.

    Parameters
    ----------
    functions : name -> function that tasks may call
    commands : whether tasks may run commands
    max_tasks : tasks of one workflow
    """

    def __init__(
        self,
        functions: Mapping[str, Callable[..., Any]],
        *,
        commands: bool = False,
        max_tasks: int = 10_000,
    ) -> None:
        self.functions = {name: JsonFunction(function) for name, function in functions.items()}
        self.commands = commands
        self.max_tasks = max_tasks
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, Application] = OrderedDict()

    def read(self, body: bytes) -> list[tuple[bytes, Application]]:
        """Return each document of a body, one or a list of them, and its application."""
        known = self._kept(body)
        if known is not None:
            return [(body, known)]
        content = parse_json(decode_text(body))
        if not isinstance(content, list):
            return [(body, self._application(body, content))]
        if not 0 < len(content) <= MAX_BATCH:
            raise InvalidInput(f"a list of {len(content)} documents; give 1 to {MAX_BATCH}")
        texts = [json.dumps(entry).encode() for entry in content]
        return [(t, self._application(t, e)) for t, e in zip(texts, content, strict=True)]

    def _application(self, body: bytes, content: Any) -> Application:
        known = self._kept(body)
        if known is not None:
            return known
        made = self._read(Record(content, "the document"))
        if len(body) <= KNOWN_BYTES:
            with self._lock:
                self._known[body] = made
                if len(self._known) > KNOWN:
                    self._known.popitem(last=False)
        return made

    def _kept(self, body: bytes) -> Application | None:
        with self._lock:  # large documents are read in threads
            if body not in self._known:
                return None
            self._known.move_to_end(body)
            return self._known[body]

    def _read(self, record: Record) -> Application:
        if is_wfformat(record):
            workflow, given = read_wfformat(record, name="workflow"), _commands(record)
        else:
            record.only(("workflow", "tasks"))
            inner = Record(record.raw("workflow"), "workflow")
            workflow = read_workflow(inner)
            given = _commands(inner) if is_wfformat(inner) else {}
            given |= Record(record.raw("tasks", {}), "tasks").content
        if not 0 < workflow.n <= self.max_tasks:
            raise InvalidInput(
                f"workflow '{workflow.name}' has {workflow.n} tasks; a submission has 1 to "
                f"{self.max_tasks}"
            )
        return self._bound(workflow, given)

    def _bound(self, workflow: Workflow, given: Mapping[str, Any]) -> Application:
        names, kinds = workflow.task_names, [workflow.kinds[k] for k in workflow.kind.tolist()]
        known = dict.fromkeys([*names, *workflow.kinds])
        for name in given:
            if name not in known:
                raise UnknownName(f"'{name}' in tasks is no task or kind{closest(name, known)}")
        parents = (workflow.pred_ptr[1:] - workflow.pred_ptr[:-1]).tolist()
        calls = [
            self._call(name, given.get(name, given.get(kind, {"function": kind})), count)
            for name, kind, count in zip(names, kinds, parents, strict=True)
        ]
        ends = (workflow.succ_ptr[1:] == workflow.succ_ptr[:-1]).nonzero()[0]
        return Application(workflow, tuple(calls), tuple(ends.tolist()))

    def _call(self, task: str, content: Any, parents: int) -> Call:
        r = Record(content, f"task '{task}'")
        r.only(("function", "args", "kwargs", "command"))
        if "command" in r:
            r.only(("command",))
            return self._command(r)
        name = r.text("function")
        if name not in self.functions:
            raise UnknownName(
                f"{r.where}: no function '{name}' is registered{closest(name, self.functions)}"
            )
        args, kwargs = r.raw("args", []), r.raw("kwargs", {})
        if not isinstance(args, list) or not isinstance(kwargs, dict):
            raise InvalidInput(f"{r.where}: args must be a list and kwargs an object")
        inputs = tuple(Input(k) for k in range(parents))
        return Call(self.functions[name], (*inputs, *args), kwargs)

    def _command(self, r: Record) -> Call:
        argv = r.strings("command")
        if not self.commands:
            raise InvalidInput(
                f"{r.where}: commands are not allowed; the operator allows them with --commands"
            )
        if not argv or not argv[0]:
            raise InvalidInput(f"{r.where}: the command is empty; give [program, argument, ...]")
        return Call(run_command, (), {"argv": argv})


def read_workflow(record: Record) -> Workflow:
    """Return the workflow of a record in weft JSON or WfFormat.

    Weft JSON may lack its key format.
    """
    if is_wfformat(record):
        return read_wfformat(record, name="workflow")
    found = decode(Record({"format": "weft-workflow-1", **record.content}, record.where))
    found = found.workflow if isinstance(found, Problem) else found
    if not isinstance(found, Workflow):
        raise InvalidInput(f"{record.where} is a {shown(record.raw('format'))}; give a workflow")
    return found


def with_results(
    app: Application, results: Mapping[str, tuple[Any, Sequence[str | int]]]
) -> Application:
    """Return an application that does not run finished tasks again.

    `results` are name -> (value, branches).
    """
    calls = [
        Call(kept, (), {"value": results[name][0], "branches": list(results[name][1])})
        if name in results
        else call
        for name, call in zip(app.workflow.task_names, app.calls, strict=True)
    ]
    return replace(app, calls=tuple(calls))


def registered(modules: Iterable[str]) -> dict[str, Callable[..., Any]]:
    """Return the public functions of modules, given by name or as Python files."""
    found: dict[str, Callable[..., Any]] = {}
    for name in modules:
        module = _imported(name)
        public = getattr(module, "__all__", None) or [
            key
            for key, value in vars(module).items()
            if not key.startswith("_") and getattr(value, "__module__", "") == module.__name__
        ]
        for key in public:
            value = getattr(module, key)
            function = value.function if isinstance(value, Task) else value
            if callable(function) and not isinstance(function, type):
                if key in found:
                    raise InvalidInput(f"function '{key}' is registered twice; rename one of them")
                found[key] = function
    return found


def _imported(name: str) -> Any:
    path = Path(name)
    if path.suffix == ".py":
        if not path.is_file():
            raise InvalidInput(f"{name}: there is no such file")
        folder, name = str(path.resolve().parent), path.stem
    else:
        folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return import_module(name)
    except ImportError as error:
        raise InvalidInput(f"module '{name}' of --functions cannot be imported: {error}") from None
    except (Exception, SystemExit) as error:  # noqa: BLE001  # of the user
        reason = one_line(f"{type(error).__name__}: {error}")
        raise InvalidInput(f"module '{name}' of --functions failed: {reason}") from None


def _commands(record: Record) -> dict[str, Any]:
    return {task: {"command": argv} for task, argv in recorded_commands(record).items()}
