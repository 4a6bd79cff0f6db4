"""Report of the streams experiment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.experiments.harness import write_experiment_page
from weft.experiments.streams.contenders import CONTENDERS, SPACES
from weft.experiments.streams.testbed import PUBLISHED
from weft.report.page import Facts, Section, Table, Text
from weft.report.palette import colors_by_name
from weft.report.tables import Column, Columns

SUMMARY_COLUMNS: Columns = [
    "contender",
    Column("space", "action space"),
    Column("mean", "mean flowtime (s)", places=1),
    Column("over_GOODRL", "over GOODRL", places=3),
    Column("below_GOODRL", "settings below"),
    Column("over_GPHH", "over GPHH", places=3),
    Column("below_GPHH", "settings below"),
]
REPRODUCED_COLUMNS: Columns = [
    "rule",
    Column("equal", "settings equal to all published digits"),
    Column("largest_difference", "largest relative difference", digits=2),
]
EVERY_COLUMNS: Columns = [
    "policy",
    Column("space", "action space"),
    Column("mean", "mean flowtime (s)", places=1),
    Column("over_eft", "over eft", places=3),
]
CAUSE = """\
The testbed's EST, PEFT and HEFT compare machines by the time at which each has finished all that \
was assigned to it. For an idle machine that time lies in the past: the machine that has been \
idle longest wins, however slow it is. "Stale clock" is that rule; weft's simulator gives the \
published values with it. "Right clock" (and eft) counts an idle machine from now; nothing else \
differs. The learned schedulers were compared with the stale rules only."""
METHOD = """\
Twelve arrivals and machines times two streams; {jobs:,} workflows (CyberShake, Montage, Inspiral, \
Sipht) per setting, drawn as the testbed draws them. No transfers; a machine runs its tasks one \
at a time in the order of assignment. Flowtime is finish minus arrival. Published values are those \
of the testbed, one seed of 20,000 workflows; contenders that keep tasks back leave its action \
space and are listed for comparison only."""


@colors_by_name()
def write(path: Path, results: Mapping[str, Any]) -> Path:
    """Write the report from the results."""
    by_name = {row["contender"]: row for row in results["summary"]}
    eft, stale = by_name["eft"], by_name["HEFT, stale clock"]
    count = len(results["settings"])
    facts = {
        "eft over GOODRL": f"{eft['over_GOODRL']:.3f}",
        "settings below GOODRL": f"{eft['below_GOODRL']} of {count}",
        "settings below GPHH": f"{eft['below_GPHH']} of {count}",
        "the same rule, stale clock": f"{stale['over_GOODRL']:.3f}",
    }
    sections = [
        Section(
            "Verdict",
            [
                Facts(facts),
                Table(results["verdicts"], ["claim", "verdict", "measured"]),
                Table(results["summary"], SUMMARY_COLUMNS),
                Table([{"action_space": k, "may": v} for k, v in SPACES.items()], None),
            ],
        ),
        Section("Cause", [Text(CAUSE), Table(results["reproduced"], REPRODUCED_COLUMNS)]),
        Section("All settings", [_settings(results)]),
        Section(
            f"The first {results['few_jobs']:,} workflows, with slower policies",
            [Table(results["few_summary"], SUMMARY_COLUMNS[:3])],
        ),
        Section(
            f"All policies, the first {results['first_jobs']:,} workflows",
            [Table(results["every"], EVERY_COLUMNS)],
        ),
        Section(
            "Method",
            [
                Text(METHOD.format(**results)),
                Table([{"contender": c.name, "about": c.about} for c in CONTENDERS], None),
            ],
        ),
    ]
    return write_experiment_page("streams", path, results, sections)


def _settings(results: Mapping[str, Any]) -> Table:
    rows = []
    for row in results["settings"]:
        published = {f"{name}_published": row["published"][name] for name in PUBLISHED}
        rows.append({"setting": row["setting"], **published, **row["measured"]})
    keys = [key for key in rows[0] if key != "setting"]
    return Table(rows, ["setting", *(Column(key, places=2) for key in keys)])
