"""A routing strategy of LiteLLM: the deployment that is expected to answer first.

The size of a request is roughly its number of tokens: a quarter of its characters, plus the tokens
that it may generate::

    router = litellm.Router(model_list=[...])
    CompletionStrategy(router).install()
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from itertools import count
from time import monotonic
from typing import Any

from litellm import Router, logging_callback_manager
from litellm.integrations.custom_logger import CustomLogger
from litellm.types.router import CustomRoutingStrategyBase

from weft.errors import WeftError
from weft.runtime.routers.online_times import OnlineTimes, SentRequest

GENERATED = 256.0
"""Tokens that a request without a limit is expected to generate."""
MARK = "weft_request"
"""Key of the number of a request in its metadata."""
MOST = 10_000
"""Requests without an answer that are kept."""


class CompletionStrategy(
    CustomRoutingStrategyBase,  # type: ignore[misc]  # LiteLLM is not typed
    CustomLogger,  # type: ignore[misc]  # the same
):
    """Choice among the healthy deployments of a model by predicted completion."""

    def __init__(self, router: Router) -> None:
        super().__init__()
        self.router = router
        self.times = OnlineTimes()
        self._numbers = count()
        self._sent: dict[int, SentRequest] = {}

    def install(self) -> None:
        """Make the router use this strategy, and report its answers to it."""
        self.router.set_custom_routing_strategy(self)
        logging_callback_manager.add_litellm_callback(self)

    async def async_get_available_deployment(
        self,
        model: str,
        messages: list[dict[str, str]] | None = None,
        input: str | list[Any] | None = None,  # noqa: A002  # the name of LiteLLM's interface
        specific_deployment: bool | None = False,
        request_kwargs: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the deployment that is expected to answer first."""
        given = {} if request_kwargs is None else request_kwargs
        found = await self.router.async_get_healthy_deployments(
            model=model,
            request_kwargs=given,
            messages=messages,
            input=input,
            specific_deployment=specific_deployment,
        )
        if isinstance(found, dict):
            return dict(found)
        by_id = {deployment["model_info"]["id"]: deployment for deployment in found}
        if not by_id:
            raise WeftError(f"no deployment of model '{model}' is healthy")
        size = tokens_of(messages, input, given)
        best = self.times.best(list(by_id), size)
        self._remember(given, self.times.sent(best, size))
        chosen: dict[str, Any] = by_id[best]
        return chosen

    def get_available_deployment(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the same deployment, for programs without asyncio."""
        return asyncio.run(self.async_get_available_deployment(*args, **kwargs))

    def _remember(self, given: dict[str, Any], request: SentRequest) -> None:
        while len(self._sent) >= MOST:
            oldest = next(iter(self._sent))
            self.times.answered(self._sent.pop(oldest), good=False)
        self._sent[number := next(self._numbers)] = request
        given.setdefault("metadata", {})[MARK] = number

    def _ended(self, kwargs: dict[str, Any], end: datetime, *, good: bool) -> None:
        metadata = (kwargs.get("litellm_params") or {}).get("metadata") or {}
        request = self._sent.pop(metadata.get(MARK, -1), None)
        if request is not None:
            late = (datetime.now(end.tzinfo) - end).total_seconds()  # callbacks come later
            self.times.answered(request, good=good, at=monotonic() - max(late, 0.0))

    async def async_log_success_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: datetime, end_time: datetime
    ) -> None:
        """Learn from an answer."""
        self._ended(kwargs, end_time, good=True)

    async def async_log_failure_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: datetime, end_time: datetime
    ) -> None:
        """Count a failed request as ended."""
        self._ended(kwargs, end_time, good=False)

    def log_success_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: datetime, end_time: datetime
    ) -> None:
        """Learn from an answer."""
        self._ended(kwargs, end_time, good=True)

    def log_failure_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: datetime, end_time: datetime
    ) -> None:
        """Count a failed request as ended."""
        self._ended(kwargs, end_time, good=False)


def tokens_of(
    messages: list[dict[str, Any]] | None, given: str | list[Any] | None, options: dict[str, Any]
) -> float:
    """Return roughly how many tokens a request reads and generates.

    Examples
    --------
    >>> tokens_of([{"content": "a" * 400}], None, {"max_tokens": 50})
    150.0
    """
    text = given if isinstance(given, str) else "".join(str(part) for part in given or [])
    read = len(text) + sum(len(str(message.get("content", ""))) for message in messages or [])
    limit = options.get("max_tokens") or options.get("max_completion_tokens")
    return read / 4 + (float(limit) if limit else GENERATED if messages else 0.0) or 1.0
