"""STG, the Standard Task Graph Set (kasahara.cs.waseda.ac.jp/schedule)."""

from __future__ import annotations

import numpy as np

from weft.arguments import shown
from weft.errors import InvalidInput
from weft.formats.parsing.limits import check_graph, split_lines, split_words
from weft.model import Workflow


def read_stg(text: str, *, name: str) -> Workflow:
    r"""Return the workflow of an STG text.

    The first number is the count of tasks without the two dummies (entry and exit), which are tasks
    of no work here too. Each line: task, processing time, number of predecessors, predecessors; or,
    in the variant with communication, pairs of predecessor and cost. The time becomes work at speed
    1, the cost becomes bytes (seconds on a link of bandwidth 1). # begins a comment.

    Examples
    --------
    >>> w = read_stg("1\n0 0 0\n1 5 1 0\n2 0 1 1\n", name="one")
    >>> w.n, w.m, w.work.tolist()
    (3, 2, [0.0, 5.0, 0.0])
    """
    plain = (line.partition("#")[0] for line in split_lines(text))
    lines = [(i, words) for i, words in enumerate(split_words(plain), 1) if words]
    if not lines or len(lines[0][1]) != 1:
        raise InvalidInput("is not STG: its first line must be the number of tasks alone")
    count = _whole(lines[0][1][0], lines[0][0], "number of tasks")
    rows = lines[1:]
    if len(rows) not in {count, count + 2}:
        raise InvalidInput(
            f"declares {count} tasks, which makes {count} lines or {count + 2} with the "
            f"dummies; it has {len(rows)}"
        )
    work = np.zeros(len(rows))
    edges: list[tuple[int, int, float]] = []
    for t, (i, words) in enumerate(rows):
        if _whole(words[0], i, "task") != t:
            raise InvalidInput(f"line {i} is task {shown(words[0])}; task {t} was expected there")
        if len(words) < 3:
            raise InvalidInput(
                f"line {i} (task {t}) has {len(words)} entries; it needs task, time and number of "
                "predecessors"
            )
        work[t] = _number(words[1], i, f"time of task {t}")
        edges += _predecessors(words[2:], t, i, len(rows))
    check_graph(len(rows), len(edges))
    src, dst, data = zip(*edges, strict=True) if edges else ((), (), ())
    return Workflow(
        name=name,
        names=tuple(str(t) for t in range(len(rows))),
        work=work,
        src=np.array(src, np.int64),
        dst=np.array(dst, np.int64),
        data=np.array(data, float),
    )


def _predecessors(
    words: list[str], task: int, line: int, tasks: int
) -> list[tuple[int, int, float]]:
    count = _whole(words[0], line, f"number of predecessors of task {task}")
    rest = words[1:]
    if len(rest) not in {count, 2 * count}:
        raise InvalidInput(
            f"line {line} (task {task}) declares {count} predecessors, "
            f"but {len(rest)} entries follow"
        )
    step = 1 if len(rest) == count else 2
    made = []
    for word, cost in zip(rest[::step], rest[1::2] if step == 2 else ["0"] * count, strict=True):
        parent = _whole(word, line, f"predecessor of task {task}")
        if parent >= tasks:
            raise InvalidInput(
                f"line {line}: task {task} names the unknown predecessor {parent}; there are "
                f"{tasks} tasks"
            )
        made.append((parent, task, _number(cost, line, f"cost of edge {parent} -> {task}")))
    return made


def _whole(word: str, line: int, what: str) -> int:
    if not word.isascii() or not word.isdigit() or len(word) > 15:
        raise InvalidInput(
            f"line {line}: {what} is {shown(word)}; it must be a whole number, zero or more"
        )
    return int(word)


def _number(word: str, line: int, what: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise InvalidInput(f"line {line}: {what} is {shown(word)}; it must be a number") from None
