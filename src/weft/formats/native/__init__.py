"""weft's own formats.

- `weft_schema`: every object as a nested dict; `weft_encoding`, `weft_decoding`: both directions
- `weft_json`, `weft_npz`: its two files
- `cluster_toml`, `stream_toml`: clusters and conditional streams, written by hand; `stream_graph`:
  the tasks and choices of a stream
- `network`, `variants`: shared links and variants of tasks, in both; `costs`: measured costs
"""

__all__ = [
    "cluster_toml",
    "costs",
    "network",
    "stream_graph",
    "stream_toml",
    "variants",
    "weft_decoding",
    "weft_encoding",
    "weft_json",
    "weft_npz",
    "weft_schema",
]
