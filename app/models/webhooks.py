"""Webhooks and the tries to deliver them."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.database import clock_ms
from app.models.base import Base, listed


class DeliveryState(StrEnum):
    """pending -> delivered | failed; `waiting` until the job is over."""

    WAITING = "waiting"
    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class Webhook(Base):
    """An address that is told when a job is over, and how the telling goes."""

    __tablename__ = "webhooks"
    __table_args__ = (
        CheckConstraint(f"state IN ({listed(tuple(DeliveryState))})", name="state"),
        Index("ix_webhooks_due", "state", "not_before"),
    )

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), index=True)
    url: Mapped[str] = mapped_column(Text)
    # Its scheme, host and port: few are tried at once of one origin.
    origin: Mapped[str] = mapped_column(String(300))
    # Signs what is sent (HMAC), so it cannot be stored as a hash. Null = the service's own.
    secret: Mapped[str | None] = mapped_column(String(200), deferred=True, deferred_raiseload=True)
    state: Mapped[str] = mapped_column(String(16), default=DeliveryState.WAITING)
    attempts: Mapped[int] = mapped_column(Integer, default=0)
    # Not tried before; whoever tries moves it on first, so that two never try at once.
    not_before: Mapped[int] = mapped_column(BigInteger, default=0)
    created_at: Mapped[int] = mapped_column(BigInteger, default=clock_ms())
    finished_at: Mapped[int | None] = mapped_column(BigInteger)


class WebhookAttempt(Base):
    """One try to deliver: the delivery log."""

    __tablename__ = "webhook_attempts"

    webhook_id: Mapped[str] = mapped_column(ForeignKey("webhooks.id"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    at: Mapped[int] = mapped_column(BigInteger, default=clock_ms())
    duration_ms: Mapped[int] = mapped_column(Integer)
    # The status that the receiver answered with, or else why there was none.
    status: Mapped[int | None] = mapped_column(Integer)
    error: Mapped[str | None] = mapped_column(String(200))
