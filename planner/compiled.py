"""Compiled functions: numba, with what it compiled kept beside the installed packages.

Inside a virtual environment the cache lies in `<environment>/cache/numba`, so that it is removed
with it, and `scripts/setup` fills it, so that no worker compiles when it starts.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import numba

from planner.compiled_cache import cache_folder

if "NUMBA_CACHE_DIR" not in os.environ and (folder := cache_folder()) is not None:
    # Not through the environment, from which processes of other environments would inherit it.
    numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """The function compiled at its first call, or taken from the cache; it runs without the GIL."""
    return _njit(function, {})


def inner(function: Function) -> Function:
    """A compiled function for inner loops, which counts no references to its arrays: it may
    neither make arrays nor views of them. References would cost more than its work."""
    return _njit(function, {"_nrt": False})


def inlined(function: Function) -> Function:
    """An inner function that becomes part of its compiled callers, to save a call's cost, which
    grows with the number of arrays that are passed."""
    return _njit(function, {"_nrt": False, "inline": "always"})


def _njit(function: Function, flags: dict[str, Any]) -> Function:
    decorated: Function = numba.njit(cache=True, nogil=True, **flags)(function)
    return decorated
