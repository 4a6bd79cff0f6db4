"""Refusals to save what a file cannot hold: loading returns what was saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

from weft.arguments import shown
from weft.errors import InvalidInput
from weft.model import Cluster, Workflow
from weft.model.columns import equal
from weft.model.explain.quantities import list_text

GRAPH = frozenset(
    {"name", "names", "work", "kind", "kinds", "memory", "cores", "src", "dst", "data"}
)
"""The fields of a workflow that every format of graphs holds."""

NOUNS = {
    "needs": "needs of capacities",
    "durations": "durations by device",
    "variants": "variants of tasks",
    "names": "names of devices",
    "kinds": "kinds of devices",
}
"""Fields that a message must describe, as their names do not say what is lost."""

REMEDY = "save it as weft JSON (.json) or NPZ (.npz)"


def refuse_lost_fields(workflow: Workflow, keeps: frozenset[str], kind: str) -> None:
    """Refuse a workflow that uses fields which a format does not keep.

    A field counts as used if it is not empty, so a new field is refused until a format keeps it.
    """
    lost = [
        field.name
        for field in fields(workflow)
        if field.init and field.name not in keeps and _used(getattr(workflow, field.name))
    ]
    if lost:
        raise InvalidInput(
            f"workflow '{workflow.name}' has {_listed(lost)}, which {kind} cannot hold; {REMEDY}"
        )


def refuse_lost_machines(cluster: Cluster, found: Cluster | None, kind: str) -> None:
    """Refuse a cluster that a reader would change; `found` is what it would read."""
    lost = [
        field.name
        for field in fields(cluster)
        if found is None or not equal(getattr(cluster, field.name), getattr(found, field.name))
    ]
    if lost:
        raise InvalidInput(
            f"cluster '{cluster.name}' has {_listed(lost)} that {kind} cannot hold; save the "
            "workflow of the problem, or the problem as weft JSON (.json) or NPZ (.npz)"
        )


def refuse_empty_names(workflow: Workflow, kind: str) -> None:
    """Refuse a workflow or task without a name, which readers would give another one."""
    if not workflow.name:
        raise InvalidInput(f"the workflow has the name '', which {kind} cannot hold; rename it")
    if "" in workflow.task_names:
        number = workflow.task_names.index("")
        raise InvalidInput(
            f"task {number} of workflow '{workflow.name}' has the name '', which {kind} cannot "
            f"hold; rename it, or {REMEDY}"
        )


def refuse_text(thing: object) -> None:
    """Refuse text that is not valid Unicode: no file holds a lone surrogate."""
    for where, text in _texts(thing, type(thing).__name__):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise InvalidInput(
                f"{where} holds {shown(text)}, which is not valid Unicode (half of a surrogate "
                "pair); rename it"
            ) from None


def _used(value: object) -> bool:
    return value is not None and (not hasattr(value, "__len__") or len(value) > 0)


def _listed(lost: list[str]) -> str:
    return list_text([NOUNS.get(name, name.replace("_", " ")) for name in lost])


def _texts(value: object, where: str) -> Iterator[tuple[str, str]]:
    """Yield the text in a value and its parts, each with the field that holds it."""
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _texts(key, where)
            yield from _texts(entry, where)
    elif isinstance(value, tuple | list):
        for entry in value:
            yield from _texts(entry, where)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _texts(getattr(value, field.name), field.name)
