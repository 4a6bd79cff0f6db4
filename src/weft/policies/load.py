"""A policy by name, path or object: the loader of every function and verb."""

from __future__ import annotations

import os
from typing import TypeVar

from weft.errors import InvalidInput, Unsupported
from weft.formats.model_file import is_model_path
from weft.model import Problem, Workload
from weft.model.conditional_stream import ConditionalStream
from weft.policies.policy import POLICIES, read_policy
from weft.registry import Entry
from weft.sim.view import Policy
from weft.typed import typed

P = TypeVar("P", bound=Policy)


@typed
def load_policy(policy: str | os.PathLike[str] | Policy) -> Policy:
    """Load a policy by its name, or from a file that `weft train` wrote.

    `weft.list_policies()` has the names. An object with `begin` and `decide` is a policy already
    and is returned. Loading runs no code.

    Examples
    --------
    >>> load_policy("conditional-pi4").name, load_policy("tuned-list").name
    ('conditional-pi4', 'tuned-list')
    """
    if not isinstance(policy, str | os.PathLike):
        if isinstance(policy, type):
            raise InvalidInput(f"policy is the class {policy.__name__}; give an object of it")
        if callable(getattr(policy, "begin", None)) and callable(getattr(policy, "decide", None)):
            return policy
        raise InvalidInput(
            f"policy is {type(policy).__name__}; "
            "it must be a name, a path, or have begin and decide"
        )
    name = os.fspath(policy)
    if name in POLICIES:
        return POLICIES.create(name)
    if is_model_path(name):
        return read_policy(name)
    return POLICIES.create(name)  # raises, with the closest name


def load_kind(policy: str | os.PathLike[str] | Policy, kind: type[P], refusal: str) -> P:
    """Load a policy of one class; `refusal` says what all others lack, and the remedy.

    Examples
    --------
    >>> from weft.policies.rules import RulePolicy
    >>> load_kind("fifo", RulePolicy, "is no rule").name
    'fifo'
    >>> load_kind("tuned-list", RulePolicy, "is no rule; use 'fifo'")
    Traceback (most recent call last):
    ...
    weft.errors.Unsupported: policy 'tuned-list' is no rule; use 'fifo'
    """
    found = load_policy(policy)
    if not isinstance(found, kind):
        name = getattr(found, "name", type(found).__name__)
        raise Unsupported(f"policy '{name}' {refusal}")
    return found


class PolicyEntry(Entry):
    """The name of a policy, with its summary, family and supported workloads."""

    __slots__ = ()

    def supports(self, workload: Workload | Problem | ConditionalStream) -> bool:
        """Return whether the policy can decide for a workload."""
        try:
            load_policy(str(self)).begin(as_workload(workload))
        except Unsupported:
            return False
        return True


def as_workload(workload: Workload | Problem | ConditionalStream) -> Workload:
    """Return a problem, or one job of a stream, as a workload."""
    if isinstance(workload, ConditionalStream):
        workload = workload.problem
    return Workload.of(workload) if isinstance(workload, Problem) else workload


@typed
def list_policies() -> list[PolicyEntry]:
    """List all policies: names with `.summary`, `.family` and `.supports(workload)`.

    Examples
    --------
    >>> [name for name in list_policies() if name.family == "rules"][:3]
    ['depth-first', 'eft', 'fifo']
    """
    return [PolicyEntry(e, summary=e.summary, family=e.family) for e in POLICIES.entries()]
