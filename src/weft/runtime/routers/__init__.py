"""Routers of other serving systems that choose by predicted completion.

- `litellm_strategy`: a routing strategy of LiteLLM
- `online_times`: when servers answer, from their answers
- `ray_serve`: a request router of Ray Serve
"""

__all__ = ["litellm_strategy", "online_times", "ray_serve"]
