"""`snakemake --scheduler weft`: jobs with the longest path to the end go first.

The durations of rules come from Snakemake's own records (`.snakemake/metadata`), as its scheduler
interface does not report when a job began or ended. Until there are durations, Snakemake's greedy
scheduler decides.
"""

# Annotations are not postponed here: Snakemake reads the types of settings from them.

import atexit
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from snakemake_interface_scheduler_plugins.base import SchedulerBase
from snakemake_interface_scheduler_plugins.settings import SchedulerSettingsBase

from weft.formats import save
from weft.model import Problem
from weft.runtime.costs.history import history_for_run
from weft.runtime.inputs.snakemake import (
    fitting,
    learn,
    places,
    problem_of,
    seconds_by_rule,
    upward_ranks,
)

__all__ = ["Scheduler", "SchedulerSettings"]


def _file_setting(text: str) -> Any:
    """Return a setting that names a file; by default there is none."""
    return field(default=None, metadata={"help": text, "type": str})


@dataclass
class SchedulerSettings(SchedulerSettingsBase):  # type: ignore[misc]  # of a package without types
    """Settings of the command line."""

    history: str | None = _file_setting(
        "File of weft's history. Default: $WEFT_HISTORY, or that of the project of this folder."
    )
    learn_nothing: bool = field(
        default=False,
        metadata={
            "help": "Do not add the durations of finished jobs to the history; only use what it "
            "has."
        },
    )
    write: str | None = _file_setting(
        "File for the graph of the jobs that are left, with their threads, resources and "
        "durations, for weft plan; written before the first job starts."
    )


class Scheduler(SchedulerBase):  # type: ignore[misc]  # of a package without types
    """Selects jobs by priority, then by upward rank, if they fit."""

    def __post_init__(self) -> None:
        settings = (
            self.settings if isinstance(self.settings, SchedulerSettings) else SchedulerSettings()
        )
        self.history = history_for_run(settings.history or True)
        self.folder = Path(".snakemake").absolute()
        self.places: dict[Any, int] = {}
        if not settings.learn_nothing:
            self.learn()
            atexit.register(self.learn)  # the last jobs end when nothing is asked any more
        self.seconds = seconds_by_rule(self.history) if self.history is not None else {}
        if settings.write is not None:
            save(self._problem(self.dag.workflow.global_resources), settings.write)

    def learn(self) -> None:
        """Add finished jobs to the history; a failure to write only warns."""
        if self.history is None:
            return
        try:
            learn(self.folder, self.history)
        except Exception as error:  # noqa: BLE001  # the workflow has ended all the same
            self.logger.warning(
                "weft could not add to its history: %s: %s", type(error).__name__, error
            )

    def dag_updated(self) -> None:
        """Drop the order of the old graph."""
        self.places = {}

    def select_jobs(
        self,
        selectable_jobs: Sequence[Any],
        remaining_jobs: Sequence[Any],  # groups among them; the graph is of single jobs
        available_resources: Mapping[str, int | str],
        input_sizes: Mapping[Any, int],
    ) -> list[Any] | None:
        """Return the jobs to start; None leaves the choice to Snakemake."""
        if not self.seconds:
            return None
        place = self.places
        if not all(map(place.__contains__, selectable_jobs)):
            self._place(selectable_jobs)
        return fitting(
            sorted(selectable_jobs, key=place.__getitem__),
            lambda job: job.scheduler_resources,
            available_resources,
        )

    def _problem(self, limits: Mapping[str, int | str]) -> Problem:
        return problem_of(
            list(self.dag.needrun_jobs()),
            self.dag.job_dependencies,
            lambda job: _rule(job) or "job",
            self._expected,
            lambda job: job.scheduler_resources,
            limits,
        )

    def _expected(self, job: Any) -> float:
        """Return the seconds of a job; one without output files only gathers others."""
        if not list(job.output):
            return 0.0
        rule = _rule(job)
        if rule in self.seconds:
            return self.seconds[rule]
        return median(self.seconds.values()) if self.seconds else 1.0

    def _place(self, selectable: Iterable[Any]) -> None:
        """Order all jobs once; a group stands at the place of its most urgent job."""
        if not self.places:
            self._order(self.dag.needrun_jobs())
        missing = {job: _singles(job) for job in selectable if job not in self.places}
        new = [s for singles in missing.values() for s in singles if s not in self.places]
        if new:
            self._order([*self.dag.needrun_jobs(), *new])
        for job, singles in missing.items():
            if job not in self.places:
                self.places[job] = min(self.places[single] for single in singles)

    def _order(self, jobs: Iterable[Any]) -> None:
        unknown = median(self.seconds.values())
        ranks = upward_ranks(
            jobs, self.dag.job_dependencies, lambda job: self.seconds.get(_rule(job), unknown)
        )
        self.places.clear()
        self.places.update(places(ranks, lambda job: (-job.priority, -ranks[job]), _label))


def _singles(job: Any) -> list[Any]:
    """Return the jobs of a group (a method in the interface, a property in Snakemake)."""
    jobs = getattr(job, "jobs", [job])
    return list(jobs() if callable(jobs) else jobs)


def _rule(job: Any) -> str:
    return job.rule.name if hasattr(job, "rule") else ""


def _label(job: Any) -> str:
    """Return a label for a total order: Snakemake gives a set."""
    output = job.output
    return str(output[0]) if len(output) == 1 else " ".join(map(str, output))
