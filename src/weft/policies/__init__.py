"""Online decisions, View -> Decision: the table of policies and their loader.

- `policy`: the protocol and the table
- `load`: `weft.load_policy`, a policy by name, path or object
- `simulate`: `weft.simulate`
- `long_stream`: streams of millions of jobs in constant memory
- `onnx_export`: `weft.export_onnx`
- `q_network`: networks that value candidates, shared by several policies
- `rules`: an order of ready tasks and a placement; `service_levels`: deadlines and priorities
- `replanning`: list scheduling of all uncommitted tasks at every event
- `search`: search for a better plan at every event
- `two_stage`: `dqn`, Q-networks that choose a task, then a device
- `graph`: graph networks (Decima, Lachesis) and DEFT
- `hybrid`: durations learned while they are used
- `conditional`: rules, networks and rollouts for streams of conditional jobs
- `bundled`: every trained model that ships with weft
"""

from weft.policies import rules as _rules  # noqa: F401  # registers
from weft.policies import service_levels as _service_levels  # noqa: F401  # registers
from weft.policies.conditional import table as _conditional  # noqa: F401  # registers
from weft.policies.graph import deft as _deft  # noqa: F401  # registers
from weft.policies.graph import policy as _graph  # noqa: F401  # registers
from weft.policies.hybrid import policy as _hybrid  # noqa: F401  # registers
from weft.policies.policy import POLICIES
from weft.policies.replanning import policy as _replanning  # noqa: F401  # registers
from weft.policies.replanning import static_heft as _static_heft  # noqa: F401  # registers
from weft.policies.replanning import trained as _trained  # noqa: F401  # registers
from weft.policies.rules import RulePolicy
from weft.policies.search import policy as _search  # noqa: F401  # registers
from weft.policies.simulate import simulate
from weft.sim.view import Block, Decision, Policy, View

__all__ = ["POLICIES", "Block", "Decision", "Policy", "RulePolicy", "View", "simulate"]
