"""Verbs for the machine weft runs on: `compile` and `profile`."""

__all__ = ["compile", "profile"]
