"""Solves the requests on its input, a list of bodies, and prints the functions compiled for it.

In a process of its own, `python -m tests.unit.compiled_anew`: what another test has compiled in
this one doesn't count.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from numba.core.dispatcher import Dispatcher

import planner
from planner.compiled_cache import sources
from planner.pipeline.request import resolve_request
from planner.pipeline.solve import run
from planner.progress import SilentReporter, never


def dispatchers() -> dict[str, Dispatcher]:
    """Every compiled function of the planner, by its full name."""
    root = Path(planner.__file__).parents[1]
    found = {}
    for path in sources():
        name = ".".join(path.relative_to(root).with_suffix("").parts)
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, Dispatcher) and value.py_func.__module__ == name:
                found[f"{name}.{value.py_func.__name__}"] = value
    return found


def main() -> None:
    """Solve, then look at how every compiled function came about."""
    for body in json.load(sys.stdin):
        answer = run(resolve_request(body).spec, SilentReporter(), never)
        assert answer["state"] == "succeeded", answer
    functions = dispatchers()
    assert functions
    anew = {
        name: [str(signature) for signature in function.stats.cache_misses]
        for name, function in functions.items()
        if function.stats.cache_misses
    }
    print(json.dumps(anew))


if __name__ == "__main__":
    main()
