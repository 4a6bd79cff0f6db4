"""`weft train` for workflow policies: evolved weights, Q-networks, graph networks."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from weft.cli.arguments import add_option
from weft.cli.train.trainable import (
    Bar,
    Outcome,
    Trainable,
    add_common_arguments,
    need_torch,
    train_seeds,
)
from weft.cli.values import number, whole

if TYPE_CHECKING:
    from weft.formats.model_file import Model

_LOG = "mean log of the objective relative to"
_FEW = 50
"""Simulations that end sooner than further processes begin."""


def _timed(parser: argparse.ArgumentParser) -> None:
    text = "processor time per training, in seconds"
    add_option(parser, "--seconds", number(least=1), "S", text, default=1500.0)
    add_common_arguments(parser)


def _counted(parser: argparse.ArgumentParser, **counts: tuple[int, str]) -> None:
    """Add one option per count, with its default and text, and the common ones."""
    for name, (default, text) in counts.items():
        add_option(parser, f"--{name}", whole(1), "N", text, default=default)
    add_common_arguments(parser)


def _instances(cases: int, *, share: int) -> dict[str, int]:
    """Return settings for a number of instances; one in `share` is a stream."""
    return {"alone": cases - cases // share, "streams": cases // share}


def _saved(model: Model) -> Callable[[Any], Any]:
    from weft.formats.model_file import save_model

    return partial(save_model, model)


def _train_tuned_list(args: argparse.Namespace) -> None:
    from weft.learn.workflow.tuned_list import TuningSettings, tune_weights
    from weft.policies.replanning.trained import replanning_model

    def train(seed: int, bar: Bar) -> Outcome:
        found = tune_weights(
            TuningSettings(seconds=args.seconds, seed=seed),
            progress=lambda row: bar.show(row["seconds"], row["score"]),
        )
        model = replanning_model(
            "tuned-list", "Weights tuned by evolution.", [found.weights], training=found.record()
        )
        return Outcome(found.score, found.seconds, _saved(model))

    train_seeds(
        args,
        "tuned-list",
        train,
        total=int(args.seconds),
        unit=" s",
        meaning=f"{_LOG} a strong hand-made rule",
    )


def _bundled_weights(name: str) -> Any:
    from weft.formats.model_file import find_model, read_model

    return read_model(find_model(name)).settings["weights"]


def _network_model(name: str, about: str, found: Any, **settings: Any) -> Model:
    """Return a trained network that reads the plans of `portfolio`, as a model file."""
    from weft.policies.replanning.trained import replanning_model

    return replanning_model(
        name,
        about,
        _bundled_weights("portfolio"),
        affinity=True,
        arrays=found.arrays,
        training=found.record(),
        margin=found.margin,
        **settings,
    )


def _train_portfolio(args: argparse.Namespace) -> None:
    from weft.learn.workflow.portfolio import PortfolioSearch, search_portfolio
    from weft.policies.replanning.trained import replanning_model

    sizes = {"size": args.sets, "leads": args.cases * 3 // 4, **_instances(args.cases, share=16)}

    def train(seed: int, bar: Bar) -> Outcome:
        found = search_portfolio(
            _bundled_weights("tuned-list")[0],
            PortfolioSearch(seed=seed, **sizes),
            progress=lambda row: bar.show(row["step"] + 1, row["score"]),
        )
        model = replanning_model(
            "portfolio",
            "Sets of weights that complement each other.",
            found.sets,
            affinity=True,
            training=found.record(),
        )
        return Outcome(found.score, found.seconds, _saved(model))

    meaning = f"{_LOG} `tuned-list` alone"
    train_seeds(args, "portfolio", train, total=args.sets, unit=" sets", meaning=meaning)


def _train_switch(args: argparse.Namespace) -> None:
    from weft.learn.workflow.switch import SwitchSettings, train_switch
    from weft.policies.policy import bundled_policy
    from weft.policies.replanning.trained import SWITCH

    portfolio: Any = bundled_policy("portfolio")
    sizes = {"rounds": args.rounds, "validation": max(args.cases * 3 // 20, 1)}
    sizes |= _instances(args.cases, share=16)
    processes = 2 if args.cases > _FEW else 1

    def train(seed: int, bar: Bar) -> Outcome:
        found = train_switch(
            portfolio.sets,
            SwitchSettings(seed=seed, processes=processes, **sizes),
            progress=lambda row: bar.show(row["round"], row["score"]),
        )
        summary = "A network chooses whether to keep a plan or to plan as `portfolio` does."
        model = _network_model("replan-switch", summary, found, kind=SWITCH)
        return Outcome(found.score, found.seconds, _saved(model))

    train_seeds(
        args,
        "replan-switch",
        train,
        total=args.rounds,
        unit=" rounds",
        meaning=f"{_LOG} planning as `portfolio` does",
    )


def _dqn_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reward",
        choices=("document", "completion"),
        default="document",
        help="the source document's weighted reward, or the change of predicted completion",
    )
    _timed(parser)


def _train_dqn(args: argparse.Namespace) -> None:
    from weft.learn.dqn import TrainedDqn
    from weft.learn.workflow.two_stage import (
        DOCUMENT,
        OURS,
        draw_families,
        family_settings,
        train_two_stage,
    )
    from weft.policies.policy import bundled_policy
    from weft.policies.replanning.trained import TWO_STAGE

    need_torch()
    portfolio: Any = bundled_policy("portfolio")
    reward = dict(DOCUMENT if args.reward == "document" else OURS)

    def model_of(found: TrainedDqn) -> Model:
        summary = "Q-networks choose a ready task, then a device; they read `portfolio`'s plans."
        return _network_model("dqn", summary, found, kind=TWO_STAGE, copies=True)

    def train(seed: int, bar: Bar) -> Outcome:
        found = train_two_stage(
            portfolio.sets,
            family_settings(seconds=args.seconds, seed=seed, reward=reward),
            draw=draw_families,
            progress=lambda row: bar.show(row["seconds"], row["score"]),
            checkpoint=lambda best: _saved(model_of(best))(args.out / "checkpoints" / f"{seed}"),
        )
        return Outcome(found.score, found.seconds, _saved(model_of(found)))

    train_seeds(
        args, "dqn", train, total=int(args.seconds), unit=" s", meaning=f"{_LOG} following the plan"
    )


def _train_search(args: argparse.Namespace) -> None:
    from dataclasses import asdict

    from weft.learn.workflow.shrinkage import ShrinkageSettings, train_shrinkage
    from weft.policies.policy import bundled_policy
    from weft.policies.search.policy import search_model

    need_torch()
    bundled: Any = bundled_policy("search-replanning")

    def train(seed: int, bar: Bar) -> Outcome:
        settings = ShrinkageSettings(
            cases=args.cases, validation=max(args.cases // 3, 1), seed=seed
        )
        found = train_shrinkage(settings, progress=lambda row: bar.show(row["epoch"], row["score"]))
        model = search_model(
            "search-replanning",
            "Search at every event; a network decides how far observed durations are trusted.",
            found.arrays,
            training=found.record(),
            **asdict(bundled.search_options),
        )
        return Outcome(found.score, found.seconds, _saved(model))

    meaning = "mean squared error of log durations"
    train_seeds(args, "search-replanning", train, total=80, unit=" epochs", meaning=meaning)


def _train_graph(kind: str, args: argparse.Namespace) -> None:
    from weft.learn.workflow.graph import GraphSettings, train_graph, validation_instances
    from weft.policies.graph.policy import save_graph

    need_torch()
    settings = GraphSettings(updates=args.updates, imitation=args.updates * 4 // 15)

    def train(seed: int, bar: Bar) -> Outcome:
        found = train_graph(
            kind,
            settings=settings,
            seed=seed,
            validation=validation_instances(each=min(args.updates, 18)),
            progress=lambda row: bar.show(row["update"], row["all"]),
        )
        score = min(row["all"] for row in found.training["curve"])
        return Outcome(score, found.training["cpu_seconds"], partial(save_graph, found))

    meaning = "mean of the objective relative to HEFT replanned at every event"
    train_seeds(args, kind, train, total=args.updates, unit=" updates", meaning=meaning)


_OF_STREAMS = "one in 16 is of a stream"
_portfolio_arguments = partial(
    _counted,
    sets=(8, "sets of weights to choose"),
    cases=(32, f"simulations per set of weights and step; {_OF_STREAMS}"),
)
_switch_arguments = partial(
    _counted,
    rounds=(3, "rounds of simulating and fitting"),
    cases=(1600, f"simulations per round; {_OF_STREAMS}"),
)
_graph_arguments = partial(
    _counted, updates=(1500, "updates of REINFORCE, after 4 of imitation for every 15")
)

TRAINABLES = {
    "tuned-list": Trainable(
        "tune the weights of replanning by evolution (separable CMA-ES)",
        "weft train tuned-list --seconds 900 --seeds 2",
        _timed,
        _train_tuned_list,
    ),
    "portfolio": Trainable(
        "choose sets of weights that complement each other",
        "weft train portfolio --out trained",
        _portfolio_arguments,
        _train_portfolio,
    ),
    "replan-switch": Trainable(
        "train the network that chooses between the incumbent plan and replanning",
        "weft train replan-switch --out trained",
        _switch_arguments,
        _train_switch,
    ),
    "dqn": Trainable(
        "train the two-stage DQN of the source document",
        "weft train dqn --seconds 1500 --reward document",
        _dqn_arguments,
        _train_dqn,
    ),
    "search-replanning": Trainable(
        "train the network that decides how far observed durations are trusted",
        "weft train search-replanning --seeds 3",
        partial(_counted, cases=(900, "simulations to train with; a third more to validate")),
        _train_search,
    ),
    **{
        kind: Trainable(
            f"train the graph network of {system}",
            f"weft train {kind} --seeds 2",
            _graph_arguments,
            partial(_train_graph, kind),
        )
        for kind, system in {"decima": "Decima-DEFT", "lachesis": "Lachesis"}.items()
    },
}
