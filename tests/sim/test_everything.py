"""The kernel equals its twin with capacities, networks, set-ups and all else in one workload."""

from tests.support.twins import compare


def test_kernel_and_twin_agree_with_every_feature_on():
    assert compare(120) >= 100
