"""Verbs that answer questions: why (`explain`), what if (`whatif`), which machines (`size`)."""

__all__ = ["explain", "size", "whatif"]
