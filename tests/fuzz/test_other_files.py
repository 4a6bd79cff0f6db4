"""2,000 mutated files for each other reader (programs, models, state): an object or one line."""

from __future__ import annotations

import pytest

from tests.fuzz.harness import failures_of_mutations
from tests.fuzz.seeds.readers import OTHERS


@pytest.mark.parametrize("name", OTHERS)
def test_mutated_files(name, corpus):
    assert failures_of_mutations(name, corpus[name]) == []
