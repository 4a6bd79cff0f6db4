"""`weft train workflow`: a replanning policy for your workflows and objectives."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from weft.cli.arguments import add_option, add_problems, add_uncertainty, read_problem, uncertainty
from weft.cli.train.trainable import Trainable, add_out
from weft.cli.values import number, whole

if TYPE_CHECKING:
    from weft.generators import Instance

CASES = 9
"""Draws to tune on; a third of them is held back."""
FRESH = 1_000_000
"""First seed of the draws of the final table."""
FAMILIES = ("rules", "replanning")


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_problems(parser, "workflows or problems", many="+")
    parser.add_argument(
        "--policy",
        "--start",
        default="portfolio",
        metavar="POLICY",
        help="the replanning policy to tune, by name or file (default: portfolio)",
    )
    text = "weights of completion, makespan and energy (default: the objective of the policy)"
    add_option(parser, "--reward", _reward, "OBJECTIVE=W,...", text)
    add_option(parser, "--jobs", whole(1), "N", "jobs per draw", default=5)
    text = "share of the cluster's capacity that jobs ask for"
    add_option(parser, "--load", number(above=0), "L", text, default=0.8)
    add_option(
        parser, "--seconds", number(least=0), "S", "processor time, in seconds", default=60.0
    )
    add_uncertainty(parser)
    add_out(parser)


def _reward(text: str) -> dict[str, float]:
    read = number(least=0)
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    return {name.strip(): read(weight or "1") for name, _, weight in pairs}


def _train(args: argparse.Namespace) -> None:
    from weft.cli.output import emit
    from weft.formats.model_file import save_model
    from weft.learn.workflow.fine_tuning import fine_tune, tuned_model

    cases = [_case(args, seed) for seed in range(args.seed + 1, args.seed + 1 + CASES)]
    begun = time.process_time()

    def show(change: float) -> None:
        line = f"{time.process_time() - begun:6.1f} s  {change:+.2%} on draws held back"
        print(line, file=sys.stderr, flush=True)

    print(f"tuning '{args.policy}' on {CASES} draws", file=sys.stderr, flush=True)
    tuned = fine_tune(
        args.policy, cases, args.seconds, args.seed, reward=args.reward, progress=show
    )
    seconds = time.process_time() - begun
    training = {"files": [path.name for path in args.file], "seed": args.seed}
    training |= {"cpu_seconds": round(seconds, 1), "reward": args.reward}
    path = save_model(tuned_model(tuned, "workflow", training), args.out / "workflow")
    rows = _rows(args, tuned, str(path.with_suffix("")))
    if args.json:
        emit({"file": str(path), "cpu_seconds": seconds, "rows": rows})
        return
    print(f"mean over {CASES} fresh draws, in seconds (energy in joules)")
    print(f"  {'policy':28s}{'completion':>12s}{'makespan':>12s}{'energy':>12s}")
    for row in rows:
        print(
            f"  {row['policy']:28s}{row['completion']:12.5g}{row['makespan']:12.5g}"
            f"{row['energy']:12.5g}"
        )
    print(f"wrote {path}")


def _case(args: argparse.Namespace, seed: int) -> Instance:
    from weft.generators import Instance, stream_of
    from weft.model import Scenario

    problems = [read_problem(path, args) for path in args.file]
    workload = stream_of(problems, jobs=args.jobs, load=args.load, seed=seed)
    return Instance(workload, Scenario.draw(workload, seed=seed, **uncertainty(args)))


def _rows(args: argparse.Namespace, tuned: Any, path: str) -> list[dict[str, Any]]:
    """Return the tuned policy and all others on fresh draws, best completion first."""
    import numpy as np

    from weft.policies.load import list_policies
    from weft.policies.simulate import simulate

    cases = [_case(args, FRESH + k) for k in range(CASES)]
    names = [e for e in list_policies() if e.family in FAMILIES and e.supports(cases[0].workload)]
    rows = []
    for label, policy in ((path, tuned), *((str(name), str(name)) for name in names)):
        traces = [simulate(case.workload, policy, scenario=case.scenario) for case in cases]
        values = [(t.jct, t.makespan, t.energy) for t in traces]
        means = np.mean(values, axis=0).tolist()
        objectives = ("completion", "makespan", "energy")
        rows.append({"policy": label, **dict(zip(objectives, means, strict=True))})
    return sorted(rows, key=lambda row: row["completion"])


TRAINABLES = {
    "workflow": Trainable(
        "tune a replanning policy on your own workflows, machines and objectives",
        "weft train workflow montage.json --gpus 4xV100+2xT4 --noise 0.3 --out trained",
        _arguments,
        _train,
    )
}
