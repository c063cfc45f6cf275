"""Every setting of the service, read from environment variables that begin with LOADMASTER_.

The three kinds of process read the same settings:

- API: ``python -m uvicorn --factory app.main:create_app --timeout-graceful-shutdown 3``
- worker: ``python -m celery -A workers.celery_app worker``
- schema: ``python -m migrations`` (or `app.database.upgrade_schema`) before either of them starts
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

ENV_PREFIX = "LOADMASTER_"
DEFAULT_DATA_DIR = Path("loadmaster-data")
DEFAULT_DATABASE_FILE = "loadmaster.db"


class Settings(BaseSettings):
    """Settings of the API, the worker and the sweep. Durations are in seconds."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, extra="ignore", frozen=True)

    data_dir: Path = Field(
        default=DEFAULT_DATA_DIR, description="Folder of the default SQLite database."
    )
    database_url: str = Field(
        default="",
        description="sqlite:///path or postgresql://user@host/name; empty = SQLite in `data_dir`.",
    )
    database_pool_size: int = Field(default=20, ge=1, description="Connections per process.")
    database_timeout_s: float = Field(
        default=15,
        gt=0,
        description="How long a statement waits for a lock, a connection or an answer.",
    )
    broker_url: str | None = Field(
        default=None,
        description="redis://host:port/0 or redis+socket:///path; unset = accepted requests wait.",
    )
    broker_timeout_s: float = Field(default=2, gt=0, description="For the broker to answer.")

    authentication: Literal["keys", "off"] = Field(
        default="keys", description="Whether requests need an API key."
    )
    allow_anyone_on_the_network: bool = Field(
        default=False,
        description="With `authentication` off: answer other machines too, whoever asks.",
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(),
        description="Names that the service goes by beside localhost and its address, as a JSON "
        "list. With keys, unless set: any.",
    )
    allowed_origins: tuple[str, ...] = Field(
        default=(), description="Origins whose web pages may use the service, as a JSON list."
    )
    requests_per_minute: int = Field(
        default=6000, ge=0, description="Of one key, or without keys of one client; 0 = any number."
    )
    max_queued_per_tenant: int = Field(
        default=10_000, ge=1, description="Most solves of one tenant that wait at a time."
    )

    max_active_runs_per_tenant: int = Field(
        default=1000, ge=1, description="Most training runs of one tenant that are followed."
    )

    root_path: str = Field(
        default="",
        pattern=r"^(/[A-Za-z0-9._~-]+)*$",
        description="The path below which a proxy serves the API, such as `/loadmaster`.",
    )

    max_body_bytes: int = Field(default=8 * 2**20, ge=1, description="Largest request body.")
    max_body_values: int = Field(
        default=1_000_000,
        ge=1,
        description="Most values in a request body, as its commas and opening brackets.",
    )
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
    max_streams: int = Field(
        default=500, ge=0, description="Most streams of events of one API process at a time."
    )
    max_streams_per_tenant: int | None = Field(
        default=None,
        ge=0,
        description="Most of them of one tenant; unset = half of them, without keys all.",
    )

    idempotency_key_lifetime_s: float = Field(
        default=86_400, gt=0, description="How long an `Idempotency-Key` is remembered."
    )
    max_batch_requests: int = Field(default=1000, ge=1, description="Most requests of a batch.")
    max_batch_body_bytes: int = Field(
        default=32 * 2**20, ge=1, description="Largest body of a batch."
    )

    webhook_secret: SecretStr | None = Field(
        default=None,
        min_length=16,
        description="Signs webhooks that are posted without a secret of their own.",
    )
    webhook_allow_private: bool = Field(
        default=False,
        description="Whether webhooks may go to private addresses and to this machine.",
    )
    webhook_allowed_hosts: tuple[str, ...] = Field(
        default=(),
        description="Names, addresses and networks that webhooks may go to although they are not "
        "public, as a JSON list.",
    )
    webhook_timeout_s: float = Field(
        default=10, gt=0, description="For a receiver to answer a webhook."
    )
    webhook_retries_s: tuple[float, ...] = Field(
        default=(5, 30, 120, 600, 3600, 14_400, 43_200),
        description="Waits before a webhook is tried again, as a JSON list; then it has failed.",
    )

    lease_s: float = Field(default=10, gt=0, description="A worker silent for longer is lost.")
    heartbeat_s: float = Field(
        default=0.8,
        gt=0,
        description="How often a worker renews its lease.",
    )
    sweep_s: float = Field(default=2, gt=0, description="How often the sweep looks at the rows.")
    resend_after_s: float = Field(
        default=30, gt=0, description="A queued solve nobody claimed for so long is sent again."
    )
    max_crashes: int = Field(default=3, ge=1, description="Solver crashes before a solve fails.")
    max_losses: int = Field(
        default=20, ge=0, description="A solve that loses more workers than this fails."
    )
    overtime_s: float = Field(
        default=1.2, gt=0, description="A solver this long past its time limit is killed."
    )
    stop_grace_s: float = Field(
        default=5, gt=0, description="How long a solver asked to stop may take before it is killed."
    )
    worker_alive_file: Path | None = Field(
        default=None,
        description="A file that a worker touches after every sweep, for `workers.health`.",
    )
    max_log_lines: int = Field(default=5000, ge=1, description="Log lines kept per solve.")
    solver_command: tuple[str, ...] = Field(
        default=(sys.executable, "-m", "workers.solver_server"),
        min_length=1,
        description="The process that forks a worker's solvers, as a JSON list.",
    )
    worker_queues: tuple[Literal["short", "long"], ...] = Field(
        default=("short",),
        min_length=1,
        description='The queues that a worker takes solves from, as a JSON list; `["short", '
        '"long"]` takes all.',
    )
    solver_threads: int = Field(
        default=2,
        ge=1,
        description="Most threads of a solve; by default a worker runs as many solves at once as "
        "its cores have room for.",
    )
    solver_memory_bytes: int | None = Field(
        default=None,
        ge=0,
        description="A solve whose processes hold more is stopped; 0 = no limit, unset = 90 % of "
        "the worker's memory, shared equally by the solves that it runs at once.",
    )
    max_running_per_tenant: int | None = Field(
        default=None,
        ge=1,
        description="Most solves of a tenant that run at once, unless it has a limit of its own.",
    )
    max_running_long: int | None = Field(
        default=None,
        ge=1,
        description="Most solves of the queue `long` that run at once on all workers together, so "
        "that workers that take both queues keep slots for short ones.",
    )

    log_format: Literal["json", "text"] = Field(
        default="json", description="Lines of JSON, or text for people."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="What is written to the log; `DEBUG` has polls too."
    )
    metrics_public: bool = Field(
        default=False, description="Whether `/metrics` answers without a key."
    )
    worker_metrics_port: int = Field(
        default=0, ge=0, le=65535, description="Where a worker answers `/metrics`; 0 = nowhere."
    )
    worker_metrics_host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="The address that a worker answers `/metrics` on; 0.0.0.0 = all of them.",
    )
    telemetry: bool = Field(default=False, description="OpenTelemetry of the API.")

    keep_jobs_days: float = Field(
        default=90, ge=0, description="How long a finished job is kept; 0 = for ever."
    )
    keep_jobs: int = Field(
        default=0, ge=0, description="How many jobs of a tenant are kept, the newest; 0 = all."
    )
    keep_logs_days: float = Field(
        default=30,
        ge=0,
        description="How long log and events of a finished solve are kept; 0 = as long as it.",
    )
    keep_answers_days: float = Field(
        default=90,
        ge=0,
        description="How long a result without a job is kept after it was last asked for; "
        "0 = for ever.",
    )
    keep_runs_days: float = Field(
        default=30,
        ge=0,
        description="How long a training run is kept that was stopped or reports nothing any "
        "more; 0 = for ever.",
    )
    keep_audit_days: float = Field(
        default=365, ge=0, description="How long entries of the audit log are kept; 0 = for ever."
    )

    @field_validator("broker_url", "webhook_secret", mode="before")
    @classmethod
    def _empty_is_none(cls, value: str | None) -> str | None:
        return value or None

    @property
    def resolved_database_url(self) -> str:
        """`database_url`, or the SQLite file in `data_dir` where it is empty."""
        if self.database_url:
            return self.database_url
        return f"sqlite:///{(self.data_dir / DEFAULT_DATABASE_FILE).absolute()}"


def settings_fault(error: ValidationError | SettingsError) -> str:
    """The variable at fault and what is wrong with it, in one line and without its value, which
    may be a secret."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field, message = str(first["loc"][0]), first["msg"]
    else:
        named = re.search(r'field "(\w+)"', str(error))
        field, message = named[1] if named else "", "It is no JSON."
    return f"{ENV_PREFIX}{field.upper()}: {message}"
