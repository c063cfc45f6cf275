"""Types of command line options that click lacks."""

from __future__ import annotations

import math
from typing import Any

import click


class FiniteFloatRange(click.FloatRange):
    """A range of numbers without `nan` and `inf`, which JSON cannot carry."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number; fails where it is none or out of the range."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{number} is not a finite number; give one.", param, ctx)
        return number
