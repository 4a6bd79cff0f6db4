"""Write docs/results/physics.json: ``python docs/make_physics.py`` (a minute of processor time).

`hybrid` on mixed tasks under every device model, without the other learners of
``weft reproduce shift``, which takes longer.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from weft.experiments.harness import describe_machine, page_table
from weft.experiments.shift.contenders import play, train_models, training_tasks
from weft.experiments.shift.physics import PHYSICS, Physics, draw_case
from weft.policies.hybrid.chooser import HybridChooser

DRAWS = 5
FILE = Path(__file__).parent / "results" / "physics.json"


def row(physics: Physics) -> list[str | float]:
    """Return the best single device and `hybrid` over the optimum: mean and worst draw."""
    single, own = [], []
    for seed in range(DRAWS):
        case = draw_case(physics, training_tasks().features, mixed=True, seed=seed)
        offline = case.offline, case.offline_seconds
        chooser = HybridChooser(train_models(*offline, case.profile_seconds))
        own.append(play(chooser, case).total / float(case.optimal.sum()))
        single.append(case.single)
    return [physics.name, physics.about, float(np.mean(single)), float(np.mean(own)), max(own)]


def main() -> None:
    """Write the file."""
    columns = {"physics": None, "what differs": None, "best single device": 3, "`hybrid`": 3}
    table = page_table({**columns, "worst draw": 3}, [row(physics) for physics in PHYSICS])
    document = {
        "measured_with": "python docs/make_physics.py",
        "provenance": "written by that script",
        "machine": describe_machine(),
        "draws": DRAWS,
        "tables": {"mixed": table},
    }
    FILE.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
