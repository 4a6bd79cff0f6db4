"""Mutated files for every reader: each gives an object or one line, never a traceback.

- `corpus`: a small sound file and the reader of each kind
- `mutations`: changes of values and of bytes
- `harness`: read mutated files and collect the failures; ``python -m tests.fuzz N`` runs many
"""
