"""What a process of the worker needs, made when first asked for and never shared by a fork."""

from __future__ import annotations

import os
import socket
from functools import cache

from app.database import Database
from app.services.attempts import Attempts
from app.settings import Settings
from planner.version import __version__
from workers.capacity import Capacity

_capacity: Capacity | None = None


def worker_settings() -> Settings:
    """Settings for a process that has a lease to keep: it must not wait for a lock for longer."""
    settings = Settings()
    patience_s = min(settings.database_timeout_s, settings.lease_s / 3)
    return settings.model_copy(update={"database_timeout_s": patience_s})


def settings() -> Settings:
    """The settings of this process."""
    return _settings_of(os.getpid())


def database() -> Database:
    """The database of this process."""
    return _database_of(os.getpid())


def use_capacity(capacity: Capacity) -> None:
    """What a solve of this worker may use; said before its pool is forked."""
    global _capacity
    _capacity = capacity


def capacity() -> Capacity:
    """What a solve of this worker may use."""
    assert _capacity is not None
    return _capacity


def attempts() -> Attempts:
    """The rules of attempts, under the name of this process."""
    worker = f"{socket.gethostname()}:{os.getpid()}"
    return Attempts(database(), settings(), worker, __version__)


@cache
def _settings_of(pid: int) -> Settings:
    return worker_settings()


@cache
def _database_of(pid: int) -> Database:
    # Keyed by the process: after a fork the parent's connections are not this one's to use,
    # and forgetting them would close them under the parent.
    return Database(settings())
