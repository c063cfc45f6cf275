"""The version of the planner: results of another version may be solved again."""

__version__ = "0.8.0"
