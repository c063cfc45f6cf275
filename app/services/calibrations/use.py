"""A body whose cluster names a calibration, with the calibration in full."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from app.database import Database
from app.errors import InvalidRequest
from app.repositories.calibrations import CalibrationRepository
from planner.cost.hardware import read_cluster

LATEST = "latest"
LARGEST_VERSION = 2**31 - 1
PATH = "cluster.calibration"


class CalibrationsInUse:
    """Resolves names of calibrations; the planner is given nothing but what they stand for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def applied(self, tenant: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """The body, in whose cluster `latest` or a number is replaced by that version of this
        tenant; others as they are, without asking the database.

        Raises `InvalidRequest` where there is no such version, and `SpecError` for what is no
        cluster.
        """
        cluster = body.get("cluster")
        if not isinstance(cluster, Mapping) or not _is_name(cluster.get("calibration")):
            return body
        asked = cluster["calibration"]
        version = None if asked == LATEST else _version(asked)
        bare = {name: value for name, value in cluster.items() if name != "calibration"}
        gpu = read_cluster(bare).gpu.name
        with self._database.reading() as session:
            calibrations = CalibrationRepository(session)
            row = calibrations.one(tenant, gpu, version)
            if row is None:
                raise _unknown(gpu, asked, calibrations.versions(tenant, gpu))
        return {**body, "cluster": {**bare, "calibration": json.loads(row.document)["use"]}}


def _is_name(value: Any) -> bool:
    return value is not None and not isinstance(value, Mapping)


def _version(asked: Any) -> int:
    is_number = isinstance(asked, (int, float)) and not isinstance(asked, bool)
    if not is_number or asked != int(asked) or not 1 <= asked <= LARGEST_VERSION:
        raise InvalidRequest.of(
            PATH, "is neither `latest` nor the number of a version.", "GET /v1/calibrations."
        )
    return int(asked)


def _unknown(gpu: str, asked: Any, known: list[int]) -> InvalidRequest:
    if not known:
        return InvalidRequest.of(
            PATH,
            f"there is no calibration of {gpu[:100]}.",
            "Fit one to runs: POST /v1/calibrations. Or leave it out: built-in factors count then.",
        )
    return InvalidRequest.of(
        PATH,
        f"there is no version {asked} of {gpu[:100]}.",
        f"There are {known[0]} to {known[-1]}; or say `latest`.",
    )
