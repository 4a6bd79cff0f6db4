"""Environments and learners: one file each, its loop visible."""
