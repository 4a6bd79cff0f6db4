"""Policies for conditional streams under published and constant batch curves.

experiment  reproduce, table
"""

__all__ = ["experiment"]
