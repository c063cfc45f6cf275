"""Which server is started, and where its socket lies."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from embedded.broker import answers, broker_url, find_server, server_command, socket_folder
from embedded.errors import StartError


def test_server_on_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "valkey-server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_server() == str(program)


def test_server_of_the_package_comes_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert Path(find_server()).name == "valkey-server"


def test_socket_lies_in_a_private_folder_of_the_data_directory() -> None:
    with tempfile.TemporaryDirectory(prefix="lm", dir="/tmp") as short:
        folder, outside = socket_folder(Path(short))
        assert not outside
        assert folder.parent == Path(short)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert broker_url(folder) == f"redis+socket://{short}/run/broker.sock"


@pytest.mark.parametrize("name", ["x" * 100, "with space", "100%"])
def test_awkward_path_gets_a_short_private_folder_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    with tempfile.TemporaryDirectory(prefix="lm", dir="/tmp") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        folder, outside = socket_folder(tmp_path / name)
        assert outside
        assert folder.parent == Path(short)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert len(os.fsencode(folder / "broker.sock")) < 108
        assert socket_folder(tmp_path / name) == (folder, True)
        assert socket_folder(tmp_path / (name + "y"))[0] != folder


def test_folder_that_somebody_else_laid_out_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    with tempfile.TemporaryDirectory(prefix="lm", dir="/tmp") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        folder, _ = socket_folder(tmp_path / "a b")
        folder.rmdir()
        folder.symlink_to(tmp_path)
        with pytest.raises(StartError, match="somebody else"):
            socket_folder(tmp_path / "a b")


def test_server_answers_on_its_socket_and_on_no_port() -> None:
    with tempfile.TemporaryDirectory(prefix="lm", dir="/tmp") as short:
        folder, _ = socket_folder(Path(short))
        assert not answers(folder)
        process = subprocess.Popen(
            server_command(find_server(), folder, Path(short)), stdout=subprocess.DEVNULL
        )
        try:
            deadline = time.monotonic() + 20
            while not answers(folder) and time.monotonic() < deadline:
                time.sleep(0.02)
            assert answers(folder)
            assert stat.S_IMODE((folder / "broker.sock").stat().st_mode) == 0o700
        finally:
            process.terminate()
            process.wait()
        assert sorted(os.listdir(short)) == ["appendonlydir", "run"]
