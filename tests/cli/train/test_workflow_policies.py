"""`weft train` for workflow policies: the files that it writes are policies at once.

The learners have tests of their own; here they return the numbers of the bundled models.
"""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

import weft
from weft.cli.main import DONE, main
from weft.formats.model_file import find_model, read_model
from weft.learn.workflow import portfolio, shrinkage, switch, tuned_list, two_stage
from weft.policies import simulate

LEARNERS = {
    "tuned-list": (tuned_list, "tune_weights"),
    "portfolio": (portfolio, "search_portfolio"),
    "replan-switch": (switch, "train_switch"),
    "dqn": (two_stage, "train_two_stage"),
    "search-replanning": (shrinkage, "train_shrinkage"),
}


def _found(name: str, score: float) -> SimpleNamespace:
    """Return what a learner would, from the bundled model."""
    model = read_model(find_model(name))
    weights = model.settings.get("weights", [])
    return SimpleNamespace(
        score=score,
        seconds=3.0,
        sets=weights,
        weights=weights[0] if weights else {},
        arrays=model.arrays,
        margin=model.settings.get("margin", 0.0),
        record=lambda: {"algorithm": "none", "score": score},
    )


@pytest.mark.parametrize("name", LEARNERS)
def test_the_best_seed_is_written_and_simulates(name, monkeypatch, tmp_path, capsys):
    pytest.importorskip("torch", reason="some trainings need torch")
    scores = iter([-0.1, -0.3, -0.2])
    shown = []

    def learner(*_, progress, **__):
        progress(dict.fromkeys(("seconds", "step", "round", "epoch", "score"), 1))
        shown.append(name)
        return _found(name, next(scores))

    monkeypatch.setattr(*LEARNERS[name], learner)
    assert main(["train", name, "--seeds", "3", "--out", str(tmp_path), "--json"]) == DONE
    document = json.loads(capsys.readouterr().out)
    assert shown == [name] * 3
    assert [row["seed"] for row in document["trainings"]] == [0, 1, 2]
    card = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
    assert card["training"]["score"] == -0.3  # the lowest
    problem = weft.Problem.from_arrays([[2.0, 3.0], [1.0, 4.0]], [[0, 1]], [1.0], bandwidth=1.0)
    trained = simulate(problem, tmp_path / name)
    assert weft.check(problem, trained) == []
    assert trained.makespan == simulate(problem, name).makespan
