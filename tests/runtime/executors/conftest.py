"""Marks that joblib's own tests use."""

from __future__ import annotations


def pytest_configure(config):
    for name in ("no_cover", "thread_unsafe", "timeout"):
        config.addinivalue_line("markers", f"{name}: a mark of joblib's tests")
