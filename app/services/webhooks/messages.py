"""What is sent, and its signature (Standard Webhooks)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time

from app.models import SHARDING
from app.repositories.job_rows import JobRow
from app.schemas.webhooks import JobNews, WebhookMessage, signing_key
from app.services.job_views import job_view
from planner.version import __version__


def message_of(row: JobRow) -> bytes:
    """The body that tells of a job that is over; the same at every try."""
    view = job_view(row)
    over_at = view.finished_at or view.created_at
    news = JobNews(
        id=view.id,
        kind=view.kind,
        name=view.name,
        tags=view.tags,
        state=view.state,
        cache=view.cache,
        objective=row.best_objective,
        bound=row.lower_bound,
        unit="bytes" if row.kind == SHARDING else "ns",
        gap=view.gap,
        created_at=view.created_at,
        finished_at=view.finished_at,
        links=view.links,
    )
    return WebhookMessage(timestamp=over_at, data=news).model_dump_json().encode()


def signed_headers(webhook_id: str, secret: str, body: bytes) -> dict[str, str]:
    """The headers of a try that is made now."""
    timestamp = str(int(time.time()))
    signed = f"{webhook_id}.{timestamp}.".encode() + body
    digest = hmac.new(signing_key(secret), signed, hashlib.sha256).digest()
    return {
        "Content-Type": "application/json",
        "User-Agent": f"Loadmaster/{__version__}",
        "webhook-id": webhook_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
