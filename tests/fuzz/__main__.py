"""Run ``python -m tests.fuzz N [NAME]``: N mutated files for each reader, or for one.

The name ``http`` sends N changed requests to a server.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.fuzz.corpus import seeds
from tests.fuzz.harness import failures
from tests.fuzz.http import http_failures


def main(arguments: list[str]) -> int:
    """Print every failure; return 1 if there is one."""
    count = int(arguments[0]) if arguments else 1000
    bad = 0
    with tempfile.TemporaryDirectory() as place:
        if arguments[1:] in ([], ["http"]):
            found = http_failures(count, Path(place) / "serve")
            bad += len(found)
            sys.stdout.write(f"http: {count} requests, {len(found)} failures\n")
            sys.stdout.writelines(f"  {line!a}\n" for line in found[:10])
        for name, seed in seeds(Path(place)).items():
            if len(arguments) > 1 and arguments[1] != name:
                continue
            found = failures(name, seed, count, Path(place))
            bad += len(found)
            sys.stdout.write(f"{name}: {count} files, {len(found)} failures\n")
            sys.stdout.flush()
            for line in found[:10]:
                sys.stdout.write(f"  {line!a}\n")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
