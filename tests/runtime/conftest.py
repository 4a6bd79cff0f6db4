"""One Ray for the tests of real runs, as its start takes seconds."""

from __future__ import annotations

import sys

import pytest

from tests.support.waiting import WAIT_LIMIT


@pytest.fixture(scope="package")
def ray_backend():
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'weft-scheduling[ray]'")
    psutil = pytest.importorskip("psutil", reason="psutil is not installed")
    from weft.runtime import RayBackend

    # Children of earlier tests: multiprocessing keeps a resource tracker.
    others = set(psutil.Process().children(recursive=True))
    with RayBackend(2, processors=4) as backend:
        children = [c for c in psutil.Process().children(recursive=True) if c not in others]
        assert children
        yield backend
    psutil.wait_procs(children, timeout=WAIT_LIMIT)
    assert [c for c in children if c.is_running() and c.status() != psutil.STATUS_ZOMBIE] == []
    assert not sys.modules["ray"].is_initialized()
