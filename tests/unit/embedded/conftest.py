"""Services of the tests, stopped whatever the tests find."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.embedded.service import Service, Start


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts `loadmaster serve` with these options and environment."""
    services: list[Service] = []

    def begin(name: str = "data", *options: str, **environment: str) -> Service:
        options = options or ("--port", "0")
        services.append(Service(tmp_path / name, *options, **environment))
        return services[-1]

    yield begin
    for service in services:
        service.clean_up()
