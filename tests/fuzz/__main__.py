"""Run ``python -m tests.fuzz N``: N mutated files for each reader, in two processes.

``--reader NAME`` reads one format only, ``--keep FOLDER`` stores the files that fail.
``--log FILE`` notes what is done: the same command goes on from there. The reader ``http`` is a
server and a cascade that get N changed requests each; ``--no-http`` leaves it out. Readers that
take long get fewer files: the `Seed.share` of N.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from tests.fuzz.harness import corpus, piece_of_work
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
    parser.add_argument("--log", type=Path, metavar="FILE", default=Path(os.devnull))
    parser.add_argument("--no-http", action="store_true")
    args = parser.parse_args(arguments)
    names = [name for name in corpus() if args.reader in (None, name)]
    done, total, found = _done(args.log)
    pieces = [
        (name, args.first + start, min(PART, args.count - start))
        for start in range(0, args.count, PART)
        for name in names
        if (name, args.first + start) not in done
    ]
    with get_context("spawn").Pool(args.processes, maxtasksperchild=50) as pool:
        for (name, first, _), read, lines in pool.imap_unordered(
            partial(piece_of_work, keep=args.keep), pieces
        ):
            total, found = total + read, found + len(lines)
            for line in lines:
                sys.stdout.write(f"{name}: {line!a}\n")
            sys.stdout.flush()
            with args.log.open("a", encoding="utf-8") as log:
                log.write(json.dumps([name, first, read, len(lines)]) + "\n")
    if args.reader in (None, "http") and not args.no_http:
        with tempfile.TemporaryDirectory() as place:
            lines = http_failures(args.count, Path(place) / "serve")
            lines += cascade_failures(args.count, Path(place))
        found += len(lines)
        sys.stdout.writelines(f"http: {line!a}\n" for line in lines)
        sys.stdout.write(f"http: {2 * args.count} requests, {len(lines)} failures\n")
    sys.stdout.write(f"{len(names)} readers, {total} files, {found} failures\n")
    return int(found > 0)


def _done(log: Path) -> tuple[set[tuple[str, int]], int, int]:
    """Return (reader, first number) of the pieces that a log has, their files and failures."""
    rows = [json.loads(line) for line in log.read_text().splitlines()] if log.is_file() else []
    return {(row[0], row[1]) for row in rows}, sum(r[2] for r in rows), sum(r[3] for r in rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
