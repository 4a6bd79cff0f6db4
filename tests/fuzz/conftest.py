"""The seeds of all readers, for the tests of a file."""

from __future__ import annotations

import pytest

from tests.fuzz.seeds.corpus import seeds


@pytest.fixture(scope="module", name="corpus")
def _corpus(tmp_path_factory):
    return seeds(tmp_path_factory.mktemp("seeds"))
