"""What keeps the embedded service from starting, as one line for the person who started it."""

from __future__ import annotations


class StartError(Exception):
    """The service cannot start here. The message is one line and says what would help."""
