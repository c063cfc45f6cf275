"""Sharding plans against others' choices, and solve times; `python -m benchmarks.sharding`."""
