"""Streams as TOML: one with a choice, one of two stages."""

from __future__ import annotations

FAST = '[[units]]\nname = "fast"\nbatch = 8\n'


INSPECTION = """
jobs = 50
[arrivals]
process = "poisson"
gap = "20 ms"
[[tasks]]
name = "look"
time = "10 ms"
then = ["sort"]
[[tasks]]
name = "sort"
time = "5 ms"
kind = "model"
[[tasks]]
name = "explain"
time = "40 ms"
memory = "2 GB"
[[choices]]
task = "sort"
branches = {odd = 0.25, fine = 0.75}
leads_to = {odd = ["explain"], fine = []}
estimate = true
[[units]]
name = "gpu"
count = 2
coefficient = 0.5
batch = 4
memory = "4 GB"
"""
"""A stream with one choice, whose branches are counted, on two units with memory."""


def two_stages(units: str = FAST, *, gap: float = 4, small: float = 1, large: float = 4) -> str:
    """Return a small task, and a large one where it is unsure; times are milliseconds."""
    return f"""
name = "two stages"
tick = "1 ms"
[arrivals]
process = "poisson"
gap = "{gap} ms"
[[tasks]]
name = "small"
time = "{small} ms"
[[tasks]]
name = "large"
time = "{large} ms"
[[choices]]
task = "small"
branches = {{unsure = 0.3, sure = 0.7}}
leads_to = {{unsure = ["large"], sure = []}}
{units}"""
