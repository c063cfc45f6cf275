"""Tenants, their keys, and what people did."""

from __future__ import annotations

from sqlalchemy import BigInteger, Index, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.database import clock_ms
from app.models.base import Base


class Tenant(Base):
    """What one tenant may do. A tenant without a row has the settings' limits."""

    __tablename__ = "tenants"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    # Whether its requests are answered by, and answer, those of others that share.
    shares_answers: Mapped[bool] = mapped_column(default=True)
    # Null = as the settings say.
    max_queued: Mapped[int | None] = mapped_column(Integer)
    max_running: Mapped[int | None] = mapped_column(Integer)
    requests_per_minute: Mapped[int | None] = mapped_column(Integer)
    created_at: Mapped[int] = mapped_column(BigInteger, default=clock_ms())


class ApiKey(Base):
    """A key of a tenant. Its secret is not stored, only the SHA-256 of it."""

    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    tenant: Mapped[str] = mapped_column(String(64), index=True)
    name: Mapped[str] = mapped_column(String(200))
    secret_hash: Mapped[str] = mapped_column(String(64))
    # Words from `app.callers.Scope`, with spaces between.
    scopes: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[int] = mapped_column(BigInteger, default=clock_ms())
    expires_at: Mapped[int | None] = mapped_column(BigInteger)
    revoked_at: Mapped[int | None] = mapped_column(BigInteger)
    last_used_at: Mapped[int | None] = mapped_column(BigInteger)


class AuditEntry(Base):
    """Something that a person did and may be asked about: keys, limits, cancels, purges."""

    __tablename__ = "audit_entries"
    __table_args__ = (Index("ix_audit_entries_newest", "tenant", "at", "id"),)

    id: Mapped[int] = mapped_column(
        BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True
    )
    at: Mapped[int] = mapped_column(BigInteger, default=clock_ms())
    tenant: Mapped[str] = mapped_column(String(64))
    # The id of the key, or how else the person came in.
    actor: Mapped[str] = mapped_column(String(64))
    action: Mapped[str] = mapped_column(String(64))
    target: Mapped[str | None] = mapped_column(String(200))
    detail: Mapped[str | None] = mapped_column(Text)
    request_id: Mapped[str | None] = mapped_column(String(64))
