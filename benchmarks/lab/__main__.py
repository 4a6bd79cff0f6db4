"""The command of the lab: rounds of workloads, the table, and hosts that fail."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.lab.engines import ENGINES
from benchmarks.lab.faults import FAULTS, run_fault
from benchmarks.lab.lab import TOP, Lab, remove_orphans
from benchmarks.lab.spec import HEAD, load_spec
from benchmarks.lab.table import explained_table, faults_table, write
from benchmarks.lab.ways import FIRST, OWN, PLAN, POLICIES
from benchmarks.lab.workloads import WORKLOADS

from weft.errors import WeftError

WAYS = (OWN, FIRST, PLAN, *POLICIES)
FOUR = Path(__file__).parent / "four.toml"
EXAMPLE = """\
examples:
  python -m benchmarks.lab run --engine dask --workload cholesky --rounds 5 --out lab.jsonl
  python -m benchmarks.lab table --rounds-file lab.jsonl
  python -m benchmarks.lab faults --engine dask --workload cholesky
  python -m benchmarks.lab profile
  python -m benchmarks.lab quotas
  python -m benchmarks.lab clean

A lab needs root, ip, tc and control groups. It has namespaces and addresses of its own, and is
removed whatever happens. `run` skips the rounds that the output has already."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.lab",
        description=__doc__,
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="run rounds and add them to a file, a line each")
    run.add_argument("--engine", choices=ENGINES, default="dask")
    run.add_argument("--workload", choices=WORKLOADS, action="append", help="default: all")
    run.add_argument("--way", choices=WAYS, action="append", help="default: all")
    run.add_argument("--rounds", type=int, default=5)
    run.add_argument("--scale", type=float, default=1.0, help="of the workloads; less: smaller")
    run.add_argument("--lab", type=Path, default=FOUR, metavar="TOML")
    run.add_argument("--out", type=Path, default=TOP / "lab.jsonl")
    run.add_argument("--traces", type=Path, metavar="FOLDER", help="keep traces, explained")
    table = verbs.add_parser("table", help="write docs/results/lab.json from the rounds")
    table.add_argument("--rounds-file", type=Path, required=True, metavar="JSONL")
    table.add_argument("--faults-file", type=Path, metavar="JSONL", help="output of `faults`")
    table.add_argument("--traces", type=Path, metavar="FOLDER", help="of `run`: explain the plans")
    table.add_argument("--note", default="two cores shared with other work of lower priority")
    faults = verbs.add_parser("faults", help="cut off and kill hosts during runs")
    faults.add_argument("--engine", choices=ENGINES, action="append", help="default: dask")
    faults.add_argument("--workload", choices=WORKLOADS, action="append", help="default: all")
    faults.add_argument("--fault", choices=FAULTS, action="append", help="default: both")
    faults.add_argument("--after", type=float, default=2.0, help="seconds into the run")
    faults.add_argument("--host", default="b", help="the host that fails (default: b)")
    faults.add_argument("--scale", type=float, default=1.0)
    faults.add_argument("--lab", type=Path, default=FOUR, metavar="TOML")
    profile = verbs.add_parser("profile", help="weft profile --cluster against the given rates")
    profile.add_argument("--lab", type=Path, default=FOUR, metavar="TOML")
    profile.add_argument("--write", action="store_true", help="keep the table in docs/results")
    quotas = verbs.add_parser("quotas", help="compute on all hosts at once, against their quotas")
    quotas.add_argument("--lab", type=Path, default=FOUR, metavar="TOML")
    quotas.add_argument("--write", action="store_true", help="keep the table in docs/results")
    verbs.add_parser("clean", help="remove what killed labs have left")
    args = parser.parse_args(arguments)
    try:
        if args.verb == "clean":
            print("\n".join(remove_orphans()) or "nothing is left")
        elif args.verb == "faults":
            return run_faults(args)
        elif args.verb == "profile":
            return run_profile(args)
        elif args.verb == "quotas":
            return run_quotas(args)
        elif args.verb == "table":
            faulty = lines_of(args.faults_file) if args.faults_file else []
            extra = {"faults": faults_table(faulty)} if faulty else {}
            rows = lines_of(args.rounds_file)
            if args.traces:
                extra["explained"] = explained_table(rows, args.traces)
            print(f"wrote {write(rows, note=args.note, extra=extra)}")
        else:
            run_all(args)
    except WeftError as error:
        print(f"python -m benchmarks.lab: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def run_all(args: argparse.Namespace) -> None:
    """Run the rounds of each workload that the output does not have."""
    ways = args.way or list(WAYS)
    for workload in args.workload or WORKLOADS:
        done = [
            (row["way"], row["round"])
            for row in lines_of(args.out)
            if (row["engine"], row["workload"]) == (args.engine, workload)
        ]
        first = first_round(done, ways)
        if first > args.rounds:
            continue
        with Lab(load_spec(args.lab)) as lab:
            address = ENGINES[args.engine](lab)
            lab.throttle()
            for row in rounds_in(lab, args, address, workload, ways, first):
                print(json.dumps(row), flush=True)
                if row.get("round") and "seconds" in row and (row["way"], row["round"]) not in done:
                    with args.out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")


def first_round(done: Collection[tuple[str, int]], ways: Sequence[str]) -> int:
    """Return the first round that one of the ways lacks.

    Examples
    --------
    >>> first_round([("own", 1), ("plan", 1), ("own", 2)], ["own", "plan"])
    2
    """
    return next(k for k in count(1) if any((way, k) not in done for way in ways))


def rounds_in(
    lab: Lab, args: argparse.Namespace, address: str, workload: str, ways: list[str], first: int
) -> Iterator[dict[str, Any]]:
    """Run the driver on the head of a lab, and yield what it reports."""
    command = [
        *(sys.executable, "-m", "benchmarks.lab.driver", "rounds", args.engine, address, workload),
        *(*ways, "--first", str(first), "--rounds", str(args.rounds)),
        *("--scale", str(args.scale)),
        *(("--traces", str(args.traces.resolve())) if args.traces else ()),
    ]
    driver = lab.start(HEAD, command, output=subprocess.PIPE)
    assert driver.stdout is not None
    rest = []
    for line in driver.stdout:
        if not line.startswith("{"):
            rest.append(line)
            continue
        yield {"engine": args.engine, "workload": workload, **json.loads(line)}
    if driver.wait():
        raise WeftError(f"the driver failed: {' '.join(''.join(rest).split())[-2000:]}")


def run_faults(args: argparse.Namespace) -> int:
    """Break a host in each workload; return 1 if a run is wrong, late or leaves something."""
    rows = []
    for engine in args.engine or ["dask"]:
        for workload in args.workload or WORKLOADS:
            for fault in args.fault or FAULTS:
                spec = load_spec(args.lab)
                options = {"after": args.after, "scale": args.scale, "host": args.host}
                row = run_fault(spec, engine, workload, fault, **options)
                print(json.dumps(row), flush=True)
                rows.append(row)
    good = all(r["in time"] and r["outcome"] in ("right", "error") and not r["left"] for r in rows)
    return 0 if good else 1


def run_profile(args: argparse.Namespace) -> int:
    """Measure the links of a lab; return 1 if one is more than 15 % off the rate it was given."""
    spec = load_spec(args.lab)
    with Lab(spec) as lab:
        address = ENGINES["dask"](lab)
        lab.throttle()
        command = [sys.executable, "-m", "weft", "profile", "--dry", "--json", "--cluster", address]
        asked = lab.start(HEAD, command, output=subprocess.PIPE)
        text, _ = asked.communicate(timeout=300)
    found = json.loads(text[text.index("{") :])
    rows = []
    for link in found["links"]:
        given = spec.rate(link["source"], link["target"]) / 8
        off = link["bandwidth"] / given - 1
        rows.append(
            [link["source"], link["target"], given / 1e6, link["bandwidth"] / 1e6, 100 * off]
        )
    columns = ["from", "to", "given, MB/s", "found, MB/s", "off"]
    table: dict[str, Any] = {"columns": columns, "align": "llrrr", "rows": rows}
    table |= {"decimals": [None, None, 1, 1, 1], "suffix": ["", "", "", "", " %"]}
    for row in rows:
        print(
            f"{row[0]} -> {row[1]}: {row[2]:6.1f} MB/s given, {row[3]:6.1f} found, {row[4]:+.1f} %"
        )
    speeds = {host["name"]: round(host["speed"], 2) for host in found["hosts"]}
    print(f"speeds: {speeds}")
    if args.write:
        write([], note="profile", extra={"rates": table})
    return 0 if all(abs(row[4]) <= 15 for row in rows) else 1


SPIN = """import time
begin, end = time.process_time(), time.time() + 5
while time.time() < end: pass
print((time.process_time() - begin) / 5)"""
"""Program that computes for 5 seconds and prints the share of a core that it got."""


def run_quotas(args: argparse.Namespace) -> int:
    """Compute on all hosts at once; return 1 if one gets less than 90 % of its quota."""
    spec = load_spec(args.lab)
    with Lab(spec) as lab:
        lab.throttle()
        command = [sys.executable, "-S", "-c", SPIN]
        made = {h.name: lab.start(h.name, command, output=subprocess.PIPE) for h in spec.hosts}
        found = {name: float(process.communicate(timeout=60)[0]) for name, process in made.items()}
    given = {host.name: host.speed * spec.core for host in spec.hosts}
    rows = [[name, given[name], share, 100 * share / given[name]] for name, share in found.items()]
    for row in rows:
        print(f"{row[0]}: {row[1]:.2f} of a core given, {row[2]:.3f} found, {row[3]:.0f} %")
    table: dict[str, Any] = {"columns": ["host", "given", "found", "share"], "align": "lrrr"}
    table |= {"decimals": [None, 2, 3, 0], "suffix": ["", "", "", " %"], "rows": rows}
    if args.write:
        write([], note="quotas", extra={"quotas": table})
    return 0 if all(row[3] >= 90 for row in rows) else 1


def lines_of(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


if __name__ == "__main__":
    sys.exit(main())
