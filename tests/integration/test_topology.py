"""The compose file's services, as processes, answer a request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import referee
from tests.integration.topology import ROOT, Topology

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

EXAMPLES = ROOT / "planner" / "examples"


@pytest.fixture(scope="module")
def topology() -> Iterator[Topology]:
    with Topology(apis=2, workers=3) as topology:
        yield topology


@pytest.fixture(scope="module")
def key(topology: Topology) -> str:
    """The first key, made as docs/operations.md says."""
    return topology.run("api", "loadmaster", "keys", "create", "--name", "first").split()[-1]


def example(name: str, **solver: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads((EXAMPLES / name).read_text())
    return body | {"solver": solver}


def headers(key: str, wait_s: int = 60) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}", "Prefer": f"wait={wait_s}"}


def test_a_posted_example_is_solved_and_every_api_has_the_answer(
    topology: Topology, key: str
) -> None:
    body = example("gpt-14.2b-8xA100-40GB.json", time_limit_s=5)
    first, second = topology.urls.values()
    address = "/v1/pipeline-schedules"
    posted = httpx.post(f"{first}{address}", json=body, headers=headers(key), timeout=90)
    assert posted.status_code == 200, topology.logs()
    result = posted.json()["result"]
    assert referee.check(result["problem"], result["schedule"])[0] == []
    again = httpx.post(f"{second}{address}", json=body, headers=headers(key), timeout=90)
    assert again.json()["cache"] == "hit"
    assert again.json()["result"]["schedule"] == result["schedule"]


def test_without_a_key_nothing_is_answered(topology: Topology) -> None:
    for url in topology.urls.values():
        assert httpx.get(f"{url}/v1/jobs").status_code == 401


def test_a_solve_with_a_long_limit_is_taken(topology: Topology, key: str) -> None:
    # With one worker service, its workers take both queues.
    body = example("gpt-14.2b-8xA100-40GB.json", time_limit_s=600, mip_gap=0.9)
    url = topology.urls["api-2"]
    posted = httpx.post(f"{url}/v1/pipeline-schedules", json=body, headers=headers(key), timeout=90)
    assert posted.status_code == 200, topology.logs()


def test_every_service_of_the_file_ran(topology: Topology) -> None:
    services = set(topology.document["services"]) - {"migrate", "worker-long"}
    assert {name.partition("-")[0] for name in topology.members} == services
    assert all(member.exit_code is None for member in topology.members.values())


def test_the_brokers_file_outlives_it(topology: Topology) -> None:
    folder = Path(topology.folder) / "redis-data"
    assert list(folder.glob("appendonlydir/*.aof"))
