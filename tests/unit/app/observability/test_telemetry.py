"""OpenTelemetry is off unless it is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from starlette.testclient import TestClient

from app.main import create_app
from app.observability.telemetry import telemetry_config
from app.settings import Settings


class _Spans(trace.TracerProvider):
    """A provider that somebody else has configured; it notes whose spans are begun."""

    def __init__(self) -> None:
        self.paths: list[object] = []

    def get_tracer(self, *args: object, **kwargs: object) -> trace.Tracer:
        paths = self.paths

        class Tracer(trace.NoOpTracer):
            def start_span(self, *args: object, **kwargs: Any) -> trace.Span:
                paths.append((kwargs.get("attributes") or {}).get("url.path"))
                return trace.INVALID_SPAN

        return Tracer()


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> _Spans:
    provider = _Spans()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return provider


def ask(tmp_path: Path, **chosen: bool) -> None:
    settings = Settings(
        database_url=f"sqlite:///{tmp_path / 'no.db'}",
        authentication="off",
        allow_anyone_on_the_network=True,
        allowed_hosts=("testserver",),
        **chosen,
    )
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        client.get("/healthz")
        client.get("/v1/examples")


def test_off_means_off(tmp_path: Path, spans: _Spans, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTAPI_OTEL_AUTO_CONFIGURE", "true")
    assert not any(telemetry_config(Settings()).values())
    ask(tmp_path)
    assert spans.paths == []


def test_on_means_on_but_for_polls_of_health(tmp_path: Path, spans: _Spans) -> None:
    ask(tmp_path, telemetry=True)
    assert "/v1/examples" in spans.paths
    assert "/healthz" not in spans.paths
