"""Measurements that can be run again: how fast weft is, and what the sources report."""
