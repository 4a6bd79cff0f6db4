"""Steps over the kernel: equal to the slow twin and to the published baselines."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.slow_twins.steps import SlowSteps
from tests.support.streams import any_stream, on_network
from weft.errors import InvalidInput, Stuck, Unsupported
from weft.formats.native.stream_toml import load_stream
from weft.model import Scenario, Workload
from weft.model.check import check
from weft.model.conditional_stream import ProbabilityDrift
from weft.policies.conditional.rules import FEATURES, RULES, ConditionalRule
from weft.sim.kernel.tables import Sim
from weft.sim.reference import simulate_reference
from weft.sim.vector.batch import StepBatch, StepOptions
from weft.sim.view import Decision

PAPER = load_stream("conditional-paper")


@pytest.mark.parametrize("waiting", ["block", "event"])
@pytest.mark.parametrize("seed", range(40))
def test_equals_the_slow_twin(seed, waiting):
    rng = np.random.default_rng(seed)
    stream = any_stream(rng)
    window = float(rng.choice([np.inf, 5.0]))
    fleet = StepBatch(stream, 1, StepOptions(idle=waiting, idle_seconds=3.0, window=window))
    arrival, outcome = stream.draw_ticks(0)
    slow = SlowSteps(stream, arrival, outcome, waiting=waiting, idle=3.0, window=window)
    state = slow.begin()
    if state == "ended":
        with pytest.raises(InvalidInput, match="take no time"):
            fleet.reset(0)
        return
    steps = fleet.reset(0)
    while state == "decide":
        np.testing.assert_array_equal(steps.mask[0], slow.mask())
        np.testing.assert_allclose(steps.observation[0], slow.observation(), rtol=1e-6)
        rows = slow.mask().reshape(slow.units, -1)
        if rng.random() < 0.2:  # actions that are not allowed do nothing; one allowed one is needed
            actions = rng.integers(0, slow.kinds + 1, slow.units)
            actions[0] = np.flatnonzero(rows[0])[0]
        else:
            actions = np.array([rng.choice(np.flatnonzero(row)) for row in rows])
        state = slow.step(actions)
        if state == "stuck":
            with pytest.raises(Stuck, match="keep to the action mask"):
                fleet.step(actions[None], renew=False)
            return
        steps = fleet.step(actions[None], renew=False)
        assert steps.reward[0] == -slow.cost
        assert steps.elapsed[0] == slow.elapsed
        assert steps.done[0] == (state == "ended")
    np.testing.assert_array_equal(fleet.tables.sim.job["finish"][0, :-1], slow.finish)


@pytest.mark.parametrize(
    ("rule", "jct", "steps"),
    [("unit-fifo", 87.98, 16608), ("unit-mru", 93.80, 17806), ("unit-depth-first", 89.99, 18022)],
)
def test_published_baselines(rule, jct, steps):
    # Their own simulator, seed 1, p(c) = 0.5, 10,000 jobs.
    fleet = StepBatch(PAPER, 1, authors=True)
    fleet.place(0, *PAPER.draw_ticks(1, authors=True))
    assert ConditionalRule(rule).run(fleet).tolist() == [steps]
    assert round(1000 * fleet.jct(0).mean(), 2) == jct


def test_what_a_job_alone_takes():
    # A, B and C on CPUs, one after the other: 24 ms. A, B, D and F: 104 ms. An idle first unit
    # takes everything.
    stream = PAPER.with_jobs(2)
    fleet = StepBatch(stream, 1)
    fleet.place(0, np.array([0.0, 1000.0]), np.array([[0, 0], [1, 1]]))
    ConditionalRule("unit-fifo").run(fleet)
    np.testing.assert_allclose(fleet.jct(0), [0.024, 0.104], rtol=1e-12)


@pytest.mark.parametrize("waiting", ["block", "event"])
@pytest.mark.parametrize("rule", RULES)
def test_rules_keep_to_the_mask_and_rewards_add_up(rule, waiting):
    stream = PAPER.with_jobs(300)
    weights = np.random.default_rng(1).normal(0.3, 1.0, (3, 6, len(FEATURES)))
    decide = ConditionalRule(rule, weights) if rule == "index" else ConditionalRule(rule)
    fleet = StepBatch(stream, 2, StepOptions(idle=waiting))
    steps = fleet.reset(5)
    actions, total, ended = np.zeros((2, 4), np.int64), np.zeros(2), np.zeros(2, bool)
    while not ended.all():
        decide.choose(fleet, actions)
        mask = steps.mask.reshape(2, 4, 7)
        assert np.take_along_axis(mask, actions[:, :, None], axis=2).all()
        ready = fleet.tables.sim.kind["ready"]
        assert (ready[:, None, :] >= mask[:, :, :6]).all()  # never an empty queue
        steps = fleet.step(actions, renew=False)
        total += np.where(ended, 0.0, steps.reward)
        ended |= steps.done
        if steps.done.any():
            break
    alone = int(np.flatnonzero(steps.done)[0])
    np.testing.assert_allclose(total[alone], -fleet.jct(alone).sum(), rtol=1e-9)


def test_nothing_leaks_before_a_choice_is_made():
    # The same jobs with opposite outcomes of D look the same until the first D has ended.
    stream = PAPER.with_jobs(200)
    arrival, outcome = stream.draw_ticks(3)
    fleet = StepBatch(stream, 2)
    fleet.reset(0)
    for s, flip in enumerate((False, True)):
        turned = outcome.copy()
        turned[:, 1] = 1 - turned[:, 1] if flip else turned[:, 1]
        fleet.place(s, arrival, turned)
    seen, rule, actions = [], ConditionalRule("shortest-remaining"), np.zeros((2, 4), np.int64)
    steps = fleet.step(np.full((2, 4), 6), renew=False)
    while True:
        done = fleet.tables.state.seen[:, 0]
        if done.any():
            break
        np.testing.assert_array_equal(steps.observation[0], steps.observation[1])
        assert (steps.observation[:, 30] == 0.5).all()  # the prior
        seen.append(steps.observation[0].copy())
        rule.choose(fleet, actions)
        steps = fleet.step(actions, renew=False)
    assert len(seen) > 3
    assert done.tolist() == [done[0], done[0]]
    first, second = fleet.tables.state.estimate[:, 0]
    assert first + second == pytest.approx(1.0)
    assert first != second


def test_a_window_follows_a_change_and_the_mean_does_not():
    stream = PAPER.with_jobs(6000).with_drift(
        "D", ProbabilityDrift("steps", np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([0.0, 24.0]))
    )
    ends = []
    for window in (200.0, np.inf):
        fleet = StepBatch(stream, 1, StepOptions(window=window))
        fleet.place(0, *stream.draw_ticks(4))
        ConditionalRule("shortest-remaining").run(fleet)
        ends.append(float(fleet.tables.state.estimate[0, 0]))
    assert ends[0] == pytest.approx(0.1, abs=0.08)
    assert ends[1] == pytest.approx(0.5, abs=0.05)


def test_a_finished_simulation_begins_again_with_the_next_draw():
    stream = PAPER.with_jobs(5)
    fleet = StepBatch(stream, 2)
    fleet.reset(10)
    rule, actions, ended = ConditionalRule("unit-fifo"), np.zeros((2, 4), np.int64), False
    while not ended:
        rule.choose(fleet, actions)
        ended = bool(fleet.step(actions).done[0])
    np.testing.assert_array_equal(fleet.tables.sim.job["arrival"][0, :-1], stream.draw_ticks(12)[0])
    assert (fleet.final_observation[0, :30] == 0).all()  # drained: all queues are empty


def test_units_are_shown_where_asked_for():
    stream = PAPER.with_jobs(3)
    fleet = StepBatch(stream, 1, StepOptions(units=True, idle="event"))
    assert fleet.reset(0).observation.shape == (1, 31 + 4 * 7 + 1)
    fleet.place(0, np.array([0.0, 2.0, 500.0]), np.zeros((3, 2), np.int64))
    fleet.step(np.full((1, 4), 6))  # lives up to the first job, at 0
    steps = fleet.step(np.array([[0, 6, 6, 6]]))  # CPU0 runs A until 8 ms; the next job comes at 2
    assert steps.elapsed[0] == pytest.approx(0.002)
    assert steps.observation[0, 31:34].tolist() == pytest.approx(
        [6 / (6 + 8), 1.0, 0.0]
    )  # free in 6 ms, a typical task takes 8; runs A
    assert steps.observation[0, -1] == np.float32(2 / 50)  # jobs here


def test_waiting_until_the_next_event_is_refused_when_there_is_none():
    fleet = StepBatch(PAPER.with_jobs(1), 1, StepOptions(idle="event"))
    mask = fleet.reset(1).mask.reshape(4, 7)
    assert not mask[:, 6].any()
    assert mask[:, 0].all()
    with pytest.raises(Stuck, match="no event is due"):
        fleet.step(np.full((1, 4), 6))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"idle": "never"}, "idle is 'never'"),
        ({"idle_seconds": 0.0}, "idle_seconds is 0.0"),
        ({"prior": 0.0}, "prior is 0.0"),
        ({"window": -1.0}, "window is -1.0"),
    ],
)
def test_bad_options(change, message):
    with pytest.raises(InvalidInput, match=message):
        StepOptions(**change)


def test_outcomes_that_no_choice_has_are_refused():
    batch = StepBatch(PAPER.with_jobs(4), 1)
    arrival, outcome = PAPER.with_jobs(4).draw_ticks(1)
    for wrong in (-1, 99):
        with pytest.raises(InvalidInput, match="numbers of branches"):
            batch.begin(0, arrival, np.full_like(outcome, wrong))


def test_bad_actions_and_rules():
    fleet = StepBatch(PAPER.with_jobs(2), 1)
    fleet.reset(1)
    for actions in (np.zeros((1, 3)), np.full((1, 4), 7), np.full((1, 4), -1)):
        with pytest.raises(InvalidInput, match=r"\(1, 4\) array of whole numbers from 0 to 6"):
            fleet.step(actions)
    with pytest.raises(InvalidInput, match="did you mean 'unit-fifo'"):
        ConditionalRule("unit-fifa")
    with pytest.raises(InvalidInput, match="index needs weights"):
        ConditionalRule("index")
    with pytest.raises(Unsupported, match="has weights for"):
        ConditionalRule("index", np.zeros((1, 6, len(FEATURES)))).run(fleet)


class Recorded:
    """Repeat decisions: in the order of time, step and device."""

    name = "recorded"

    def __init__(self, rows: list[tuple[float, int, int, int]]) -> None:
        self.rows = sorted(rows, reverse=True)

    def begin(self, workload, *, seed=0):
        pass

    def decide(self, view):
        if not self.rows or self.rows[-1][0] > view.now or self.rows[-1][3] not in view.ready:
            return None  # it becomes ready in a further moment of this time
        _, _, device, instance = self.rows.pop()
        return Decision(instance, device)


@pytest.mark.parametrize("seed", range(12))
def test_steps_on_a_network_are_those_of_the_slow_simulator(seed):
    rng = np.random.default_rng(seed)
    stream = on_network(any_stream(rng, jobs=8), rng)
    fleet = StepBatch(stream, 2, StepOptions(idle="event"))
    fleet.reset(seed)
    arrival, outcome = stream.draw_ticks(seed)
    done, step, decided = False, 0, {}
    while not done:
        mask = fleet._steps.mask.reshape(2, fleet.units, -1)
        actions = [[rng.choice(np.flatnonzero(row)) for row in rows] for rows in mask]
        done, step = bool(fleet.step(actions, renew=False).done[0]), step + 1
        for i in np.flatnonzero(~np.isnan(fleet.tables.sim.inst["decided"][0])).tolist():
            decided.setdefault(i, step)
        if fleet._steps.done[1]:
            fleet.renew(np.array([1]))
    pairs = zip(fleet.tables.sim, fleet._blank, strict=True)
    sim = Sim(*(x[0] if np.ndim(x) > np.ndim(y) else x for x, y in pairs))
    rows = sim.execution[: sim.world[0]["executions"]]
    leads = {}
    for x in rows:  # the first of a group is the one that was decided; the others fill its batch
        leads.setdefault(int(x["batch"]), x)
    said = [
        (float(x["decided"]), decided[int(x["instance"])], int(x["device"]), int(x["instance"]))
        for x in leads.values()
    ]
    workload = Workload.of(fleet.workload.problems, arrival=arrival, template=np.zeros(8, np.int64))
    scenario = Scenario.of(workload, outcome=outcome.reshape(-1))
    slow = simulate_reference(workload, Recorded(said), scenario=scenario)
    assert check(workload, slow) == []
    assert slow.transfers is not None
    np.testing.assert_array_equal(sim.job["finish"][:-1], slow.job_finish)
    np.testing.assert_array_equal(np.sort(rows["finish"]), np.sort(slow.finish))
    moved = sim.flow[: sim.world[0]["flows"]]
    np.testing.assert_array_equal(moved["begin"], slow.transfers.begin)


def test_rewards_by_deadline_add_up():
    stream = replace(PAPER.with_jobs(60), deadline=0.08)
    totals = {}
    for reward in ("completion", "tardiness", "late"):
        fleet = StepBatch(stream, 1, StepOptions(reward=reward))
        steps, total = fleet.reset(3), 0.0
        rng = np.random.default_rng(0)
        while not steps.done[0]:
            rows = steps.mask[0].reshape(fleet.units, -1)
            actions = [rng.choice(np.flatnonzero(row)) for row in rows]
            steps = fleet.step([actions], renew=False)
            total += float(steps.reward[0])
        totals[reward] = total
    jct = fleet.jct(0)
    late = jct > 0.08
    assert 0 < late.sum() < 60
    assert totals["completion"] == pytest.approx(-jct.sum())
    assert totals["tardiness"] == pytest.approx(-(jct - 0.08)[late].sum())
    assert totals["late"] == -late.sum()
    with pytest.raises(InvalidInput, match="needs a deadline"):
        StepBatch(PAPER, 1, StepOptions(reward="late"))
