"""What Prometheus reads."""

from __future__ import annotations

from fastapi import APIRouter, Response

from app.dependencies import ServicesDep
from app.observability.exposition import MEDIA_TYPE

router = APIRouter(tags=["service"])


@router.get(
    "/metrics",
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    response_class=Response,
)
def get_metrics(services: ServicesDep) -> Response:
    """Figures of the whole service, in Prometheus' text format."""
    return Response(services.exposition.render(), headers={"Content-Type": MEDIA_TYPE})
