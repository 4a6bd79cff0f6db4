"""`weft.Cascade`: conditional streams served for real, on the worker processes of `weft.run`.

- `description`: the stages and units of a cascade file
- `stage`: a stage in a worker process
- `state`: what units do and what waits, for live pages
- `request`: an accepted request
- `work`: batches on units
- `runner`: sends batches to units, and tries what fails again
- `feed`: changes, for watchers
- `cascade`: requests in, answers out
- `lines`: requests as lines of JSON
- `drift`: measurements beside the stream
- `measured`: times, branches and arrivals as a stream file
"""

__all__ = [
    "cascade",
    "description",
    "drift",
    "feed",
    "lines",
    "measured",
    "request",
    "runner",
    "stage",
    "state",
    "work",
]
