"""Every reader, about 300 mutated files each: an object or one clear line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.bombs import BOMBS, cost_of
from tests.fuzz.corpus import SAMPLES, seeds
from tests.fuzz.harness import attempt, failures
from tests.fuzz.http import cascade_failures, http_failures
from tests.fuzz.state import STATE
from weft.formats import FORMATS

FILES = 300


@pytest.fixture(scope="module", name="corpus")
def _corpus(tmp_path_factory):
    return seeds(tmp_path_factory.mktemp("seeds"))


NAMES = (
    *(
        f"weft-{suffix} {noun}"
        for suffix in ("json", "npz")
        for noun in ("problem", "workflow", "cluster", "workload", "schedule", "trace")
    ),
    "weft-json gz",
    "cluster-toml",
    "network-toml",
    "stream-toml",
    "dot",
    "stg",
    "task-table",
    "taskgraph-v1",
    "wfformat",
    "static-graph",
    "callgraph",
    "model card",
    "model numbers",
    *SAMPLES,
    "cli plan",
    "cli arguments",
    *(name for name, survives in STATE.items() if survives),
    *("history csv", "history json", "session eft", "session heft-replanned"),
    *("profile", "cascade", "payloads", "duration model", "duration arrays", "forest", "cli view"),
)
FOUND = Path(__file__).parent / "found"
"""Inputs that once failed, as READER--NUMBER.SUFFIX."""


def test_every_reader_of_the_table_is_covered(corpus):
    assert set(corpus) == set(NAMES)
    covered = {name.split()[0] for name in NAMES}
    assert {row.name for row in FORMATS.values() if row.read} <= covered


@pytest.mark.parametrize("name", NAMES)
def test_mutated_files(name, corpus, tmp_path):
    seed = corpus[name]
    path = tmp_path / f"sound{seed.suffix}"
    for suffix, content in seed.beside:
        path.with_suffix(suffix).write_bytes(content)
    path.write_bytes(seed.content)
    seed.read(path)
    assert failures(name, seed, FILES, tmp_path) == []


def test_the_harness_finds_what_is_no_clear_line(corpus, tmp_path):
    def broken(_):
        raise KeyError("raw")

    seed = corpus["stg"]._replace(read=broken)
    assert attempt(seed, tmp_path).startswith("KeyError at test_fuzz.py")


def test_bad_requests_get_clear_answers(tmp_path):
    assert http_failures(FILES, tmp_path) == []


def test_bad_requests_to_a_cascade_get_clear_answers(tmp_path):
    assert cascade_failures(FILES, tmp_path) == []


def test_inputs_that_once_failed(corpus, tmp_path):
    found = sorted(FOUND.iterdir())
    assert found
    for file in found:
        name = file.name.split("--")[0].replace("_", " ")
        seed = corpus[name]
        path = tmp_path / f"x{seed.suffix}"
        for suffix, content in seed.beside:
            path.with_suffix(suffix).write_bytes(content)
        path.write_bytes(file.read_bytes())
        assert attempt(seed, path) is None, file.name


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_take_little_memory(name, tmp_path):
    cost = cost_of(BOMBS[name], tmp_path)
    assert not cost.failed, cost.said
