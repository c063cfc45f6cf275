"""What is loaded for whom: asking a service must not load the planner."""

from __future__ import annotations

import subprocess
import sys

import pytest

import client

HEAVY = (
    "planner",
    "numpy",
    "numba",
    "ortools",
    "pydantic",
    "sqlalchemy",
    "torch",
    "workers",
    "app",
)


def loaded(program: str) -> set[str]:
    """The packages that a program loads."""
    said = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return {name.partition(".")[0] for name in said.split()}


def test_the_package_alone_loads_nothing() -> None:
    assert not loaded("import client") & {"httpx", *HEAVY}


@pytest.mark.parametrize("name", ["Planner", "AsyncPlanner"])
def test_a_remote_planner_loads_no_planner(name: str) -> None:
    packages = loaded(f"from client import {name}\n{name}('http://127.0.0.1:1')")
    assert "httpx" in packages
    assert not packages & set(HEAVY)


def test_following_a_run_loads_no_planner() -> None:
    packages = loaded("from client import Run\nRun.join('r', rank=0, server='http://127.0.0.1:1')")
    assert "httpx" in packages
    assert not packages & set(HEAVY)


def test_a_picture_loads_the_module_that_draws_it_only() -> None:
    program = (
        "from client import PipelineSchedule\n"
        "PipelineSchedule({'problem': {'stages': [{'device': 0}]}, 'schedule': {'ops': [], "
        "'makespan_ns': 5}})._repr_svg_()"
    )
    assert loaded(program) & set(HEAVY) == {"planner"}


def test_every_name_is_there() -> None:
    for name in client.__all__:
        assert getattr(client, name).__name__ == name
        assert name in dir(client)
    with pytest.raises(AttributeError, match="Plannerr"):
        client.Plannerr  # noqa: B018
