"""Sound files of every reader, which the harness mutates."""
