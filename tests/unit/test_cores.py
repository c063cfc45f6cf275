"""Usable cores follow affinity and the control group's quota."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from planner import cores
from planner.cores import usable_cores


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))


def write(root: Path, path: str, content: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)


def test_affinity_alone(tmp_path: Path) -> None:
    assert usable_cores(tmp_path) == 8


@pytest.mark.parametrize(
    ("quota", "cores"), [("max 100000", 8), ("250000 100000", 2), ("50000 100000", 1)]
)
def test_version_2_quota(tmp_path: Path, quota: str, cores: int) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/a/b\n")
    write(tmp_path, "sys/fs/cgroup/a/b/cpu.max", quota + "\n")
    assert usable_cores(tmp_path) == cores


def test_version_2_quota_of_a_parent(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/a/b\n")
    write(tmp_path, "sys/fs/cgroup/a/cpu.max", "300000 100000\n")
    write(tmp_path, "sys/fs/cgroup/a/b/cpu.max", "max 100000\n")
    assert usable_cores(tmp_path) == 3


def test_no_group_is_looked_for_outside_of_all_groups(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/../b\n")
    write(tmp_path, "sys/fs/b/cpu.max", "100000 100000\n")
    assert usable_cores(tmp_path) == 8


@pytest.mark.parametrize(("quota", "cores"), [("400000", 4), ("-1", 8)])
def test_version_1_quota(tmp_path: Path, quota: str, cores: int) -> None:
    write(tmp_path, "proc/self/cgroup", "4:cpuset:/\n3:cpu,cpuacct:/job\n")
    write(tmp_path, "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", quota)
    write(tmp_path, "sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000")
    assert usable_cores(tmp_path) == cores


def test_a_request_gets_the_threads_it_wants_up_to_what_it_may_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cores, "_told", None)
    assert (cores.allowed_threads(2), cores.allowed_threads(64)) == (2, 8)
    cores.limit_threads(3)
    assert (cores.allowed_threads(2), cores.allowed_threads(64)) == (2, 3)
