"""Run ``python -m tests.fuzz N``: N mutated files for each reader, in two processes.

``--reader NAME`` reads one format only, ``--keep FOLDER`` stores the files that fail. The reader
``http`` is a server and a cascade that get N changed requests each.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from tests.fuzz.corpus import seeds
from tests.fuzz.harness import piece_of_work
from tests.fuzz.http import cascade_failures, http_failures

PART = 500
"""Files of one piece of work."""


def main(arguments: list[str]) -> int:
    """Print every failure; return 1 if there is one."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first file")
    parser.add_argument("--reader", metavar="NAME")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        shares = {name: seed.share for name, seed in seeds(Path(place)).items()}
    names = [name for name in shares if args.reader in (None, name)]
    pieces = [
        (name, args.first + start, min(PART, args.count - start))
        for start in range(0, args.count, PART)
        for name in names
    ]
    total, found = 0, 0
    with get_context("spawn").Pool(args.processes, maxtasksperchild=50) as pool:
        for name, read, lines in pool.imap_unordered(
            partial(piece_of_work, keep=args.keep), pieces
        ):
            total, found = total + read, found + len(lines)
            for line in lines:
                sys.stdout.write(f"{name}: {line!a}\n")
            sys.stdout.flush()
    if args.reader in (None, "http"):
        with tempfile.TemporaryDirectory() as place:
            lines = http_failures(args.count, Path(place) / "serve")
            lines += cascade_failures(args.count, Path(place))
        found += len(lines)
        sys.stdout.writelines(f"http: {line!a}\n" for line in lines)
        sys.stdout.write(f"http: {2 * args.count} requests, {len(lines)} failures\n")
    sys.stdout.write(f"{len(names)} readers, {total} files, {found} failures\n")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
