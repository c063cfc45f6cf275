"""How fast the API takes what training runs report.

    python -m benchmarks.telemetry [--posts N] [--runs R] [--per-second P]

One API process of uvicorn alone, without broker and worker, on SQLite and on PostgreSQL. A process
of its own posts for all runs, each on a connection of its own, eight stages at a time, at a steady
rate whether or not earlier posts have been answered; times are from when a post was due. Then as
fast as the answers come, for how many there may be at most. Prints the figures; without arguments
it also writes `results/telemetry.md` and `.json`. 1 if a bar is missed.
"""
