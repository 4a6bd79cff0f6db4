"""Mutated files for each other reader (programs, models, state): an object or one line.

2,000 each, but fewer where reading takes long: 1,000 journals; 600 of each bundled policy, exported
history and session; 400 for `weft view`; 200 histories and 200 for `weft plan`; 40 command lines.
"""

from __future__ import annotations

import pytest

from tests.fuzz.harness import failures_of_mutations
from tests.fuzz.seeds.readers import OTHERS


@pytest.mark.parametrize("name", OTHERS)
def test_mutated_files(name, corpus):
    assert failures_of_mutations(name, corpus[name]) == []
