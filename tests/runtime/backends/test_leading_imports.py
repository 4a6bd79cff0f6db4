"""Imports that functions begin with are found and made ahead of calls."""

from __future__ import annotations

import importlib
import os
import sys
from functools import partial

import pytest

import weft
from weft.runtime.backends.ray.leading_imports import (
    LeadingImport,
    leading_imports,
    make_leading_imports,
)
from weft.runtime.inputs.promises import Body


def first_of_all(value):
    """Have a docstring, too."""
    import colorsys
    import xml.dom as dom
    from json import decoder, encoder

    return colorsys, dom, decoder, encoder, value


def after_something(value):
    os.environ["WEFT_TEST"] = "1"
    import colorsys

    return colorsys


def perhaps(value):
    if value:
        import colorsys

        return colorsys
    return None


def generates():
    import colorsys

    yield colorsys


def with_cell():
    import colorsys

    return lambda: colorsys


ALL = [
    LeadingImport("colorsys", (), 0),
    LeadingImport("xml.dom", (), 0),
    LeadingImport("json", ("decoder", "encoder"), 0),
]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (first_of_all, ALL),
        (partial(partial(first_of_all), 3), ALL),
        (Body(weft.task(first_of_all)), ALL),
        (Body(weft.task(partial(first_of_all, 3))), ALL),
        (with_cell, ALL[:1]),
        (after_something, []),  # the variable may be one that the module reads
        (perhaps, []),
        (generates, []),  # a call runs none of it
        (lambda: 1, []),
        (len, []),
        (dict, []),
        ("why it could not be loaded", []),
    ],
)
def test_only_imports_that_every_call_makes_first(function, expected):
    assert leading_imports(function) == expected


def test_modules_of_a_package_and_beside_it_are_imported(tmp_path, monkeypatch):
    package = tmp_path / "some_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "beside.py").touch()
    (package / "broken.py").write_text("1 / 0")
    (package / "last.py").touch()
    (package / "calls.py").write_text(
        "def call():\n"
        "    from some_package import broken\n"
        "    import no_such_module\n"
        "    from . import beside\n"
        "    import some_package.last\n"
        "    return 3\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    call = importlib.import_module("some_package.calls").call
    try:
        make_leading_imports(call)  # errors are those of the call
        found = {name for name in sys.modules if name.startswith("some_package.")}
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "some_package"]:
            del sys.modules[name]
    assert found == {"some_package.calls", "some_package.beside", "some_package.last"}
