"""The embedded service and its keys: who is let in, and that no file but the token has a key."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.unit.embedded.service import ROOT, Service, Start

pytestmark = pytest.mark.slow


def status(service: Service, **headers: str) -> int:
    request = urllib.request.Request(f"{service.url}/v1/jobs", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def loadmaster(service: Service, *arguments: str) -> subprocess.CompletedProcess[str]:
    own = {k: v for k, v in os.environ.items() if not k.startswith("LOADMASTER_")}
    return subprocess.run(
        [sys.executable, "-m", "client", *arguments],
        env={**own, "PYTHONPATH": str(ROOT), "LOADMASTER_DATA_DIR": str(service.data_dir)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_loopback_asks_for_no_key_but_keeps_strangers_out(start: Start) -> None:
    service = start()
    service.wait_until_ready()
    assert status(service) == 200
    assert status(service, Host="evil.example") == 421
    assert "for a key" not in service.output.read_text()


def test_network_without_keys_is_refused_in_one_line(start: Start) -> None:
    service = start("data", "--host", "0.0.0.0", "--port", "0")
    assert service.process.wait(60) == 2
    output = service.output.read_text()
    assert output.startswith("error: other machines could reach this address")
    assert output.count("\n") == 1
    assert service.processes() == []


def test_network_without_keys_if_asked_for_in_so_many_words(start: Start) -> None:
    options = ("--host", "0.0.0.0", "--port", "0", "--allow-anyone-on-the-network")
    service = start("data", *options)
    service.wait_until_ready()
    assert status(service) == 200
    assert "it asks nobody for a key" in service.output.read_text()


def test_token_file_lets_its_owner_in_and_nobody_else(start: Start) -> None:
    service = start("data", "--port", "0", "--token-file")
    service.wait_until_ready()
    token = service.data_dir / "token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    key = token.read_text().strip()
    said = service.output.read_text()
    assert f"one is in {token}" in said
    assert status(service) == 401
    assert status(service, Authorization=f"Bearer {key}") == 200
    listed = loadmaster(service, "jobs", "--server", service.url)
    assert (listed.returncode, listed.stdout) == (0, "no jobs\n"), listed.stderr
    made = loadmaster(service, "keys", "create", "--data-dir", str(service.data_dir))
    other = made.stdout.strip()
    assert status(service, Authorization=f"Bearer {other}") == 200

    service.process.terminate()
    assert service.process.wait(20) == 0
    again = start("data", "--port", "0", "--token-file")
    again.wait_until_ready()
    assert token.read_text().strip() == key
    assert status(again, Authorization=f"Bearer {key}") == 200

    secrets = [text[len("lm_0123456789ab_") :].encode() for text in (key, other)]
    assert all(len(secret) == 43 for secret in secrets)
    holders = {
        path
        for path in [service.output, *service.data_dir.rglob("*")]
        if path.is_file() and any(secret in path.read_bytes() for secret in secrets)
    }
    assert holders == {token}


def test_keys_of_the_environment(start: Start) -> None:
    service = start("data", "--port", "0", LOADMASTER_AUTHENTICATION="keys")
    service.wait_until_ready()
    assert status(service) == 401
    assert "`loadmaster keys create` makes one" in service.output.read_text()
    assert not (service.data_dir / "token").exists()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({}, (401, "not_authenticated")), ({"LOADMASTER_AUTHENTICATION": "off"}, (403, "local_only"))],
)
def test_api_started_by_hand_lets_nobody_in_from_the_network(
    tmp_path: Path, settings: dict[str, str], expected: tuple[int, str]
) -> None:
    address = _own_address()
    if address is None:
        pytest.skip("this machine has no address but loopback")
    with socket.socket() as free:
        free.bind((address, 0))
        port = free.getsockname()[1]
    own = {k: v for k, v in os.environ.items() if not k.startswith("LOADMASTER_")}
    command = [sys.executable, "-m", "uvicorn", "--factory", "app.main:create_app"]
    process = subprocess.Popen(
        [*command, "--host", address, "--port", str(port)],
        cwd=ROOT,
        env={**own, **settings, "LOADMASTER_DATA_DIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert _answer(f"http://{address}:{port}/v1/examples") == expected
    finally:
        process.terminate()
        process.wait(20)


def _own_address() -> str | None:
    """An address of this machine that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        address = str(probe.getsockname()[0])
    return None if address.startswith("127.") or address == "0.0.0.0" else address


def _answer(url: str) -> tuple[int, str]:
    """Status and code of the problem, once somebody answers."""
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as response:
                return response.status, ""
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())["code"]
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
