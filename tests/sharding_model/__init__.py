"""A second way to a sharding instance, from docs/methods-sharding.md and nothing of the planner.

Every device is looked at by itself: which elements of which tensor it holds, how many others hold
the same, what it sends in each step of a ring, and what it lacks where a tensor changes its
layout. Layers are written out. Slow, and meant for comparison only.
"""
