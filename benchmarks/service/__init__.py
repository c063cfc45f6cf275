"""How fast the service answers, beside a bare route with the same read.

    python -m benchmarks.service [--seconds S]

Starts the services of the compose file as processes of this machine, once on SQLite and once on
PostgreSQL, asks them from a process of its own, prints the figures and,
without arguments, writes `results/service.md` and `.json`; 1 if a bar is missed.
"""
