"""Verbs that prepare or leave this machine: `compile` and `export`."""

__all__ = ["compile", "export"]
