"""`weft profile`: measure this machine, a Dask cluster, or a function in batches."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import ModuleType
from typing import Any

from weft.cli.arguments import add_flag, add_option, excludes, needs
from weft.cli.output import users_code
from weft.cli.values import output, several, whole

SUMMARY = "measure this machine, the hosts and links of a cluster, or a function by batch size"
EXAMPLE = """\
  weft profile --quick
  weft profile --cluster tcp://10.0.0.1:8786 --out cluster.toml
  weft profile --function models:detect --item models:one_image --sizes 1,2,4,8,16 --out unit.toml

  A function takes a list of items. --item names what is repeated in it: an object of a module, a
  function without arguments that makes one, or JSON. The result is the batch curve, and the set-up
  of the first call, for the units of streams and the devices of clusters.

  --cluster measures each link of a Dask cluster, one at a time, and the speed of its hosts. Runs
  with a client of that cluster use the links from the project's history; --out writes a cluster."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_flag(parser, "--quick", "fewer repeats")
    text = "do not save the result, which runs use until they have measured themselves"
    add_flag(parser, "--dry", text)
    text = "measure the Dask cluster of this scheduler instead"
    add_option(parser, "--cluster", str, "ADDRESS", text)
    text = "measure this function, which takes a list of items, by batch size"
    add_option(parser, "--function", str, "MODULE:NAME", text)
    add_option(
        parser, "--item", str, "ITEM", "the item in its lists: MODULE:NAME or JSON", default="null"
    )
    text = "batch sizes (default: 1,2,4,8)"
    add_option(parser, "--sizes", several(whole(1)), "N,N", text, default=(1, 2, 4, 8))
    add_option(parser, "--repeats", whole(1), "N", "calls per batch size", default=5)
    add_option(parser, "--kind", str, "KIND", "task kind (default: the function's name)")
    add_option(parser, "--out", output, "TOML", "write the curve, or the cluster")


def run(args: argparse.Namespace) -> None:
    """Find, measure, keep and print."""
    needs(args, "--item --sizes --repeats --kind", "--function")
    needs(args, "--out", "--function", "--cluster")
    excludes(args, "--function", "--cluster --quick --dry")
    if args.function is not None:
        _profile_function(args)
        return
    if args.cluster is not None:
        _profile_cluster(args)
        return
    from dataclasses import asdict

    from weft.cli.output import emit, track
    from weft.model.explain.quantities import format_bytes
    from weft.report.tables import table_text
    from weft.runtime.costs.profiler import discover, measure, save_profile

    found = discover()
    measures = [
        m
        for device in track(found, total=len(found), what="profile")
        for m in measure(device, quick=args.quick)
    ]
    kept = None if args.dry else save_profile(found, measures)
    if args.json:
        emit(
            {
                "devices": [asdict(d) for d in found],
                "measures": [asdict(m) for m in measures],
                "kept": None if kept is None else str(kept),
            }
        )
        return
    for device in found:
        print(f"{device.name}: {device.model}, {device.cores} cores, {format_bytes(device.memory)}")
    rows = [
        {
            "device": m.device,
            "measure": m.what,
            "median": _shown(m.median, m.unit),
            "middle half": _range(m),
        }
        for m in measures
    ]
    print("\n" + table_text(rows, ("device", "measure", "median", "middle half")))
    if kept is not None:
        print(f"\nsaved to {kept}; used until real runs provide measurements")


def _profile_cluster(args: argparse.Namespace) -> None:
    """Measure the hosts and links of a cluster."""
    from weft.cli.output import emit, track
    from weft.errors import MissingExtra
    from weft.formats import save
    from weft.model.explain.quantities import format_bytes, format_seconds
    from weft.report.tables import Column, table_text
    from weft.runtime.costs.history import History

    try:
        from weft.runtime.backends.dask.profile import profile_cluster
    except ImportError:
        raise MissingExtra("distributed", "dask") from None
    found = profile_cluster(
        args.cluster,
        repeats=2 if args.quick else 5,
        track=lambda steps: track(steps, total=len(steps), what="profile"),
    )
    history = None if args.dry else History()
    if history is not None:
        history.add([], found.rows())
    if args.out is not None:
        save(found.cluster(), args.out)
    names = dict(zip(found.hosts, found.names, strict=True))
    links: list[dict[str, Any]] = [
        {
            "source": names[link.source],
            "target": names[link.target],
            "bandwidth": link.bandwidth,
            "latency": link.latency,
        }
        for link in found.links
    ]
    if args.json:
        hosts = zip(found.names, found.hosts, found.speeds, strict=True)
        emit(
            {
                "hosts": [{"name": n, "host": h, "speed": s} for n, h, s in hosts],
                "links": links,
                "kept": None if history is None else str(history.path),
            }
        )
        return
    speeds = [
        {"worker": n, "host": h, "speed": f"{s:.2f}"}
        for n, h, s in zip(found.names, found.hosts, found.speeds, strict=True)
    ]
    print(table_text(speeds, ("worker", "host", "speed")))
    shown = [
        {
            **link,
            "bandwidth": f"{format_bytes(link['bandwidth'])}/s",
            "latency": format_seconds(link["latency"]),
        }
        for link in links
    ]
    columns = (Column("source", "from"), Column("target", "to"))
    print("\n" + table_text(shown, (*columns, Column("bandwidth", "rate"), "latency")))
    if history is not None:
        print(f"\nlinks added to {history.path}")
    if args.out is not None:
        print(f"wrote {args.out}")


def _profile_function(args: argparse.Namespace) -> None:
    """Measure a function at several batch sizes."""
    from dataclasses import asdict

    from weft.cli.output import emit
    from weft.formats.parsing.source import write_file
    from weft.model.explain.quantities import format_seconds
    from weft.report.tables import Column, table_text
    from weft.runtime.costs.batch_profile import profile_batches

    function, item = _named(args.function), _item(args.item)
    name = args.kind or args.function.partition(":")[2]
    found = profile_batches(function, item, sizes=args.sizes, repeats=args.repeats, name=name)
    if args.out is not None:
        write_file(args.out, found.toml())
    if args.json:
        emit({**asdict(found), "batch_curve": found.curve()})
        return
    rows = [
        {"size": b, "seconds": s, "growth": f"{g:.3f}", "each": s / b}
        for b, s, g in zip(found.sizes, found.seconds, found.growth, strict=True)
    ]
    columns = (
        Column("size", "batch"),
        Column("seconds", "time", unit="s"),
        Column("growth", "over that of one"),
        Column("each", "time per task", unit="s"),
    )
    print(table_text(rows, columns))
    line = f"{format_seconds(found.alpha)} + {format_seconds(found.beta)} x b"
    print(f"line: {line}, at most {100 * found.error:.1f} % off; first call: ", end="")
    print(format_seconds(found.cold))
    print(f"\n{found.toml()}", end="")
    if args.out is not None:
        print(f"\nwrote {args.out}")


def _item(text: str) -> Any:
    """Return an item: an object or a function's result of a module, or JSON."""
    from weft.errors import InvalidInput
    from weft.formats.parsing.source import parse_json

    try:
        return parse_json(text)
    except InvalidInput:
        found = _named(text)
        with users_code(text):
            return found() if callable(found) else found


def _named(text: str) -> Any:
    """Return an object by MODULE:NAME; modules of the current folder count."""
    import sys

    from weft.errors import InvalidInput

    module, _, name = text.partition(":")
    if not module or not name:
        raise InvalidInput(f"'{text}' names no object; write MODULE:NAME")
    sys.path.insert(0, str(Path.cwd()))
    try:
        with users_code(f"module '{module}'"):
            found = _imported(module)
        return getattr(found, name)
    except AttributeError:
        raise InvalidInput(f"module '{module}' has no '{name}'") from None
    finally:
        sys.path.pop(0)


def _imported(module: str) -> ModuleType:
    from importlib import import_module

    from weft.errors import InvalidInput

    try:
        return import_module(module)
    except ImportError as error:
        raise InvalidInput(f"module '{module}' cannot be imported: {error}") from None


def _shown(value: float, unit: str) -> str:
    from weft.model.explain.quantities import format_bytes, format_number, format_seconds

    if unit == "s":
        return format_seconds(value)
    return f"{format_bytes(value)}/s" if unit == "B/s" else f"{format_number(value / 1e9)} GFLOP/s"


def _range(m: Any) -> str:
    return f"{_shown(m.low, m.unit)} to {_shown(m.high, m.unit)}"
