"""`weft cascade`: serve a cascade of models, measure it, and tune its policy."""

from __future__ import annotations

import argparse
import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

from weft.cli.arguments import (
    add_flag,
    add_option,
    add_stream_objective,
    add_subcommand,
    excludes,
    needs,
    options_of,
)
from weft.cli.values import model, number, output, port, whole

if TYPE_CHECKING:
    from weft.runtime.cascade.cascade import Cascade

SUMMARY = "serve a cascade of models that run in batches on unlike units"
SERVE = """\
  weft cascade serve examples/cascade/cascade.toml --measured measured.toml

  curl -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/octet-stream" \\
    --data-binary @image http://127.0.0.1:8788/v1/requests?timeout=1

  With --stdin, each line is the JSON of a request, and each answer a line with its number."""
MEASURE = """\
  weft cascade measure examples/cascade/cascade.toml images.jsonl -o measured.toml"""
TUNE = """\
  weft cascade tune cascade.toml --log measured.toml -o tuned
  curl -H "Authorization: Bearer $TOKEN" --data '{"policy": "tuned", "stream": "measured.toml"}' \\
    http://127.0.0.1:8788/v1/policy"""
EXAMPLE = f"{SERVE}\n\n{MEASURE}\n\n{TUNE}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands."""
    commands = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    serve = _command(commands, "serve", "answer requests over HTTP or from lines of input", SERVE)
    add_option(serve, "--host", str, "IP", "address", default="127.0.0.1")
    add_option(serve, "--port", port, "N", "0: any free one", default=8788)
    add_flag(serve, "--stdin", "read lines of JSON, not HTTP")
    text = "a second policy, by name or file: its decisions are compared, not carried out"
    add_option(serve, "--shadow", str, "POLICY", text)
    text = "with --stdin: time limit of each line, in seconds"
    add_option(serve, "--timeout", number(above=0), "S", text)
    add_option(serve, "--measured", output, "FILE", "write the measured stream at the end")
    measure = _command(commands, "measure", "measure batch curves and branches", MEASURE)
    measure.add_argument(
        "payloads", type=Path, metavar="LINES", help="a file with one JSON payload per line"
    )
    measure.add_argument(
        "-o", "--output", type=output, required=True, metavar="FILE", help="the measured stream"
    )
    text = "the policy to begin with, by name or file (default: a tuned score)"
    tune = _command(commands, "tune", "train a policy for the measured stream", TUNE, text)
    add_option(tune, "--log", Path, "FILE", "the measured stream (default: the cascade's)")
    text = "processor time of the training, in seconds"
    add_option(tune, "--seconds", number(least=1), "S", text, default=60.0)
    add_flag(tune, "--network", "train networks too, not only the 27 weights of the score")
    text = "1: least mean completion time; 2 or more: slow requests count more (default: 1)"
    add_option(tune, "--norm", number(least=1), "P", text, default=1.0)
    add_stream_objective(tune)
    add_option(tune, "--seed", whole(0), "N", "seed", default=0)
    tune.add_argument(
        "-o", "--output", type=model, required=True, metavar="PATH", help="the trained policy"
    )


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    summary: str,
    example: str,
    policy: str = "a policy by name (see: weft list policies) or file (default: the cascade's)",
) -> argparse.ArgumentParser:
    command = add_subcommand(commands, name, summary, example)
    command.add_argument("file", type=Path, metavar="CASCADE", help="a cascade file")
    add_option(command, "--policy", str, "POLICY", policy)
    add_option(command, "--stream", Path, "FILE", "a stream file (default: the cascade's)")
    return command


def run(args: argparse.Namespace) -> None:
    """Serve until the end, measure, or tune."""
    needs(args, "--timeout", "--stdin")
    excludes(args, "--stdin", "--host --port")
    excludes(args, "--log", "--stream")
    {"measure": _measure, "tune": _tune, "serve": _serve}[args.what](args)


def _serve(args: argparse.Namespace) -> None:
    from weft.formats.parsing.source import write_file
    from weft.runtime.cascade.cascade import Cascade
    from weft.runtime.cascade.lines import answer_lines

    with Cascade(args.file, policy=args.policy, shadow=args.shadow, stream=args.stream) as cascade:
        if args.stdin:
            if isinstance(sys.stdin, TextIOWrapper):  # a bad byte spoils its line only
                sys.stdin.reconfigure(errors="backslashreplace")
            answer_lines(cascade, sys.stdin, _show, timeout=args.timeout)
        else:
            _serve_http(cascade, args)
    if args.measured is not None:
        write_file(args.measured, cascade.measured.to_toml())
    if args.shadow is not None:
        print(cascade.compared(), file=sys.stderr)


def _show(line: str) -> None:
    print(line, flush=True)


def _serve_http(cascade: Cascade, args: argparse.Namespace) -> None:
    import hashlib
    import secrets

    from weft.cli.output import emit
    from weft.report.pages.live import draw_live, live_page
    from weft.runtime.web.cascade import serve_cascade
    from weft.runtime.web.limits import Token
    from weft.runtime.web.state import PageSource

    given = os.environ.get("WEFT_SERVE_TOKEN")
    text = given or secrets.token_urlsafe(32)

    def started(url: str) -> None:
        if args.json:
            emit({"url": url, "token": None if given else text})
        else:
            print(f"weft serves '{cascade.description.stream.name}' at {url}")
            print("token: that of WEFT_SERVE_TOKEN" if given else f"token: {text}")
            print(f"live: {url}/#token={'TOKEN' if given else text}")
        sys.stdout.flush()

    token = Token(hashlib.sha256(text.encode()).hexdigest())
    page = PageSource(live_page(), draw_live)
    serve_cascade(cascade, args.host, args.port, token, started, page=page)


def _measure(args: argparse.Namespace) -> None:
    from weft.cli.output import show
    from weft.formats.parsing.source import decode_text, naming, read_bytes, write_file
    from weft.runtime.cascade.cascade import Cascade
    from weft.runtime.cascade.lines import probe, read_payloads

    with naming(str(args.payloads)):
        payloads = read_payloads(decode_text(read_bytes(args.payloads)).splitlines())
    with Cascade(args.file, policy=args.policy, stream=args.stream) as cascade:
        probe(cascade, payloads)
    write_file(args.output, cascade.measured.to_toml())
    text = f"{cascade.counts['answered']} requests measured; written: {args.output}"
    show(args, {"stream": str(args.output), **cascade.counts}, text)


def _tune(args: argparse.Namespace) -> None:
    from weft.cli.train.conditional import fit_and_show
    from weft.policies.load import load_policy
    from weft.runtime.cascade.description import load_cascade

    stream = load_cascade(args.file, stream=args.log or args.stream).stream
    start = None if args.policy is None else load_policy(args.policy)
    options = options_of(args, "json", "seconds", "seed", "network", "norm", "objective")
    fit_and_show(stream, args.output, start=start, **options)
