"""Report of the families experiment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.experiments.families.contenders import BASELINE, CHOSEN, REFERENCE
from weft.experiments.harness import write_experiment_page
from weft.report.page import Section, Table, Text
from weft.report.palette import colors_by_name
from weft.report.tables import Column, Columns, interval_columns

INTERVAL = interval_columns(Column("ratio", places=3))
TARGET_COLUMNS: Columns = [
    "condition",
    "cases",
    "over",
    *INTERVAL,
    Column("target", places=2),
    "reached",
    Column("best_rule", "best hand-made rule"),
    Column("over_rule", "over it", places=3),
    Column("rule_low", "low", places=3),
    Column("rule_high", "high", places=3),
    Column("clear", "clear of 1"),
    Column("clairvoyant", places=3),
]
NETWORK_COLUMNS: Columns = ["condition", "cases", *INTERVAL, Column("earned", "below 1")]
RATIO_COLUMNS: Columns = [
    "condition",
    "contender",
    "kind",
    "cases",
    *INTERVAL,
    Column("milliseconds", "ms per task", places=3),
]
METHOD = f"""\
All contenders run on the same cases in the same simulator. One workflow per case, compared by \
makespan over {BASELINE}, which has the same information; streams of jobs of mixed families, \
compared by mean completion time over {REFERENCE}. Families, clusters and CCRs have equal shares. \
No constant of {CHOSEN} was chosen on these families. Intervals are 95 % bootstrap intervals of \
the geometric mean of paired ratios. "clairvoyant" is a search of 5,000 moves with the true \
durations in advance; in streams a search of 30,000,000 placements that has durations and \
arrivals and makes copies, on the cases of the parts. Times are processor time of the whole \
simulation per task."""


@colors_by_name()
def write(path: Path, results: Mapping[str, Any]) -> Path:
    """Write the report from the results."""
    about = [{"contender": name, **entry} for name, entry in results["contenders"].items()]
    share = (
        f"{results['share_measured']:.0%} of the workflows are of families with measured graphs."
    )
    return write_experiment_page(
        "families",
        path,
        results,
        [
            Section("Targets", [Table(results["targets"], TARGET_COLUMNS)]),
            Section("All contenders", [Table(results["ratios"], RATIO_COLUMNS)]),
            Section("Parts of the search policy", [Table(results["ablation"], RATIO_COLUMNS)]),
            Section("The network", [Table(results["network"], NETWORK_COLUMNS)]),
            Section("Method", [Text(METHOD), Text(share), Table(about, None)]),
        ],
    )
