"""`weft train` for networks of planners: deepsched imitates HEFT, amortised learns from search."""

from __future__ import annotations

import argparse
import math
import sys
import time
from typing import Any

from weft.cli.arguments import whole
from weft.cli.train.trainable import Bar, Trainable, add_common_arguments, need_torch


def _deepsched_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--batches",
        type=whole(1),
        default=650,
        metavar="N",
        help="batches of 12 problems each (default: 650)",
    )
    add_common_arguments(parser)


def _train_deepsched(args: argparse.Namespace) -> None:
    from weft.cli.output import emit

    need_torch()
    from weft.learn.imitation.deepsched import training
    from weft.planners.imitation.deepsched.network import save_network

    runs: list[Any] = []
    for seed in range(args.seed, args.seed + args.seeds):
        with Bar("deepsched", seed, args.batches, unit=" batches") as bar:
            settings = training.DeepSchedSettings(batches=args.batches)
            runs.append(
                training.train(
                    settings,
                    seed=seed,
                    progress=lambda t, bar=bar: bar.show(t.batches, t.score),  # type: ignore[misc]
                )
            )
        best = min(runs, key=lambda run: (math.isnan(run.score), run.score))
        record = best.record() | {"seeds": [run.seed for run in runs]}
        path = save_network(best.best, args.out / "deepsched", record)
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
            f"  seed {run.seed}: score {run.score:.4f}, {run.batches:,} batches "
            f"in {run.cpu_seconds:.0f} s of processor time"
        )
    print(
        f"best: seed {best.seed}, score {best.score:.4f} "
        f"(ratio of mean turnaround to that of HEFT, up or down)\nwrote {path}"
    )


def _amortised_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--problems",
        type=whole(8),
        default=300,
        metavar="N",
        help="problems solved by search to learn from (default: 300)",
    )
    parser.add_argument(
        "--generations",
        type=whole(1),
        default=150,
        metavar="N",
        help="generations of the evolution (default: 150)",
    )
    add_common_arguments(parser)


def _train_amortised(args: argparse.Namespace) -> None:
    """Solve problems by search first, then fit the network by evolution."""
    from weft.cli.output import emit
    from weft.learn.imitation.amortised import training
    from weft.learn.imitation.amortised.data import FIRST_SEED, searched_examples
    from weft.planners.imitation.amortised.network import save_weights

    instances, used = [], time.process_time()
    with Bar("amortised, problems", args.seed, args.problems, unit=" problems") as bar:
        for example in searched_examples(range(FIRST_SEED, FIRST_SEED + args.problems)):
            instances.append(training.instance_of(example))
            bar.show(len(instances), math.nan)
    search_seconds = time.process_time() - used
    records: list[dict[str, Any]] = []
    best: Any = None
    for seed in range(args.seed, args.seed + args.seeds):
        evolution = training.EvolutionSettings(generations=args.generations, seed=seed)
        with Bar("amortised", seed, args.generations, unit=" generations") as bar:
            found = training.train(
                instances,
                evolution,
                progress=lambda row, bar=bar: bar.show(  # type: ignore[misc]
                    row["generation"], row["validation"]
                ),
            )
        records.append(found.record(evolution, len(instances), search_seconds))
        if best is None or found.score < best.score:
            best = found
            path = save_weights(found.weights, args.out / "amortised", records[-1])
    if args.json:
        emit({"file": str(path), "trainings": records})
        return
    for record in records:
        print(
            f"  seed {record['seed']}: score {record['score']:.4f} "
            f"(HEFT {record['score_of_heft']:.4f}) "
            f"in {record['cpu_seconds']:.0f} s of processor time"
        )
    print(f"best: score {best.score:.4f} (mean log of makespan over that of search)\nwrote {path}")


TRAINABLES = {
    "deepsched": Trainable(
        "train the network that imitates HEFT",
        "weft train deepsched --batches 3000 --out trained",
        _deepsched_arguments,
        _train_deepsched,
    ),
    "amortised": Trainable(
        "train the network that learns from the search planner",
        "weft train amortised --problems 300 --generations 150",
        _amortised_arguments,
        _train_amortised,
    ),
}
