"""2,000 mutated files for each reader of weft's own formats: an object or one clear line."""

from __future__ import annotations

import pytest

from tests.fuzz.harness import failures_of_mutations
from tests.fuzz.seeds.readers import OWN


@pytest.mark.parametrize("name", OWN)
def test_mutated_files(name, corpus):
    assert failures_of_mutations(name, corpus[name]) == []
