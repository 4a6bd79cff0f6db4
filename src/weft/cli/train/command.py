"""`weft train`: a policy for conditional jobs or workflows, a network that imitates HEFT, or one that learns from the search planner."""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from weft.cli.arguments import number, whole
from weft.errors import InvalidInput

if TYPE_CHECKING:
    from weft.learn.ppo import PpoProgress
    from weft.policies.conditional.files import Learned

SUMMARY = "train a policy; every seed is a training of its own, the best one is kept"
EXAMPLE = """  weft train conditional --policy pi4 --samples 5e6 --seeds 3 --out trained
  weft train conditional --stream mine.toml --policy own --samples 2e6
  weft train conditional --start trained/pi4 --rollouts 3 --out better
  weft train conditional --policy any --samples 2e7           # one for any graph and any units, by evolution on random ones
  weft evaluate trained/pi4 fifo
  weft train workflow --policy rule --seconds 900             # also: portfolio, dqn, dqn-turns, dqn, decima, lachesis
  weft train deepsched --out trained                          # as shipped; --batches 3000 for more
  weft train amortised --out trained                          # as shipped: 300 problems, 150 generations"""

TOPICS = ("conditional", "workflow", "deepsched", "amortised")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say the arguments of the verb."""
    parser.add_argument(
        "topic", choices=TOPICS, metavar="TOPIC", help=f"one of: {', '.join(TOPICS)}"
    )
    parser.add_argument(
        "--policy",
        default="pi4",
        metavar="NAME",
        help="pi0 to pi4 as in the paper, best, detailed, own, or any (default: pi4)",
    )
    parser.add_argument(
        "--stream",
        default="conditional-paper",
        metavar="TOML",
        help="a file, or a name (default: conditional-paper)",
    )
    parser.add_argument(
        "--samples",
        type=number(least=1),
        default=5e6,
        metavar="N",
        help="steps of the environment (default: 5e6)",
    )
    told = "workflow: of processor time, for rule, dqn-turns and dqn (default: 1500)"
    parser.add_argument("--seconds", type=number(least=1), default=1500.0, metavar="S", help=told)
    parser.add_argument(
        "--batches",
        type=whole(1),
        default=650,
        metavar="N",
        help="deepsched: of 12 problems each (default: 650)",
    )
    parser.add_argument(
        "--problems",
        type=whole(8),
        default=300,
        metavar="N",
        help="amortised: to learn from (default: 300)",
    )
    parser.add_argument(
        "--generations",
        type=whole(1),
        default=150,
        metavar="N",
        help="amortised: of the evolution (default: 150)",
    )
    parser.add_argument(
        "--seeds", type=whole(1), default=1, metavar="N", help="how many trainings (default: 1)"
    )
    parser.add_argument(
        "--seed", type=whole(0), default=0, metavar="N", help="the first seed (default: 0)"
    )
    parser.add_argument(
        "--waiting",
        choices=("event", "block"),
        default="event",
        help="until the next event, or blocked for 10 ms",
    )
    parser.add_argument(
        "--start", metavar="POLICY", help="go on from a policy of the same kind, by name or file"
    )
    parser.add_argument(
        "--rollouts",
        type=whole(1),
        metavar="N",
        help="conditional: let the policy of --start learn from rollouts, in N rounds",
    )
    parser.add_argument(
        "--hidden", type=_sizes, metavar="N,N", help="sizes of the hidden layers (default: 64,64)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("trained"),
        metavar="DIR",
        help="where policies go (default: trained)",
    )


def run(args: argparse.Namespace) -> None:
    """Train, keep checkpoints, and print how it went."""
    if args.topic == "deepsched":
        _need_torch()
        _train_deepsched(args)
    elif args.topic == "amortised":
        _train_amortised(args)
    elif args.topic == "workflow":
        from weft.cli.train import workflow as train_workflow

        train_workflow.run(args, _Bar)
    else:
        _train_conditional(args)


def _train_deepsched(args: argparse.Namespace) -> None:
    from weft.cli.output import emit
    from weft.learn.imitation.deepsched import training as deepsched
    from weft.planners.imitation.deepsched.network import save_network

    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "deepsched.safetensors"
    runs: list[deepsched.PpoProgress] = []
    for seed in range(args.seed, args.seed + args.seeds):
        with _Bar("deepsched", seed, args.batches, unit=" batches") as bar:
            settings = deepsched.DeepSchedSettings(batches=args.batches)
            runs.append(
                deepsched.train(
                    settings, seed=seed, watch=lambda t, bar=bar: bar.show(t.batches, t.score)
                )
            )  # type: ignore[misc]
        best = min(runs, key=lambda found: (math.isnan(found.score), found.score))
        assert best.best is not None
        save_network(best.best, path, best.record() | {"seeds": [run.seed for run in runs]})
        if runs[-1].interrupted:
            print(
                f"weft: stopped after {runs[-1].batches:,} batches; the best so far is in {path}",
                file=sys.stderr,
            )
            raise KeyboardInterrupt
    if args.json:
        emit({"file": str(path), "trainings": [run.record() for run in runs]})
        return
    for run in runs:
        print(
            f"  seed {run.seed}: score {run.score:.4f}, {run.batches:,} batches in {run.cpu_seconds:.0f} s of processor time"
        )
    print(
        f"best: seed {best.seed}, score {best.score:.4f} (mean turnaround: distance from that of HEFT, as a ratio)\nwrote {path}"
    )


def _train_amortised(args: argparse.Namespace) -> None:
    """Problems solved by the search planner first, then evolution; without torch."""
    from weft.cli.output import emit
    from weft.learn.imitation.amortised import training as amortised
    from weft.learn.imitation.amortised.data import FIRST_SEED, lessons
    from weft.planners.imitation.amortised.network import save_weights

    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "amortised.safetensors"
    exercises, used = [], time.process_time()
    with _Bar("amortised, problems", args.seed, args.problems, unit=" problems") as bar:
        for lesson in lessons(range(FIRST_SEED, FIRST_SEED + args.problems)):
            exercises.append(amortised.exercise_of(lesson))
            bar.show(len(exercises), math.nan)
    lessons_seconds = time.process_time() - used
    records = []
    best: amortised.TrainedAmortised | None = None
    for seed in range(args.seed, args.seed + args.seeds):
        evolution = amortised.EvolutionSettings(generations=args.generations, seed=seed)
        with _Bar("amortised", seed, args.generations, unit=" generations") as bar:
            found = amortised.train(
                exercises,
                evolution,
                report=lambda row, bar=bar: bar.show(int(row["generation"]), row["validation"]),
            )  # type: ignore[misc]
        records.append(found.record(evolution, len(exercises), lessons_seconds))
        if best is None or found.score < best.score:
            best = found
            save_weights(found.weights, path, records[-1])
    assert best is not None
    if args.json:
        emit({"file": str(path), "trainings": records})
        return
    for record in records:
        took = f"{record['cpu_seconds']:.0f} s of processor time"
        print(
            f"  seed {record['seed']}: score {record['score']:.4f} (HEFT {record['score_of_heft']:.4f}) in {took}"
        )
    print(
        f"best: score {best.score:.4f} (mean log of one pass over the search's makespan)\nwrote {path}"
    )


def _train_conditional(args: argparse.Namespace) -> None:
    from weft.cli.output import emit
    from weft.formats.native.stream_toml import load_stream
    from weft.policies.conditional.files import save_policy

    if args.policy == "any":
        _train_any(args)
        return
    stream = load_stream(args.stream)
    _need_torch()
    if args.rollouts is not None:
        _learn_from_rollouts(args, stream)
        return
    from weft.learn.conditional.training import recipe_of

    settings = dataclasses.replace(recipe_of(args.policy).settings, samples=int(args.samples))
    settings = (
        settings if args.hidden is None else dataclasses.replace(settings, hidden=args.hidden)
    )
    args.out.mkdir(parents=True, exist_ok=True)
    runs: list[tuple[Learned, PpoProgress]] = []
    for seed in range(args.seed, args.seed + args.seeds):
        runs.append(_train_one(args, stream, settings, seed))
        best = min(runs, key=lambda found: (math.isnan(found[1].score), found[1].score))
        path = save_policy(
            dataclasses.replace(
                best[0], training=best[0].training | {"seeds": [t.seed for _, t in runs]}
            ),
            args.out / args.policy,
        )
        if runs[-1][1].interrupted:
            print(
                f"weft: stopped after {runs[-1][1].samples:,} samples; the best so far is in {path}",
                file=sys.stderr,
            )
            raise KeyboardInterrupt
    rows = [_row(training) for _, training in runs]
    if args.json:
        emit({"policy": args.policy, "stream": stream.name, "file": str(path), "trainings": rows})
        return
    for row in rows:
        print(
            f"  seed {row['seed']}: score {row['score']:.4f}, {row['samples']:,} samples in {row['cpu_seconds']:.0f} s of processor time"
        )
    print(
        f"best: seed {best[1].seed}, score {best[1].score:.4f} (mean log of seconds a job takes)\nwrote {path}"
    )


def _learn_from_rollouts(args: argparse.Namespace, stream: Any) -> None:
    """A policy that is there already takes over what rollouts find."""
    from weft.cli.output import emit
    from weft.learn.conditional.rollout_imitation import Lessons, improve
    from weft.policies.conditional.files import find_policy, read_policy, save_policy

    if args.start is None:
        raise InvalidInput("--rollouts needs a policy that learns from them; name one with --start")
    policy = read_policy(find_policy(args.start))
    lessons = Lessons(rounds=args.rollouts, seed=args.seed)
    with _Bar(policy.name, args.seed, lessons.rounds * lessons.epochs, unit=" epochs") as bar:

        def show(row: dict[str, float]) -> None:
            bar.show(int((row["round"] - 1) * lessons.epochs + row["epoch"]), row["score"])

        better = improve(stream, policy, lessons, watch=show)
    args.out.mkdir(parents=True, exist_ok=True)
    path = save_policy(better, args.out / Path(policy.name).name)
    record = better.training["lessons"]
    if args.json:
        emit({"policy": policy.name, "stream": stream.name, "file": str(path), "lessons": record})
        return
    gain = 1 - math.exp(record["score"] - record["start"])
    print(
        f"{policy.name}: jobs take {gain:.2%} less time than before, after {record['cpu_seconds']:.0f} s of processor time\nwrote {path}"
    )


def _train_any(args: argparse.Namespace) -> None:
    """The policy for any graph: by evolution, without torch; `--stream` and `--waiting` say nothing to it."""
    from weft.cli.output import emit
    from weft.learn.conditional.pair_network import train_any
    from weft.policies.conditional.files import save_policy

    args.out.mkdir(parents=True, exist_ok=True)
    best: tuple[float, Path] | None = None
    rows = []
    for seed in range(args.seed, args.seed + args.seeds):
        learned, found = train_any(
            samples=int(args.samples),
            seed=seed,
            report=lambda row: print(f"  {row}", file=sys.stderr),
        )
        rows.append({"seed": seed, "score": found.score, "samples": learned.training["samples"]})
        if best is None or found.score < best[0]:
            best = found.score, save_policy(learned, args.out / args.policy)
    assert best is not None
    if args.json:
        emit({"policy": args.policy, "file": str(best[1]), "trainings": rows})
        return
    for row in rows:
        print(f"  seed {row['seed']}: score {row['score']:.4f}, {row['samples']:,} jobs played")
    print(f"best: score {best[0]:.4f} (mean log of seconds a job takes)\nwrote {best[1]}")


def _train_one(
    args: argparse.Namespace, stream: Any, settings: Any, seed: int
) -> tuple[Learned, PpoProgress]:
    from weft.learn.conditional.training import train_policy
    from weft.policies.conditional.files import find_policy, read_policy

    start = read_policy(find_policy(args.start)) if args.start is not None else None
    with _Bar(args.policy, seed, settings.samples) as bar:
        return train_policy(
            stream,
            args.policy,
            settings=settings,
            seed=seed,
            waiting=args.waiting,
            watch=bar.watch,
            start=start,
        )


class _Bar:
    """A progress bar with the score of the best network so far, when a person looks at it."""

    def __init__(self, name: str, seed: int, total: int, *, unit: str = " samples") -> None:
        self._bar: Any = None
        if sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(
                total=total,
                desc=f"{name}, seed {seed}",
                unit=unit,
                unit_scale=True,
                file=sys.stderr,
                leave=False,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    @property
    def watch(self) -> Callable[[PpoProgress], None]:
        """What the training calls after every update."""
        return self._show

    def _show(self, training: PpoProgress) -> None:
        self.show(training.samples, training.score)

    def show(self, done: int, score: float) -> None:
        """Move on to so many."""
        if self._bar is not None:
            self._bar.set_postfix(best=f"{score:.4f}", refresh=False)
            self._bar.update(done - self._bar.n)


def _row(training: PpoProgress) -> dict[str, Any]:
    keep = ("samples", "score", "reward_rate", "cpu_seconds")
    curve = [
        {key: entry[key] for key in keep if key in entry}
        for entry in training.curve
        if "score" in entry
    ]
    return {
        "seed": training.seed,
        "score": training.score,
        "samples": training.samples,
        "cpu_seconds": training.cpu_seconds,
        "curve": curve,
    }


def _need_torch() -> None:
    from importlib.util import find_spec

    from weft.errors import MissingExtra

    if find_spec("torch") is None:
        raise MissingExtra("torch", "learn")


def _sizes(text: str) -> tuple[int, ...]:
    read = whole(1)
    return tuple(read(part) for part in text.split(",") if part.strip())
