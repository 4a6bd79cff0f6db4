"""weft's own formats.

- `weft_schema`: every object as a nested dict; `weft_json`, `weft_npz`: its two encodings
- `cluster_toml`, `stream_toml`: clusters and conditional streams, written by hand
"""

__all__ = ["cluster_toml", "stream_toml", "weft_json", "weft_npz", "weft_schema"]
