"""The project a run belongs to, and the place of its history."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path

MARKERS = ("pyproject.toml", "setup.py", ".git", ".hg")
"""A folder that contains one of these is the folder of a project."""


def project_folder(start: str | Path | None = None) -> Path:
    """Return the folder of the project that contains `start`.

    The nearest folder, from `start` upwards, with a `pyproject.toml`, `setup.py`, `.git` or `.hg`;
    `start` itself if there is none. By default it starts at the folder of the running script, or at
    the current folder in a notebook and in installed commands.
    """
    first = Path(start).resolve() if start is not None else _script_folder() or Path.cwd()
    for folder in (first, *first.parents):
        if folder != Path.home() and any((folder / marker).exists() for marker in MARKERS):
            return folder
    return first


def default_path(project: str | Path | None = None) -> Path:
    """Return the history of a project: $WEFT_HISTORY, or a file in the data folder."""
    given = os.environ.get("WEFT_HISTORY")
    if given and project is None:
        return Path(given)
    folder = project_folder(project)
    name = re.sub(r"[^\w.-]", "_", folder.name) or "root"
    mark = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    return data_folder() / "projects" / f"{name}-{mark}.sqlite"


def data_folder() -> Path:
    """Return the folder of $WEFT_HISTORY, or the user's data folder of weft."""
    given = os.environ.get("WEFT_HISTORY")
    if given:
        return Path(given).parent
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "weft"


def _script_folder() -> Path | None:
    """Return the folder of the user's script; None: a notebook or installed command."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if file is None or not Path(file).is_file():
        return None
    folder = Path(file).resolve().parent
    installed = [Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[2]]
    return None if any(folder.is_relative_to(place.resolve()) for place in installed) else folder
