"""Discovery and micro-benchmarks of this machine: a prior until runs are measured.

Tasks run slower in a workflow than in a benchmark, by a factor that differs between kinds, so the
history overrides these numbers.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import WeftError
from weft.formats.parsing.source import decode_text, parse_json, read_bytes, write_file
from weft.runtime.costs.project import data_folder

MATRICES = (256, 512, 1024)
COPIES = (4_096, 1_000_000, 64_000_000)
BANDWIDTH_BYTES = 64_000_000

Benchmark = tuple[str, str, float, Callable[[], object]]
"""Its name, the unit of its rate, the amount that a call moves or computes, and the call."""


@dataclass(frozen=True)
class FoundDevice:
    """A device of this machine; `index` is its number for its driver."""

    name: str
    kind: str
    model: str
    memory: float
    cores: int = 1
    index: int = 0


@dataclass(frozen=True)
class ProfileMeasure:
    """One micro-benchmark on one device: median and quartiles, in `unit`."""

    device: str
    what: str
    unit: str
    median: float
    low: float
    high: float
    repeats: int


# -- discovery ----------------------------------------------------------------


def discover(*, thorough: bool = True) -> list[FoundDevice]:
    """Return the processor and the GPUs; unless `thorough`, skip slow imports.

    Examples
    --------
    >>> discover(thorough=False)[0].kind
    'cpu'
    """
    found = list(_by_nvml())
    if not found and (thorough or "torch" in sys.modules):
        found = list(_by_torch())
    return [_processor(), *found]


def cores_here() -> list[int]:
    """Return the processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _processor() -> FoundDevice:
    memory = inf
    if hasattr(os, "sysconf"):
        memory = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return FoundDevice("cpu", "cpu", _processor_name(), memory, cores=len(cores_here()))


def _processor_name() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.is_file():
        for line in listing.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _by_nvml() -> Iterator[FoundDevice]:
    nvml = _optional("pynvml")
    if nvml is None:
        return
    try:
        nvml.nvmlInit()
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            model = nvml.nvmlDeviceGetName(handle)
            memory = float(nvml.nvmlDeviceGetMemoryInfo(handle).total)
            name = model.decode() if isinstance(model, bytes) else str(model)
            yield FoundDevice(f"gpu{index}", name, name, memory, index=index)
    except Exception:  # noqa: BLE001  # no driver or no device
        return


def _by_torch() -> Iterator[FoundDevice]:
    torch = _optional("torch")
    if torch is None:
        return
    try:
        accelerator, kind = getattr(torch, "accelerator", None), "cuda"
        if accelerator is not None and accelerator.is_available():
            kind = accelerator.current_accelerator().type
        module = getattr(torch, kind)
        for index in range(module.device_count()):
            facts = None
            if hasattr(module, "get_device_properties"):
                facts = module.get_device_properties(index)
            model, memory = str(getattr(facts, "name", kind)), getattr(facts, "total_memory", inf)
            yield FoundDevice(f"{kind}{index}", model, model, float(memory), index=index)
    except Exception:  # noqa: BLE001  # no driver or a broken installation
        return


def _optional(name: str) -> Any:
    """Import a module; None if it is missing or broken."""
    try:
        return import_module(name) if find_spec(name) is not None else None
    except Exception:  # noqa: BLE001  # no driver or a broken installation
        return None


# -- micro-benchmarks ---------------------------------------------------------


def measure(device: FoundDevice, *, quick: bool = False) -> list[ProfileMeasure]:
    """Matrix products, memory bandwidth, copies and launch latency of a device."""
    repeats = 3 if quick else 9
    latencies: Callable[[int], list[float]]
    if device.kind == "cpu":
        benchmarks, latencies = _processor_benchmarks(), _processor_latencies
    else:
        torch = _optional("torch")
        if torch is None:
            return []
        kind = "cuda" if device.name.startswith("gpu") else device.name.rstrip("0123456789")
        place, wait = torch.device(kind, device.index), getattr(torch, kind).synchronize
        one = torch.zeros(1, device=place)
        benchmarks = _torch_benchmarks(torch, place, wait)
        latencies = partial(_seconds, _finished(partial(one.add_, 1), wait))
    found = [
        _summary(device, what, unit, [amount / s for s in _seconds(work, repeats)])
        for what, unit, amount, work in benchmarks
    ]
    return [*found, _summary(device, "launch latency", "s", latencies(20 * repeats))]


def _processor_benchmarks() -> Iterator[Benchmark]:
    rng = np.random.default_rng(0)
    for n in MATRICES:
        a = rng.random((n, n), dtype=np.float32)
        yield f"matrix product {n}", "FLOP/s", 2.0 * n**3, partial(np.matmul, a, a)
    source = np.ones(BANDWIDTH_BYTES // 8)
    target = np.empty_like(source)
    yield "memory bandwidth", "B/s", 2.0 * source.nbytes, partial(np.copyto, target, source)
    for size in COPIES:
        chunk, place = np.ones(size, np.uint8), np.empty(size, np.uint8)
        yield f"copy {size} B", "B/s", float(size), partial(np.copyto, place, chunk)


def _processor_latencies(rounds: int) -> list[float]:
    """Return the seconds from sending an empty task to its result, without the first."""
    from weft.model import Problem, Workload
    from weft.runtime.backends.local.backend import LocalBackend
    from weft.runtime.backends.protocol import Call, Finished, Order

    seconds = []
    with LocalBackend(1) as backend:
        problem = Problem.from_arrays(np.ones((rounds, 1)))
        backend.begin(Workload.of(problem), [Call(_nothing)] * rounds)
        for k in range(rounds):
            begin = time.perf_counter()
            backend.submit(Order(k, (k,), ((),), (False,)), 0, 0.0)
            while not any(isinstance(event, Finished) for event in backend.wait(inf)):
                pass
            seconds.append(time.perf_counter() - begin)
    return seconds[rounds // 10 :]


def _nothing() -> None:
    """Do nothing: an empty task."""


def _torch_benchmarks(torch: Any, place: Any, wait: Callable[[], object]) -> Iterator[Benchmark]:
    for n in MATRICES:
        a = torch.rand((n, n), device=place)
        work = _finished(partial(torch.matmul, a, a), wait)
        yield f"matrix product {n}", "FLOP/s", 2.0 * n**3, work
    big = torch.ones(BANDWIDTH_BYTES // 4, device=place)
    yield "memory bandwidth", "B/s", 2.0 * BANDWIDTH_BYTES, _finished(big.clone, wait)
    for size in COPIES:
        here = torch.ones(size, dtype=torch.uint8)
        there, amount = here.to(place), float(size)
        yield f"copy {size} B to device", "B/s", amount, _finished(partial(here.to, place), wait)
        yield f"copy {size} B from device", "B/s", amount, _finished(there.cpu, wait)


def _finished(work: Callable[[], object], wait: Callable[[], object]) -> Callable[[], object]:
    """Return work that ends when the device has done it."""

    def timed() -> None:
        work()
        wait()

    return timed


def _seconds(work: Callable[[], object], repeats: int) -> list[float]:
    work()  # warm
    found = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        found.append(max(time.perf_counter() - begin, 1e-9))
    return found


def _summary(device: FoundDevice, what: str, unit: str, values: list[float]) -> ProfileMeasure:
    low, median, high = np.quantile(values, (0.25, 0.5, 0.75)).tolist()
    return ProfileMeasure(device.name, what, unit, median, low, high, len(values))


# -- kept as a prior ----------------------------------------------------------


def profile_path() -> Path:
    """Return the path beside the history."""
    return data_folder() / "profile.json"


def save_profile(
    found: list[FoundDevice], measures: list[ProfileMeasure], path: Path | None = None
) -> Path:
    """Write devices and measurements."""
    where = path or profile_path()
    where.parent.mkdir(parents=True, exist_ok=True)
    document = {"devices": [asdict(d) for d in found], "measures": [asdict(m) for m in measures]}
    return write_file(where, json.dumps(document, indent=2))


def relative_speeds(path: Path | None = None) -> dict[str, float]:
    """Return the speed of each device relative to the processor; empty: no profile."""
    where = path or profile_path()
    if not where.is_file():
        return {}
    try:
        measures = parse_json(decode_text(read_bytes(where)))["measures"]
        rates = {
            m["device"]: float(m["median"])
            for m in measures
            if m["what"] == f"matrix product {MATRICES[-1]}"
        }
        speeds = {device: rate / rates["cpu"] for device, rate in rates.items()}
    except (WeftError, ValueError, KeyError, TypeError, ArithmeticError):
        return {}
    return speeds if all(0 < speed < inf for speed in speeds.values()) else {}
