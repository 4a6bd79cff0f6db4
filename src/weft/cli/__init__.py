"""The command `weft`: one file per verb. A verb has SUMMARY, EXAMPLE, `add_arguments` and `run`; heavy imports stand inside `run`."""
