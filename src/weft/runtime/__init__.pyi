# The public names of weft.runtime, and where each lives.

from .api import run as run
from .backends.dask.backend import DaskBackend as DaskBackend
from .backends.fake import FakeBackend as FakeBackend
from .backends.hyperqueue.backend import HyperQueueBackend as HyperQueueBackend
from .backends.local.backend import LocalBackend as LocalBackend
from .backends.local.device import LocalDevice as LocalDevice
from .backends.local.pool import end_idle_processes as end_idle_processes
from .backends.local.worker import Chosen as Chosen
from .backends.local.worker import current_device as current_device
from .backends.pilots.device import PilotDevice as PilotDevice
from .backends.ray.backend import RayBackend as RayBackend
from .backends.ray.session import RayDevice as RayDevice
from .backends.slurm.backend import SlurmBackend as SlurmBackend
from .costs.forecast import Forecaster as Forecaster
from .costs.history import History as History
from .engine.failure import Failure as Failure
from .engine.failure import PolicyReplaced as PolicyReplaced
from .engine.failure import TaskFailed as TaskFailed
from .execution import RunTrace as RunTrace
from .inputs.functions import Application as Application
from .inputs.promises import task as task
from .options import RunOptions as RunOptions
from .service.budgets import Budget as Budget
from .service.queue import QueueFull as QueueFull
from .service.service import Service as Service
from .service.session import TaskEvent as TaskEvent
