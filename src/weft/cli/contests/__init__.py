"""Verbs that set contenders against each other: `attack`, `arena`."""

__all__ = ["arena", "attack"]
