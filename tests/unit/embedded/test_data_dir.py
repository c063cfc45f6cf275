"""The data directory is private and belongs to one supervisor at a time."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from embedded import data_dir
from embedded.data_dir import DataDir, read_holder
from embedded.errors import StartError


def test_it_is_made_private(tmp_path: Path) -> None:
    with DataDir(tmp_path / "a" / "data") as data:
        assert stat.S_IMODE(data.path.stat().st_mode) == 0o700
        assert data.database_url == f"sqlite:///{tmp_path}/a/data/loadmaster.db"


def test_second_supervisor_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    with DataDir(tmp_path / "data") as data:
        data.announce({"pid": 4711, "url": "http://127.0.0.1:8400"})
        with pytest.raises(StartError) as caught, DataDir(tmp_path / "data"):
            pass
        assert "process 4711 at http://127.0.0.1:8400" in str(caught.value)
        assert "\n" not in str(caught.value)
    assert read_holder(tmp_path / "data") == {}
    with DataDir(tmp_path / "data"):
        pass


def test_later_announcement_replaces_the_first(tmp_path: Path) -> None:
    with DataDir(tmp_path) as data:
        data.announce({"url": "http://a-rather-long-name"})
        data.announce({"pid": 1})
        assert read_holder(tmp_path) == {"pid": 1}


def test_directory_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(StartError, match="written by others"), DataDir(shared):
        pass


def test_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(StartError, match="cannot use data directory"), DataDir(tmp_path / "data"):
        pass


def test_question_mark_would_end_the_database_address(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="rename it"), DataDir(tmp_path / "what?"):
        pass


def test_large_log_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_dir, "LARGEST_LOG_BYTES", 3)
    with DataDir(tmp_path) as data:
        data.log_file("api").write_text("long")
        assert not data.log_file("api").exists()
        assert (data.logs / "api.log.1").read_text() == "long"
