"""What the compose file promises: order, health, limits, no root, nothing published by accident."""

from __future__ import annotations

from typing import Any

import pytest

from app.settings import Settings
from tests.compose_file import read_compose_file
from tests.dockerfile import read_dockerfile

GIVEN = {"POSTGRES_PASSWORD": "of-a-test"}
OWN = ("migrate", "api", "worker", "worker-long")
STOP_S = 6.0
"""How long a worker takes to store what its solvers have and to give solves back."""


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return read_compose_file(GIVEN)


@pytest.fixture(scope="module")
def services(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["services"]
    return found


def test_the_services(services: dict[str, Any]) -> None:
    assert set(services) == {"redis", "postgres", *OWN}


def test_the_password_has_no_default() -> None:
    with pytest.raises(LookupError, match="POSTGRES_PASSWORD"):
        read_compose_file({})


def test_the_password_is_in_no_address_and_no_command(services: dict[str, Any]) -> None:
    for service in services.values():
        environment = service.get("environment", {})
        holders = {name for name, value in environment.items() if "of-a-test" in value}
        assert holders <= {"PGPASSWORD", "POSTGRES_PASSWORD"}
        assert "of-a-test" not in str(service.get("command", ""))


def test_order(services: dict[str, Any]) -> None:
    migrated = {"condition": "service_completed_successfully"}
    healthy = {"condition": "service_healthy"}
    assert services["migrate"]["depends_on"] == {"postgres": healthy}
    for name in ("api", "worker", "worker-long"):
        assert services[name]["depends_on"] == {"migrate": migrated, "redis": healthy}


def test_nobody_is_root_and_nothing_can_be_written_but_volumes(services: dict[str, Any]) -> None:
    image_user = read_dockerfile()[1].all_of("USER")[0]
    for name, service in services.items():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        user, _, group = service["user"].partition(":")
        assert int(user) > 0
        assert int(group) > 0
        assert not service.get("privileged")
        if name in OWN:
            assert service["user"] == image_user
            assert service["tmpfs"][0].startswith("/tmp:size=")


def test_only_the_api_is_published_and_only_on_this_machine(services: dict[str, Any]) -> None:
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert published == {"api": ["127.0.0.1:8400:8400"]}
    for name in ("redis", "postgres", "migrate"):
        assert services[name]["networks"] == ["backend"]


def test_the_backend_reaches_nothing_outside(document: dict[str, Any]) -> None:
    assert document["networks"]["backend"] == {"internal": True}


def test_nothing_that_is_accepted_is_lost_with_a_container(
    document: dict[str, Any], services: dict[str, Any]
) -> None:
    command = services["redis"]["command"]
    options = dict(zip(command[1::2], command[2::2], strict=True))
    assert options["--appendonly"] == "yes"
    assert options["--maxmemory-policy"] == "noeviction"
    volumes = services["redis"]["volumes"] + services["postgres"]["volumes"]
    assert {volume.partition(":")[0] for volume in volumes} == set(document["volumes"])


def test_every_service_that_stays_has_a_health_check_and_is_started_again(
    services: dict[str, Any],
) -> None:
    for name, service in services.items():
        if name == "migrate":
            assert service["healthcheck"] == {"disable": True}
            assert service["restart"].startswith("on-failure")
            continue
        assert service["healthcheck"]["test"][0] == "CMD"
        assert service["restart"] == "unless-stopped"


def test_every_service_has_limits_and_time_to_stop(services: dict[str, Any]) -> None:
    for name in set(services) - {"migrate"}:
        limits = services[name]["deploy"]["resources"]["limits"]
        assert set(limits) == {"cpus", "memory", "pids"}
        grace_s = float(services[name]["stop_grace_period"].removesuffix("s"))
        assert grace_s >= (STOP_S + 5 if name.startswith("worker") else 5)


def test_variables_are_settings_that_there_are(services: dict[str, Any]) -> None:
    known = {f"LOADMASTER_{name.upper()}" for name in Settings.model_fields}
    for name in OWN:
        given = {key for key in services[name]["environment"] if key.startswith("LOADMASTER_")}
        assert given <= known


def test_workers_take_their_queues(
    services: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def queues(service: str, environment: dict[str, str]) -> tuple[str, ...]:
        document = read_compose_file(GIVEN | environment)
        value = document["services"][service]["environment"]["LOADMASTER_WORKER_QUEUES"]
        monkeypatch.setenv("LOADMASTER_WORKER_QUEUES", value)
        return Settings().worker_queues

    # All, as long as nobody else takes the long ones.
    assert queues("worker", {}) == ("short", "long")
    assert queues("worker", {"LOADMASTER_WORKER_QUEUES": '["short"]'}) == ("short",)
    assert queues("worker-long", {}) == ("long",)
    assert services["worker-long"]["profiles"] == ["long"]
