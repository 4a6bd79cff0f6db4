"""Real execution: engine, deciders, costs, inputs, backends, executors, service and server.

`weft.run` is `weft.runtime.api.run`. The public names below are listed in `__init__.pyi` and
load when they are used: every worker process imports this package too.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
