"""Copy tables that experiments wrote into the docs: ``python docs/copy_results.py FOLDER...``.

Each folder is one that ``weft reproduce`` wrote, with a ``page.json``; a folder of ``weft reproduce
all`` holds four more. The tables of the pages are filled afterwards.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from make_results import main as fill_pages

RESULTS = Path(__file__).parent / "results"
NAMES = {"all": "verdicts"}
"""Experiment -> file, where it is not the name with underscores."""


def copy(folder: Path) -> None:
    """Copy the page.json of a folder and of the folders in it."""
    for path in [folder / "page.json", *sorted(folder.glob("*/page.json"))]:
        if path.is_file():
            command = json.loads(path.read_text(encoding="utf-8"))["measured_with"]
            name = command.split()[2]
            target = RESULTS / f"{NAMES.get(name, name.replace('-', '_'))}.json"
            shutil.copyfile(path, target)
            print(f"{command} -> {target.name}")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        copy(Path(argument))
    fill_pages()
