"""The guard of a lab: waits until its owner closes a pipe or dies, then removes the lab."""

from __future__ import annotations

import signal
import sys

from benchmarks.lab.lab import remove_lab


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.read()  # ends when the owner does
    remove_lab(sys.argv[1])


if __name__ == "__main__":
    main()
