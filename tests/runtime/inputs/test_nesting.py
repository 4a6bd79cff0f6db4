"""Lists and dicts that contain themselves, or are nested too deeply, are refused."""

import pytest

import weft
from weft.runtime.inputs.promises import MOST_NESTED, promised_in


@weft.task
def same(x):
    return x


def _cycles():
    row: list[object] = []
    row.append([row])
    table: dict[str, object] = {}
    table["again"] = table
    return {"list": row, "dict": table}


@pytest.mark.parametrize("kind", ["list", "dict"])
@pytest.mark.parametrize("where", [lambda x: [same(1), x], same], ids=["run", "argument"])
def test_a_cycle_is_refused(kind, where):
    with pytest.raises(weft.InvalidInput, match=f"a {kind} given to .* contains itself"):
        weft.run(where(_cycles()[kind]), devices=1, history=False)


@pytest.mark.parametrize("where", [lambda x: [same(1), x], same], ids=["run", "argument"])
def test_nesting_beyond_the_limit_is_refused(where):
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(weft.InvalidInput, match=f"nested deeper than {MOST_NESTED} levels"):
        weft.run(where(deep), devices=1, history=False)


def test_a_list_may_be_given_twice_and_order_is_kept():
    a, b = same(1), same(2)
    shared = [a, {"x": (b.when("yes"),)}]
    assert list(promised_in([shared, shared])) == [(a, None), (b, "yes")] * 2
