"""Calibrations as clients see them: fitting, listing, reading."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.callers import Caller
from app.database import Database
from app.errors import CalibrationNotFound, FieldError, InvalidRequest
from app.repositories.calibrations import CalibrationRepository, CalibrationRow
from app.repositories.run_rows import RunReader, RunRow
from app.schemas.calibrations import (
    MOST_RUNS,
    CalibrationItem,
    CalibrationList,
    CalibrationRequest,
    CalibrationVersions,
    CalibrationView,
    FitView,
)
from app.schemas.requests import read_fields
from app.services.calibrations.observing import observation_of
from app.services.calibrations.views import calibration_item, calibration_view
from app.services.idempotency import RequestKey
from app.services.placing import Overtaken
from app.services.resolutions import json_text
from app.services.submission import Made, Submission
from planner.cost.hardware import gpu_named

if TYPE_CHECKING:
    from planner.calibration.calibration import Calibration
    from planner.calibration.observations import Observation

KIND = "calibration"
VERSIONS_KEPT = 100
"""Of one kind of GPU, the newest."""
MOST_KINDS = 200


@dataclass(frozen=True)
class _Fit:
    """A calibration with the runs that it is of, and those left out."""

    calibration: Calibration
    runs: Sequence[Mapping[str, Any]]
    left_out: Sequence[Mapping[str, Any]]

    def to_document(self) -> dict[str, Any]:
        return {
            "gpu": self.calibration.gpu,
            **self.calibration.to_document(),
            "runs": list(self.runs),
            "left_out": list(self.left_out),
        }


class Calibrations:
    """The calibrations of each tenant. What needs the planner's fit loads it when asked."""

    def __init__(self, database: Database, submission: Submission) -> None:
        self._database = database
        self._submission = submission

    def preview(self, caller: Caller, body: Mapping[str, Any]) -> FitView:
        """The fit, which is not kept."""
        fit = self._fit(caller, read_fields(CalibrationRequest, body))
        return FitView.model_validate(fit.to_document())

    def fit(self, caller: Caller, body: Mapping[str, Any], idempotency_key: str | None) -> Made:
        """Fit to runs, and keep that as a new version, unless this request has come before.

        Raises `InvalidRequest` that says of each run why it does not count where none does.
        """
        key = RequestKey.of(idempotency_key, kind=KIND, body=body, fresh=False)
        made = self._submission.made_before(caller.tenant, key)
        if made is not None:
            return made
        fit = self._fit(caller, read_fields(CalibrationRequest, body))
        calibration_id = str(uuid.uuid4())

        def make(session: Session) -> None:
            calibrations = CalibrationRepository(session)
            gpu = fit.calibration.gpu
            version = max(calibrations.versions(caller.tenant, gpu), default=0) + 1
            document = {**fit.to_document(), "use": fit.calibration.use(version)}
            columns = {
                "id": calibration_id,
                "tenant": caller.tenant,
                "gpu": gpu,
                "version": version,
                "document": json_text(document),
            }
            try:
                calibrations.add(columns)
            except IntegrityError as error:
                # Another fit took the number meanwhile.
                raise Overtaken from error
            calibrations.forget_before(caller.tenant, gpu, version - VERSIONS_KEPT + 1)

        return self._submission.once(caller.tenant, key, calibration_id, make)

    def view(self, caller: Caller, calibration_id: str) -> CalibrationView:
        """The version that a request made."""
        with self._database.reading() as session:
            row = CalibrationRepository(session).by_id(caller.tenant, calibration_id)
        if row is None:
            raise CalibrationNotFound("It is too old to be kept.")
        return calibration_view(row)

    def newest(self, caller: Caller) -> CalibrationList:
        """The newest version of each kind of GPU."""
        with self._database.reading() as session:
            rows = CalibrationRepository(session).newest_of_each(caller.tenant, MOST_KINDS)
        return CalibrationList(calibrations=_items(rows))

    def versions(self, caller: Caller, gpu: str) -> CalibrationVersions:
        """All versions of a kind of GPU."""
        gpu = gpu_named(gpu)
        with self._database.reading() as session:
            rows = CalibrationRepository(session).of_gpu(caller.tenant, gpu)
        if not rows:
            raise CalibrationNotFound(f"There is no calibration of {gpu[:100]}.")
        return CalibrationVersions(gpu=gpu, versions=_items(rows))

    def version(self, caller: Caller, gpu: str, version: int) -> CalibrationView:
        """One version of a kind of GPU."""
        gpu = gpu_named(gpu)
        with self._database.reading() as session:
            row = CalibrationRepository(session).one(caller.tenant, gpu, version)
        if row is None:
            raise CalibrationNotFound(f"There is no version {version} of {gpu[:100]}.")
        return calibration_view(row)

    def _fit(self, caller: Caller, request: CalibrationRequest) -> _Fit:
        from planner.calibration.fit import fit

        gpu = None if request.gpu is None else gpu_named(request.gpu)
        rows = self._runs(caller, request.runs)
        observed, left_out = self._observed(rows, gpu, named=request.runs is not None)
        kinds = sorted({own.gpu for own in observed.values()})
        if not kinds:
            raise _nothing_counts(gpu, left_out)
        if len(kinds) > 1:
            raise InvalidRequest.of(
                "gpu",
                f"is needed: the runs are on {', '.join(kind[:100] for kind in kinds)}.",
                "Name one of them.",
            )
        names = {row.id: row.name for row in rows}
        counted = [_counted(own, names[run_id]) for run_id, own in observed.items()]
        return _Fit(fit(observed.values()), counted, left_out)

    def _runs(self, caller: Caller, wanted: Sequence[str] | None) -> list[RunRow]:
        with self._database.looking() as connection:
            reader = RunReader(connection)
            if wanted is None:
                return reader.page(caller.tenant, None, None, MOST_RUNS)
            found = []
            for place, run_id in enumerate(dict.fromkeys(wanted)):
                row = reader.one(caller.tenant, run_id)
                if row is None:
                    raise InvalidRequest.of(f"runs.{place}", f"there is no run {run_id}.")
                found.append(row)
            return found

    def _observed(
        self, rows: Sequence[RunRow], gpu: str | None, *, named: bool
    ) -> tuple[dict[str, Observation], list[dict[str, Any]]]:
        """Observations by run, and the runs that are left out. Those on other kinds of GPUs are
        told of only where the request named them."""
        from planner.calibration.observe import NotCounted

        observed: dict[str, Observation] = {}
        left_out: list[dict[str, Any]] = []
        for row in rows:
            reason = f"it is on another kind of GPU than {gpu}" if named else None
            try:
                observation = observation_of(self._database, row, gpu)
            except NotCounted as error:
                observation, reason = None, str(error)
            if observation is not None:
                observed[row.id] = observation
            elif reason is not None:
                left_out.append({"id": row.id, "name": row.name, "reason": reason})
        return observed, left_out


def _counted(own: Observation, name: str | None) -> dict[str, Any]:
    factors = {}
    for factor in own.built_in:
        implied = [term.implied(factor, own.built_in) for term in own.terms_of(factor)]
        if implied:
            factors[factor] = round(median(implied), 6)
    ratio = max((peak.ratio for peak in own.peaks), default=None)
    return {
        "id": own.run,
        "name": name,
        "samples": len(own.terms) + len(own.peaks),
        "factors": factors,
        "peak_ratio": None if ratio is None else round(ratio, 6),
    }


def _nothing_counts(gpu: str | None, left_out: Sequence[Mapping[str, Any]]) -> InvalidRequest:
    of_gpu = "" if gpu is None else f" on {gpu[:100]}"
    message = f"there is no run{of_gpu} to fit to."
    remedy = "Post a run with a model and a cluster, and report telemetry of it."
    reasons = [FieldError("runs", f"{own['id']}: {own['reason']}.") for own in left_out]
    return InvalidRequest(
        f"runs: {message} {remedy}", errors=[FieldError("runs", message, remedy), *reasons]
    )


def _items(rows: Sequence[CalibrationRow]) -> list[CalibrationItem]:
    return [calibration_item(row, json.loads(row.document)) for row in rows]
