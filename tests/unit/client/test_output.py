"""`--output` replaces files, keeps links and writes into everything else."""

from __future__ import annotations

import json
import os
import secrets
import threading
from pathlib import Path

import pytest

from client.errors import InputError
from client.output import check_output, write_result

RESULT = {"answer": 42}


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder / "result.json"


def test_file_is_replaced_whole(target: Path) -> None:
    target.write_text("old")
    before = target.stat().st_ino
    with target.open() as reader:
        check_output(target)
        write_result(target, RESULT)
        assert reader.read() == "old"
    assert json.loads(target.read_text()) == RESULT
    assert target.stat().st_ino != before
    assert os.listdir(target.parent) == ["result.json"]


@pytest.mark.parametrize("exists", [True, False])
def test_link_keeps_pointing_at_its_target(target: Path, tmp_path: Path, exists: bool) -> None:
    if exists:
        target.write_text("old")
    link = tmp_path / "link.json"
    link.symlink_to("elsewhere/result.json")
    check_output(link)
    write_result(link, RESULT)
    assert os.readlink(link) == "elsewhere/result.json"
    assert json.loads(target.read_text()) == RESULT
    assert not target.is_symlink()


@pytest.mark.parametrize("linked", [True, False])
def test_pipe_is_written_to_and_stays(tmp_path: Path, linked: bool) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    path = tmp_path / "link" if linked else pipe
    if linked:
        path.symlink_to(pipe)
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()), daemon=True)
    reader.start()
    check_output(path)
    write_result(path, RESULT)
    reader.join(10)
    assert json.loads(received[0]) == RESULT
    assert pipe.is_fifo()


def test_longest_name_that_a_folder_takes_is_written(tmp_path: Path) -> None:
    path = tmp_path / ("r" * 255)
    check_output(path)
    write_result(path, RESULT)
    assert json.loads(path.read_text()) == RESULT


def test_failed_write_leaves_the_old_file_and_no_other(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    target.write_text("old")
    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(InputError, match="cannot be written: No space left on device"):
        write_result(target, RESULT)
    assert target.read_text() == "old"
    assert os.listdir(target.parent) == ["result.json"]


def test_another_users_link_is_not_followed(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever guesses the name of the file that replaces the target gains nothing by it."""
    precious = tmp_path / "precious"
    precious.write_text("as it was")
    monkeypatch.setattr(secrets, "token_hex", lambda _: "guessed")
    (target.parent / ".loadmaster.guessed.part").symlink_to(precious)
    with pytest.raises(InputError, match="File exists"):
        write_result(target, RESULT)
    assert precious.read_text() == "as it was"


def test_check_names_what_is_wrong_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "absent" / "r.json")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    before = sorted(os.listdir(tmp_path))
    check_output(None)
    check_output(tmp_path / "new.json")
    reasons = {
        tmp_path: "it is a folder",
        tmp_path / ("r" * 256): "File name too long",
        tmp_path / "absent" / "r.json": f"there is no folder {tmp_path / 'absent'}",
        loop: "Too many levels of symbolic links",
        dangling: f"there is no folder {tmp_path / 'absent'}",
    }
    for path, reason in reasons.items():
        assert reason in refusal(path)
    # The tests may run as root, who may write anywhere.
    monkeypatch.setattr("client.output.os.access", lambda *_: False)
    assert f"you may not write to the folder {tmp_path}" in refusal(tmp_path / "r.json")
    assert "you may not write to it" in refusal(pipe)
    assert sorted(os.listdir(tmp_path)) == before


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        check_output(path)
    text = str(caught.value)
    assert text.startswith(f"--output: {path} cannot be written: ")
    return text
