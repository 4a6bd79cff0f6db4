"""Stories of instances: their chapters, and that ended ones leave no memory behind."""

from __future__ import annotations

import pytest

from weft.sim import story
from weft.sim.story import State, Stories


def test_stories_stay_as_they_were_while_others_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(story, "ENDED_LINES", 20)
    stories = Stories([f"task {i}" for i in range(6)])
    stories.move(0, State.READY, 0.5, "arrived")
    stories.move(0, State.COMMITTED, 1.5, "to device 'a'")
    chapters = stories.of(0)
    for job in range(40):  # each takes the place of the one before
        stories.reset(slice(3, 6))
        for i in (3, 4, 5):
            stories.move(i, State.READY, float(job), f"of job {job}")
        assert stories.of(0) == chapters
        assert [(c.time, c.state, c.note) for c in stories.of(4)] == [
            (float(job), State.READY, f"of job {job}")
        ]
    assert stories.state[0] is State.COMMITTED
    assert len(stories._time) < 60  # of 122 lines
    assert len(stories._pairs) < 60
    stories.reset(slice(6, 8))
    assert stories.of(7) == ()
    assert stories.state[6:] == [State.WAITING] * 2
