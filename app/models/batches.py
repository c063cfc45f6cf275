"""Batches of requests, and the keys of requests that may come twice."""

from __future__ import annotations

from sqlalchemy import BigInteger, ForeignKey, Index, Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from app.database import clock_ms
from app.models.base import DEFAULT_TENANT, Base


class Batch(Base):
    """Requests that were posted together to be compared."""

    __tablename__ = "batches"
    __table_args__ = (Index("ix_batches_newest", "tenant", "created_at", "id"),)

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    tenant: Mapped[str] = mapped_column(String(64), default=DEFAULT_TENANT)
    name: Mapped[str | None] = mapped_column(String(200))
    created_at: Mapped[int] = mapped_column(BigInteger, default=clock_ms())


class BatchJob(Base):
    """A job of a batch, in the order in which they were posted."""

    __tablename__ = "batch_jobs"

    batch_id: Mapped[str] = mapped_column(ForeignKey("batches.id"), primary_key=True)
    position: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), index=True)


class IdempotencyKey(Base):
    """The `Idempotency-Key` of a request that was taken on, and what came of it."""

    __tablename__ = "idempotency_keys"

    tenant: Mapped[str] = mapped_column(String(64), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    # Of address and body: the same key with another request is a mistake of the client.
    request_hash: Mapped[str] = mapped_column(String(64))
    # The job or batch that it made.
    made_id: Mapped[str] = mapped_column(String(36))
    created_at: Mapped[int] = mapped_column(BigInteger, default=clock_ms())
