"""`weft train`."""

from weft.cli.train.command import EXAMPLE, SUMMARY, add_arguments, run

__all__ = ["EXAMPLE", "SUMMARY", "add_arguments", "run"]
