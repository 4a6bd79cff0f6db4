"""Contests of planners and policies.

attack      small problems on which one contender is much worse than another, by annealing
library     the instances of the arena, with best known makespan, certified bound and who found it
contest     the verdict on a schedule, contenders at equal time, better records
instances   adversarial problems that ship with weft
"""

__all__ = ["attack", "contest", "library"]
