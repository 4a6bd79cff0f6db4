"""The text of a stream with two stages: a small task, and a large one where it is unsure."""

from __future__ import annotations

FAST = '[[units]]\nname = "fast"\nbatch = 8\n'


def two_stages(units: str = FAST, *, gap: float = 4, small: float = 1, large: float = 4) -> str:
    """Return the stream as TOML; times are milliseconds."""
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
