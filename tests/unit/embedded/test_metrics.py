"""What the embedded service shows of itself: the counts of all its processes at one address."""

from __future__ import annotations

import os
import re
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.embedded.service import Service, wait_until


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    data = tmp_path / "data"
    # What an earlier run has left counts for nothing.
    (data / "metrics").mkdir(parents=True, mode=0o700)
    data.chmod(0o700)
    (data / "metrics" / "counter_1.db").write_bytes(b"no counts at all")
    service = Service(data, "--port", "0")
    yield service
    service.clean_up()


def slots(service: Service) -> float:
    """The solves that workers say they can run at once."""
    with urllib.request.urlopen(service.url + "/metrics", timeout=10) as answer:
        found = re.search(r"^loadmaster_worker_slots (\S+)$", answer.read().decode(), re.M)
    return 0.0 if found is None else float(found[1])


def test_the_api_shows_what_the_worker_counts_while_it_lives(service: Service) -> None:
    service.wait_until_ready()
    wait_until(lambda: slots(service) > 0)
    assert {path.name for path in service.data_dir.glob("metrics/counter_1.db")} == set()
    worker = service.child("worker")
    assert worker is not None
    before = slots(service)
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: service.child("worker") not in (None, worker))
    wait_until(lambda: slots(service) >= before)


def test_its_log_files_are_for_people(service: Service) -> None:
    service.wait_until_ready()
    wait_until(lambda: slots(service) > 0)
    for name in ("api", "worker"):
        lines = (service.data_dir / "logs" / f"{name}.log").read_text().splitlines()
        assert [line for line in lines if re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z INFO \S+: ", line)]
