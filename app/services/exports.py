"""Answers as files for other programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from app.callers import Caller
from app.database import Database
from app.errors import NoExport
from app.repositories.job_rows import JobReader
from app.root_path import public_path
from app.schemas.exports import ExportList, ExportView, FormatList, FormatView
from app.services.job_views import row_of
from app.services.jobs import Jobs
from planner.errors import CannotExport
from planner.export.format import Format, Source
from planner.export.registry import FORMATS, export, formats_of


@dataclass(frozen=True)
class ExportedFile:
    """A file, and the version of the result that it was made from. Without a text the caller has
    it already."""

    version: str
    format: Format | None = None
    file_name: str = ""
    text: str | None = None


class Exports:
    """What results can be written as. Raises what `Jobs.result` does. `service` is the address by
    which the client of a request knows the service."""

    def __init__(self, database: Database, jobs: Jobs) -> None:
        self._database = database
        self._jobs = jobs

    def formats(self, caller: Caller, job_id: str, service: str) -> ExportList:
        """The formats that are about what the job's answer has."""
        text = self._jobs.result(caller, job_id, lambda _: False).text
        assert text is not None
        source = self._source(caller, job_id, text, service)
        return ExportList(exports=[_view(job_id, *each) for each in formats_of(source)])

    def file(
        self,
        caller: Caller,
        job_id: str,
        name: str,
        service: str,
        is_known: Callable[[str], bool],
    ) -> ExportedFile:
        """The answer in one of them, which is not made if the caller has that of this version.
        Raises `NoExport` for any other."""
        result = self._jobs.result(caller, job_id, is_known)
        if result.text is None:
            return ExportedFile(result.version)
        try:
            own, text = export(self._source(caller, job_id, result.text, service), name)
        except CannotExport as error:
            raise NoExport(str(error)) from error
        return ExportedFile(result.version, own, _file_name(job_id, own), text)

    def _source(self, caller: Caller, job_id: str, answer: str, service: str) -> Source:
        with self._database.looking() as connection:
            row = row_of(connection, caller, job_id)
            request = JobReader(connection).request(row.id)
        return Source(
            kind=row.kind,
            answer=json.loads(answer),
            request=None if request is None else json.loads(request),
            job_id=job_id,
            service=service,
        )


def all_formats() -> FormatList:
    """What there is for answers of each kind."""
    return FormatList(
        formats=[
            FormatView(
                kind=kind,
                format=own.name,
                title=own.title,
                media_type=own.media_type,
                written_for=own.written_for,
                carries=own.carries,
                leaves_out=own.leaves_out,
            )
            for kind, formats in FORMATS.items()
            for own in formats
        ]
    )


def _view(job_id: str, own: Format, hindrance: str | None) -> ExportView:
    return ExportView(
        format=own.name,
        title=own.title,
        media_type=own.media_type,
        written_for=own.written_for,
        file_name=_file_name(job_id, own),
        href=public_path(f"/v1/jobs/{job_id}/export/{own.name}") if hindrance is None else None,
        hindrance=hindrance,
    )


def _file_name(job_id: str, own: Format) -> str:
    """Of the id only: names are texts of clients."""
    return f"loadmaster-{job_id}.{own.extension}"
