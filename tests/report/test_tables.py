"""Tables as text, Markdown and HTML; numbers as people read them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.report_examples import EVIL
from weft.errors import InvalidInput, UnknownName
from weft.model.explain.quantities import MISSING, format_bytes, format_number, format_seconds
from weft.report.labels import shortened
from weft.report.tables import Column, table_html, table_text

ROWS = [
    {"planner": "cpop", "makespan": 86.0, "gap": 0.075, "exact": False},
    {"planner": "heft", "makespan": 80.0, "gap": 0.0, "exact": True},
    {"planner": "milp", "makespan": None, "gap": np.nan, "exact": True},
]


def test_text():
    made = table_text(
        ROWS,
        ["planner", Column("makespan", unit="s", best="min"), Column("gap", unit="%"), "exact"],
        sort="makespan",
    )
    assert made.splitlines() == [
        "planner  makespan    gap  exact",
        "-------  --------  -----  -----",
        "heft       80 s *  0.0 %  yes",
        "cpop       86 s    7.5 %  no",
        f"milp          {MISSING}        {MISSING}  yes",
    ]


def test_a_column_has_one_unit_and_aligned_decimals():
    rows = [{"x": 2.01, "s": 0.0005, "p": 0.24}, {"x": 2.573, "s": 0.955, "p": 0.249}]
    rows += [{"x": 2.4, "s": 0.0002, "p": 0.00364}]
    columns = [Column("x"), Column("s", unit="s", digits=3), Column("p", unit="%", digits=3)]
    lines = [line.split("  ") for line in table_text(rows, columns).splitlines()[2:]]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert cells == [
        ["2.010", "500 µs", "24.0 %"],
        ["2.573", "955,000 µs", "24.9 %"],
        ["2.400", "200 µs", "0.4 %"],
    ]


def test_small_and_odd_values_keep_their_own_form():
    column = Column("x", digits=3)
    assert column.texts([1234.5, 0.00012, None, np.nan, np.inf]) == [
        "1,234",
        "0.00012",
        MISSING,
        MISSING,
        "∞",
    ]
    assert Column("x", unit="s").texts([5400.0, 3.0]) == ["1 h 30 min", "3 s"]
    assert Column("x").texts([1, 2000]) == ["1", "2,000"]


def test_numbers_in_texts_are_aligned_right():
    made = table_html([{"policy": "a", "time": "76.00"}, {"policy": "b", "time": "1135.49"}])
    assert made.count('<td class="number">') == 2
    assert 'class="number"' not in table_html([{"name": "2 tasks more"}])


def test_html():
    made = table_html(
        ROWS, ["planner", Column("makespan", best="min", unit="joules")], caption="two < three"
    )
    assert '<td class="number best" title="best">80</td>' in made
    assert '<th scope="col" class="number">makespan (joules)</th>' in made
    assert "two &lt; three" in made
    assert "<img" not in table_html([{EVIL: EVIL}], caption=EVIL)


def test_sorting_puts_what_is_missing_last():
    assert table_text(ROWS, ["planner"], sort="gap").splitlines()[-1] == "milp"
    assert table_text(ROWS, ["planner"], sort="planner").splitlines()[2:] == [
        "cpop",
        "heft",
        "milp",
    ]
    mixed = [{"x": x} for x in ("b", None, 10, float("nan"), "a", 9)]
    lines = table_text(mixed, sort="x").splitlines()[2:]
    assert [line.strip() for line in lines[:4]] == ["9", "10", "a", "b"]


def test_ties_are_all_best_and_one_value_is_no_contest():
    assert table_text([{"x": 1}, {"x": 1}, {"x": 2}], [Column("x", best="min")]).count("*") == 2
    assert "*" not in table_text([{"x": 1}], [Column("x", best="min")])


def test_refusals():
    with pytest.raises(
        UnknownName, match=r"no row has the column 'makspan'; did you mean 'makespan'"
    ):
        table_text(ROWS, ["makspan"])
    with pytest.raises(InvalidInput, match=r"a table needs rows or columns"):
        table_text([])
    assert table_text([], ["a"]) == "a\n-"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 s"),
        (1e-9, "1 ns"),
        (0.00125, "1.25 ms"),
        (0.9999, "999.9 ms"),
        (59.5, "59.5 s"),
        (599.96, "600 s"),
        (600, "10 min"),
        (5400, "1 h 30 min"),
        (90061, "1 d 1 h 1 min"),
        (-0.5, "-500 ms"),
        (-7200, "-2 h"),
        (np.inf, "∞ s"),
        (1e12, "11,574,074 d"),
    ],
)
def test_seconds(value, text):
    assert format_seconds(value) == text


def test_bytes_and_numbers():
    assert [format_bytes(x) for x in (0, 999, 1e3, 1.5e6, 2e18)] == [
        "0 B",
        "999 B",
        "1 kB",
        "1.5 MB",
        "2,000 PB",
    ]
    assert [format_number(x) for x in (0.1 + 0.2, 12345.678, 1e20, -0.5, np.inf, 100.0)] == [
        "0.3",
        "12,346",
        "1.000e+20",
        "-0.5",
        "∞",
        "100",
    ]


@given(st.floats(-1e300, 1e300))
def test_numbers_keep_their_size(value):
    assert float(format_number(value).replace(",", "")) == pytest.approx(value, rel=6e-4, abs=0)


@given(st.text(max_size=30), st.integers(1, 12))
def test_shortened_is_short(text, size):
    assert len(shortened(text, size)) <= max(size, 1)
