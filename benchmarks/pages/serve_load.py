"""Submissions per second of `weft serve`: ``python benchmarks/pages/serve_load.py --seconds 60``.

A server of its own runs in another process. Each submission is a workflow of --tasks tasks that the
server stores, queues and runs. Each of --rates is a load of its own, on a server
of its own. With --what plan, each request is a plan of the same workflow; with
--what service, `weft.Service` is measured in this process, without HTTP. At the end every accepted
run is looked up: none may be lost. Prints one JSON document; with --out it is written as a file of
docs/results, too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections import Counter, deque
from pathlib import Path
from typing import Any

from served import served

Link = tuple[asyncio.StreamReader, asyncio.StreamWriter]
FUNCTIONS = "def one(*inputs):\n    return 1\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--what", choices=("run", "plan", "service"), default="run")
    parser.add_argument("--tasks", type=int, default=3, help="tasks of a workflow, all after one")
    parser.add_argument("--batch", type=int, default=1, help="submissions per request")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument(
        "--rates",
        type=float,
        nargs="+",
        default=[1000.0, 0.0],
        help="requests per second, one after the other; 0: as many as the connections can",
    )
    parser.add_argument("--applications", type=int, default=4)
    parser.add_argument("--queue", type=int, default=1000)
    parser.add_argument("--out", type=Path, help="a file for the results")
    args = parser.parse_args()
    if args.what == "service":
        print(json.dumps(in_process(args), indent=2))
        return
    found = []
    for rate in args.rates:
        with tempfile.TemporaryDirectory() as place:
            found.append(measure(args, rate, Path(place)))
        print(json.dumps(found[-1], indent=2), flush=True)
    if args.out is not None:
        args.out.write_text(json.dumps(as_results(found), indent=1) + "\n", encoding="utf-8")


def row_of(found: dict[str, Any]) -> list[str]:
    """Return the figures of one load as a row of a table."""
    memory, states, statuses = found["memory_mb_every_5_s"], found["states"], found["statuses"]
    return [
        found["what"],
        f"{found['rate']:,.0f} per second" if found["rate"] else "as many as possible",
        f"{found['seconds']:.0f} s",
        f"{found['submissions_per_second']:,.0f}",
        f"{statuses.get(202, 0):,}",
        f"{statuses.get(429, 0):,}",
        f"{states.get('done', 0):,}",
        f"{found['server_cpu_ms_each']:.2f} ms",
        f"{max(memory):,} MB",
    ]


def as_results(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures as a file of docs/results."""
    columns = ["what", "sent", "time", "accepted per second", "accepted", "refused (429)", "done"]
    return {
        "measured_with": "python benchmarks/pages/serve_load.py --seconds 60",
        "provenance": "written by the command; client, server and two workers on two cores; load "
        f"average at the end {os.getloadavg()[0]:.1f}",
        "tables": {
            "serve": {
                "columns": [*columns, "server time each", "most memory"],
                "align": "lrrrrrrrr",
                "rows": [row_of(one) for one in found],
            }
        },
    }


def in_process(args: argparse.Namespace) -> dict[str, object]:
    import weft
    from weft.runtime import LocalBackend

    rest = range(1, args.tasks)
    workflow = weft.Workflow(work=[1] * args.tasks, src=[0 for _ in rest], dst=rest, data=0.0)
    memory, futures, count = [], deque(), 0
    with LocalBackend(2) as devices, weft.Service(devices, capacity=args.queue) as service:
        begin, used = time.perf_counter(), time.process_time()
        while time.perf_counter() < begin + args.seconds:
            name = f"app{count % args.applications}"
            futures.append(service.submit(name, workflow, functions={"task": one}))
            count += 1
            if len(futures) > args.queue:
                futures.popleft().result()
            if time.perf_counter() > begin + 5.0 * len(memory):
                memory.append(resident_mb(os.getpid()))
        for future in futures:
            future.result()
        took = time.perf_counter() - begin
    return {
        "what": f"service, {args.tasks} tasks",
        "seconds": round(took, 1),
        "submissions_per_second": round(count / took, 1),
        "memory_mb_every_5_s": [round(m) for m in memory],
        "cpu_ms_each": round(1e3 * (time.process_time() - used) / count, 3),
    }


def one(*_: object) -> int:
    return 1


def measure(args: argparse.Namespace, rate: float, place: Path) -> dict[str, Any]:
    names = [f"app{k}" for k in range(args.applications)]
    options = ["--devices", "2", "--queue", str(args.queue), "--rate", "1e6", "--keep", "1000000"]
    options += [part for name in names for part in ("--application", f"{name}=1")]
    with served(place, FUNCTIONS, *options) as server:
        host, port = server.url.removeprefix("http://").split(":")
        load = Load(args, names, host, int(port), server.token, server.pid)
        return {"rate": rate, **asyncio.run(load.run(rate))}


def resident_mb(pid: int) -> float:
    text = Path(f"/proc/{pid}/statm").read_text(encoding="ascii")
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Load:
    """Connections that submit as fast as the server answers."""

    def __init__(
        self, args: argparse.Namespace, names: list[str], host: str, port: int, token: str, pid: int
    ) -> None:
        self.args, self.names, self.host, self.port, self.pid = args, names, host, port, pid
        rest = range(1, args.tasks)
        self.workflow = {"work": [1] * args.tasks, "src": [0 for _ in rest], "dst": list(rest)}
        self.head = f"authorization: Bearer {token}\r\nhost: load\r\n"
        self.statuses: Counter[int] = Counter()
        self.accepted: list[str] = []
        self.memory: list[float] = []

    async def run(self, rate: float) -> dict[str, object]:
        await self._warm_up()
        self.statuses.clear()
        self.accepted.clear()
        begin, used = time.perf_counter(), cpu_seconds(self.pid)
        self.gap = 1.0 / rate if rate else 0.0
        self.until, self.next_turn = begin + self.args.seconds, begin
        watcher = asyncio.create_task(self._watch())
        await asyncio.gather(*(self._submit(k) for k in range(self.args.connections)))
        took = time.perf_counter() - begin
        watcher.cancel()
        good = 202 if self.args.what == "run" else 200
        count = self.statuses[good] * self.args.batch
        drained = await self._drained()
        used = cpu_seconds(self.pid) - used
        return {
            "what": f"{self.args.what}, {self.args.tasks} tasks, {self.args.batch} per request",
            "seconds": round(took, 1),
            "submissions_per_second": round(count / took, 1),
            "requests_per_second": round(sum(self.statuses.values()) / took, 1),
            "statuses": dict(sorted(self.statuses.items())),
            "memory_mb_every_5_s": [round(m) for m in self.memory],
            "server_cpu_ms_each": round(1e3 * used / max(count, 1), 3),
            "drained_seconds": round(drained, 1),
            "states": dict(await self._states()),
        }

    async def _warm_up(self) -> None:
        link = await asyncio.open_connection(self.host, self.port)
        limit = time.perf_counter() + 120
        while time.perf_counter() < limit:
            begin = time.perf_counter()
            await self._request(link, "POST", "/v1/plan", {"workflow": self.workflow})
            if time.perf_counter() - begin < 0.05:
                return

    async def _submit(self, number: int) -> None:
        link = await asyncio.open_connection(self.host, self.port)
        name = self.names[number % len(self.names)]
        document = {"workflow": self.workflow, "tasks": {"task": {"function": "one"}}}
        path = f"/v1/runs?application={name}"
        body: object = document if self.args.batch == 1 else [document] * self.args.batch
        if self.args.what == "plan":
            work = [1 + number + task for task in range(self.args.tasks)]
            question = {"workflow": {**self.workflow, "work": work}}
            path, body = (
                "/v1/plan",
                question if self.args.batch == 1 else [question] * self.args.batch,
            )
        while await self._turn():
            status, answer = await self._request(link, "POST", path, body)
            self.statuses[status] += 1
            if status == 429:
                await asyncio.sleep(0.02)
            elif status == 202:
                found = json.loads(answer)
                self.accepted += [run["id"] for run in found.get("runs", [found])]

    async def _turn(self) -> bool:
        """Wait for the next turn at the rate of the load; return whether there is one."""
        if self.gap:
            due = self.next_turn
            self.next_turn += self.gap
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
        return time.perf_counter() < self.until

    async def _request(
        self, link: Link, method: str, path: str, body: object = None
    ) -> tuple[int, bytes]:
        reader, writer = link
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\n{self.head}content-length: {len(data)}\r\n\r\n"
        writer.write(head.encode() + data)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        sizes = [int(line[15:]) for line in lines if line.startswith("content-length:")]
        return int(lines[0].split()[1]), await reader.readexactly(sizes[0])

    async def _watch(self) -> None:
        while True:
            self.memory.append(resident_mb(self.pid))
            await asyncio.sleep(5.0)

    async def _drained(self) -> float:
        """Wait until nothing waits or runs; return how long that took."""
        link, begin = await asyncio.open_connection(self.host, self.port), time.perf_counter()
        for state in ("waiting", "running"):
            while await self._left(link, state):  # noqa: ASYNC110  # the server has no event for it
                await asyncio.sleep(0.2)
        return time.perf_counter() - begin

    async def _states(self) -> Counter[str]:
        """Look every accepted run up."""
        link = await asyncio.open_connection(self.host, self.port)
        states: Counter[str] = Counter()
        for run in self.accepted:
            status, answer = await self._request(link, "GET", f"/v1/runs/{run}")
            states[json.loads(answer)["state"] if status == 200 else "lost"] += 1
        return states

    async def _left(self, link: Link, state: str) -> bool:
        _, answer = await self._request(link, "GET", f"/v1/runs?state={state}&limit=1")
        return bool(json.loads(answer)["runs"])


if __name__ == "__main__":
    main()
