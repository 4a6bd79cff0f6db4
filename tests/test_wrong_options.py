"""Public functions answer arguments that make no sense with one clear line."""

import inspect

import pytest

import weft
from tests.fuzz.sound_calls import NOT_CALLED, calls
from tests.support.programs import run_python
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
    devices = [weft.Device("a"), weft.Device("b", batch="two")]  # type: ignore[arg-type]
    with pytest.raises(weft.InvalidInput, match=r"^Cluster.of: devices\[1\].batch is 'two'; it mu"):
        weft.Cluster.of(devices)


def test_names_that_are_imported_for_types_only_are_known():
    workflow = weft.Workflow(work=[1.0], src=[], dst=[], data=[], names=("a",))
    with pytest.raises(weft.InvalidInput, match=r"^run: functions is 3; it must be collections"):
        weft.run(workflow, functions=3)  # type: ignore[arg-type]


def test_the_first_wrong_argument_is_named_with_its_type():
    with pytest.raises(weft.InvalidInput, match=r"^load: path is 3; it must be str \| os.PathLike"):
        weft.load(3)  # type: ignore[arg-type]


def test_errors_of_sound_arguments_stay_what_they_are():
    @typed
    def fails(times: int) -> None:
        raise TypeError("of its own")

    with pytest.raises(TypeError, match=r"^of its own$"):
        fails(3)


def test_missing_arguments_are_python_s_own_errors():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'workload'"):
        weft.simulate()  # type: ignore[call-arg]


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
            weft.simulate(problem, "eft", seed=seed)  # type: ignore[arg-type]


def test_an_annotation_that_cannot_be_looked_up_hides_no_error():
    space = {"__name__": "module_without_a_file", "typed": typed}
    exec("@typed\ndef half(x: 'Unknown'):\n    return x / 2\n", space)
    with pytest.raises(TypeError, match="unsupported operand"):
        space["half"]("a")
