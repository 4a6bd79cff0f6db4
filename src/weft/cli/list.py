"""`weft list`: what there is to choose from."""

from __future__ import annotations

import argparse

SUMMARY = "list planners, policies, generators, devices and formats"
EXAMPLE = "  weft list planners\n  weft list devices --json"

TOPICS = ("planners", "policies", "generators", "devices", "formats")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say the arguments of the verb."""
    parser.add_argument("topic", nargs="?", choices=TOPICS, metavar="TOPIC", help=f"one of: {', '.join(TOPICS)} (default: all)")


def run(args: argparse.Namespace) -> None:
    """Print the names, each with a line about it."""
    from weft.cli.output import emit
    from weft.report.catalogue import entries

    topics = TOPICS if args.topic is None else (args.topic,)
    found = {topic: entries(topic) for topic in topics}
    if args.json:
        emit(found)
        return
    for topic in topics:
        if len(topics) > 1:
            print(f"{topic}:")
        width = max((len(name) for name in found[topic]), default=0)
        for name, text in found[topic].items():
            print(f"  {name:<{width}}  {text}".rstrip())
