"""Keep cores busy for as much work as one core does in some seconds.

    python benchmarks/machines/spin.py SECONDS THREADS

The unit of work is fixed, so a thread that has to share its core takes longer than that.
"""

import hashlib
import sys
from concurrent.futures import ThreadPoolExecutor

ROUNDS_PER_SECOND = 4_000_000
"""Of PBKDF2 with SHA-256 on a core with instructions for SHA; the function releases the GIL."""


def work(seconds: float) -> None:
    """Compute on one core."""
    hashlib.pbkdf2_hmac("sha256", b"weft", b"salt", max(1, round(seconds * ROUNDS_PER_SECOND)))


def spin(seconds: float, threads: int) -> None:
    """Compute on several cores."""
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, [seconds] * threads))


if __name__ == "__main__":
    spin(float(sys.argv[1]), int(sys.argv[2]))
