"""The life of the embedded service with its real children."""

from __future__ import annotations

import os
import signal
import stat
import tempfile
import time
from functools import partial
from pathlib import Path

import pytest

from tests.unit.embedded.service import PROGRAMS, ROOT, Service, Start, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def service(start: Start) -> Service:
    running = start()
    running.wait_until_ready()
    return running


def has_changed(service: Service, name: str, before: int) -> bool:
    return service.child(name) not in (None, before)


def is_gone(service: Service) -> bool:
    return not service.processes()


def is_complete(service: Service) -> bool:
    """Broker, API, worker and at least one process of its pool."""
    return len(service.processes()) >= 4


def test_everything_lies_in_one_private_directory(service: Service) -> None:
    assert stat.S_IMODE(service.data_dir.stat().st_mode) == 0o700
    assert service.answers("/healthz")
    assert service.answers("/readyz")
    for path in service.data_dir.rglob("*"):
        assert not path.lstat().st_mode & 0o077, path
    assert (service.data_dir / "loadmaster.db").exists()
    assert {p.stem for p in (service.data_dir / "logs").iterdir()} >= {*PROGRAMS, "supervisor"}


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_killed_child_is_started_again(service: Service, name: str) -> None:
    before = service.child(name)
    assert before is not None
    os.kill(before, signal.SIGKILL)
    # Promised within 2 s; the rest is for a busy machine.
    wait_until(partial(has_changed, service, name, before), within_s=10)
    assert service.process.poll() is None
    wait_until(service.answers)
    assert f"{name} ended (killed by SIGKILL)" in service.log()


def test_child_that_dies_again_and_again_is_started_each_time(service: Service) -> None:
    for _ in range(4):
        before = service.child("broker")
        assert before is not None
        os.kill(before, signal.SIGKILL)
        wait_until(partial(has_changed, service, "broker", before), within_s=10)
    assert "4 times in a row" in service.log()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_stops_everything_in_time(service: Service, number: signal.Signals) -> None:
    wait_until(partial(is_complete, service))
    service.process.send_signal(number)
    started = time.monotonic()
    assert service.process.wait(20) == 0
    assert time.monotonic() - started < 10
    assert service.processes() == []
    log = service.log()
    assert f"{number.name}: stopping" in log
    assert "is killed" not in log


def test_killed_supervisor_leaves_nothing(service: Service) -> None:
    wait_until(partial(is_complete, service))
    service.process.kill()
    service.process.wait()
    wait_until(partial(is_gone, service), within_s=10)


def test_killed_supervisor_is_followed_by_another_on_the_same_data(
    service: Service, start: Start
) -> None:
    service.process.kill()
    service.process.wait()
    wait_until(partial(is_gone, service), within_s=10)
    again = start()
    again.wait_until_ready()
    assert again.answers("/readyz")


def test_terminal_interrupt_reaches_the_supervisor_only(service: Service) -> None:
    group = os.getpgid(service.process.pid)
    assert [pid for pid in service.processes() if os.getpgid(pid) == group] == []


def test_second_supervisor_on_the_data_is_refused(service: Service, start: Start) -> None:
    second = start()
    assert second.process.wait(60) == 2
    output = second.output.read_text()
    assert output.startswith("error: data directory")
    assert service.url in output
    assert output.count("\n") == 1
    assert service.answers()


def test_port_in_use_is_refused(service: Service, start: Start) -> None:
    port = service.url.rpartition(":")[2]
    second = start("other", "--port", port)
    assert second.process.wait(60) == 2
    output = second.output.read_text()
    assert output.startswith(f"error: port {port} on 127.0.0.1 is already in use")
    assert output.count("\n") == 1


def test_awkward_data_directory_works_and_leaves_no_socket_behind(start: Start) -> None:
    short = tempfile.mkdtemp(prefix="lm", dir="/tmp")
    service = start("a data directory", "--port", "0", XDG_RUNTIME_DIR=short)
    service.wait_until_ready()
    assert service.answers("/readyz")
    (folder,) = Path(short).iterdir()
    assert (folder / "broker.sock").is_socket()
    service.process.terminate()
    assert service.process.wait(20) == 0
    Path(short).rmdir()  # Fails unless it is empty.


def test_broker_of_the_environment_replaces_the_child(service: Service, start: Start) -> None:
    address = f"redis+socket://{service.data_dir}/run/broker.sock"
    if not (service.data_dir / "run" / "broker.sock").exists():
        pytest.skip("the temporary directory's path is too long for a socket in it")
    database = f"sqlite:///{service.data_dir}/other.db"
    settings = {"LOADMASTER_BROKER_URL": address, "LOADMASTER_DATABASE_URL": database}
    second = start("other", "--port", "0", **settings)
    second.wait_until_ready()
    assert second.child("broker") is None
    assert second.child("worker") is not None
    assert (service.data_dir / "other.db").exists()
    assert not (second.data_dir / "loadmaster.db").exists()


def test_database_that_cannot_be_used_is_one_line(start: Start) -> None:
    service = start("data", "--port", "0", LOADMASTER_DATABASE_URL="sqlite:////proc/no/file.db")
    assert service.process.wait(60) == 2
    lines = service.output.read_text().splitlines()
    assert lines[-1].startswith("error: the database cannot be brought up to date:")
    assert service.processes() == []


def test_child_that_never_comes_up_ends_the_service(start: Start, tmp_path: Path) -> None:
    broken = tmp_path / "broken" / "workers"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise RuntimeError('not today')\n")
    service = start("data", "--port", "0", PYTHONPATH=f"{broken.parent}:{ROOT}")
    assert service.process.wait(100) == 2
    last = service.output.read_text().splitlines()[-1]
    assert last.startswith("error: the worker does not start: RuntimeError: not today (see ")
    assert service.processes() == []
