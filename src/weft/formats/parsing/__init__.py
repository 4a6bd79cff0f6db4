"""Parsing with errors that name the file, the key and the value.

- `source`: bytes, text and JSON of a path
- `record`: keys and values
- `quantity`: numbers with units
- `limits`: bytes and cells that readers accept
"""

__all__ = ["limits", "quantity", "record", "source"]
