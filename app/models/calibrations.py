"""What the runs of a tenant say of the cost model, by kind of GPU."""

from __future__ import annotations

from sqlalchemy import BigInteger, Integer, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.database import clock_ms
from app.models.base import Base


class CalibrationVersion(Base):
    """A fit of the cost model's factors. Versions of a kind of GPU grow from 1."""

    __tablename__ = "calibrations"
    __table_args__ = (UniqueConstraint("tenant", "gpu", "version"),)

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    tenant: Mapped[str] = mapped_column(String(64))
    gpu: Mapped[str] = mapped_column(String(100))
    version: Mapped[int] = mapped_column(Integer)
    created_at: Mapped[int] = mapped_column(BigInteger, default=clock_ms())
    # JSON with factors, margin, errors, runs, and what a cluster document is resolved with.
    document: Mapped[str] = mapped_column(Text)
