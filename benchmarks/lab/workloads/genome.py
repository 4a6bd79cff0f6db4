"""A genome-like scatter and gather: reads in compressed files, aligned, piled up by region."""

from __future__ import annotations

import gzip
import io
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

LETTERS = np.frombuffer(b"ACGT", np.uint8)
LENGTH, SEED_LENGTH, STEP = 100, 16, 4
REGIONS = 4

Array = np.ndarray[Any, Any]


def reference(bases: int) -> Array:
    """Make a genome of random bases, 0 to 3."""
    return np.random.default_rng(7).integers(0, 4, bases, dtype=np.uint8)


def seeds_of(bases: Array) -> Array:
    """Return the 16 bases that begin at each place as one number."""
    found = np.zeros(len(bases) - SEED_LENGTH + 1, np.uint32)
    for k in range(SEED_LENGTH):
        found = (found << np.uint32(2)) | bases[k : len(bases) - SEED_LENGTH + 1 + k]
    return found


def index(genome: Array) -> tuple[Array, Array, Array]:
    """Sort the seeds of a genome; its alignments search them."""
    seeds = seeds_of(genome)[::STEP]
    order = np.argsort(seeds, kind="stable").astype(np.int32)
    return genome, seeds[order], order * np.int32(STEP)


def as_file(write: Any) -> bytes:
    """Write a file in the folder of the host, and return its content."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "part")
        write(path)
        return path.read_bytes()


def sequence(sample: int, bases: int, reads: int) -> bytes:
    """Make the compressed file of one lane: reads of a genome with one base in 50 wrong."""
    rng = np.random.default_rng([11, sample])
    genome = reference(bases).copy()
    genome[::1009] = (genome[::1009] + 1) % 4  # the sample differs from the reference there
    begin = rng.integers(0, bases - LENGTH, reads)
    found = genome[begin[:, None] + np.arange(LENGTH)]
    wrong = rng.random(found.shape) < 0.02
    found = np.where(wrong, (found + rng.integers(1, 4, found.shape)) % 4, found)
    text = np.full((reads, LENGTH + 1), ord("\n"), np.uint8)
    text[:, :LENGTH] = LETTERS[found]
    return as_file(lambda path: path.write_bytes(gzip.compress(text.tobytes(), 1)))


def align(known: tuple[Array, Array, Array], lane: bytes) -> bytes:
    """Place the reads of a lane: seeds that match, then the fewest mismatches."""
    genome, seeds, places = known
    text = np.frombuffer(gzip.decompress(lane), np.uint8).reshape(-1, LENGTH + 1)[:, :LENGTH]
    code = np.zeros(256, np.uint8)
    code[LETTERS] = np.arange(4)
    reads = code[text]
    best = np.full(len(reads), LENGTH, np.int32)
    where = np.full(len(reads), -1, np.int64)
    for shift in range(40):
        seed = np.zeros(len(reads), np.uint32)
        for k in range(SEED_LENGTH):
            seed = (seed << np.uint32(2)) | reads[:, shift + k]
        at = np.minimum(np.searchsorted(seeds, seed), len(seeds) - 1)
        begin = places[at].astype(np.int64) - shift
        hit = (seeds[at] == seed) & (begin >= 0) & (begin + LENGTH <= len(genome)) & (best > 8)
        rows = np.flatnonzero(hit)
        apart = (genome[begin[rows, None] + np.arange(LENGTH)] != reads[rows]).sum(axis=1)
        better = apart < best[rows]
        best[rows[better]], where[rows[better]] = apart[better], begin[rows[better]]
    kept = best < 20

    def write(path: Path) -> None:
        with path.open("wb") as file:
            np.savez(file, begin=where[kept], reads=reads[kept])

    return as_file(write)


def region(aligned: bytes, number: int, bases: int) -> bytes:
    """Cut the alignments of one region out of those of a lane."""
    with np.load(io.BytesIO(aligned)) as file:
        begin, reads = file["begin"], file["reads"]
    width = bases // REGIONS
    mine = np.minimum(begin // width, REGIONS - 1) == number
    order = np.argsort(begin[mine], kind="stable")

    def write(path: Path) -> None:
        with path.open("wb") as file:
            np.savez(file, begin=begin[mine][order], reads=reads[mine][order])

    return as_file(write)


def pile_up(number: int, bases: int, *parts: bytes) -> Array:
    """Count the bases of all reads at each place of a region."""
    width = bases // REGIONS
    counts = np.zeros((width + LENGTH, 4), np.int32)
    for part in parts:
        with np.load(io.BytesIO(part)) as file:
            begin, reads = file["begin"] - number * width, file["reads"]
        place = begin[:, None] + np.arange(LENGTH)
        inside = place < len(counts)
        np.add.at(counts, (place[inside], reads[inside]), 1)
    return counts


def variants(number: int, known: tuple[Array, Array, Array], counts: Array) -> list[int]:
    """Return the places whose usual base differs from the reference."""
    width = len(known[0]) // REGIONS
    deep = counts[:width].sum(axis=1) >= 4
    usual = counts[:width].argmax(axis=1)
    differs = deep & (usual != known[0][number * width : (number + 1) * width])
    return [int(place) + number * width for place in np.flatnonzero(differs)]


def gather(*parts: list[int]) -> list[int]:
    return [place for part in parts for place in part]


def genome(call: Any, scale: float = 1.0) -> Any:
    """Call the variants of a sample of 16 lanes in 4 regions."""
    lanes = 16 if scale >= 1 else 4
    bases, reads = max(40_000, round(1_600_000 * scale)), max(2_000, round(12_000 * scale))
    known = call(index, call(reference, bases))
    aligned = [call(align, known, call(sequence, k, bases, reads)) for k in range(lanes)]
    found = []
    for number in range(REGIONS):
        parts = [call(region, lane, number, bases) for lane in aligned]
        found.append(call(variants, number, known, call(pile_up, number, bases, *parts)))
    return call(gather, *found)
