"""Training runs whose plans follow what they measure.

The row of a run is light, since every post of telemetry writes it: its documents, which may have
megabytes, are rows of their own.
"""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Float,
    ForeignKey,
    Index,
    Integer,
    String,
    Text,
)
from sqlalchemy.orm import Mapped, mapped_column

from app.database import clock_ms
from app.models.base import DEFAULT_TENANT, Base, listed


class RunStatus(StrEnum):
    """active -> stopped."""

    ACTIVE = "active"
    STOPPED = "stopped"


class Run(Base):
    """A training run: what it has reported, which plans it has, and who looks after it."""

    __tablename__ = "runs"
    __table_args__ = (
        CheckConstraint(f"state IN ({listed(tuple(RunStatus))})", name="state"),
        CheckConstraint("(state = 'stopped') = (stopped_at IS NOT NULL)", name="stopped"),
        Index("ix_runs_newest", "tenant", "created_at", "id"),
        Index("ix_runs_due", "state", "look_after"),
    )

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    tenant: Mapped[str] = mapped_column(String(64), default=DEFAULT_TENANT)
    name: Mapped[str | None] = mapped_column(String(200))
    state: Mapped[str] = mapped_column(String(16), default=RunStatus.ACTIVE)
    created_at: Mapped[int] = mapped_column(BigInteger, default=clock_ms())
    stopped_at: Mapped[int | None] = mapped_column(BigInteger)
    # What is planned, in a few words.
    model: Mapped[str | None] = mapped_column(String(100))

    # What telemetry may be of, who has to acknowledge, and how many iterations of it are kept.
    stages: Mapped[int] = mapped_column(Integer)
    ranks: Mapped[int] = mapped_column(Integer)
    kept_iterations: Mapped[int] = mapped_column(Integer)

    # Grows with every change of its documents or versions: whoever changes them compares it first.
    revision: Mapped[int] = mapped_column(BigInteger, default=0)
    # `news` grows with whatever calls for a look; what the last look had seen is `looked`.
    news: Mapped[int] = mapped_column(BigInteger, default=1)
    looked: Mapped[int] = mapped_column(BigInteger, default=0)
    # Nobody looks before; whoever looks moves it on first, so that two rarely look at once.
    look_after: Mapped[int] = mapped_column(BigInteger, default=0)
    # The process that looked last, and has what it read in memory.
    keeper: Mapped[str | None] = mapped_column(String(64))

    newest_iteration: Mapped[int | None] = mapped_column(BigInteger)
    # The lowest iteration of which something was stored since the last look.
    changed_from: Mapped[int | None] = mapped_column(BigInteger)
    telemetry_at: Mapped[int | None] = mapped_column(BigInteger)

    # The solve in flight for it, and what ranks are told about its plans with each post.
    job_id: Mapped[str | None] = mapped_column(String(36))
    newest_version: Mapped[int | None] = mapped_column(Integer)
    newest_state: Mapped[str | None] = mapped_column(String(16))
    apply_at_iteration: Mapped[int | None] = mapped_column(BigInteger)
    running_version: Mapped[int | None] = mapped_column(Integer)
    # What the running version promised and, once measured, held: shares of the iteration.
    predicted_gain: Mapped[float | None] = mapped_column(Float)
    measured_gain: Mapped[float | None] = mapped_column(Float)
    plan_changed_at: Mapped[int] = mapped_column(BigInteger, default=clock_ms())


class RunDocument(Base):
    """A document of a run: `request`, `problem` (what it is followed on) and `state` (all else
    that `planner.following` remembers of it)."""

    __tablename__ = "run_documents"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    name: Mapped[str] = mapped_column(String(16), primary_key=True)
    text: Mapped[str] = mapped_column(Text)


class RunVersion(Base):
    """A plan of a run. Numbers grow from 1."""

    __tablename__ = "run_versions"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    version: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    # A word of `planner.following.versions`.
    state: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str] = mapped_column(String(32))
    created_at: Mapped[int] = mapped_column(BigInteger, default=clock_ms())
    published_at_iteration: Mapped[int | None] = mapped_column(BigInteger)
    apply_at_iteration: Mapped[int | None] = mapped_column(BigInteger)
    needs_restart: Mapped[bool] = mapped_column(default=False)
    # The version whose schedule is published again.
    copy_of: Mapped[int | None] = mapped_column(Integer)
    # Shares of the running plan's objective.
    predicted_gain: Mapped[float | None] = mapped_column(Float)
    gain_low: Mapped[float | None] = mapped_column(Float)
    measured_gain: Mapped[float | None] = mapped_column(Float)
    makespan_ns: Mapped[int | None] = mapped_column(BigInteger)
    job_id: Mapped[str | None] = mapped_column(String(36))
    # JSON with `problem` and `schedule`; null where it is too old to be kept. The last column: to
    # read those after a long text, SQLite reads the text too.
    document: Mapped[str | None] = mapped_column(Text, deferred=True, deferred_raiseload=True)


class RunAck(Base):
    """A rank holds a version, as of this iteration of its own."""

    __tablename__ = "run_acks"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    version: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    rank: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    iteration: Mapped[int] = mapped_column(BigInteger)
    at: Mapped[int] = mapped_column(BigInteger, default=clock_ms())


class RunTelemetry(Base):
    """What a stage measured in an iteration (JSON). Of what comes twice, the first is kept."""

    __tablename__ = "run_telemetry"
    # The rows are found by nothing but their key, and there are many.
    __table_args__ = ({"sqlite_with_rowid": False},)

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    iteration: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    stage: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    measures: Mapped[str] = mapped_column(Text)


class RunEvent(Base):
    """A step of a run, for people. Numbers grow from 0."""

    __tablename__ = "run_events"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    seq: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    at: Mapped[int] = mapped_column(BigInteger, default=clock_ms())
    iteration: Mapped[int | None] = mapped_column(BigInteger)
    kind: Mapped[str] = mapped_column(String(32))
    detail: Mapped[str] = mapped_column(Text)


PARTS_OF_RUNS = (RunDocument, RunVersion, RunAck, RunTelemetry, RunEvent)
"""The tables whose rows belong to a run (`run_id`), and go with it."""
