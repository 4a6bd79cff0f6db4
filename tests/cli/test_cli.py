"""The command line: every verb, its help, its JSON, and one clear line per error."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest

import weft
from tests.support.programs import run_python
from weft.cli import main as command
from weft.cli.generate import MEANINGS
from weft.cli.main import VERBS, main
from weft.cli.output import accept_all_characters
from weft.generators import generator_options


@pytest.fixture
def workflow(tmp_path):
    path = tmp_path / "fork.json"
    weft.save(weft.generate("fork_join", width=4, stages=2, seed=1), path)
    return str(path)


@pytest.fixture
def problem(tmp_path):
    path = tmp_path / "problem.json"
    weft.save(
        weft.Problem.bind(weft.generate("cholesky", tiles=4), weft.gpu_cluster("2xV100+2xT4")), path
    )
    return str(path)


def run(capsys, *argv):
    code = main([str(a) for a in argv])
    out, err = capsys.readouterr()
    return code, out, err


def run_json(capsys, *argv):
    code, out, err = run(capsys, *argv, "--json")
    assert code == 0, err
    return json.loads(out)


# -- help ---------------------------------------------------------------------


def test_the_command_lists_its_verbs(capsys):
    with pytest.raises(SystemExit) as leaving:
        main(["--help"])
    assert leaving.value.code == 0
    out = capsys.readouterr().out
    assert all(f"  {verb}" in out for verb in VERBS)


def test_without_arguments_it_helps(capsys):
    code, out, _ = run(capsys)
    assert code == 0
    assert "verbs:" in out


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_helps_with_an_example(verb, capsys):
    with pytest.raises(SystemExit) as leaving:
        main([verb, "--help"])
    assert leaving.value.code == 0
    out = capsys.readouterr().out
    assert "example:\n" in out
    assert f"  weft {verb}" in out
    assert "--json" in out


@pytest.mark.parametrize("name", weft.list_generators())
def test_every_generator_shows_its_options(name, capsys):
    with pytest.raises(SystemExit) as leaving:
        main(["generate", name, "--help"])
    assert leaving.value.code == 0
    assert f"options of {name}:" in capsys.readouterr().out


# -- verbs --------------------------------------------------------------------


def test_plan_prints_what_it_found(problem, capsys):
    code, out, _ = run(capsys, "plan", problem)
    assert code == 0
    assert "20 tasks, 30 edges, 4 devices" in out
    assert "heft: makespan" in out


def test_plan_passes_the_options_of_a_search(problem, capsys):
    options = ("--planner", "anytime", "--iterations", "200", "--threads", "1")
    found = run_json(capsys, "plan", problem, *options, "--objective", "makespan=1,waiting=2")
    assert found["planner"] == "anytime"
    again = run_json(capsys, "plan", problem, *options, "--duplicate")
    assert again["makespan"] <= run_json(capsys, "plan", problem)["makespan"]
    code, _, error = run(capsys, "plan", problem, *options, "--objective", "makespan=much")
    assert code == 2
    assert "--objective has 'makespan=much'" in error
    code, _, error = run(capsys, "plan", problem, *options, "--seconds", "1")
    assert code == 2
    assert "seconds and iterations both limit the search; give one of the two" in error
    code, _, error = run(capsys, "plan", problem, "--threads", "2")
    assert code == 2
    assert "planner 'heft' has no option 'threads'" in error


def test_plan_as_json_is_the_plan(problem, capsys):
    found = run_json(capsys, "plan", problem, "--planner", "cpop")
    expected = weft.plan(weft.load(problem), "cpop")
    assert found["planner"] == "cpop"
    assert found["makespan"] == expected.makespan
    assert found["bound"] == expected.bound
    assert found["schedule"]["device"] == expected.schedule.device.tolist()
    assert found["schedule"]["task_name"][:1] == [expected.problem.workflow.task_name(0)]
    assert set(found["schedule"]["device_name"]) <= set(expected.problem.cluster.names)


TABLE = "task,after,seconds:cpu,seconds:gpu,bytes\nextract,,4,4,2 GB\ntrain,extract,40 s,5,\n"


def test_plan_prints_the_plan_of_a_table(tmp_path, capsys):
    (tmp_path / "tasks.csv").write_text(TABLE, encoding="utf-8")
    code, out, _ = run(capsys, "plan", tmp_path / "tasks.csv")
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert ["task", "device", "start", "finish"] in rows
    assert ["train", "gpu", "4", "s", "9", "s"] in rows


def test_plan_prints_forty_tasks_unless_asked_for_all(tmp_path, capsys):
    weft.save(weft.Problem.from_arrays([[1.0, 1.0]] * 50), tmp_path / "p.json")
    _, short, _ = run(capsys, "plan", tmp_path / "p.json")
    assert "... and 10 more; --all prints all" in short
    _, long, _ = run(capsys, "plan", tmp_path / "p.json", "--all")
    assert len(long.splitlines()) - len(short.splitlines()) == 9
    assert "more" not in long


def test_plan_of_a_graph_without_durations_warns(tmp_path):
    (tmp_path / "g.dot").write_text("digraph { a -> b }", encoding="utf-8")
    done = process("plan", tmp_path / "g.dot", "--gpus", "1xT4")
    assert done.returncode == 0
    warned = [line for line in done.stderr.splitlines() if "warning" in line]
    assert len(warned) == 1
    assert "every task counts as 1 s" in warned[0]


def test_plan_writes_schedule_charts_and_trace(problem, tmp_path, capsys):
    out, gantt, picture, chrome = (
        tmp_path / n for n in ("s.json", "g.html", "g.svg", "trace.json")
    )
    assert run(capsys, "plan", problem, "--out", out, "--gantt", gantt, "--chrome", chrome)[0] == 0
    assert run(capsys, "plan", problem, "--gantt", picture)[0] == 0
    schedule = weft.formats.load_schedule(out)
    assert weft.check(weft.load(problem), schedule) == []
    assert "<html" in gantt.read_text(encoding="utf-8")
    assert "<svg" in picture.read_text(encoding="utf-8")
    assert json.loads(chrome.read_text(encoding="utf-8"))["traceEvents"]


def test_machines_come_from_a_file_or_in_words(workflow, tmp_path, capsys):
    toml = tmp_path / "machines.toml"
    weft.save(weft.gpu_cluster("1xV100+1xT4"), toml)
    by_file = run_json(capsys, "plan", workflow, "--cluster", toml)
    in_words = run_json(capsys, "plan", workflow, "--gpus", "1xV100+1xT4")
    assert by_file["makespan"] == in_words["makespan"]


def test_compare_sorts_by_makespan(problem, capsys):
    found = run_json(
        capsys, "compare", problem, "--planners", "round-robin,heft,cpop", "--policies", "fifo"
    )
    spans = [row["makespan"] for row in found["rows"]]
    assert spans == sorted(spans)
    assert {row["contender"] for row in found["rows"]} == {"round-robin", "heft", "cpop", "fifo"}


def test_compare_writes_a_page(problem, tmp_path, capsys):
    page = tmp_path / "report.html"
    code, out, _ = run(
        capsys, "compare", problem, "--noise", "0.2", "--scenarios", "3", "--report", page
    )
    assert code == 0
    assert "heft" in out
    assert "heft" in page.read_text(encoding="utf-8")


def test_simulate_runs_a_stream_of_jobs(problem, tmp_path, capsys):
    out = tmp_path / "trace.json"
    found = run_json(
        capsys,
        "simulate",
        problem,
        "--policy",
        "fifo",
        "--jobs",
        "7",
        "--load",
        "0.5",
        "--noise",
        "0.1",
        "--out",
        out,
    )
    assert found["jobs"] == found["finished"] == 7
    trace = weft.formats.load_trace(out)
    assert weft.check(trace.workload, trace) == []
    assert trace.makespan == found["makespan"]


def test_simulate_reads_a_workload(problem, tmp_path, capsys):
    stream = tmp_path / "stream.json"
    weft.save(weft.Workload.of(weft.load(problem), arrival=[0.0, 1.0, 2.0]), stream)
    assert run_json(capsys, "simulate", "--workload", stream)["jobs"] == 3


def test_generate_writes_what_load_reads(tmp_path, capsys):
    path = tmp_path / "x.json"
    code, out, _ = run(capsys, "generate", "cholesky", "--tiles", "5", "--out", path)
    assert code == 0
    assert "35 tasks" in out  # 5 * 6 * 7 / 6
    assert weft.load(path, cluster=weft.gpu_cluster("1xT4")).n == 35


def test_the_help_of_a_generator_is_a_command_with_its_options(capsys):
    with pytest.raises(SystemExit):
        main(["generate", "montage", "--help"])
    shown = capsys.readouterr().out
    assert shown.startswith("usage: weft generate montage [-h]")
    assert "--images" in shown
    assert "NAME" not in shown


def test_generate_prints_one_json_document(capsys):
    code, out, _ = run(capsys, "generate", "fft", "--levels", "3")
    assert code == 0
    assert json.loads(out)["format"].startswith("weft-")


@pytest.mark.parametrize("topic", ["planners", "policies", "generators", "devices", "formats"])
def test_list_names_everything(topic, capsys):
    found = run_json(capsys, "list", topic)[topic]
    assert found
    code, out, _ = run(capsys, "list", topic)
    assert code == 0
    assert all(name in out for name in found)
    assert all(len(line) <= 100 for line in out.splitlines())
    sentences = list(found.values())
    assert all(len(text.split()) >= 2 for text in sentences)  # a sentence, or figures with units
    if topic != "devices":  # two models may have equal figures
        assert len(set(sentences)) == len(sentences)


# -- what goes wrong ----------------------------------------------------------

BAD = {
    "unknown verb": (["plann", "x.json"], "did you mean 'plan'"),
    "missing file": (["plan", "nowhere.json"], "nowhere.json"),
    "no file": (["plan"], "FILE"),
    "unknown option": (["plan", "PROBLEM", "--planer", "heft"], "did you mean '--planner'"),
    "unknown planner": (["plan", "PROBLEM", "--planner", "hefft"], "did you mean 'heft'"),
    "unknown policy": (["simulate", "PROBLEM", "--policy", "fifoo"], "did you mean 'fifo'"),
    "unknown device": (["plan", "WORKFLOW", "--gpus", "4xV1000"], "V1000"),
    "no machines": (["plan", "WORKFLOW"], "--gpus"),
    "unknown generator": (["generate", "choleski"], "did you mean 'cholesky'"),
    "unknown generator option": (["generate", "cholesky", "--tile", "3"], "did you mean '--tiles'"),
    "bad generator value": (["generate", "cholesky", "--tiles", "0"], "0"),
    "no number": (["plan", "PROBLEM", "--seconds", "soon"], "'soon' is not a number"),
    "negative seconds": (["plan", "PROBLEM", "--seconds", "-1"], "above 0"),
    "NaN noise": (["simulate", "PROBLEM", "--noise", "nan"], "not finite"),
    "no jobs": (["simulate", "PROBLEM", "--jobs", "0"], "below 1"),
    "share above one": (["simulate", "PROBLEM", "--cancellations", "2"], "1 or less"),
    "neither file nor workload": (["simulate"], "--workload"),
    "both machines": (
        ["plan", "PROBLEM", "--gpus", "1xT4", "--cluster", "x.toml"],
        "not allowed with",
    ),
    "unknown topic": (
        ["list", "planers"],
        "unknown topic 'planers' of weft list; did you mean 'planners'",
    ),
    "unknown choice": (
        ["simulate", "PROBLEM", "--arrivals", "poison"],
        "unknown --arrivals 'poison' of weft simulate; did you mean 'poisson'",
    ),
    "cycle": (["plan", "cycle.dot", "--gpus", "1xT4"], "cycle"),
    "truncated": (["plan", "truncated.json"], "truncated.json"),
    "nested": (["plan", "nested.json"], "nested.json"),
    "empty": (["plan", "empty.json"], "empty"),
    "binary": (["plan", "binary.json"], "binary.json"),
    "a folder": (["plan", "."], "director"),
    "no such folder": (["plan", "PROBLEM", "--out", "missing/s.json"], "missing/s.json"),
    "unknown chart": (["plan", "PROBLEM", "--gantt", "chart.bmp"], "bmp"),
    "unknown suffix": (["plan", "PROBLEM", "--out", "s.doc"], ".doc"),
}


@pytest.fixture
def broken(tmp_path, monkeypatch, problem):
    monkeypatch.chdir(tmp_path)
    whole = (tmp_path / "problem.json").read_bytes()
    (tmp_path / "cycle.dot").write_text("digraph { a -> b; b -> a }", encoding="utf-8")
    (tmp_path / "truncated.json").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "nested.json").write_text("[" * 100_000, encoding="utf-8")
    (tmp_path / "empty.json").write_text("", encoding="utf-8")
    (tmp_path / "binary.json").write_bytes(bytes(range(256)))


@pytest.mark.parametrize("case", BAD)
@pytest.mark.usefixtures("broken")
def test_bad_input_is_one_line_and_exit_code_2(case, problem, workflow, capsys):
    argv, hint = BAD[case]
    code, out, err = run(
        capsys, *({"PROBLEM": problem, "WORKFLOW": workflow}.get(a, a) for a in argv)
    )
    assert code == 2
    assert out == ""
    assert err.startswith("weft: ")
    assert err.count("\n") == 1
    assert hint in err


def test_no_planner_fits_choices(tmp_path, capsys):
    path = tmp_path / "choices.json"
    weft.save(
        weft.Problem.bind(weft.generate("conditional", tasks=20), weft.gpu_cluster("2xT4")), path
    )
    code, _, err = run(capsys, "plan", path)
    assert code == 2
    assert "choices" in err


def test_interrupting_leaves_one_line(monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_dispatch", interrupted)
    code, out, err = run(capsys, "list")
    assert (code, out, err) == (130, "", "weft: interrupted\n")


# -- as a process -------------------------------------------------------------


def process(*argv):
    return run_python("-m", "weft", *argv, check=False)


def test_a_process_has_the_same_manners():
    done = process("plan", "nowhere.json")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "Traceback" not in done.stderr
    assert process("--version").stdout == f"weft {weft.__version__}\n"


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from weft.cli.main import build_parser; build_parser(); "
        "print({'numpy', 'numba', 'scipy'} & {*sys.modules})"
    )
    assert run_python("-c", code).stdout.strip() == "set()"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="pipes break like this on POSIX only")
def test_a_reader_that_leaves_is_no_error():
    with subprocess.Popen(
        [sys.executable, "-m", "weft", "list", "devices"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        child.stdout.close()
        err = child.stderr.read()
    assert err == b""
    assert child.returncode == 141


def test_every_option_of_a_generator_is_explained(capsys):
    """An option without a text of its own is a count, so its name is a plural."""
    options = {name for each in weft.list_generators() for name in generator_options(each)}
    assert set(MEANINGS) <= options
    assert all(name.endswith("s") for name in options - set(MEANINGS))
    with pytest.raises(SystemExit):
        main(["generate", "cholesky", "--help"])
    assert "tiles per side of the matrix (default: 8)" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-"])
@pytest.mark.parametrize(
    ("verb", "expected"), [("list formats", 0), ("generate cholesky", 0), ("plan gone.json", 2)]
)
def test_closed_output_ends_quietly(verb, closed, expected):
    command = f'"{sys.executable}" -m weft {verb} {closed}'
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == expected
    shown = expected == 2 and "2>" not in closed
    assert done.stderr == ("weft: gone.json: there is no such file\n" if shown else "")


def test_output_fits_the_encoding_of_the_terminal(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii"))
    accept_all_characters()
    sys.stdout.write("12.5 µs ± 3 ☃\n")
    sys.stdout.flush()
    assert written.getvalue() == b"12.5 us +- 3 ?\n"
