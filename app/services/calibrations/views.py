"""Stored calibrations as clients see them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from app.repositories.calibrations import CalibrationRow
from app.root_path import public_path
from app.schemas.calibrations import CalibrationItem, CalibrationLinks, CalibrationView
from app.schemas.times import known_instant


def calibration_view(row: CalibrationRow) -> CalibrationView:
    """All of a version."""
    return CalibrationView.model_validate(
        {
            **json.loads(row.document),
            "version": row.version,
            "created_at": known_instant(row.created_at),
            "links": _links(row),
        }
    )


def calibration_item(row: CalibrationRow, document: Mapping[str, Any]) -> CalibrationItem:
    """A version in brief."""
    return CalibrationItem.model_validate(
        {
            "gpu": row.gpu,
            "version": row.version,
            "created_at": known_instant(row.created_at),
            "runs": len(document["runs"]),
            "factors": document["use"]["efficiency"],
            "memory_margin": document["memory_margin"]["value"],
            "errors": document["errors"],
            "links": _links(row),
        }
    )


def _links(row: CalibrationRow) -> CalibrationLinks:
    versions = f"/v1/calibrations/{quote(row.gpu, safe='')}"
    return CalibrationLinks(
        self=public_path(f"{versions}/{row.version}"), versions=public_path(versions)
    )
