"""Functions that test servers register."""

from __future__ import annotations

import time
from pathlib import Path

from weft.runtime import Chosen


def one(*_):
    return 1


def add(*numbers):
    return sum(numbers)


def raises(*_):
    raise ValueError("no result")


def no_json(*_):
    return {1, 2}


def branch(*_, label="yes"):
    return Chosen(label, "chosen")


def log(*_, path, text):
    with Path(path).open("a", encoding="ascii") as file:
        file.write(f"{text}\n")
    return text


def wait_for(*_, path):
    while not Path(path).exists():
        time.sleep(0.01)
    return "came"
