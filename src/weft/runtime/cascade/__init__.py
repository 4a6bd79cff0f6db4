"""`weft.Cascade`: conditional streams on the worker processes of `weft.run`.

- `description`: the stages and units of a cascade file
- `stage`: a stage in a worker process
- `request`: an accepted request
- `work`: batches on units
- `runner`: sends batches to units, and tries what fails again
- `feed`: what units do, what waits and what changes, for live pages
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
    "work",
]
