"""All readers are fuzzed, the harness finds faults, and bombs and bad requests are refused."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

import weft
from tests.fuzz import harness
from tests.fuzz.bombs import BOMBS, cost_of
from tests.fuzz.harness import attempt, verdict
from tests.fuzz.http import cascade_failures, http_failures
from tests.fuzz.seeds.models import POLICIES
from tests.fuzz.seeds.readers import OTHERS, OWN
from weft.errors import InvalidInput
from weft.formats import FORMATS
from weft.formats.model_file import find_model, read_model
from weft.policies.policy import _BUILDERS

REQUESTS = 300
FOUND = Path(__file__).parent / "found"
"""Inputs that once failed, as READER--NUMBER.SUFFIX."""


def test_every_reader_of_the_table_is_covered(corpus):
    assert len(corpus) == len(OWN) + len(OTHERS)
    assert set(corpus) == {*OWN, *OTHERS}
    covered = {name.split()[0] for name in corpus}
    assert {row.name for row in FORMATS.values() if row.read} <= covered


def test_every_kind_of_policy_is_covered():
    assert {read_model(find_model(name)).kind for name in POLICIES} == set(_BUILDERS)


def test_the_harness_finds_what_is_no_clear_line(corpus, tmp_path):
    def broken(_):
        raise KeyError("raw")

    seed = corpus["stg"]._replace(read=broken)
    assert attempt(seed, tmp_path).startswith("KeyError at test_fuzz.py")


def test_the_harness_finds_what_takes_too_long_or_too_much(corpus, tmp_path):
    def hangs(_):
        begin = time.process_time()
        while time.process_time() < begin + 1.05 * harness.MOST_SECONDS:
            pass

    def grows(_):
        bytearray(1000 * harness.MOST_KILOBYTES + 50_000_000)[:] = b""

    seed = corpus["stg"]
    assert attempt(seed._replace(read=hangs), tmp_path).startswith("takes 2.1 s")
    assert re.match(r"takes \d{3} MB", attempt(seed._replace(read=grows), tmp_path))


def test_the_harness_finds_what_is_accepted_but_unsound(corpus, tmp_path, monkeypatch):
    def refuse(*_):
        raise InvalidInput("no")

    path = tmp_path / "x.json"
    weft.save(weft.Problem.from_arrays([[1.0]]), path)
    monkeypatch.setattr(weft, "check", lambda *_: ["wrong"])
    assert "heft: wrong" in attempt(corpus["weft-json problem"], path)
    assert attempt(corpus["weft-json problem"]._replace(read=refuse), path) is None


def test_bad_requests_get_clear_answers(tmp_path):
    assert http_failures(REQUESTS, tmp_path) == []


def test_bad_requests_to_a_cascade_get_clear_answers(tmp_path):
    assert cascade_failures(REQUESTS, tmp_path) == []


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
        assert verdict(seed, path) is None, file.name


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_take_little_memory(name, tmp_path):
    cost = cost_of(BOMBS[name], tmp_path)
    assert not cost.failed, cost.said
