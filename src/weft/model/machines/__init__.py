"""What machines do besides running tasks: set-up."""

from weft.model.machines.setup import Setup

__all__ = ["Setup"]
