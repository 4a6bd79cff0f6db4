"""Families of real workflows, and the distribution of cases drawn from them.

- `recipes`: generators fitted to families of executed workflows, at any size
- `distribution`: families x clusters x CCRs x conditions, and which families are left out
"""

from weft.generators.families.distribution import (
    CLUSTERS,
    DEVELOPMENT,
    FAMILIES,
    FAMILY_CONDITIONS,
    LEFT_OUT,
    SINGLE_NODE,
    FamilyCase,
    bind_family,
    draw_case,
    draw_workflow,
)
from weft.generators.families.recipes import (
    blast,
    bwa,
    cycles,
    inception,
    query,
    seismology,
    soykb,
    srasearch,
    transformer,
)

__all__ = [
    "CLUSTERS",
    "DEVELOPMENT",
    "FAMILIES",
    "FAMILY_CONDITIONS",
    "LEFT_OUT",
    "SINGLE_NODE",
    "FamilyCase",
    "bind_family",
    "blast",
    "bwa",
    "cycles",
    "draw_case",
    "draw_workflow",
    "inception",
    "query",
    "seismology",
    "soykb",
    "srasearch",
    "transformer",
]
