"""Options that count only with another one: refused in one line, never ignored."""

from __future__ import annotations

import pytest

import weft
from weft.cli.main import main

REFUSED = [
    ("compare FLOW --gpus 2xT4 --planners=", "--planners: '' is an empty list"),
    ("compare FLOW --gpus 2xT4 --policies=,", "--policies: ',' is an empty list"),
    ("compare FLOW --gpus 2xT4 --objective deadline", "none of the problems has deadlines"),
    ("compare FLOW --gpus 2xT4 --planners heft,fifo", "'fifo' is a policy; give it as --policies"),
    ("compare FLOW --gpus 2xT4 --policies cpop", "'cpop' is a planner; give it as --planners cpop"),
    ("compare FLOW --gpus 2xT4 --report r.pdf", "r.pdf ends in '.pdf'; a page ends in .html"),
    ("compare FLOW --gpus 2xT4 --report no/r.html", "no/r.html: there is no folder 'no'"),
    ("simulate FLOW --gpus 2xT4 --gantt .", "--gantt: . is a folder; give a file"),
    ("run gone.py --report r.html", "gone.py: there is no such file"),
    ("evaluate fifo --stream gone.toml", "weft: gone.toml: there is no such file"),
    ("arena --contenders=", "--contenders: '' is an empty list"),
    ("arena --seconds 5", "--seconds counts only with --contenders or --improve or --certify"),
    ("arena --export x --seed 5", "--seed counts only with --contenders"),
    ("evaluate fifo --probabilities=", "--probabilities: '' is an empty list"),
    ("evaluate fifo --idle published --seeds 1", "'fifo' does not run in the published"),
    ("evaluate fifo --probabilities 0.5 --own", "--own: not allowed with argument --prob"),
    ("simulate FLOW --gpus 2xT4 --load 0.5", "--load does not count when all jobs arrive at once"),
    ("simulate FLOW --gpus 2xT4 --arrivals batch --jobs 3 --rate 1", "--rate does not count"),
    ("simulate --workload w.json --jobs 3", "--jobs does not count with --workload"),
    ("simulate --workload w.json --gpus 2xT4", "--gpus does not count with --workload"),
    ("simulate FLOW --gpus 2xT4 --jobs 99999999", "raise the limit with WEFT_MAX_TASKS"),
    ("evaluate fifo --jobs 9999999999 --seeds 1", "raise the limit with WEFT_MAX_TASKS"),
    ("simulate --workload flow.json", "holds a workflow, not a workload; give workflow files"),
    ("plan stream.toml", "holds a stream of jobs; simulate it with weft evaluate --stream"),
    ("simulate --workload stream.toml", "holds a stream of jobs; simulate it with weft evaluate"),
    ("plan FLOW --cluster stream.toml", "holds a stream of jobs; simulate it with weft evaluate"),
    ("evaluate fifo --stream FLOW", "flow.json: holds JSON, not a stream; a stream is a TOML"),
    ("plan plan.json", "holds a schedule, not a workflow; read it with weft explain or weft view"),
    ("generate montage --images x", "not a whole number; see: weft generate montage --help"),
    ("generate montage --images=-3", "images is -3; it must be a whole number, 2 or more"),
    ("generate montage --imges 3", "unknown option '--imges' of weft generate montage; did you"),
    ("attack heft --against cpop --out p.toml", "p.toml ends in '.toml'; a problem ends in .json"),
    ("size FLOW --catalogue c --picture p.pdf", "p.pdf ends in '.pdf'; a picture ends in .html,"),
    ("view flow.json", "holds a workflow, not a schedule; give a schedule or a trace"),
    ("explain flow.json", "holds a workflow, not a schedule; give a schedule or a trace"),
    ("whatif FLOW --gpus 2xT4 --add 1xT4 --share=0.2", "--share counts only with --tornado"),
    ("run s.py --no-history --history h.sqlite", "--history: not allowed with argument --no-his"),
    ("run s.py --port 0", "--port counts only with --live"),
    ("profile --sizes 3", "--sizes counts only with --function"),
    ("profile --item null", "--item counts only with --function"),
    ("profile --cluster tcp://x --repeats 3", "--repeats counts only with --function"),
    ("profile --out a.toml", "--out counts only with --function or --cluster"),
    ("profile --function a:b --dry", "--dry does not count with --function"),
    ("plan FLOW --gpus 2xT4 --pareto --planner heft", "--planner does not count with --pareto"),
    ("plan FLOW --gpus 2xT4 --picture a.svg --out p.json", "--out does not count with --picture"),
    ("cascade serve c.toml --timeout 3", "--timeout counts only with --stdin"),
    ("cascade serve c.toml --stdin --port 3", "--port does not count with --stdin"),
    ("cascade tune c.toml --log a --stream b -o c", "--stream does not count with --log"),
    ("export hyperqueue FLOW --out x --any-node", "--any-node does not count for hyperqueue"),
    ("export slurm FLOW --out x --problem p --seed 1", "--seed does not count with --problem"),
    ("history --device gpu", "--device counts only with --trace"),
    ("bench --graphs x", "--graphs counts only with --quality"),
    ("train conditional --samples 10", "--samples counts only with --policy"),
    ("train conditional --policy pi4 --objective late", "--objective does not count with --policy"),
]


@pytest.mark.parametrize(("line", "text"), REFUSED, ids=[line for line, _ in REFUSED])
def test_an_option_that_does_not_count_is_refused(line, text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    weft.save(weft.generate("fork_join", width=2, stages=1, seed=1), tmp_path / "flow.json")
    schedule = weft.Schedule.of(device=[0], start=[0.0], finish=[1.0])
    weft.save(schedule, tmp_path / "plan.json")
    (tmp_path / "stream.toml").write_text("[[tasks]]\nname = 'a'\n[[units]]\nname = 'u'\n")
    before = sorted(tmp_path.iterdir())
    code = main(line.replace("FLOW", "flow.json").split())
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert text in err
    assert err.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before
