"""Real execution of task graphs, and decisions for programs that execute them.

- `api`: `weft.run`; `options`, `execution`: its options and its course; `planning`: `weft.plan`
- `engine`: the driver; `deciders`: plans and policies that answer it
- `inputs`: graphs of functions; `costs`: history and estimates; `backends`: where tasks run
- `journal`, `fingerprints`, `private_files`: runs that continue after a kill
- `progress`, `status`: the display of a run and its state
- `executors`: `weft.Executor`, joblib; `session`: decisions in another program
- `service`: submissions of several applications; `web`: `weft serve` and live pages
- `cascade`: models in batches; `routers`: of Ray Serve and LiteLLM

`weft.run` is `weft.runtime.api.run`. The public names below are listed in `__init__.pyi` and
load when they are used: every worker process imports this package too.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
