"""Calibrations of the cost model: fitting them to runs, reading them, and using them."""
