"""Routers of other serving systems that choose by predicted completion.

- `ray_serve`: a request router of Ray Serve
- `litellm_strategy`: a routing strategy of LiteLLM
"""

__all__ = ["litellm_strategy", "ray_serve"]
