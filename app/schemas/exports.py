"""What the API says about the files that an answer can be had as."""

from __future__ import annotations

from pydantic import BaseModel, Field


class ExportView(BaseModel):
    """A format, and where the answer is in it."""

    format: str
    title: str = Field(description="For people.")
    media_type: str
    file_name: str
    href: str


class ExportList(BaseModel):
    """All formats that an answer can be had in; none where nothing fits."""

    exports: list[ExportView]
