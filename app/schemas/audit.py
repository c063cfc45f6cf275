"""What the API says about the audit log."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field


class AuditEntryView(BaseModel):
    """Something that was done."""

    at: datetime
    actor: str = Field(description="The id of the key that it was done with, or else who did it.")
    action: str
    target: str | None = Field(description="The id of the job, key or tenant it was done to.")
    detail: str | None
    request_id: str | None


class AuditPage(BaseModel):
    """Entries, newest first; `next_cursor` is null on the last page."""

    entries: list[AuditEntryView]
    next_cursor: str | None
