"""Verbs that answer questions: why (`explain`, `view`), what if (`whatif`), how many (`size`)."""

__all__ = ["explain", "size", "view", "whatif"]
