"""The health checks of containers say what is."""

from __future__ import annotations

import http.server
import os
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from app import health_check
from app.database import Database
from app.dispatch import Dispatcher
from app.settings import Settings
from workers import health


@pytest.fixture
def answering(request: pytest.FixtureRequest) -> Iterator[int]:
    """The port of a server that answers with a status."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(request.param if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("answering", "healthy"), [(200, True), (500, False)], indirect=["answering"]
)
def test_an_api_is_healthy_if_it_says_so(answering: int, healthy: bool) -> None:
    assert health_check.answers(answering) is healthy


def test_an_api_that_is_not_there_is_not() -> None:
    assert not health_check.answers(1)


def test_a_worker_lives_as_long_as_its_sweep_goes_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "alive"
    monkeypatch.setenv("LOADMASTER_WORKER_ALIVE_FILE", str(file))
    assert health.main() == 1
    health.show_life(file)
    assert health.main() == 0
    long_ago = time.time() - health.SILENCE_S - 1
    os.utime(file, (long_ago, long_ago))
    assert health.main() == 1
    health.show_life(file)
    assert health.main() == 0


def test_a_sweep_that_fails_is_a_sign_of_life_too(tmp_path: Path) -> None:
    file = tmp_path / "alive"
    settings = Settings(database_url="postgresql://nobody@127.0.0.1:1/none")
    database = Database(settings)
    dispatcher = Dispatcher(database, settings, None, partial(health.show_life, file))
    dispatcher.start()
    deadline = time.monotonic() + 30
    while not file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    dispatcher.stop()
    database.dispose()


def test_a_disk_that_is_full_kills_no_worker(tmp_path: Path) -> None:
    health.show_life(tmp_path / "missing" / "alive")


def test_without_a_file_nothing_is_said_of_a_worker(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("LOADMASTER_WORKER_ALIVE_FILE", raising=False)
    assert health.main() == 2
    assert "not set" in capsys.readouterr().out
