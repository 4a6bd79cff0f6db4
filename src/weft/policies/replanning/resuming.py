"""The state of a portfolio as plain arrays, and back: for sessions that are saved."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.model.columns import IntArray
from weft.policies.replanning.portfolio import Portfolio
from weft.policies.replanning.state import PAIR
from weft.sim.renumbering import Renumbering

_PLACED = ("start", "finish", "device")
_FOLLOWED = ("followed", "tried", "arrived", "keep")


def portfolio_state(portfolio: Portfolio) -> dict[str, Any]:
    """Return the plans and observations of a portfolio."""
    stack, state = portfolio.stack, portfolio.state[0]
    return {
        "placed": {key: stack.inst[key].copy() for key in _PLACED},
        "group": stack.job["group"].copy(),
        "pair": {key: stack.pair[key].copy() for key in PAIR.names or ()},
        "sequence": stack.sequence.copy(),
        "prior": stack.prior.copy(),
        **{key: stack.state[key].copy() for key in ("random", "planned", "executions")},
        **{key: int(state[key]) for key in _FOLLOWED},
    }


def resume_portfolio(
    portfolio: Portfolio, state: dict[str, Any], numbers: Renumbering, recorded: IntArray
) -> None:
    """Go on from the state of a portfolio; `recorded` are the instances of its executions."""
    stack = portfolio.stack
    stay = np.flatnonzero(numbers.instances >= 0)
    for key in _PLACED:
        stack.inst[key][:, : len(stay)] = state["placed"][key][:, stay]
    stack.job["group"][:, : len(numbers.jobs)] = state["group"][:, numbers.jobs]
    for key, old in state["pair"].items():
        stack.pair[key][:, : old.shape[1]] = old
    for m, row in enumerate(state["sequence"]):
        kept = numbers.of(row[: state["planned"][m, 0]])
        stack.sequence[m, : len(kept)], stack.state["planned"][m] = kept, len(kept)
        seen = [i for i in recorded[: state["executions"][m, 0]] if i >= 0]  # without copies
        observed = numbers.of(seen)
        stack.state["executions"][m] = len(observed)
    stack.state["random"], stack.prior[:] = state["random"], state["prior"]
    for key in _FOLLOWED:
        portfolio.state[key] = state[key]
    portfolio.state["arrived"] -= numbers.gone.sum()
