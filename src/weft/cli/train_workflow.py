"""`weft train workflow`: the rule and the DQN for workflows on unlike devices."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from weft.errors import UnknownName
from weft.registry import closest

POLICIES = ("rule", "portfolio", "dqn", "dqn-bootstrapped", "dqn-document")
"""What can be trained: weights by evolution; sets of weights that complete one another; Q-networks on top of these, from rollouts, from
bootstrapped targets, and those with the document's reward."""


def run(args: argparse.Namespace, bar: Callable[..., Any]) -> None:
    """Train one for each seed, keep the best, and print how it went."""
    from weft.cli.output import emit

    name = "dqn" if args.policy == "pi4" else args.policy
    if name not in POLICIES:
        raise UnknownName(f"unknown workflow policy '{name}'{closest(name, POLICIES)}")
    args.out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for seed in range(args.seed, args.seed + args.seeds):
        with bar(name, seed, int(args.seconds), unit=" s") as shown:
            found = _train(name, args.seconds, seed, lambda row, shown=shown: shown.show(int(row["seconds"]), row["score"]))  # type: ignore[misc]
        if not rows or found.score < min(row["score"] for row in rows):
            path = _save(args, name, found)
        rows.append({"seed": seed, "score": found.score, "cpu_seconds": found.seconds})
    if args.json:
        emit({"policy": name, "file": str(path), "trainings": rows})
        return
    for row in rows:
        print(f"  seed {row['seed']}: score {row['score']:.4f} in {row['cpu_seconds']:.0f} s of processor time")
    against = {"rule": "a strong hand-made rule", "portfolio": "the rule alone"}.get(name, "following the plan")
    print(f"best: score {min(row['score'] for row in rows):.4f} (mean log of the objective against {against})\nwrote {path}")


def _train(name: str, seconds: float, seed: int, watch: Callable[[dict[str, float]], None]) -> Any:
    if name == "rule":
        from weft.learn.rule_search import RuleSearch, search_rule

        return search_rule(RuleSearch(seconds=seconds, seed=seed), watch=watch)
    from weft.policies.workflow_files import SHIPPED, load_workflow_policy, read_card

    if name == "portfolio":
        from weft.learn.portfolio_search import PortfolioSearch, search_portfolio

        return search_portfolio(read_card(SHIPPED / "rule").weights[0], PortfolioSearch(seed=seed), watch=watch)
    sets = load_workflow_policy(SHIPPED / "portfolio").sets
    if name == "dqn":
        from weft.learn.dqn_rollouts import RolloutSettings, train_by_rollouts

        return train_by_rollouts(sets, RolloutSettings(seconds=seconds, seed=seed), watch=watch)
    from weft.learn.dqn import DOCUMENT, OURS, DqnSettings, train_dqn

    reward = DOCUMENT if name == "dqn-document" else OURS
    return train_dqn(sets, DqnSettings(seconds=seconds, seed=seed, reward=dict(reward)), watch=watch)


def _save(args: argparse.Namespace, name: str, found: Any) -> Any:
    from weft.policies.workflow_files import SHIPPED, Card, read_card, save_policy

    path, record = args.out / name, found.record()
    if name == "rule":
        return save_policy(path, Card(name=name, about="Weights found by evolution.", weights=[found.weights], training=record))
    if name == "portfolio":
        return save_policy(path, Card(name=name, about="Sets of weights that complete one another.", weights=found.sets, training=record))
    about, sets = "Q-networks on top of the plans of 'portfolio'.", read_card(SHIPPED / "portfolio").weights
    return save_policy(path, Card(name=name, about=about, weights=sets, caution=found.caution, training=record), found.arrays)
