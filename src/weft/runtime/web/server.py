"""A server from its configuration: devices, service, runs on disk, uvicorn."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from weft.arguments import whole
from weft.errors import InvalidInput, MissingExtra
from weft.model import Problem
from weft.planners.whatif.answer import whatif
from weft.runtime.backends.local.backend import LocalBackend
from weft.runtime.costs.history import History
from weft.runtime.journal import default_folder
from weft.runtime.options import RunOptions
from weft.runtime.service.service import Service
from weft.runtime.web.documents import Documents, registered
from weft.runtime.web.http import AccessControl, Routed
from weft.runtime.web.limits import own_token
from weft.runtime.web.metrics import ServerMetrics
from weft.runtime.web.openapi import ROUTES
from weft.runtime.web.routes import Handlers
from weft.runtime.web.runs import RunTable
from weft.runtime.web.state import ApplicationLimits, PageSource, ServerState
from weft.runtime.web.store import RunStore

GARBAGE = 50_000
"""New objects between two searches for cycles: a thousand submissions per second make many."""

ROUND_SECONDS = 4e-3
"""Least time between two rounds of a busy driver: the threads of HTTP and driver switch less."""

MAX_CONCURRENT = 4
"""Runs of one application that share the devices at once."""


@dataclass(frozen=True)
class ServerConfig:
    """The configuration of a server: see `weft serve --help`."""

    host: str = "127.0.0.1"
    port: int = 8787
    folder: Path = field(default_factory=lambda: default_folder().parent / "serve")
    devices: int | None = None
    functions: Sequence[str] = ()
    commands: bool = False
    applications: Mapping[str, ApplicationLimits] = field(
        default_factory=lambda: {"default": ApplicationLimits()}
    )
    policy: str = "eft"
    timeout: float | None = None
    retries: int = 0
    history: History | None = None
    keep: int = 10_000
    max_body: int = 4 << 20
    rate: float = 5000.0
    token: str | None = None
    new_token: bool = False
    page: PageSource | None = None


@contextlib.contextmanager
def opened(config: ServerConfig) -> Iterator[tuple[ServerState, str | None, int]]:
    """Open a server's parts; yield them, a new token's text, and the runs that go on.

    The parts close when no run is left. `serve` does not wait for that.
    """
    documents = Documents(registered(config.functions), commands=config.commands)
    store = RunStore(config.folder, keep=config.keep)
    try:
        token, text = own_token(config.folder, config.token, new=config.new_token)
        left = store.open_runs()
        names = dict.fromkeys(facts["application"] for _, facts, _ in left)
        applications = {**{name: ApplicationLimits() for name in names}, **config.applications}
        limits = {name: one.queue for name, one in applications.items()}
        metrics = ServerMetrics()
        with (
            LocalBackend(config.devices, round_seconds=ROUND_SECONDS) as backend,
            Service(
                backend,
                policy=config.policy,
                shares={name: one.share for name, one in applications.items()},
                budgets={n: one.budget for n, one in applications.items() if one.budget},
                capacity=sum(limits.values()) + len(left),
                max_concurrent=MAX_CONCURRENT,
                history=config.history,
                options=RunOptions(
                    timeout=config.timeout, retries=config.retries, on_error="continue"
                ),
            ) as service,
        ):
            runs = RunTable(store, service, metrics, limits)
            goes_on = runs.resume(documents)
            yield (
                ServerState(
                    runs=runs,
                    documents=documents,
                    applications=applications,
                    devices=backend.devices(),
                    history=config.history,
                    metrics=metrics,
                    token=token,
                    max_body=config.max_body,
                    rate=config.rate,
                    page=config.page,
                ),
                text,
                goes_on,
            )
    finally:
        store.close()


def make_app(state: ServerState) -> AccessControl:
    """Return the application: token and rate first, then the routes."""
    handlers = Handlers(state)
    routes = [(r.method, r.path, getattr(handlers, r.handler)) for r in ROUTES]
    if state.page is not None:
        routes += [("GET", path, handlers.show_page) for path in ("/", "/runs/{id}")]
    return AccessControl(
        Routed(routes),
        state.token,
        rate=state.rate,
        metrics=state.metrics,
        page=state.page is not None,
    )


def serve(config: ServerConfig, started: Callable[[str, str | None, int], None]) -> None:
    """Serve until the process ends.

    Runs that have not ended go on at the next start.

    `started` receives the address, the text of a new token and the number of runs that go on.
    """
    listener = listening(config.host, config.port)
    with opened(config) as (state, text, goes_on):
        threading.Thread(target=_warm_up, args=(state,), daemon=True).start()
        started(f"http://{config.host}:{listener.getsockname()[1]}", text, goes_on)
        run_app(make_app(state), listener)
        if state.runs.active:
            # Tasks may take hours. Workers end with this process; the runs are on disk.
            state.runs.store.close()
            os._exit(0)


def run_app(app: AccessControl, listener: socket.socket) -> None:
    """Answer the requests of a socket until the process is ended."""
    try:
        import uvicorn
    except ImportError as error:
        raise MissingExtra("uvicorn", "serve") from error
    from weft.runtime.web.connections import BoundedConnection

    settings = uvicorn.Config(
        app,
        http=BoundedConnection,
        log_level="warning",
        ws="none",
        lifespan="off",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=1000,
        timeout_graceful_shutdown=2,
    )
    gc.collect()
    gc.freeze()  # what is loaded now stays: later searches skip it
    gc.set_threshold(GARBAGE, *gc.get_threshold()[1:])
    for number in (signal.SIGINT, signal.SIGTERM):
        # uvicorn ends on its own handlers, restores these and repeats the signal.
        signal.signal(number, lambda *_: None)
    uvicorn.Server(settings).run(sockets=[listener])


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens; connections wait until the server takes them."""
    port = whole(port, "port", least=0, most=65_535)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio switches Nagle's delay off.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise InvalidInput(f"{host}:{port} cannot be used: {error.strerror or error}") from None
    return listener


def _warm_up(state: ServerState) -> None:
    """Compile the kernels of the usual planner.

    Until then, questions are answered in threads.
    """
    state.warm = whatif(Problem.from_arrays([[1.0]]), "faster task=2").after.bound > 0
