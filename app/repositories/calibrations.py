"""Versions of calibrations as rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import delete, func, insert, select
from sqlalchemy.orm import Session

from app.models import CalibrationVersion

_COLUMNS = ("id", "gpu", "version", "created_at", "document")
_SELECTED = select(*(getattr(CalibrationVersion, name) for name in _COLUMNS))


class CalibrationRow(NamedTuple):
    """A row of `calibrations`."""

    id: str
    gpu: str
    version: int
    created_at: int
    document: str


class CalibrationRepository:
    """Reads and writes of one transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def by_id(self, tenant: str, calibration_id: str) -> CalibrationRow | None:
        """The version with this id, if it is this tenant's."""
        statement = _SELECTED.where(
            CalibrationVersion.id == calibration_id, CalibrationVersion.tenant == tenant
        )
        row = self._session.execute(statement).one_or_none()
        return None if row is None else CalibrationRow(*row)

    def newest_of_each(self, tenant: str, limit: int) -> list[CalibrationRow]:
        """The newest version of each kind of GPU, by its name."""
        newest = (
            select(CalibrationVersion.gpu, func.max(CalibrationVersion.version).label("version"))
            .where(CalibrationVersion.tenant == tenant)
            .group_by(CalibrationVersion.gpu)
            .subquery()
        )
        statement = (
            _SELECTED.join(
                newest,
                (CalibrationVersion.gpu == newest.c.gpu)
                & (CalibrationVersion.version == newest.c.version),
            )
            .where(CalibrationVersion.tenant == tenant)
            .order_by(CalibrationVersion.gpu)
            .limit(limit)
        )
        return [CalibrationRow(*row) for row in self._session.execute(statement)]

    def of_gpu(self, tenant: str, gpu: str) -> list[CalibrationRow]:
        """The versions of a kind of GPU, newest first."""
        statement = _SELECTED.where(
            CalibrationVersion.tenant == tenant, CalibrationVersion.gpu == gpu
        ).order_by(CalibrationVersion.version.desc())
        return [CalibrationRow(*row) for row in self._session.execute(statement)]

    def one(self, tenant: str, gpu: str, version: int | None) -> CalibrationRow | None:
        """This version of a kind of GPU; None asks for the newest."""
        statement = _SELECTED.where(
            CalibrationVersion.tenant == tenant, CalibrationVersion.gpu == gpu
        )
        if version is not None:
            statement = statement.where(CalibrationVersion.version == version)
        statement = statement.order_by(CalibrationVersion.version.desc()).limit(1)
        row = self._session.execute(statement).one_or_none()
        return None if row is None else CalibrationRow(*row)

    def versions(self, tenant: str, gpu: str) -> list[int]:
        """The numbers that there are, lowest first."""
        statement = (
            select(CalibrationVersion.version)
            .where(CalibrationVersion.tenant == tenant, CalibrationVersion.gpu == gpu)
            .order_by(CalibrationVersion.version)
        )
        return list(self._session.scalars(statement))

    def add(self, columns: Mapping[str, Any]) -> None:
        """A new version; `IntegrityError` where another has its number already."""
        self._session.execute(insert(CalibrationVersion), [dict(columns)])

    def forget_before(self, tenant: str, gpu: str, version: int) -> None:
        """Delete the versions before this one."""
        self._session.execute(
            delete(CalibrationVersion)
            .where(
                CalibrationVersion.tenant == tenant,
                CalibrationVersion.gpu == gpu,
                CalibrationVersion.version < version,
            )
            .execution_options(synchronize_session=False)
        )
