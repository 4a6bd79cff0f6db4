"""Deciders: what runs where, from plans, policies and rules.

- `backfill`: planned tasks on nodes that share capacities
- `contender`: a planner or policy by name, path or object
- `fallback`: a decider that greedy replaces when it fails
- `plan`: plans and schedules
- `policy`: the protocol, and policies
- `remaining`: the part of a plan that has not run yet
- `rules`: priority rules
- `shadow`: a second policy that is only compared
- `whole_plan`: plans that backends execute as a whole
"""

__all__ = [
    "backfill",
    "contender",
    "fallback",
    "plan",
    "policy",
    "remaining",
    "rules",
    "shadow",
    "whole_plan",
]
