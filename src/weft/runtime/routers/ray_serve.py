"""A request router of Ray Serve: the replica that is expected to answer first.

Ray's own router compares the number of requests of two replicas. This one predicts when each would
answer, from the pace of its answers so far, so replicas may be of unlike speed::

    @serve.deployment(
        num_replicas=2,
        request_router_config=RequestRouterConfig(
            request_router_class="weft.runtime.routers.ray_serve.CompletionRouter"
        ),
    )

Requests of unlike size are routed better if their size is known: with the argument
``request_router_kwargs={"size": "module:function"}`` the function is called with the arguments of
each request and returns a number, e.g. of tokens.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

from ray.serve.request_router import (
    FIFOMixin,
    LocalityMixin,
    MultiplexMixin,
    PendingRequest,
    ReplicaID,
    RequestRouter,
    RunningReplica,
)

from weft.runtime.cascade.stage import function_of
from weft.runtime.routers.online_times import OnlineTimes, SentRequest


class CompletionRouter(FIFOMixin, LocalityMixin, MultiplexMixin, RequestRouter):
    """Router of each request to the replica that is expected to answer it first."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]  # Ray is not typed
        self._times = OnlineTimes()
        self._unnamed: dict[ReplicaID, deque[SentRequest]] = defaultdict(deque)
        """Requests that a replica has not accepted yet, in the order of sending."""
        self._size: Callable[..., float] | None = None
        self._sizes: dict[ReplicaID, float] = {}
        """Size of the request that a replica was last chosen for."""
        self._named: dict[tuple[ReplicaID, str], list[SentRequest]] = defaultdict(list)

    def initialize_state(self, size: str = "", **kwargs: Any) -> None:
        """Take the options of the deployment."""
        super().initialize_state(**kwargs)  # type: ignore[no-untyped-call]  # Ray is not typed
        self._size = function_of(size) if size else None

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """Return the replicas, one per rank, the first to answer in front."""
        known = {replica.replica_id: replica for replica in candidate_replicas}
        if pending_request is not None and pending_request.metadata.multiplexed_model_id:
            ids = self.apply_multiplex_routing(pending_request=pending_request)
            known = {i: replica for i, replica in known.items() if i in ids} or known
        size = 1.0
        if self._size is not None and pending_request is not None:
            size = float(self._size(*pending_request.args, **pending_request.kwargs))
        ranked = self._times.ranked(known, size)
        self._sizes.update(dict.fromkeys(ranked, size))
        return [[known[i]] for i in ranked]

    def on_send_request(self, replica_id: ReplicaID) -> None:
        """Count a request that is sent."""
        super().on_send_request(replica_id)
        size = self._sizes.get(replica_id, 1.0)
        self._unnamed[replica_id].append(self._times.sent(replica_id, size))

    def on_request_routed(
        self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any
    ) -> None:
        """Name the oldest request that the replica had not accepted yet."""
        if self._unnamed[replica_id]:
            name = pending_request.metadata.internal_request_id
            self._named[replica_id, name].append(self._unnamed[replica_id].popleft())

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """Learn from an answer; requests that were not accepted are left out."""
        named = self._named.pop((replica_id, internal_request_id), [])
        if named:
            self._times.answered(named.pop(0))
            if named:
                self._named[replica_id, internal_request_id] = named
        elif self._unnamed[replica_id]:
            self._times.answered(self._unnamed[replica_id].popleft(), good=False)

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        """Drop a replica that died."""
        super().on_replica_actor_died(replica_id)
        self._times.drop(replica_id)
        self._unnamed.pop(replica_id, None)
