"""The tuned index as a model: weights per group of equal units, kind and feature."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import InvalidInput
from weft.formats.model_file import Model, find_model, read_model, save_model
from weft.formats.parsing.record import Record
from weft.formats.parsing.source import naming
from weft.policies.conditional.rules import FEATURES, ConditionalRule
from weft.sim.vector.batch import StepBatch

KIND = "conditional-index"
BUNDLED_INDEX = "index"
"""Name of the bundled index, tuned for the stream `conditional-paper`."""


def load_index(name_or_path: str | Path = BUNDLED_INDEX) -> ConditionalRule:
    """Load the bundled index, or one from its files.

    Examples
    --------
    >>> load_index().weights.shape
    (3, 6, 17)
    """
    card = find_model(name_or_path)
    model = read_model(card, KIND)
    with naming(str(card)):
        return index_of_model(model)


def index_for(stream: str) -> ConditionalRule | None:
    """Return the bundled index if it was tuned for the stream of this name."""
    model = read_model(find_model(BUNDLED_INDEX), KIND)
    return index_of_model(model) if model.settings.get("stream") == stream else None


def index_of_model(model: Model) -> ConditionalRule:
    """Build the index of a model; raise if its card is invalid."""
    settings = Record(dict(model.settings))
    settings.only(("stream", "groups", "kinds", "features", "watched"))
    if tuple(settings.strings("features")) != FEATURES:
        raise InvalidInput("its features are not those of this version of weft; tune it again")
    weights = model.arrays.get("weights")
    if weights is None or set(model.arrays) != {"weights"} or weights.ndim != 3:
        raise InvalidInput("an index has one array 'weights': groups of units x kinds x features")
    watched = tuple(settings.strings("watched"))
    return ConditionalRule("index", np.asarray(weights, float), watched=watched)


def save_index(
    path: str | Path, rule: ConditionalRule, batch: StepBatch, *, training: Mapping[str, Any]
) -> Path:
    """Write an index tuned for the stream of `batch`; return the path of its card."""
    rule.check_fits(batch)
    group, names = batch.tables.state.group, batch.stream.problem.cluster.names
    workflow = batch.stream.problem.workflow
    settings = {
        "stream": batch.stream.name,
        "groups": [
            [names[d] for d in np.flatnonzero(group == g)] for g in range(int(group.max()) + 1)
        ],
        "kinds": list(batch.kind_names),
        "features": list(FEATURES),
        "watched": [
            workflow.task_name(int(workflow.choices.task[c])) for c in batch.stream.watched
        ],
    }
    model = Model(
        name=Path(path).stem,
        kind=KIND,
        about=f"An index for each pair of unit and kind, tuned for {batch.stream.name}.",
        settings=settings,
        arrays={"weights": rule.weights},
        training=training,
    )
    return save_model(model, path)
