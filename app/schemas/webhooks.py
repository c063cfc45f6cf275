"""Webhooks: what a client says about one, what is sent, and what is known of the tries."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from app.models import DeliveryState, SolveState
from app.schemas.jobs import Links
from planner.documents import Refused

SECRET_PREFIX = "whsec_"
"""Begins a secret that is bytes, written in base64, as Standard Webhooks has it."""
SHORTEST_SECRET = 16
LONGEST_SECRET = 200
# Its length is checked below: pydantic's own complaint would count "items".
Secret = Annotated[
    SecretStr,
    Field(json_schema_extra={"minLength": SHORTEST_SECRET, "maxLength": LONGEST_SECRET}),
]


class WebhookFields(BaseModel):
    """Where to send a signed POST when the job is over, however it ends."""

    model_config = ConfigDict(extra="forbid", strict=True)

    url: str = Field(
        min_length=1,
        max_length=2000,
        description="http or https, on port 80, 443 or 1024 and above; addresses that are not "
        "public are refused unless the service allows them.",
    )
    secret: Secret | None = Field(
        default=None,
        description="Signs what is sent: text, or `whsec_` and base64. Left out, the service's "
        "own secret signs.",
    )

    @field_validator("secret")
    @classmethod
    def _is_well_formed(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret is None:
            return secret
        if not SHORTEST_SECRET <= len(secret) <= LONGEST_SECRET:
            raise Refused(
                f"has {len(secret)} characters",
                f"Give {SHORTEST_SECRET} to {LONGEST_SECRET} characters.",
            )
        if len(signing_key(secret.get_secret_value())) < SHORTEST_SECRET:
            raise Refused(
                f"has fewer than {SHORTEST_SECRET} bytes or is not base64",
                f"After `{SECRET_PREFIX}` give the base64 of at least {SHORTEST_SECRET} bytes.",
            )
        return secret


def signing_key(secret: str) -> bytes:
    """The bytes that sign: what is in base64 after `whsec_`, otherwise the text itself."""
    if not secret.startswith(SECRET_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error:
        return b""


class JobNews(BaseModel):
    """The job that is over, without its result."""

    id: str
    kind: str
    name: str | None
    tags: list[str]
    state: SolveState
    cache: str
    objective: int | None = Field(description="Of the best plan, in `unit`.")
    bound: int | None = Field(description="What no plan can beat, in `unit`.")
    unit: Literal["ns", "bytes"]
    gap: float | None
    created_at: datetime
    finished_at: datetime | None
    links: Links


class WebhookMessage(BaseModel):
    """The body of what is sent."""

    type: Literal["job.over"] = "job.over"
    timestamp: datetime = Field(description="When the job was over.")
    data: JobNews


class DeliveryAttempt(BaseModel):
    """One try to deliver."""

    number: int
    at: datetime
    duration_ms: int
    status: int | None = Field(description="What the receiver answered with.")
    error: str | None = Field(description="Why there was no answer, or why it does not count.")


class WebhookView(BaseModel):
    """A webhook of a job and how its delivery goes."""

    id: str = Field(description="The `webhook-id` of every try.")
    url: str = Field(description="Without what follows a `?`.")
    state: DeliveryState = Field(
        description="`waiting` for the job's end, `pending` (to be tried, or tried again), "
        "`delivered` or `failed`."
    )
    next_attempt_at: datetime | None
    attempts: list[DeliveryAttempt]
    created_at: datetime
    finished_at: datetime | None


class WebhookList(BaseModel):
    """The webhooks of a job."""

    webhooks: list[WebhookView]
