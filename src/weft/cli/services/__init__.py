"""Verbs that serve requests until they are ended (`cascade`)."""

__all__ = ["cascade"]
