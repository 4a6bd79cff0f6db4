"""`weft serve`: the service over HTTP."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from weft.cli.arguments import add_flag, add_option
from weft.cli.values import number, port, whole

if TYPE_CHECKING:
    from weft.runtime.web.state import ApplicationLimits

SUMMARY = "serve plans, simulations and runs over HTTP"
EXAMPLE = """\
  weft serve --functions my_tasks.py --application team=3 --application guest=1,60/3600

  curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8787/v1/runs \\
    -d '{"workflow": {"work": [1, 1], "src": [0], "dst": [1]}, "tasks": {"task": {"function":"f"}}}'

  The token is printed at the first start; WEFT_SERVE_TOKEN sets another one. An application has a
  share and, after a comma, a budget in seconds of device time per period."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_option(parser, "--host", str, "IP", "address", default="127.0.0.1")
    add_option(parser, "--port", port, "N", "port; 0: any free one", default=8787)
    add_option(
        parser, "--folder", Path, "DIR", "where runs are stored (default: the user's state folder)"
    )
    add_flag(parser, "--new-token", "make and print a new token")
    tasks = parser.add_argument_group("tasks")
    text = "a module or Python file whose public functions tasks may call; may be repeated"
    add_option(tasks, "--functions", str, "MODULE", text, action="append")
    add_flag(tasks, "--commands", "let tasks run any command on this machine")
    add_option(
        tasks, "--devices", whole(1), "N", "processes that run tasks (default: one per core)"
    )
    text = "a policy by name (see: weft list policies) or file"
    add_option(tasks, "--policy", str, "POLICY", text, default="eft")
    add_option(tasks, "--timeout", number(above=0), "S", "time limit of a task in seconds")
    add_option(tasks, "--retries", whole(0), "N", "retries of a task that failed", default=0)
    add_flag(tasks, "--no-history", "do not read or add measurements")
    limits = parser.add_argument_group("limits")
    text = (
        "an application that may submit runs, its share of the devices and its budget (see below); "
        "may be repeated (default: default=1)"
    )
    add_option(limits, "--application", str, "NAME=SHARE[,S/S]", text, action="append")
    add_option(limits, "--queue", whole(1), "N", "runs per application, at most", default=1000)
    add_option(
        limits, "--rate", number(above=0), "N", "the most requests per second", default=5000.0
    )
    text = "size of a request, at most (default: 4 MiB)"
    add_option(limits, "--body", whole(1), "BYTES", text, default=4 << 20)
    add_option(limits, "--keep", whole(1), "N", "ended runs that stay on disk", default=10_000)


def run(args: argparse.Namespace) -> None:
    """Serve until the process is ended."""
    from weft.cli.output import notice

    with ExitStack() as until_started:
        until_started.enter_context(notice("starting the server"))
        _serve(args, until_started)


def _serve(args: argparse.Namespace, until_started: ExitStack) -> None:
    from weft.cli.output import emit
    from weft.report.pages.live import draw_live, live_page
    from weft.runtime.costs.history import History
    from weft.runtime.web.server import ServerConfig, serve
    from weft.runtime.web.state import ApplicationLimits, PageSource

    def started(url: str, token: str | None, goes_on: int) -> None:
        until_started.close()
        if args.host not in ("127.0.0.1", "::1", "localhost"):
            warnings.warn(
                f"{args.host} is not loopback: the token and all data are sent unencrypted",
                stacklevel=2,
            )
        if args.json:
            emit({"url": url, "token": token, "runs": goes_on})
        else:
            print(f"weft serves {url}; {goes_on:,} run{'s go' if goes_on != 1 else ' goes'} on")
            print(f"token: {token}" if token else "token: as before")
            print(f"live: {url}/#token={token or 'TOKEN'}")
        sys.stdout.flush()

    given = dict(_application(text, args.queue) for text in args.application or ())
    folder = {} if args.folder is None else {"folder": args.folder}
    config = ServerConfig(
        host=args.host,
        port=args.port,
        devices=args.devices,
        functions=args.functions or (),
        commands=args.commands,
        applications=given or {"default": ApplicationLimits(queue=args.queue)},
        policy=args.policy,
        timeout=args.timeout,
        retries=args.retries,
        history=None if args.no_history else History(),
        keep=args.keep,
        max_body=args.body,
        rate=args.rate,
        token=os.environ.get("WEFT_SERVE_TOKEN"),
        new_token=args.new_token,
        page=PageSource(live_page(), draw_live),
        **folder,
    )
    serve(config, started)


def _application(text: str, queue: int) -> tuple[str, ApplicationLimits]:
    """Read NAME=SHARE[,SECONDS/PERIOD]."""
    from weft.errors import InvalidInput
    from weft.runtime.service.budgets import Budget
    from weft.runtime.web.state import ApplicationLimits

    name, _, rest = text.partition("=")
    share, _, budget = rest.partition(",")
    try:
        parts = [float(part) for part in (share or "1", *(budget.split("/") if budget else ()))]
    except ValueError:
        parts = []
    if not name or len(parts) not in (1, 3):
        raise InvalidInput(f"--application {text}: write NAME=SHARE or NAME=SHARE,SECONDS/PERIOD")
    limit = Budget(parts[1], parts[2]) if len(parts) == 3 else None
    return name, ApplicationLimits(parts[0], limit, queue)
