"""temporary"""

from weft.policies.conditional.network_policy import load_policy

__all__ = ["list_policies", "load_policy"]


def list_policies() -> list[str]:
    """List the names of all policies, sorted."""
    from weft.policies import POLICIES

    return POLICIES.names()
