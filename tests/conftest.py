"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# How long an example takes says more about the machine than about what is tested.
settings.register_profile("any speed", deadline=None)
settings.load_profile("any speed")
