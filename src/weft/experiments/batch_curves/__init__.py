"""Policies for conditional streams under published batch curves, and under the constant curve.

experiment  reproduce, table
"""

__all__ = ["experiment"]
