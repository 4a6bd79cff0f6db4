"""Reading the files verbs are given."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.model import Cluster, Problem


def read_cluster(args: argparse.Namespace) -> Cluster | None:
    """Return the machines said with --cluster or --gpus, or None."""
    if args.gpus is not None:
        from weft.generators import gpu_cluster

        return gpu_cluster(args.gpus)
    if args.cluster is not None:
        from weft.formats import load_cluster

        return load_cluster(args.cluster)
    return None


def read_problem(path: Path, args: argparse.Namespace) -> Problem:
    """Return the problem of a file, on the machines the user named."""
    from weft.errors import InvalidInput
    from weft.formats import load

    machines = read_cluster(args)
    try:
        return load(path, cluster=machines)
    except InvalidInput as error:
        if machines is None and "without machines" in str(error):
            raise InvalidInput(
                f"{path}: holds a workflow without machines; add --cluster machines.toml or --gpus 4xV100+2xT4"
            ) from None
        raise
