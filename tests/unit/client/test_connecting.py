"""Which key a command sends, and to whom."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from client.connecting import connect
from client.errors import InputError
from client.library.service import Service
from client.options import server_option

HERE = "http://127.0.0.1:8400"
Sent = Callable[..., str | None]


@click.command()
@server_option
def probe(server: str) -> None:
    """Prints what it would send."""
    with connect(server) as client:
        click.echo(client._http.headers.get("authorization"))


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Sent:
    """The header field that a command sends; a service runs in the folder `loadmaster-data`."""
    for name in ("LOADMASTER_API_KEY", "LOADMASTER_DATA_DIR", "LOADMASTER_SERVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "loadmaster-data"
    folder.mkdir()
    (folder / "supervisor.lock").write_text(json.dumps({"pid": 1, "url": HERE, "ready": True}))

    def invoke(*arguments: str) -> str | None:
        result = CliRunner().invoke(probe, arguments, standalone_mode=False)
        if result.exception is not None:
            raise result.exception
        return result.stdout.strip() or None

    return invoke


def test_no_key_is_sent_without_one(sent: Sent) -> None:
    assert sent() is None


def test_token_file_goes_to_its_own_service_only(sent: Sent, tmp_path: Path) -> None:
    (tmp_path / "loadmaster-data" / "token").write_text("lm_token\n")
    assert sent() == "Bearer lm_token"
    for same in (f"{HERE}/", "http://localhost:8400", "http://LOCALHOST:8400/"):
        assert sent("--server", same) == "Bearer lm_token"
    for other in (
        "http://127.0.0.1:8401",
        "http://localhost:8401",
        "http://localhost",
        "http://localhost.evil.example:8400",
        "http://evil.example:8400",
        "https://localhost:8400",
        "https://127.0.0.1:8400",
    ):
        assert sent("--server", other) is None


def test_token_for_localhost_goes_to_the_address_of_its_service(sent: Sent, tmp_path: Path) -> None:
    (tmp_path / "loadmaster-data" / "token").write_text("lm_token\n")
    with connect("http://localhost:8400") as client:
        assert client._http.base_url == HERE


def test_other_data_directory_has_another_token(
    sent: Sent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loadmaster-data" / "token").write_text("lm_token\n")
    other = tmp_path / "other"
    other.mkdir()
    (other / "supervisor.lock").write_text(json.dumps({"url": "http://127.0.0.1:1"}))
    (other / "token").write_text("lm_other")
    monkeypatch.setenv("LOADMASTER_DATA_DIR", str(other))
    assert sent() is None
    assert sent("--server", "http://127.0.0.1:1") == "Bearer lm_other"


def test_variable_comes_before_the_token_and_the_file_before_both(
    sent: Sent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loadmaster-data" / "token").write_text("lm_token\n")
    monkeypatch.setenv("LOADMASTER_API_KEY", "lm_variable")
    assert sent() == "Bearer lm_variable"
    file = tmp_path / "key"
    file.write_text("lm_file\n")
    assert sent("--api-key-file", str(file)) == "Bearer lm_file"


def test_key_file_has_to_be_there(sent: Sent, tmp_path: Path) -> None:
    for file in (tmp_path / "none", tmp_path / "binary"):
        (tmp_path / "binary").write_bytes(b"\xff\xfe")
        with pytest.raises(InputError, match="--api-key-file"):
            sent("--api-key-file", str(file))


@pytest.mark.parametrize("key", ["", "a b", "a\nb", "schlüssel"])
def test_what_cannot_be_a_key_is_not_sent(key: str) -> None:
    with pytest.raises(InputError, match="API key") as refused:
        Service(api_key=key)
    assert not key or key not in str(refused.value)
