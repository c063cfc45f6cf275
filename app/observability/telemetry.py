"""OpenTelemetry, as far as FastAPI brings it: off unless it is asked for."""

from __future__ import annotations

from fastapi.telemetry import TelemetryConfig

from app.settings import Settings

OFF: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}


def telemetry_config(settings: Settings) -> TelemetryConfig:
    """What `FastAPI(telemetry=...)` is given.

    Where it is on, exporters come from the variables `OTEL_EXPORTER_OTLP_*`. Polls of health and
    metrics are left out.
    """
    if not settings.telemetry:
        return OFF
    return {"auto_configure": True, "exclude": lambda scope: scope["path"] in UNTRACED}


UNTRACED = frozenset({"/healthz", "/readyz", "/metrics"})
