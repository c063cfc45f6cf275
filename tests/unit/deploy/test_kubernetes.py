"""What the Kubernetes objects promise; tests/e2e/test_linters.py holds them to the schemas."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import text

from app.database import Database, upgrade_schema
from app.models import Base
from app.settings import Settings
from planner.version import __version__
from tests.dockerfile import read_dockerfile

KUBERNETES = Path(__file__).resolve().parents[3] / "deploy" / "kubernetes"
WORKERS = ("loadmaster-worker", "loadmaster-worker-long")
WORKER_STOPS_S = 6


def objects(*folders: str) -> dict[tuple[str, str], dict[str, Any]]:
    """All objects of some folders, by kind and name."""
    found = {}
    for folder in folders:
        for file in sorted((KUBERNETES / folder).glob("*.yaml")):
            for each in yaml.safe_load_all(file.read_text()):
                if "metadata" in each:
                    found[each["kind"], each["metadata"]["name"]] = each
    return found


BASE = objects("base")
KEDA = objects("components/keda")
DEPLOYMENTS = {name: each for (kind, name), each in BASE.items() if kind == "Deployment"}
JOBS = {name: each for (kind, name), each in BASE.items() if kind == "Job"}
PODS = {name: each["spec"]["template"] for name, each in (DEPLOYMENTS | JOBS).items()}


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pod["spec"]["containers"] + pod["spec"].get("initContainers", [])
    return found


def main_container(name: str) -> dict[str, Any]:
    container: dict[str, Any] = PODS[name]["spec"]["containers"][0]
    return container


def test_everything_of_a_folder_is_listed() -> None:
    for folder in ("base", "components/keda", "overlays/example"):
        listed = yaml.safe_load((KUBERNETES / folder / "kustomization.yaml").read_text())
        files = {path.name for path in (KUBERNETES / folder).glob("*.yaml")}
        named = {name for name in listed["resources"] if name.endswith(".yaml")}
        assert files - {"kustomization.yaml"} == named | set(listed.get("configurations", []))


@pytest.mark.parametrize("name", PODS)
def test_pods_satisfy_the_restricted_profile(name: str) -> None:
    pod = PODS[name]["spec"]
    user, _, group = read_dockerfile()[1].all_of("USER")[0].partition(":")
    security = pod["securityContext"]
    assert security["runAsNonRoot"] is True
    assert (security["runAsUser"], security["runAsGroup"]) == (int(user), int(group))
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    for container in containers(PODS[name]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]
        assert "memory" in container["resources"]["limits"]
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}


def test_the_job_is_of_this_version_and_goes_away() -> None:
    (name,) = JOBS
    assert name == f"loadmaster-migrate-{__version__.replace('.', '-')}"
    assert JOBS[name]["spec"]["ttlSecondsAfterFinished"] <= 600
    for folder in ("base", "overlays/example"):
        listed = yaml.safe_load((KUBERNETES / folder / "kustomization.yaml").read_text())
        assert listed["images"][0]["newTag"] == __version__


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_nothing_starts_before_the_schema_is_there(name: str) -> None:
    (waits,) = PODS[name]["spec"]["initContainers"]
    assert waits["args"] == ["python", "-m", "migrations.wait"]


def test_the_api_is_asked_for_readiness_apart_from_life() -> None:
    api = main_container("loadmaster-api")
    paths = {probe: api[probe]["httpGet"]["path"] for probe in api if probe.endswith("Probe")}
    assert paths == {
        "startupProbe": "/healthz",
        "livenessProbe": "/healthz",
        "readinessProbe": "/readyz",
    }
    # A database or broker that is away makes the probe slow, not failed.
    assert api["readinessProbe"]["timeoutSeconds"] > 5
    hosts = [api[probe]["httpGet"]["httpHeaders"] for probe in paths]
    assert hosts == [[{"name": "Host", "value": "localhost"}]] * 3


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_has_time_to_give_its_solves_back(name: str) -> None:
    pod = PODS[name]["spec"]
    assert pod["terminationGracePeriodSeconds"] >= WORKER_STOPS_S + 10
    assert pod["shareProcessNamespace"] is True
    worker = main_container(name)
    for probe in ("startupProbe", "livenessProbe"):
        assert worker[probe]["exec"]["command"] == ["python", "-m", "workers.health"]
    # Concurrency is worked out from the quota, so that one has to be set.
    assert worker["resources"]["limits"] == worker["resources"]["requests"]


def test_workers_take_both_queues_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    for name in WORKERS:
        environment = {each["name"]: each["value"] for each in main_container(name)["env"]}
        for key, value in environment.items():
            monkeypatch.setenv(key, value)
        assert {key.removeprefix("LOADMASTER_").lower() for key in environment} <= set(
            Settings.model_fields
        )
        taken += Settings().worker_queues
    assert taken == ["short", "long"]


@pytest.mark.parametrize("name", WORKERS)
def test_workers_answer_for_their_counts_to_others(name: str) -> None:
    values = {entry["name"]: entry["value"] for entry in main_container(name)["env"]}
    ports = {port["name"]: port["containerPort"] for port in main_container(name)["ports"]}
    assert values["LOADMASTER_WORKER_METRICS_PORT"] == str(ports["metrics"])
    assert values["LOADMASTER_WORKER_METRICS_HOST"] == "0.0.0.0"


def test_every_deployment_has_a_budget_and_only_the_api_a_number() -> None:
    budgets = {name for kind, name in BASE if kind == "PodDisruptionBudget"}
    assert budgets == set(DEPLOYMENTS)
    counts = {name: each["spec"].get("replicas") for name, each in DEPLOYMENTS.items()}
    assert counts == {"loadmaster-api": 2, **dict.fromkeys(WORKERS)}


def test_all_is_denied_but_what_is_allowed() -> None:
    policies = {
        name: each["spec"] for (kind, name), each in BASE.items() if kind == "NetworkPolicy"
    }
    deny = policies["loadmaster-default-deny"]
    assert set(deny) == {"podSelector", "policyTypes"}
    assert set(deny["policyTypes"]) == {"Ingress", "Egress"}
    ports = [p["port"] for p in policies["loadmaster-stores"]["egress"][0]["ports"]]
    assert ports == [5432, 6379]
    public = policies["loadmaster-webhooks"]["egress"][0]["to"][0]["ipBlock"]
    assert {"10.0.0.0/8", "169.254.0.0/16", "192.168.0.0/16"} <= set(public["except"])


def test_who_may_be_reached_is_who_listens() -> None:
    for (kind, _), each in BASE.items():
        if kind != "NetworkPolicy" or "ingress" not in each["spec"]:
            continue
        selector = each["spec"]["podSelector"]["matchLabels"].items()
        for rule in each["spec"]["ingress"]:
            for port in rule["ports"]:
                pods = [
                    pod for pod in PODS.values() if selector <= pod["metadata"]["labels"].items()
                ]
                assert pods
                for pod in pods:
                    named = [p["name"] for c in containers(pod) for p in c.get("ports", [])]
                    assert port["port"] in named


@pytest.mark.parametrize("name", WORKERS)
def test_workers_are_scaled_by_the_solves_that_wait_and_run(name: str) -> None:
    scaled = KEDA["ScaledObject", name]["spec"]
    assert scaled["scaleTargetRef"]["name"] == name
    (trigger,) = scaled["triggers"]
    assert ("TriggerAuthentication", trigger["authenticationRef"]["name"]) in KEDA
    query = trigger["metadata"]["query"]
    columns = Base.metadata.tables["solves"].columns
    assert set(re.findall(r"(\w+) (?:=|IN)", query)) == {"queue", "state"} <= set(columns.keys())
    environment = {each["name"]: each["value"] for each in main_container(name)["env"]}
    assert re.findall(r"queue = '(\w+)'", query)[0] in environment["LOADMASTER_WORKER_QUEUES"]
    # One solve per two cores.
    cores = int(main_container(name)["resources"]["limits"]["cpu"])
    assert int(trigger["metadata"]["targetQueryValue"]) == cores // 2


def test_the_queries_of_the_scaling_count(tmp_path: Path) -> None:
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'loadmaster.db'}")
    upgrade_schema(settings)
    database = Database(settings)
    for name in WORKERS:
        query = KEDA["ScaledObject", name]["spec"]["triggers"][0]["metadata"]["query"]
        with database.reading() as session:
            assert session.execute(text(query)).scalar_one() == 0
    database.dispose()


def test_the_example_says_where_the_stores_are() -> None:
    secrets = (KUBERNETES / "overlays" / "example" / "secrets.example.env").read_text()
    given = {line.partition("=")[0] for line in secrets.splitlines()}
    known = {f"LOADMASTER_{name.upper()}" for name in Settings.model_fields}
    assert {"LOADMASTER_DATABASE_URL", "LOADMASTER_BROKER_URL"} <= given <= known
    assert "CHANGE-ME" in secrets
