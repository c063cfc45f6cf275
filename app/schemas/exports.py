"""What the API says about the files that answers can be had as."""

from __future__ import annotations

from pydantic import BaseModel, Field


class FormatView(BaseModel):
    """A format of the answers of one kind of job."""

    kind: str = Field(description="`pipeline`, `sharding` or `training`.")
    format: str
    title: str = Field(description="For people.")
    media_type: str
    written_for: str | None = Field(
        description="The program, with its version, whose names the file uses."
    )
    carries: str = Field(description="What of a plan is in the file.")
    leaves_out: str = Field(description="What of a plan is not.")


class FormatList(BaseModel):
    """All formats that there are."""

    formats: list[FormatView]


class ExportView(BaseModel):
    """A format, and where the answer is in it."""

    format: str
    title: str = Field(description="For people.")
    media_type: str
    written_for: str | None
    file_name: str
    href: str | None = Field(description="Null where this answer cannot be written in it.")
    hindrance: str | None = Field(description="Then, why not, and what can be had instead.")


class ExportList(BaseModel):
    """All formats that are about what this answer has; none where nothing fits."""

    exports: list[ExportView]
