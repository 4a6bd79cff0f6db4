"""Verbs that hand plans to other engines (`export`)."""

__all__ = ["export"]
