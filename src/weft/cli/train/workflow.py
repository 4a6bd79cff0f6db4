"""`weft train workflow`: policies for workflows on unlike devices."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.errors import UnknownName
from weft.registry import closest

if TYPE_CHECKING:
    from weft.policies.replanning.files import Card

Show = Callable[[float, float], None]
"""Takes how far the training is, and its score."""


class TrainedModel(NamedTuple):
    """What came of a training."""

    score: float
    seconds: float
    save: Callable[[Path], Path]


class Trainable(NamedTuple):
    """How to train: a function of (seconds, seed, show), what it counts, up to how many (0: up to `--seconds`), and what scores mean."""

    train: Callable[[float, int, Show], TrainedModel]
    unit: str
    total: int
    score: str


def run(args: argparse.Namespace, bar: Callable[..., Any]) -> None:
    """Train one for each seed, keep the best, and print how it went."""
    from weft.cli.output import emit

    name = "replan-switch" if args.policy == "pi4" else args.policy
    if name not in RECIPES:
        raise UnknownName(f"unknown workflow policy '{name}'{closest(name, tuple(RECIPES))}")
    recipe = RECIPES[name]
    args.out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for seed in range(args.seed, args.seed + args.seeds):
        with bar(name, seed, recipe.total or int(args.seconds), unit=recipe.unit) as shown:
            found = recipe.train(
                args.seconds, seed, lambda done, score, shown=shown: shown.show(int(done), score)
            )  # type: ignore[misc]
        if not rows or found.score < min(row["score"] for row in rows):
            path = found.save(args.out / name)
        rows.append({"seed": seed, "score": found.score, "cpu_seconds": found.seconds})
    if args.json:
        emit({"policy": name, "file": str(path), "trainings": rows})
        return
    for row in rows:
        print(
            f"  seed {row['seed']}: score {row['score']:.4f} in {row['cpu_seconds']:.0f} s of processor time"
        )
    print(f"best: score {min(row['score'] for row in rows):.4f} ({recipe.score})\nwrote {path}")


def _rule(seconds: float, seed: int, show: Show) -> TrainedModel:
    from weft.learn.workflow.tuned_list import TuningSettings, tune_weights

    found = tune_weights(
        TuningSettings(seconds=seconds, seed=seed),
        progress=lambda row: show(row["seconds"], row["score"]),
    )
    card = _card("tuned-list", "Weights found by evolution.", [found.weights], found.record())
    return TrainedModel(found.score, found.seconds, lambda path: _save(path, card))


def _portfolio(seconds: float, seed: int, show: Show) -> TrainedModel:  # noqa: ARG001
    from weft.learn.workflow.portfolio import PortfolioSearch, search_portfolio
    from weft.policies.replanning.files import SHIPPED, read_card

    rule = read_card(SHIPPED / "tuned-list").weights[0]
    found = search_portfolio(
        rule, PortfolioSearch(seed=seed), progress=lambda row: show(row["step"] + 1, row["score"])
    )
    card = _card(
        "portfolio",
        "Sets of weights that complete one another.",
        found.sets,
        found.record(),
        homes=True,
    )
    return TrainedModel(found.score, found.seconds, lambda path: _save(path, card))


def _dqn(seconds: float, seed: int, show: Show) -> TrainedModel:  # noqa: ARG001
    from weft.learn.workflow.switch import SwitchSettings, train_switch
    from weft.policies.replanning.files import SHIPPED, load_workflow_policy, read_card

    sets = load_workflow_policy(SHIPPED / "portfolio").sets
    found = train_switch(
        sets, SwitchSettings(seed=seed), progress=lambda row: show(row["round"], row["score"])
    )
    about, weights = (
        "A Q-network decides whether to keep a plan or to plan as 'portfolio' does.",
        read_card(SHIPPED / "portfolio").weights,
    )
    card = _card(
        "replan-switch",
        about,
        weights,
        found.record(),
        homes=True,
        choice="plans",
        caution=found.margin,
    )
    return TrainedModel(found.score, found.seconds, lambda path: _save(path, card, found.arrays))


def _turns(name: str) -> Callable[[float, int, Show], TrainedModel]:
    def train(seconds: float, seed: int, show: Show) -> TrainedModel:
        from weft.learn.workflow.two_stage import DOCUMENT, OURS, TwoStageSettings, train_two_stage
        from weft.policies.replanning.files import SHIPPED, load_workflow_policy, read_card

        reward = DOCUMENT if name == "dqn" else OURS
        settings = TwoStageSettings(seconds=seconds, seed=seed, reward=dict(reward))
        sets = load_workflow_policy(SHIPPED / "portfolio").sets
        found = train_two_stage(
            sets, settings, progress=lambda row: show(row["seconds"], row["score"])
        )
        about = "Q-networks choose a ready task, then a device; what they see comes from the plans of 'portfolio'."
        card = _card(
            name, about, read_card(SHIPPED / "portfolio").weights, found.record(), choice="turns"
        )
        return TrainedModel(
            found.score, found.seconds, lambda path: _save(path, card, found.arrays)
        )

    return train


def _graph(kind: str) -> Callable[[float, int, Show], TrainedModel]:
    def train(seconds: float, seed: int, show: Show) -> TrainedModel:  # noqa: ARG001
        from weft.learn.workflow.graph import train_graph, validation_instances
        from weft.policies.graph.policy import save_graph

        found = train_graph(
            kind,
            seed=seed,
            validation=validation_instances(),
            progress=lambda row: show(row["update"], row["all"]),
        )
        score = min(row["all"] for row in found.training["curve"])
        return TrainedModel(
            score, found.training["cpu_seconds"], lambda path: save_graph(found, path)
        )

    return train


def _card(name: str, about: str, weights: Any, training: Any, **others: Any) -> Card:
    from weft.policies.replanning.files import Card

    return Card(name=name, about=about, weights=weights, training=training, **others)


def _save(path: Path, card: Card, arrays: Any = None) -> Path:
    from weft.policies.replanning.files import save_policy

    return save_policy(path, card, arrays)


_LOG = "mean log of the objective against"
RECIPES = {
    "tuned-list": Trainable(_rule, " s", 0, f"{_LOG} a strong hand-made rule"),
    "portfolio": Trainable(_portfolio, " sets", 8, f"{_LOG} the rule alone"),
    "replan-switch": Trainable(_dqn, " rounds", 3, f"{_LOG} planning as 'portfolio' does"),
    "dqn-turns": Trainable(_turns("dqn-turns"), " s", 0, f"{_LOG} following the plan"),
    "dqn": Trainable(_turns("dqn"), " s", 0, f"{_LOG} following the plan"),
    "decima": Trainable(
        _graph("decima"), " updates", 1500, "mean of the objective over that of HEFT planned anew"
    ),
    "lachesis": Trainable(
        _graph("lachesis"), " updates", 1500, "mean of the objective over that of HEFT planned anew"
    ),
}
"""What can be trained: weights by evolution; sets of weights that complete one another; a Q-network that decides when to
keep a plan; Q-networks that
choose tasks and devices, with our reward and with the document's; graph networks."""
