"""Public functions answer arguments that make no sense with one clear line."""

import copy
import importlib
import inspect
import pickle
import pkgutil
import re
from dataclasses import fields, is_dataclass, replace
from functools import partial
from pathlib import Path

import pytest

import weft
from tests.fuzz.sound_calls import NOT_CALLED, PROBLEM, calls
from tests.support.programs import run_python
from weft.generators import Condition, draw_instance, generate_problem
from weft.planners import PLANNERS
from weft.planners.planner import plan as plan_problem
from weft.policies import POLICIES
from weft.policies.replanning.portfolio import PlanOptions
from weft.runtime import LocalDevice, PilotDevice, RunOptions
from weft.sim.vector.batch import StepOptions
from weft.typed import fits, typed


def test_public_functions_refuse_arguments_that_make_no_sense():
    """In a process of its own: its alarm would end a call of another test."""
    child = run_python("-m", "tests.fuzz.wrong_options", check=False)
    assert child.stdout.strip().endswith(" calls, 0 without a clear end"), child.stdout
    assert int(child.stdout.split()[0]) > 2000


def test_every_public_name_is_called_or_takes_no_values(tmp_path):
    called = {call[0].split()[0].split(".")[0] for call in calls(tmp_path)}
    assert called.isdisjoint(NOT_CALLED)
    assert called | NOT_CALLED == set(weft.__all__)


def test_attributes_of_descriptions_are_named():
    wrong = weft.Device("b", batch="two")  # type: ignore[arg-type]  # a wrong value
    devices = [weft.Device("a"), wrong]
    with pytest.raises(weft.InvalidInput, match=r"^Cluster.of: devices\[1\].batch is 'two'; it mu"):
        weft.Cluster.of(devices)


def test_names_that_are_imported_for_types_only_are_known():
    workflow = weft.Workflow(work=[1.0], src=[], dst=[], data=[], names=("a",))
    with pytest.raises(weft.InvalidInput, match=r"^run: functions is 3; it must be collections"):
        weft.run(workflow, functions=3)  # type: ignore[arg-type]  # a wrong value


def test_the_first_wrong_argument_is_named_with_its_type():
    with pytest.raises(weft.InvalidInput, match=r"^load: path is 3; it must be str \| os.PathLike"):
        weft.load(3)  # type: ignore[arg-type]  # a wrong value


def test_errors_of_sound_arguments_stay_what_they_are():
    @typed
    def fails(times: int) -> None:
        raise TypeError("of its own")

    with pytest.raises(TypeError, match=r"^of its own$"):
        fails(3)


def test_missing_arguments_are_python_s_own_errors():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'workload'"):
        weft.simulate()  # type: ignore[call-arg]  # too few


TAKES_OPTIONS = [
    name
    for name in weft.__all__
    if inspect.isroutine(getattr(weft, name)) and name not in NOT_CALLED
]


@pytest.mark.parametrize("name", TAKES_OPTIONS)
def test_public_functions_refuse_unknown_options_with_the_closest_name(name, tmp_path):
    """One sound call of each function, with one option more."""
    sound = {call[0].split()[0]: call for call in calls(tmp_path)}
    _, function, arguments, options = sound[name][:4]
    last = list(inspect.signature(function).parameters)[-1]
    with pytest.raises(weft.errors.UnknownName, match=r"no option|unknown option"):
        function(*arguments, **options, **{f"{last}_": 1})


REFERENCE = Path(__file__).parents[1] / "docs" / "reference.md"

RESULTS = (
    *("Assignment", "Attack", "Comparison", "Explanation", "Failure", "Forecast", "Plan"),
    *("RunTrace", "Sizing", "TaskEvent", "Tornado", "Trace", "Transfers", "WhatIf"),
)

LEFT_OUT = {
    **dict.fromkeys(RESULTS, "a result, which weft makes"),
    **dict.fromkeys(("Block", "View"), "shown to a policy; weft makes one per decision"),
    "Decision": "a policy makes one per decision; the check would slow it by a fifth",
    "MeasuredExecution": "a reader makes one per task of a recording",
    "ProblemArrays": "arrays of a problem for compiled code",
    **dict.fromkeys(("Planner", "Policy"), "a protocol"),
    **dict.fromkeys(("Chosen", "current_device"), "processes that run tasks import no checks"),
    "get": "Dask calls it, with options of its own",
}
"""Public names that do not refuse unknown options with the closest one, and why."""

FORWARDING = {
    "generators.dag_jobs": partial(
        weft.generators.dag_jobs, weft.gpu_cluster("1xV100"), jobs=1, tasks=(3, 4)
    ),
    "generators.generate_problem": partial(generate_problem, "bag", "1xV100"),
    "planners.plan": partial(plan_problem, PROBLEM),
}
"""Sound calls of functions outside of `weft.__all__` that hand on options of others."""


def _documented():
    """List what users call or construct in the packages of the reference, with its name."""
    found = {}
    for package in re.findall(r"<!-- names: ([\w.]+) -->", REFERENCE.read_text(encoding="utf-8")):
        module = importlib.import_module(package)
        for name in module.__all__:
            made = getattr(module, name, None)  # None: a module that is not imported
            error = inspect.isclass(made) and issubclass(made, BaseException)
            if callable(made) and not error and name not in LEFT_OUT:
                found.setdefault(made, f"{package}.{name}".removeprefix("weft."))
    return {name: made for made, name in found.items()}


def _takes_any(function):
    kinds = [p.kind for p in inspect.signature(function).parameters.values()]
    return inspect.Parameter.VAR_KEYWORD in kinds


DOCUMENTED = _documented()


def _refuses(function):
    """Expect the closest name for a mistyped last parameter."""
    last = "".join(list(inspect.signature(function).parameters)[-1:])
    with pytest.raises(weft.UnknownName, match="has no option 'x_") as caught:
        function(**{f"x_{last}": 1})
    if len(last) > 4:
        assert f"did you mean '{last}'" in str(caught.value)


@pytest.mark.parametrize("name", [n for n, made in DOCUMENTED.items() if not _takes_any(made)])
def test_documented_functions_and_classes_refuse_unknown_options(name):
    _refuses(DOCUMENTED[name])


def test_documented_functions_that_hand_on_options_refuse_unknown_ones():
    handing_on = {name for name, made in DOCUMENTED.items() if _takes_any(made)}
    assert handing_on == {*FORWARDING, "generate", "plan", "task"}  # called above
    for call in FORWARDING.values():
        with pytest.raises(weft.UnknownName, match="no option 'sede'; did you mean 'seed'"):
            call(sede=1)


@pytest.mark.parametrize("planner", ["heft", PLANNERS.create("heft")], ids=["name", "object"])
def test_options_of_plan_itself_are_known(planner):
    with pytest.raises(weft.UnknownName, match="has no option 'histroy'; did you mean 'history'"):
        weft.plan(PROBLEM, planner, histroy=False)


def test_every_name_that_is_left_out_is_documented():
    text = REFERENCE.read_text(encoding="utf-8")
    packages = map(importlib.import_module, re.findall(r"<!-- names: ([\w.]+) -->", text))
    assert LEFT_OUT.keys() <= {name for package in packages for name in package.__all__}


def _class_of(factory):
    made = factory.func if isinstance(factory, partial) else factory
    return made if inspect.isclass(made) else None


CONTENDERS = {
    made.__name__: made
    for table in (PLANNERS, POLICIES)
    for made in (_class_of(table.factory(name)) for name in table.names())
    if made is not None
}


@pytest.mark.parametrize("name", CONTENDERS)
def test_classes_of_planners_and_policies_refuse_unknown_options(name):
    _refuses(CONTENDERS[name])


@pytest.mark.parametrize(
    "name",
    [
        "conditional.rollout.Rollout",
        "graph.policy.GraphPolicy",
        "hybrid.policy.HybridPolicy",
        "replanning.policy.ReplanningPolicy",
        "replanning.policy.SwitchPolicy",
        "replanning.portfolio.PlanOptions",
        "search.planning.SearchOptions",
        "search.policy.SearchPolicy",
        "two_stage.dqn.TwoStageDqn",
    ],
)
def test_policies_and_their_options_refuse_unknown_options(name):
    module, _, cls = name.rpartition(".")
    _refuses(getattr(importlib.import_module(f"weft.policies.{module}"), cls))


def _subclasses(cls):
    return [cls, *(each for sub in cls.__subclasses__() for each in _subclasses(sub))]


def test_settings_of_trainings_refuse_unknown_options():
    pytest.importorskip("torch")
    import weft.learn
    from weft.learn.settings import Settings

    for module in pkgutil.walk_packages(weft.learn.__path__, "weft.learn."):
        importlib.import_module(module.name)
    known = [cls for cls in _subclasses(Settings) if cls.__module__.startswith("weft.learn.")]
    assert {"DqnSettings", "PpoSettings"} < {cls.__name__ for cls in known}
    for cls in (cls for cls in known if is_dataclass(cls)):
        with pytest.raises(weft.UnknownName, match=f"^{cls.__name__} has no option 'sed'"):
            cls(sed=1)


@pytest.mark.parametrize(
    "made",
    [
        LocalDevice("a", cores=(1,)),
        PilotDevice("a", cpus=2),
        RunOptions(retries=2),
        PlanOptions(window=3),
        StepOptions(idle="event"),
        Condition(noise=0.1),
        PLANNERS.create("anytime", iterations=3),
    ],
    ids=lambda made: type(made).__name__,
)
def test_checked_classes_are_pickled_copied_and_replaced(made):
    assert pickle.loads(pickle.dumps(made)) == made == copy.copy(made) == copy.deepcopy(made)
    assert replace(made) == made
    assert [f.name for f in fields(made)] == list(inspect.signature(type(made)).parameters)
    with pytest.raises(weft.UnknownName, match=f"^{type(made).__name__} has no option 'nothing'"):
        replace(made, nothing=1)


def test_checked_named_tuples_are_pickled_copied_and_replaced():
    made = draw_instance(tasks=3)
    again = pickle.loads(pickle.dumps(made))
    assert type(again) is type(made)
    assert again.workload.name == made.workload.name
    assert copy.copy(made) == made == made._replace(workload=made.workload)


def test_a_generator_that_extends_another_one_names_its_own_options():
    with pytest.raises(weft.UnknownName, match=r"^conditional has no option 'brnches'; did you m"):
        weft.generators.conditional(brnches=3)


def test_signatures_stay_visible():
    assert list(inspect.signature(weft.simulate).parameters)[:3] == [
        "workload",
        "policy",
        "scenario",
    ]


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (True, float, False),
        ("ab", list[str], False),
        ((1, "a"), tuple[int, str], True),
        ((1, 2), tuple[int, str], False),
        ({"a": 1}, dict[str, float], True),
        ({"a": "b"}, dict[str, float], False),
        (len, object, True),
        (int, int, False),
    ],
)
def test_values_fit_their_annotations(value, hint, expected):
    assert fits(value, hint) is expected


def test_seeds_are_whole_numbers():
    problem = weft.Problem.from_arrays([[1.0]])
    for seed in (-1, 1.5, "1", None):
        with pytest.raises(
            weft.InvalidInput, match="it must be a whole number, 0 or more, at most "
        ):
            weft.simulate(problem, "eft", seed=seed)  # type: ignore[arg-type]  # a wrong value


def test_an_annotation_that_cannot_be_looked_up_hides_no_error():
    space = {"__name__": "module_without_a_file", "typed": typed}
    exec("@typed\ndef half(x: 'Unknown'):\n    return x / 2\n", space)
    with pytest.raises(TypeError, match="unsupported operand"):
        space["half"]("a")
