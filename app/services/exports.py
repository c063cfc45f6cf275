"""Answers as files for other programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from app.callers import Caller
from app.database import Database
from app.errors import NoExport
from app.root_path import public_path
from app.schemas.exports import ExportList, ExportView
from app.services.job_views import row_of
from app.services.jobs import Jobs
from planner.export.format import Format
from planner.export.registry import export, formats_of


@dataclass(frozen=True)
class ExportedFile:
    """A file, and the version of the result that it was made from. Without a text the caller has
    it already."""

    version: str
    format: Format | None = None
    file_name: str = ""
    text: str | None = None


class Exports:
    """What results can be written as. Raises what `Jobs.result` does."""

    def __init__(self, database: Database, jobs: Jobs) -> None:
        self._database = database
        self._jobs = jobs

    def formats(self, caller: Caller, job_id: str) -> ExportList:
        """The formats that the job's answer can be had in."""
        kind = self._kind(caller, job_id)
        text = self._jobs.result(caller, job_id, lambda _: False).text
        assert text is not None
        return ExportList(
            exports=[_view(job_id, own) for own in formats_of(kind, json.loads(text))]
        )

    def file(
        self, caller: Caller, job_id: str, name: str, is_known: Callable[[str], bool]
    ) -> ExportedFile:
        """The answer in one of them, which is not made if the caller has that of this version.
        Raises `NoExport` for any other."""
        kind = self._kind(caller, job_id)
        result = self._jobs.result(caller, job_id, is_known)
        if result.text is None:
            return ExportedFile(result.version)
        answer = json.loads(result.text)
        exported = export(kind, answer, name)
        if exported is None:
            known = ", ".join(own.name for own in formats_of(kind, answer))
            raise NoExport(
                f"It is to be had as {known}." if known else "There is no plan to be exported."
            )
        own, text = exported
        return ExportedFile(result.version, own, _file_name(job_id, own), text)

    def _kind(self, caller: Caller, job_id: str) -> str:
        with self._database.looking() as connection:
            return row_of(connection, caller, job_id).kind


def _view(job_id: str, own: Format) -> ExportView:
    return ExportView(
        format=own.name,
        title=own.title,
        media_type=own.media_type,
        file_name=_file_name(job_id, own),
        href=public_path(f"/v1/jobs/{job_id}/exports/{own.name}"),
    )


def _file_name(job_id: str, own: Format) -> str:
    """Of the id only: names are texts of clients."""
    return f"loadmaster-{job_id}.{own.extension}"
