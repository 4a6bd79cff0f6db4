"""The command `weft`: every expected failure becomes one line and an exit code."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib import import_module
from typing import NoReturn, Protocol, TextIO, cast

from weft import __version__
from weft.cli.arguments import add_json, given_options
from weft.cli.output import PlainOutput, accept_all_characters, open_closed
from weft.errors import InvalidInput, UnknownName, WeftError, cause, visible
from weft.registry import closest

VERBS = {
    **dict.fromkeys(("plan", "compare", "simulate", "generate", "train", "evaluate", "run"), ""),
    **dict.fromkeys(("serve", "cascade"), "services."),
    "export": "",
    **dict.fromkeys(("explain", "view", "whatif", "size"), "answers."),
    "profile": "machine.",
    **dict.fromkeys(("history", "list", "bench"), ""),
    "compile": "machine.",
    **dict.fromkeys(("attack", "arena"), "contests."),
    "reproduce": "",
}
"""Verb -> folder of its module in `weft.cli`, in the order of the help."""

DONE, BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 0, 2, 130, 141
"""Exit codes; the last two are 128 + the number of the signal, as the shell has them."""


class Verb(Protocol):
    """The interface of a verb's module."""

    SUMMARY: str
    EXAMPLE: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""

    def run(self, args: argparse.Namespace) -> None:
        """Run the verb and print its result."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are exceptions with one line."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage and leaving."""
        raise InvalidInput(f"{message}; see: {self.prog} --help")

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Refuse a value that is no choice of its argument, with the closest one."""
        if action.choices is not None and value not in action.choices:
            named = "subcommand" if action.nargs == argparse.PARSER else str(action.dest)
            name = next(iter(action.option_strings), named)
            known = [str(choice) for choice in action.choices]
            raise UnknownName(
                f"unknown {name} '{value}' of {self.prog}{closest(str(value), known)}"
            )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    warnings.formatwarning = _one_line
    open_closed()
    accept_all_characters()
    output = PlainOutput(sys.stdout)
    try:
        with redirect_stdout(cast("TextIO", output)):
            _dispatch(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # The reader has gone (weft list | head -1): print nothing more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        return _fail(_file_trouble(error), BAD_INPUT)
    except WeftError as error:
        return _fail(str(error), BAD_INPUT)
    finally:
        output.over = True
    return DONE


def _one_line(message: Warning | str, *_: object, **__: object) -> str:
    """Return a warning without its place in the program."""
    return f"weft: warning: {visible(str(message))}\n"


def build_parser(verb: str | None = None) -> Parser:
    """Return the parser of one verb, or of the whole command."""
    if verb is not None:
        return _verb_parser(verb)
    parser = Parser(
        prog="weft",
        description="Plan, simulate and run task graphs on machines that differ from one another.",
        epilog="verbs:\n"
        + "\n".join(f"  {name:<11}{_module(name).SUMMARY}" for name in VERBS)
        + "\n\nweft VERB --help shows an example.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"weft {__version__}")
    parser.add_argument("verb", metavar="VERB", nargs="?", help=f"one of: {', '.join(VERBS)}")
    return parser


def _dispatch(argv: list[str]) -> None:
    if not argv or argv[0].startswith("-"):
        parser = build_parser()
        parser.parse_args(argv)
        parser.print_help()
        return
    verb, rest = argv[0], argv[1:]
    if verb not in VERBS:
        raise UnknownName(f"unknown verb '{verb}'{closest(verb, VERBS, listing='weft --help')}")
    parser = build_parser(verb)
    extend = getattr(_module(verb), "extend", None)
    if extend is not None:
        extend(parser, rest)
    args, unknown = parser.parse_known_args(rest)
    if unknown:
        _refuse(unknown[0], _innermost(parser, rest))
    args.given = given_options(rest)
    _module(verb).run(args)


def _module(verb: str) -> Verb:
    return cast("Verb", import_module(f"weft.cli.{VERBS[verb]}{verb}"))


def _verb_parser(verb: str) -> Parser:
    module = _module(verb)
    parser = Parser(
        prog=f"weft {verb}",
        description=module.SUMMARY,
        epilog=f"example:\n{module.EXAMPLE.rstrip()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    add_json(parser)
    return parser


def _innermost(parser: argparse.ArgumentParser, rest: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of the subcommand that was given, or the parser itself."""
    group = parser._subparsers  # noqa: SLF001  # argparse lists them nowhere else
    for action in group._group_actions if group else ():  # noqa: SLF001  # the same
        for word in rest:
            if isinstance(action.choices, dict) and word in action.choices:
                found: argparse.ArgumentParser = action.choices[word]
                return found
    return parser


def _refuse(argument: str, parser: argparse.ArgumentParser) -> NoReturn:
    name = argument.split("=", maxsplit=1)[0]
    if not name.startswith("-"):
        raise InvalidInput(f"unexpected argument '{argument}'; see: {parser.prog} --help")
    options = [
        option
        for action in parser._actions  # noqa: SLF001  # argparse lists them nowhere else
        for option in action.option_strings
        if option.startswith("--")
    ]
    raise UnknownName(f"unknown option '{name}' of {parser.prog}{closest(name, options)}")


def _file_trouble(error: OSError) -> str:
    if error.filename is None:
        return str(error)
    return f"{error.filename}: {cause(error)}"


def _fail(message: str, code: int) -> int:
    print(f"weft: {visible(' '.join(message.split()))}", file=sys.stderr)
    return code
