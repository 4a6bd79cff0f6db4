"""Verbs that serve requests until they are ended (`serve`, `cascade`)."""

__all__ = ["cascade", "serve"]
