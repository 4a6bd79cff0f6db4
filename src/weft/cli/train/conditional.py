"""`weft train` for conditional streams: the best for one, pairs, rollouts, index."""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli.arguments import (
    add_option,
    add_stream,
    add_stream_objective,
    excludes,
    needs,
    options_of,
)
from weft.cli.train.trainable import (
    Bar,
    Outcome,
    Trainable,
    add_common_arguments,
    add_out,
    need_torch,
)
from weft.cli.train.trainable import train_seeds as train_each
from weft.cli.values import folder, number, several, whole

if TYPE_CHECKING:
    from weft.learn.ppo import PpoProgress
    from weft.model.columns import FloatArray
    from weft.model.conditional_stream import ConditionalStream
    from weft.policies.conditional.trained_network import TrainedNetwork


def _samples_argument(parser: argparse.ArgumentParser, what: str) -> None:
    add_option(parser, "--samples", number(least=1), "N", f"{what} (default: 5e6)", default=5e6)


# -- PPO -----------------------------------------------------------------------


def _conditional_arguments(parser: argparse.ArgumentParser) -> None:
    add_stream(parser)
    add_stream_objective(parser)
    text = "processor time of the whole training, in seconds"
    add_option(parser, "--seconds", number(least=1), "S", text, default=240.0)
    text = "train by PPO alone: pi0 to pi4 of Debner et al., best, detailed, or own"
    add_option(parser, "--policy", str, "RECIPE", text)
    _samples_argument(parser, "with --policy: steps of the environment")
    parser.add_argument(
        "--idle",
        choices=("event", "block"),
        default="event",
        help="idle units wait for the next event, or block for 10 ms as in the paper",
    )
    add_option(parser, "--start", str, "POLICY", "begin with any policy that fits the stream")
    add_option(parser, "--hidden", _sizes, "N,N", "sizes of the hidden layers (default: 64,64)")
    add_common_arguments(parser)


def _train_conditional(args: argparse.Namespace) -> None:
    needs(args, "--samples --idle --hidden --seeds", "--policy")
    excludes(args, "--policy", "--seconds --objective")
    if args.policy is None:
        _fit(args)
    else:
        _train_ppo(args)


def _fit(args: argparse.Namespace) -> None:
    from weft.formats.native.stream_toml import load_stream
    from weft.policies.load import load_policy

    stream = load_stream(args.stream)
    start = None if args.start is None else load_policy(args.start)
    options = options_of(args, "json", "seconds", "seed", "objective")
    fit_and_show(stream, args.out / "own", start=start, **options)


def fit_and_show(stream: ConditionalStream, path: Path, *, json: bool, **options: Any) -> None:
    """Train the best policy for a stream, and print it beside all rules and policies."""
    from weft.cli.output import emit
    from weft.learn.conditional.fitting import fit_stream
    from weft.policies.conditional.trained_network import save_network

    begun = time.process_time()

    def show(line: str) -> None:
        print(f"{time.process_time() - begun:6.1f} s  {line}", file=sys.stderr, flush=True)

    show(f"measuring rules and policies on '{stream.name}'")
    fitted = fit_stream(stream, name=path.name, progress=show, **options)
    seconds = time.process_time() - begun
    path = save_network(fitted.policy.learned, path)
    times = fitted.compare(stream)
    if json:
        emit(
            {
                "stream": stream.name,
                "file": str(path),
                "origin": fitted.origin,
                "cpu_seconds": seconds,
                "held_back": fitted.held_back,
                "rows": _comparison_rows(times),
            }
        )
    else:
        print(_comparison(times, stream.name, str(path.with_suffix(""))))
        print(f"trained in {seconds:.0f} s of processor time ({fitted.origin})\nwrote {path}")
    if fitted.interrupted:
        raise KeyboardInterrupt


def _comparison_rows(times: dict[str, FloatArray]) -> list[dict[str, Any]]:
    from weft.report.statistics import half_width

    return [
        {"policy": name, "mean": each.mean(), "half_width": half_width(each), "seeds": each}
        for name, each in times.items()
    ]


def _comparison(times: dict[str, FloatArray], stream: str, path: str) -> str:
    own = Path(path).name
    draws = len(times[own])
    lines = [
        f"{stream}: mean job completion time in ms, {draws} fresh draws, half the 95 % interval"
    ]
    for row in _comparison_rows(times):
        label = path if row["policy"] == own else row["policy"]
        share = row["mean"] / times[own].mean() - 1
        beside = "" if row["policy"] == own else f"  {share:+7.1%}"
        lines.append(
            f"  {label:24s}{row['mean'] * 1000:12.2f} ± {row['half_width'] * 1000:.2f}{beside}"
        )
    return "\n".join(lines)


def _train_ppo(args: argparse.Namespace) -> None:
    from weft.cli.output import emit
    from weft.formats.native.stream_toml import load_stream

    stream = load_stream(args.stream)
    need_torch()
    from weft.learn.conditional.training import recipe_of
    from weft.policies.conditional.trained_network import save_network

    settings = dataclasses.replace(recipe_of(args.policy).settings, samples=int(args.samples))
    if args.hidden is not None:
        settings = dataclasses.replace(settings, hidden=args.hidden)
    runs: list[tuple[TrainedNetwork, PpoProgress]] = []
    for seed in range(args.seed, args.seed + args.seeds):
        runs.append(_train_one(args, stream, settings, seed))
        best = min(runs, key=lambda run: (math.isnan(run[1].score), run[1].score))
        training = best[0].training | {"seeds": [progress.seed for _, progress in runs]}
        path = save_network(dataclasses.replace(best[0], training=training), args.out / args.policy)
        if runs[-1][1].interrupted:
            print(
                f"weft: stopped after {runs[-1][1].samples:,} samples; "
                f"the best so far is in {path}",
                file=sys.stderr,
            )
            raise KeyboardInterrupt
    rows = [_row(progress) for _, progress in runs]
    if args.json:
        emit({"policy": args.policy, "stream": stream.name, "file": str(path), "trainings": rows})
        return
    print("score (low is good): mean log of seconds per job")
    for row in rows:
        print(
            f"  seed {row['seed']}: score {row['score']:.4f}, {row['samples']:,} samples "
            f"in {row['cpu_seconds']:.0f} s of processor time"
        )
    print(f"best: seed {best[1].seed}, score {best[1].score:.4f}\nwrote {path}")


def _train_one(
    args: argparse.Namespace, stream: ConditionalStream, settings: Any, seed: int
) -> tuple[TrainedNetwork, PpoProgress]:
    from weft.learn.conditional.training import train_policy

    with Bar(args.policy, seed, settings.samples, unit=" samples") as bar:
        return train_policy(
            stream,
            args.policy,
            settings=settings,
            seed=seed,
            waiting=args.idle,
            progress=lambda progress: bar.show(progress.samples, progress.score),
            start=args.start,
        )


def _row(progress: PpoProgress) -> dict[str, Any]:
    keep = ("samples", "score", "reward_rate", "cpu_seconds")
    curve = [
        {key: entry[key] for key in keep if key in entry}
        for entry in progress.curve
        if "score" in entry
    ]
    return {
        "seed": progress.seed,
        "score": progress.score,
        "samples": progress.samples,
        "cpu_seconds": progress.cpu_seconds,
        "curve": curve,
    }


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(several(whole(1))(text))


# -- rollouts --------------------------------------------------------------------


def _rollout_arguments(parser: argparse.ArgumentParser) -> None:
    add_option(
        parser, "--start", str, "POLICY", "the network to improve, by name or file", required=True
    )
    add_stream(parser)
    add_option(parser, "--rounds", whole(1), "N", "rounds of imitation", default=3)
    add_option(parser, "--steps", whole(1), "N", "steps per round with rollouts", default=70_000)
    parser.add_argument(
        "--base",
        choices=("network", "index"),
        default="index",
        help="continues in the futures: the index (default), or the network itself: four times as "
        "slow, and better where the network is better than the index",
    )
    text = "most sampled futures per step"
    add_option(parser, "--futures", whole(2), "N", text, default=16)
    text = "keep the steps in this folder: a training that was stopped goes on from there"
    add_option(parser, "--keep", folder, "FOLDER", text)
    text = "let the hidden layers grow to these sizes (default: as they are)"
    add_option(parser, "--hidden", _sizes, "N,N", text, default=())
    parser.add_argument(
        "--detail",
        action="store_true",
        help="let the network see also how full batches are, and the time since the last arrival",
    )
    text = "number of jobs that arrive in a sampled future"
    add_option(parser, "--ahead", whole(1), "N", text, default=6)
    add_option(parser, "--epochs", whole(1), "N", "passes over the steps per round", default=16)
    add_option(parser, "--rate", number(above=0), "R", "first learning rate", default=1e-3)
    add_option(parser, "--seed", whole(0), "N", "seed", default=0)
    add_out(parser)


def _train_rollouts(args: argparse.Namespace) -> None:
    """Let a network imitate the choices that rollouts find better than its own."""
    from weft.cli.output import emit
    from weft.formats.native.stream_toml import load_stream

    stream = load_stream(args.stream)
    need_torch()
    from weft.learn.conditional.rollout_examples import ImitationSettings
    from weft.learn.conditional.rollout_imitation import improve
    from weft.policies.conditional.network_policy import load_network
    from weft.policies.conditional.trained_network import save_network

    policy = load_network(args.start)
    sizes = ("rounds", "steps", "futures", "ahead", "epochs", "rate")
    settings = ImitationSettings(**options_of(args, *sizes, "base", "hidden", "detail", "seed"))
    path = args.out / Path(policy.name).name
    with Bar(policy.name, args.seed, settings.rounds * settings.epochs, unit=" epochs") as bar:

        def show(row: dict[str, float]) -> None:
            bar.show(int((row["round"] - 1) * settings.epochs + row["epoch"]), row["score"])

        better = improve(
            stream,
            policy,
            settings,
            progress=show,
            keep=lambda best: save_network(best, path),
            folder=args.keep,
        )
    path = save_network(better, path)
    record = better.training["rollouts"]
    if args.json:
        emit({"policy": policy.name, "stream": stream.name, "file": str(path), "rollouts": record})
        return
    gain = 1 - math.exp(record["score"] - record["start"])
    print(
        f"{policy.name}: jobs take {gain:.2%} less time than before, "
        f"after {record['cpu_seconds']:.0f} s of processor time\nwrote {path}"
    )


# -- pairs and the index -----------------------------------------------------------


def _pair_arguments(parser: argparse.ArgumentParser) -> None:
    _samples_argument(parser, "simulated jobs")
    add_common_arguments(parser)


def _train_pairs(args: argparse.Namespace) -> None:
    """Train the network over pairs of unit and kind on random streams, by evolution."""
    from weft.learn.conditional.pair_network import train_any
    from weft.policies.conditional.trained_network import save_network

    def train(seed: int, bar: Bar) -> Outcome:
        learned, found = train_any(
            samples=int(args.samples),
            seed=seed,
            progress=lambda row: bar.show(
                row.get("generation", 0.0), row.get("validation", math.nan)
            ),
        )
        seconds = float(learned.training.get("cpu_seconds", math.nan))
        return Outcome(found.score, seconds, lambda path: save_network(learned, path))

    train_each(
        args, "pairs", train, total=0, unit=" generations", meaning="mean log of seconds per job"
    )


def _index_arguments(parser: argparse.ArgumentParser) -> None:
    add_stream(parser)
    add_option(parser, "--generations", whole(1), "N", "generations", default=300)
    add_option(parser, "--jobs", whole(1), "N", "jobs per draw", default=2000)
    text = "completion (the mean), p95, p99, tardiness or late"
    add_option(parser, "--objective", str, "NAME", text, default="completion")
    add_common_arguments(parser)


def _train_index(args: argparse.Namespace) -> None:
    """Tune the index for a stream, over the probabilities of its watched choice."""
    from weft.formats.native.stream_toml import load_stream
    from weft.learn.conditional.index import IndexSettings, tune_index
    from weft.policies.conditional.index import save_index
    from weft.policies.conditional.rules import ConditionalRule
    from weft.sim.vector.batch import StepBatch

    stream = load_stream(args.stream)
    points = tuple(i / 10 for i in range(11)) if stream.watched else None

    def train(seed: int, bar: Bar) -> Outcome:
        used = time.process_time()
        settings = IndexSettings(
            generations=args.generations,
            jobs=args.jobs,
            probabilities=points,
            objective=args.objective,
            seed=seed,
        )
        found = tune_index(
            stream, settings, progress=lambda row: bar.show(row["generation"], row["validation"])
        )
        seconds = time.process_time() - used
        rule = ConditionalRule("index", found.weights)
        record = {**found.record(), "cpu_seconds": seconds}

        def save(path: Path) -> Path:
            return save_index(path, rule, StepBatch(stream, 1), training=record)

        return Outcome(found.score, seconds, save)

    train_each(
        args,
        "index",
        train,
        total=args.generations,
        unit=" generations",
        meaning=f"mean log of {args.objective}, relative to a rule",
    )


TRAINABLES = {
    "conditional": Trainable(
        "train the best policy for a conditional stream: tuned scores, then PPO",
        "weft train conditional --stream mine.toml --out trained   # writes trained/own",
        _conditional_arguments,
        _train_conditional,
    ),
    "rollouts": Trainable(
        "improve a network for a conditional stream by imitating rollouts",
        "weft train rollouts --start trained/pi4 --rounds 3 --base network --out better",
        _rollout_arguments,
        _train_rollouts,
    ),
    "pairs": Trainable(
        "train the network for any conditional stream, by evolution on random ones",
        "weft train pairs --samples 2e7",
        _pair_arguments,
        _train_pairs,
    ),
    "index": Trainable(
        "tune the index for a conditional stream (separable CMA-ES)",
        "weft train index --stream mine.toml --generations 100",
        _index_arguments,
        _train_index,
    ),
}
