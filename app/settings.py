"""Every setting of the service, read from environment variables that begin with LOADMASTER_.

The three kinds of process read the same settings:

- API: ``python -m uvicorn --factory app.main:create_app --timeout-graceful-shutdown 3``
- worker: ``python -m celery -A workers.celery_app worker``
- schema: ``python -m migrations`` (or `app.database.migrate`) before either of them starts
"""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

DEFAULT_DATABASE_FILE = "loadmaster.db"


class Settings(BaseSettings):
    """Settings of the API, the worker and the sweep. Durations are in seconds."""

    model_config = SettingsConfigDict(env_prefix="LOADMASTER_", extra="ignore", frozen=True)

    data_dir: Path = Field(
        default=Path("loadmaster-data"), description="Folder of the default SQLite database."
    )
    database_url: str = Field(
        default="",
        description="sqlite:///path or postgresql://user@host/name; empty = SQLite in `data_dir`.",
    )
    database_pool_size: int = Field(default=20, ge=1, description="Connections per process.")
    database_timeout_s: float = Field(
        default=15, gt=0, description="How long a statement waits for a lock or a connection."
    )
    broker_url: str | None = Field(
        default=None,
        description="redis://host:port/0 or redis+socket:///path; unset = accepted requests wait.",
    )
    broker_timeout_s: float = Field(default=2, gt=0, description="For the broker to answer.")

    max_body_bytes: int = Field(default=8 * 2**20, ge=1, description="Largest request body.")
    max_stages: int = Field(default=256, ge=1, description="Most stages of a problem.")
    max_micro_batches: int = Field(
        default=4096, ge=1, description="Most micro-batches of a problem."
    )
    max_operations: int = Field(
        default=200_000, ge=1, description="Largest 3 x stages x micro-batches of a problem."
    )
    max_operators: int = Field(
        default=20_000, ge=1, description="Most operators of a graph to be sharded."
    )
    max_devices: int = Field(default=1024, ge=1, description="Most devices to shard a graph over.")
    max_gpus: int = Field(
        default=65_536, ge=1, description="Most GPUs to plan a training or to estimate for."
    )
    max_time_limit_s: float = Field(default=3600, gt=0, description="Largest solver time limit.")
    short_time_limit_s: float = Field(
        default=120, gt=0, description="A solve with a larger time limit waits in the queue `long`."
    )
    max_wait_s: float = Field(default=60, ge=0, description="Cap of `Prefer: wait=N`.")

    lease_s: float = Field(default=10, gt=0, description="A worker silent for longer is lost.")
    heartbeat_s: float = Field(
        default=0.8,
        gt=0,
        description="How often a worker renews its lease, and at the latest hears of a cancel.",
    )
    sweep_s: float = Field(default=2, gt=0, description="How often the sweep looks at the rows.")
    resend_after_s: float = Field(
        default=30, gt=0, description="A queued solve nobody claimed for so long is sent again."
    )
    max_crashes: int = Field(default=3, ge=1, description="Solver crashes before a solve fails.")
    max_losses: int = Field(default=20, ge=0, description="Lost workers before a solve fails.")
    overtime_s: float = Field(
        default=10, gt=0, description="A solver this long past its time limit is killed."
    )
    stop_grace_s: float = Field(
        default=5, gt=0, description="How long a solver asked to stop may take before it is killed."
    )
    max_log_lines: int = Field(default=5000, ge=1, description="Log lines kept per solve.")
    solver_command: tuple[str, ...] = Field(
        default=(sys.executable, "-m", "workers.solver_process"),
        min_length=1,
        description="The solver process, as a JSON list.",
    )

    @field_validator("broker_url", mode="before")
    @classmethod
    def _empty_is_none(cls, value: str | None) -> str | None:
        return value or None

    @property
    def resolved_database_url(self) -> str:
        """`database_url`, or the SQLite file in `data_dir` where it is empty."""
        if self.database_url:
            return self.database_url
        return f"sqlite:///{(self.data_dir / DEFAULT_DATABASE_FILE).absolute()}"
