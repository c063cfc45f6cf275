"""Zero Bubble's profiles, and makespan against memory; `python -m benchmarks.zero_bubble`."""
