"""Rules of the code, read from the code: layers, third parties, names, folders and widths."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "weft"
FILES = sorted(SOURCE.rglob("*.py"))
TESTS = Path(__file__).parent
SCRIPTS = sorted((SOURCE / "report" / "assets").glob("*.js"))

LAYERS = (
    ("errors",),
    ("display", "gymnasium_import", "registry"),
    ("arguments",),
    ("progress", "rng", "typed"),
    ("model",),
    ("formats", "generators"),
    ("sim",),
    ("planners", "policies"),
    ("learn",),
    ("runtime",),
    ("report",),
    ("experiments",),
    ("cli",),
)
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}

DOORS = {
    "llvmlite": ("sim/kernel/jit/",),
    "numba": ("sim/kernel/jit/",),
    "ortools": ("planners/search/exact.py",),
    "torch": ("learn/", "experiments/"),
    "gymnasium": ("learn/", "experiments/benchmarks/conditional_peers.py"),
    "safetensors": ("formats/model_file.py",),
    "onnxruntime": ("experiments/onnx_session.py",),
    "sklearn": ("experiments/shift/forest.py",),
    "matplotlib": ("report/",),
    "pandas": ("report/pages/notebook.py",),
    "distributed": ("runtime/",),
    "dask": ("runtime/",),
    "litellm": ("runtime/routers/",),
    "ray": ("runtime/",),
    "hyperqueue": ("runtime/backends/hyperqueue/",),
    "saga": ("experiments/benchmarks/peer.py",),
    "sb3_contrib": ("experiments/benchmarks/conditional_peers.py",),
    "stable_baselines3": ("experiments/benchmarks/conditional_peers.py",),
    "starlette": ("runtime/web/http.py",),
    "uvicorn": ("runtime/web/connections.py", "runtime/web/server.py"),
    "tqdm": ("learn/", "experiments/", "cli/"),
    "joblib": ("runtime/executors/joblib_",),
    "cloudpickle": ("runtime/backends/payload.py",),
    "lazy_loader": ("__init__.py", "runtime/__init__.py"),
    "numpy": ("",),
    "scipy": ("",),
}
"""Third party -> the files that may import it."""

OTHER_TESTS = {"chaos", "docs", "fuzz", "lab", "support"}
"""Folders of tests that mirror no package: they test weft as a whole, or serve other tests."""

WITH_REASONS = [
    path
    for folder in ("src", "tests", "docs", "benchmarks", "examples", "packaging")
    for path in sorted((TESTS.parent / folder).rglob("*.py"))
]
"""Files in which every suppression has its reason."""

SUPPRESSION = re.compile(r"noqa|type: ignore")
REASONED = re.compile(
    r"(?:(?:type: ignore\[[a-z, -]+\]|noqa: [A-Z]+[0-9]+(?:, [A-Z]+[0-9]+)*)  # )+(?!noqa|type:)\w"
)
"""Codes of what is switched off, then why: `noqa: S603  # this Python, this program`."""

VAGUE = {"utils", "util", "common", "base", "manager", "helpers", "misc"}


def _name(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def _part(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{_name(path)}:{node.lineno} imports relatively"
            assert node.module is not None
            yield node.module
            if node.module == "weft":
                yield from (f"weft.{alias.name}" for alias in node.names)


@pytest.mark.parametrize(
    "path", [f for f in FILES if _part(f) not in ("__init__", "__main__")], ids=_name
)
def test_imports_point_left(path):
    own = _part(path)
    for module in _imports(path):
        parts = module.split(".")
        if parts[0] != "weft" or len(parts) == 1 or parts[1] not in LEVEL:
            continue  # `from weft import __version__` is no part
        assert parts[1] == own or LEVEL[parts[1]] < LEVEL[own], f"{_name(path)} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_third_parties_stay_behind_their_doors(path):
    for module in _imports(path):
        root = module.split(".")[0]
        if root == "weft" or root in sys.stdlib_module_names:
            continue
        assert root in DOORS, f"{_name(path)} imports {root}, which has no door"
        assert any(_name(path).startswith(door) for door in DOORS[root]), (
            f"{_name(path)} imports {root} past its door {DOORS[root]}"
        )


def _iterated(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension):
            yield node.iter
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("list", "tuple", "enumerate")
        ):
            yield from node.args[:1]


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_no_set_is_iterated(path):
    # The order of a set depends on the hash seed; that of sorted(...) or dict.fromkeys does not.
    for expression in _iterated(ast.parse(path.read_text(encoding="utf-8"))):
        made_of_set = isinstance(expression, ast.Set | ast.SetComp) or (
            isinstance(expression, ast.Call)
            and isinstance(expression.func, ast.Name)
            and expression.func.id in ("set", "frozenset")
        )
        assert not made_of_set, f"{_name(path)}:{expression.lineno} iterates a set"


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_files_are_nouns_of_bearable_length(path):
    assert not VAGUE & set(path.relative_to(SOURCE).with_suffix("").parts)
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 520  # about 400 is the aim


@pytest.mark.parametrize("path", WITH_REASONS, ids=lambda f: "/".join(f.parts[-3:]))
def test_every_suppressed_finding_has_its_reason_in_the_line(path):
    with path.open("rb") as file:
        comments = [x for x in tokenize.tokenize(file.readline) if x.type == tokenize.COMMENT]
    for comment in comments:
        found = SUPPRESSION.search(comment.string)
        if found:
            rest = comment.string[found.start() :]
            assert REASONED.match(rest), f"{path}:{comment.start[0]} gives no reason: {rest}"


def test_every_part_has_a_level():
    parts = {_part(f) for f in FILES} - {"__init__", "__main__"}
    assert parts <= set(LEVEL)


def _case(name: str) -> tuple[bool, bool, str]:
    """Constants, then classes, then functions: the order that ruff asks for."""
    return not name.isupper(), not name[:1].isupper(), name


def _types(tree: ast.Module) -> Iterator[str]:
    """Yield the names of classes, and of types that are assigned to a name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            names = [x.id for x in statement.targets if isinstance(x, ast.Name)]
            yield from (name for name in names if re.fullmatch(r"_?[A-Z]\w*[a-z]\w*", name))


def test_every_public_name_of_a_type_is_defined_once():
    found = defaultdict(list)
    for path in FILES:
        for name in _types(ast.parse(path.read_text(encoding="utf-8"))):
            found[name.lstrip("_")].append(f"{_name(path)}: {name}")
    shared = {name: where for name, where in found.items() if len(where) > 1}
    public = {name: w for name, w in shared.items() if any(x.endswith(f": {name}") for x in w)}
    assert public == {}


def test_no_folder_has_more_than_sixteen_files():
    count = defaultdict(int)
    for path in FILES:
        count[path.parent.relative_to(SOURCE).as_posix()] += 1
    assert {folder: n for folder, n in count.items() if n > 16} == {}


def test_every_folder_of_tests_mirrors_a_package():
    folders = dict.fromkeys(file.parent.relative_to(TESTS) for file in sorted(TESTS.rglob("*.py")))
    mirrors = [folder for folder in folders if folder.parts and folder.parts[0] not in OTHER_TESTS]
    assert [str(folder) for folder in mirrors if not (SOURCE / folder).is_dir()] == []


@pytest.mark.parametrize("path", [f for f in FILES if f.name == "__init__.py"], ids=_name)
def test_every_package_has_a_table_of_contents(path):
    package = ".".join(("weft", *path.parent.relative_to(SOURCE).parts))
    module = importlib.import_module(package)
    assert module.__doc__, f"{package} has no docstring"
    listed = list(module.__all__)
    assert listed in (sorted(listed), sorted(listed, key=_case)), f"{package}: sort __all__"
    for name in module.__all__:
        found = hasattr(module, name) or importlib.util.find_spec(f"{package}.{name}")
        assert found, f"{package}.{name} does not exist"
    if package != "weft":  # it has the public names
        inside = {file.stem for file in path.parent.glob("*.py")} - {"__init__"}
        inside |= {file.parent.name for file in path.parent.glob("*/__init__.py")}
        missing = [name for name in sorted(inside) if not re.search(rf"\b{name}\b", module.__doc__)]
        assert missing == [], f"the docstring of {package} leaves out {missing}"


@pytest.mark.parametrize(
    "path", [*FILES, *SCRIPTS, *sorted(TESTS.rglob("*.py"))], ids=lambda f: "/".join(f.parts[-3:])
)
def test_no_line_has_more_than_100_characters(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [i for i, line in enumerate(lines, 1) if len(line) > 100] == []


@pytest.mark.parametrize(
    "path", sorted(TESTS.rglob("*.py")), ids=lambda f: f.relative_to(TESTS).as_posix()
)
def test_no_test_imports_another_test_file(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            found = any(part.startswith("test_") for part in name.split("."))
            assert not found, f"{path.name} imports {name}; move it to tests/support"


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_first_lines_of_docstrings_have_at_most_80_characters(path):
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, documented) and (text := ast.get_docstring(node)):
            first = text.splitlines()[0]
            assert len(first) <= 80, f"{_name(path)}: {first}"
