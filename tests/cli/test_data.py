"""Data of others on the command line: traces, machines of a file, the history."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weft.cli.main import main
from weft.formats.traces.recording import UnknownDependencies

SAMPLES = Path(__file__).parents[1] / "formats" / "samples"


def test_plan_uses_and_names_the_machines_of_the_file(capsys):
    assert main(["plan", str(SAMPLES / "wfformat-1.6.json")]) == 0
    assert "6 devices (2 machines of the file)" in capsys.readouterr().out


def test_plan_of_a_trace_says_that_it_has_no_dependencies(capsys):
    with pytest.warns(UnknownDependencies, match="Nextflow records no dependencies"):
        assert main(["plan", str(SAMPLES / "nextflow.txt")]) == 0
    assert "ALIGN (gut)" in capsys.readouterr().out


def test_history_takes_a_trace(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_HISTORY", str(tmp_path / "h.sqlite"))
    trace = str(SAMPLES / "snakemake")
    assert main(["history", "--trace", trace, "--device", "big", "--json"]) == 0
    out, err = capsys.readouterr()
    found = {row["kind"]: (row["device"], row["count"]) for row in json.loads(out)["durations"]}
    assert found == {"count": ("big", 2), "split": ("big", 1), "sum": ("big", 1)}
    assert "4 measurements" in err
    assert main(["history", "--trace", str(tmp_path / "none.txt")]) == 2
    assert "there is no such file" in capsys.readouterr().err


def test_compile_refuses_unknown_names_and_full_folders(tmp_path, capsys):
    assert main(["compile", "hetf"]) == 2
    assert capsys.readouterr().err == ("weft: no planner or policy 'hetf'; did you mean 'heft'?\n")
    (tmp_path / "old").touch()
    assert main(["compile", "heft", "--into", str(tmp_path)]) == 2
    assert "the folder is not empty" in capsys.readouterr().err


def test_compile_uses_each_name_and_reports_its_work(capsys):
    assert main(["compile", "olb", "fifo", "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["names"] == ["olb", "fifo"]
    assert shown.err.splitlines()[0] == "weft: olb (1 of 2)"
