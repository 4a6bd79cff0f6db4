"""Run ``python -m tests.fuzz.bombs``: small files that stand for gigabytes, and what they cost.

Each is read in a process of its own that may take `SECONDS` of processor time and `BYTES` of memory
more than it has; a process that takes more fails.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import resource
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.fuzz.seeds.corpus import run_verb
from weft import formats
from weft.errors import WeftError
from weft.experiments.imitation.job_lists import read_job_lists
from weft.formats.graphs.callgraph import load_callgraph
from weft.formats.native.stream_toml import load_stream
from weft.formats.native.variants import load_variants
from weft.formats.parsing.quantity import quantity
from weft.planners.whatif import parse_change

SECONDS = 1.0
BYTES = 200_000_000
CHUNK = 2**24


def packed(*parts: tuple[bytes, int]) -> bytes:
    """Return gzip data of (bytes, times) parts; a repeated part is packed once, as a member."""
    return b"".join(gzip.compress(part, 9, mtime=0) * times for part, times in parts)


def npz_of_zeros(count: int, kind: str = "<f8") -> bytes:
    """Return an archive with one column of so many zeros."""
    made, header = io.BytesIO(), io.BytesIO()
    facts = {"descr": kind, "fortran_order": False, "shape": (count,)}
    np.lib.format.write_array_header_1_0(header, facts)
    chunk = bytes(8 * 2**20)
    with (
        zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("work.npy", "w") as member,
    ):
        member.write(header.getvalue())
        for _ in range(np.dtype(kind).itemsize * count // len(chunk)):
            member.write(chunk)
    return made.getvalue()


def _stream(count: int) -> str:
    return (
        'jobs = 10\n[arrivals]\ngap = 1\n[[tasks]]\nname = "a"\ntime = 1\n'
        f'[[units]]\nname = "u"\nbatch = 1\ncount = {count}\n'
    )


def _strange_parent() -> str:
    tasks = [{"id": "t" * 200 + str(i), "parents": []} for i in range(20_000)]
    tasks[-1]["parents"] = ["t" * 200 + "x"]
    execution = {"tasks": []}
    return json.dumps(
        {
            "schemaVersion": "1.5",
            "workflow": {"specification": {"tasks": tasks}, "execution": execution},
        }
    )


def _machines(cores: int) -> str:
    document = json.loads(
        (Path(__file__).parents[1] / "formats" / "samples" / "wfformat-1.6.json").read_text()
    )
    document["workflow"]["execution"]["machines"][0]["cpu"]["coreCount"] = cores
    return json.dumps(document)


def _entities() -> str:
    names = [f'<!ENTITY e{i} "{f"&e{i - 1};" * 10 if i else "lol"}">' for i in range(10)]
    return f'<?xml version="1.0"?><!DOCTYPE adag [{"".join(names)}]><adag name="&e9;"/>'


def _kinds() -> str:
    kinds = [f"d{i}" for i in range(12_000)]
    return json.dumps(
        {
            "format": "weft-workflow-1",
            "work": [1],
            "duration_devices": kinds,
            "durations": [[1]] * 12_000,
        }
    )


def _attributes() -> str:
    attributes = ",".join(f"a{i}=1" for i in range(3000))
    return f"digraph {{ node [{attributes}] {';'.join(f'n{i}' for i in range(15_000))} }}"


def _nested() -> str:
    return f"digraph {{ {'subgraph { ' * 15_000} x {'}' * 15_000} }}"


class Bomb(NamedTuple):
    """The name of a file, how it is made, and how it is read."""

    file: str
    make: Callable[[], bytes | str]
    read: Callable[[Path], object] = formats.load


def _generated(*words: str) -> Bomb:
    name = " ".join(("generate", *words))
    return Bomb(
        name, lambda: "-", lambda path: run_verb("generate", *words, "--out", f"{path}.json")
    )


def _asked(path: Path, *words: str) -> object:
    """Run a verb on a problem that lies in a file."""
    return run_verb(words[0], str(path), *words[1:])


def _changed(path: Path, change: str) -> object:
    """Change a problem as `weft whatif` does, without the plans, whose kernels may be compiled."""
    return parse_change(change).apply(formats.load(path))


def _network(nodes: int) -> str:
    names = json.dumps([f"n{i}" for i in range(nodes)])
    devices = "".join(f'[[devices]]\nnode = "n{i}"\n' for i in range(nodes))
    ports = f'[[network.ports]]\nnodes = {names}\nup = "1 GB/s"\n'
    return f"{devices}[network]\n{ports}"


def _trunks(count: int) -> str:
    lines = "".join(
        f'[[network.trunks]]\nbetween = ["s{i}", "s{i + 1}"]\nbandwidth = 1\n' for i in range(count)
    )
    port = '[[network.ports]]\nnodes = ["n0"]\nup = 1\nswitch = "s0"\n'
    return f'[[devices]]\nnode = "n0"\n[network]\n{port}{lines}'


LINKS = [[None, 1], [2, None]]
PAIR = json.dumps({"cost": [[1, 2], [3, 4]], "edges": [[0, 1]], "data": [5], "bandwidth": LINKS})
SPACES, ZEROS, LISTS = b" " * CHUNK, b"0," * (CHUNK // 2), b"[]," * (CHUNK // 2)
BOMBS = {
    "2 GB of spaces in an object": Bomb(
        "a.json.gz", lambda: packed((b"{", 1), (SPACES, 128), (b"}", 1))
    ),
    "100 million zeros": Bomb("b.json.gz", lambda: packed((b"[", 1), (ZEROS, 12), (b"0]", 1))),
    "52 million empty lists": Bomb("c.json.gz", lambda: packed((b"[", 1), (LISTS, 7), (b"0]", 1))),
    "NPZ of 100 million zeros": Bomb("n.npz", lambda: npz_of_zeros(100 * 2**20)),
    "15,000 speeds": Bomb(
        "cluster.json",
        lambda: json.dumps({"format": "weft-cluster-1", "speed": [1] * 15_000}),
        formats.load_cluster,
    ),
    "count = 5000": Bomb("cluster.toml", lambda: "[[devices]]\ncount = 5000", formats.load_cluster),
    "12,000 kinds of devices": Bomb("kinds.json", _kinds),
    "stream of 10,000 units": Bomb("s1.toml", lambda: _stream(10_000), load_stream),
    "stream of 2**31 units": Bomb("s2.toml", lambda: _stream(2**31 - 1), load_stream),
    "DOT, 3,000 defaults x 15,000": Bomb("a.dot", _attributes, formats.load_workflow),
    "DOT, 15,000 nested subgraphs": Bomb("b.dot", _nested, formats.load_workflow),
    "DOT, 2 million semicolons": Bomb(
        "c.dot", lambda: "digraph {" + ";" * 2_000_000 + "}", formats.load_workflow
    ),
    "WfFormat, unknown parent": Bomb("w.json", _strange_parent),
    "WfFormat, 2**31 cores": Bomb("m.json", lambda: _machines(2**31)),
    "quantity of 20,000 digits": Bomb(
        "q1", lambda: "1" * 20_000 + "x1", lambda p: quantity(p.read_text(), "bytes", "memory")
    ),
    "quantity with 100,000 spaces": Bomb(
        "q2", lambda: f"1{' ' * 100_000}1", lambda p: quantity(p.read_text(), "bytes", "memory")
    ),
    "28 hashes, then JSON": Bomb("h.json", lambda: "#" * 28 + "\n{}"),
    "XML entities": Bomb("e.dax", _entities),
    "XML, 3 million elements": Bomb("f.dax", lambda: f"<adag>{'<a/>' * 3_000_000}</adag>"),
    "XML packed, 1 GB": Bomb("i.dax.gz", lambda: packed((b"<adag>", 1), (b"<a/>" * 2**22, 64))),
    "trace of 20 million cells": Bomb(
        "t.txt.gz",
        lambda: packed((b"name\tstatus\trealtime\n", 1), (b"a\tCOMPLETED\t1s\n" * 2**18, 40)),
    ),
    "trace of one long line": Bomb("u.txt", lambda: "name\tstatus\trealtime\n" + "\t" * 20_000_000),
    "sacct, 10 million lines": Bomb(
        "v.txt.gz", lambda: packed((b"JobID|Elapsed\n", 1), (b"1|00:01\n" * 2**18, 40))
    ),
    "report of 3 million numbers": Bomb(
        "r.html", lambda: f'<script type="application/json">[{"0," * 20_000_000}0]</script>'
    ),
    "report of 1 million scripts": Bomb("x.html", lambda: "<script " * 1_000_000),
    "2 million spans": Bomb(
        "o.json.gz",
        lambda: packed(
            (b'{"resourceSpans": [{"scopeSpans": [{"spans": [', 1),
            (b"{}," * 2**20, 2),
            (b"{}]}]}]}", 1),
        ),
    ),
    "3 million trace events": Bomb(
        "y.json.gz", lambda: packed((b"[", 1), (b'{"ph":"X"},' * 2**20, 3), (b"{}]", 1))
    ),
    "call graph of 100 million": Bomb(
        "z.json.gz", lambda: packed((b"[", 1), (ZEROS, 12), (b"0]", 1)), load_callgraph
    ),
    "job lists of 100 million": Bomb(
        "l.json.gz", lambda: packed((b"[", 1), (ZEROS, 12), (b"0]", 1)), read_job_lists
    ),
    "variants, packed, 1 GB": Bomb(
        "v.toml.gz", lambda: packed((b"[[variants]]\n" * 2**16, 1200)), load_variants
    ),
    "variants, 200,000 tables": Bomb("w.toml", lambda: "[[variants]]\n" * 200_000, load_variants),
    "variant of 1e300 cores": Bomb(
        "x.toml", lambda: '[[variants]]\nof = "a"\nname = "b"\ncores = 1e300', load_variants
    ),
    "network of 3,000 nodes": Bomb("p.toml", lambda: _network(3000), formats.load_cluster),
    "network of 20,000 trunks": Bomb("t.toml", lambda: _trunks(20_000), formats.load_cluster),
    "cluster of 5 million entries": Bomb(
        "e.toml", lambda: f"a = [{'1,' * 5_000_000}]", formats.load_cluster
    ),
    "stream of 2**31 jobs": Bomb(
        "s3.toml", lambda: _stream(1).replace("jobs = 10", f"jobs = {2**31}"), load_stream
    ),
    "batch of 2**31": Bomb(
        "s4.toml", lambda: _stream(1).replace("batch = 1", f"batch = {2**31}"), load_stream
    ),
    "task that repeats 2**31 times": Bomb(
        "s5.toml",
        lambda: _stream(1).replace(
            "time = 1\n", f"time = 1\nrepeat = {{most = {2**31}, again = 0.5}}\n"
        ),
        load_stream,
    ),
    "JSON with a mark, 100 million": Bomb(
        "m.json.gz", lambda: packed((b"\xef\xbb\xbf[", 1), (ZEROS, 12), (b"0]", 1))
    ),
    "JSON, 16 million texts": Bomb(
        "t.json.gz", lambda: packed((b"[", 1), (b'"ab",' * 2**20, 16), (b"0]", 1))
    ),
    "JSON, 16 million times a key": Bomb(
        "k.json.gz", lambda: packed((b"{", 1), (b'"ab":0,' * 2**20, 16), (b'"c":0}', 1))
    ),
    "NPZ of 100 million bytes": Bomb("s.npz", lambda: npz_of_zeros(96 * 2**20, "|i1")),
    "report of 16 million objects": Bomb(
        "o.html.gz", lambda: packed((b'<script type="application/json">[', 1), (b"{}," * 2**20, 16))
    ),
    "STG of 20 million words": Bomb(
        "w.stg.gz", lambda: packed((b"1\n0 0 0\n", 1), (b"0 " * 2**20, 20)), formats.load_workflow
    ),
    "STG of 30 million returns": Bomb(
        "r.stg.gz", lambda: packed((b"1\n", 1), (b"\r" * 2**20, 30)), formats.load_workflow
    ),
    "trace of 4 million rows": Bomb(
        "r.txt.gz",
        lambda: packed((b"name\tstatus\trealtime\n", 1), (b"a\tCOMPLETED\t1s\n" * 2**18, 16)),
    ),
    "table of 100 million commas": Bomb(
        "c.csv.gz",
        lambda: packed((b"task,after,seconds\n", 1), (b"," * 2**20, 100)),
        formats.load_workflow,
    ),
    "XML, 40 million returns": Bomb(
        "r.dax.gz", lambda: packed((b"<adag>", 1), (b"\r" * 2**20, 40), (b"</adag>", 1))
    ),
    "XML, 2 million attributes": Bomb(
        "a.dax.gz", lambda: "<adag " + " ".join(f'a{i}=""' for i in range(2_000_000)) + "/>"
    ),
    "TOML of 40 million spaces": Bomb(
        "s.toml.gz", lambda: packed((b"a = ", 1), (b" " * 2**20, 40)), formats.load_cluster
    ),
    "a billion more devices": Bomb(
        "a.json", lambda: PAIR, lambda p: _changed(p, "add 1000000000xV100")
    ),
    "more devices, in 5,000 digits": Bomb(
        "b.json", lambda: PAIR, lambda p: _changed(p, f"add {'9' * 5000}xV100")
    ),
    "a cluster of a billion GPUs": Bomb(
        "c.json", lambda: PAIR, lambda p: _asked(p, "plan", "--gpus", "1000000000xV100")
    ),
    "10,000 nodes of 10,000 GPUs": Bomb(
        "d.json", lambda: PAIR, lambda p: _asked(p, "plan", "--gpus", "10000x10000xV100")
    ),
    "montage of 100 million": _generated("montage", "--images", "100000000"),
    "cholesky of 1e20": _generated("cholesky", "--tiles", "99999999999999999999"),
    "lu of 100 million": _generated("lu", "--tiles", "100000000"),
    "gauss of 100 million": _generated("gauss", "--size", "100000000"),
    "epigenomics of 100 million": _generated("epigenomics", "--lanes", "100000000"),
}


class Cost(NamedTuple):
    """What a bomb cost: size of its file, seconds, megabytes, and the message or the failure."""

    kilobytes: float
    seconds: float
    megabytes: float
    said: str
    failed: bool


def cost_of(bomb: Bomb, folder: Path) -> Cost:
    """Read a bomb in a child process with limits."""
    path = folder / bomb.file
    content = bomb.make()
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    size = path.stat().st_size / 1000
    del content
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receive)
        os.write(send, json.dumps(_limited(bomb, path)).encode())
        os._exit(0)
    os.close(send)
    with os.fdopen(receive, "rb") as answers:
        answer = answers.read()
    _, status = os.waitpid(child, 0)
    if not answer:
        return Cost(size, SECONDS, 0.0, f"ended by signal {os.WTERMSIG(status)}", True)
    return Cost(size, *json.loads(answer))


def _limited(bomb: Bomb, path: Path) -> tuple[float, float, str, bool]:
    used = time.process_time()
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    seconds = int(used + 20 * SECONDS) + 1  # ends what hangs; the time is measured below
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    said, failed = "read", False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            bomb.read(path)
    except WeftError as error:
        said = str(error).replace(f"{path}: ", "")
        failed = "more memory than there is" in said
    except Exception as error:  # noqa: BLE001  # the very thing that is looked for
        said, failed = f"{type(error).__name__}: {error}", True
    took = time.process_time() - used
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1000
    return took, more, said, failed


def main() -> int:
    """Print a table; return 1 if a bomb costs too much."""
    bad = 0
    with tempfile.TemporaryDirectory() as place:
        for name, bomb in BOMBS.items():
            cost = cost_of(bomb, Path(place))
            failed = cost.failed or cost.seconds > SECONDS
            bad += failed
            numbers = f"{cost.kilobytes:9.1f} kB {cost.seconds:6.2f} s {cost.megabytes:6.0f} MB"
            mark = "FAILED" if failed else "ok"
            sys.stdout.write(f"{name:30} {numbers}  {mark}  {cost.said[:90]!a}\n")
            sys.stdout.flush()
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
