"""Who got how much for its share: what is next among equals."""

from __future__ import annotations

from collections.abc import Mapping

from weft.errors import InvalidInput


class Shares:
    """What applications got so far, over their shares; the one with the least is next.

    An application that comes back after a while is owed nothing for the time it did not ask (start-time fair queueing, Goyal, Vin and
    Cheng, 1996).

    Parameters
    ----------
    shares : application -> its share, 1 by default

    Examples
    --------
    >>> shares = Shares({"big": 2.0})
    >>> shares.join("big"), shares.join("small")
    (None, None)
    >>> shares.charge("big", 3.0), shares.charge("small", 3.0)
    (None, None)
    >>> shares.used("big"), shares.used("small")
    (1.5, 3.0)
    """

    def __init__(self, shares: Mapping[str, float] | None = None) -> None:
        for name, share in (shares or {}).items():
            if not 0 < share < float("inf"):
                raise InvalidInput(
                    f"the share of '{name}' is {share}; it must be finite and above zero"
                )
        self.of = dict(shares or {})
        self._used: dict[str, float] = {}
        self._clock = 0.0
        """What the application that was served last had used by then."""

    def used(self, application: str) -> float:
        """What an application got, over its share."""
        return self._used.get(application, 0.0)

    def join(self, application: str) -> None:
        """An application asks that did not ask before."""
        self._used[application] = max(self.used(application), self._clock)

    def charge(self, application: str, cost: float) -> None:
        """An application is served."""
        self._clock = max(self._clock, self.used(application))
        self.correct(application, cost)

    def correct(self, application: str, cost: float) -> None:
        """What an application was served cost so much more, or less, than was thought."""
        self._used[application] = self.used(application) + cost / self.of.get(application, 1.0)
