"""Deciders: what runs where, from plans, policies and rules.

- `fallback`: a decider that greedy replaces when it fails
- `plan`: plans and schedules
- `policy`: the protocol, and policies
- `rules`: priority rules
- `shadow`: a second policy that is only compared
- `whole_plan`: plans that backends execute as a whole
"""

__all__ = ["fallback", "plan", "policy", "rules", "shadow", "whole_plan"]
