"""Manifests: against the published schemas, and what their containers run, run by a shell."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from planner.errors import CannotExport
from planner.export.format import Source
from planner.export.registry import export
from tests.unit.export.answers import JOB, measured, pipeline, training
from tests.unit.export.launched import KEY, Cluster, hostile, part_of_a_node, racks_of_two

SCHEMAS = json.loads(
    (Path(__file__).parents[2] / "data" / "kubernetes-schemas.json").read_text(encoding="utf-8")
)
NAMES = ("jobset", "pytorchjob", "trainjob")
SOURCES = {
    "plain": pipeline(),
    "training": training(),
    "no schedule": training(solved=False),
    "racks": racks_of_two(),
    "part of a node": part_of_a_node(),
    "hostile": hostile(),
}
PLAN = f"loadmaster-{JOB}.torch.json"


def objects(source: Source, name: str) -> list[Any]:
    return [*yaml.safe_load_all(export(source, name)[1])]


def faults(found: Any) -> list[str]:
    kind = {"$ref": f"#/$defs/{SCHEMAS['kinds'][found['kind']]}", "$defs": SCHEMAS["$defs"]}
    errors = jsonschema_rs.validator_for(kind).iter_errors(found)
    return [f"{error.instance_path}: {error.message}" for error in errors]


def pods(source: Source, name: str) -> list[Any]:
    """The specs of all pods in a file."""
    specs: list[Any] = []

    def visit(part: Any) -> None:
        if isinstance(part, dict):
            if "initContainers" in part:
                specs.append(part)
            for value in part.values():
                visit(value)
        elif isinstance(part, list):
            for value in part:
                visit(value)

    visit(objects(source, name))
    return specs


def values(container: Any) -> dict[str, Any]:
    """Its environment, as far as it is written out."""
    return {each["name"]: each["value"] for each in container["env"] if "value" in each}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", NAMES)
def test_manifests_are_valid(name: str, source: str) -> None:
    for found in objects(SOURCES[source], name):
        assert faults(found) == []


def test_a_misspelt_field_or_a_wrong_type_is_found() -> None:
    (jobset,) = objects(pipeline(), "jobset")
    job = jobset["spec"]["replicatedJobs"][0]
    job["template"]["spec"]["template"]["spec"]["initContainer"] = []
    job["replicas"] = "1"
    assert len(faults(jobset)) == 2


@pytest.mark.parametrize("name", NAMES)
def test_the_init_container_fetches_the_plan(tmp_path: Path, name: str) -> None:
    cluster = Cluster.at(tmp_path, pipeline())
    (container,) = pods(pipeline(), name)[0]["initContainers"]
    environment = {**values(container), "LOADMASTER_PLAN_DIR": str(tmp_path / "volume")}
    (tmp_path / "volume").mkdir()
    done = cluster.run(container["command"], environment)
    assert done.returncode == 0, done.stderr
    fetched = tmp_path / "volume" / PLAN
    assert fetched.read_bytes() == cluster.plan("torch-schedule").read_bytes()
    assert f"input=Authorization: Bearer {KEY}\n" in cluster.recorded("curl")
    assert KEY not in done.stdout + done.stderr
    (tmp_path / "refuse").touch()
    assert cluster.run(container["command"], environment).returncode == 22


@pytest.mark.parametrize("name", NAMES)
def test_the_program_finds_the_plan_and_no_key(name: str) -> None:
    for pod in pods(pipeline(), name):
        (fetching,), (program,) = pod["initContainers"], pod["containers"]
        (key,) = (each for each in fetching["env"] if each["name"] == "LOADMASTER_API_KEY")
        assert key["valueFrom"]["secretKeyRef"]["name"] == "loadmaster"
        assert values(program)["LOADMASTER_PLAN"] == f"/loadmaster/{PLAN}"
        assert values(program)["CUDA_DEVICE_MAX_CONNECTIONS"] == "1"
        assert "LOADMASTER_API_KEY" not in {each["name"] for each in program["env"]}
        assert {mount["mountPath"] for mount in program["volumeMounts"]} > {"/loadmaster"}
        assert program["resources"] == {"limits": {"nvidia.com/gpu": 4}}


@pytest.mark.parametrize(("source", "count"), [("plain", 2), ("racks", 4)])
def test_the_pods_of_a_jobset_are_ranked_rack_by_rack(
    tmp_path: Path, source: str, count: int
) -> None:
    plan = SOURCES[source]
    cluster = Cluster.at(tmp_path, plan)
    (jobset,) = objects(plan, "jobset")
    (job,) = jobset["spec"]["replicatedJobs"]
    per_job = job["template"]["spec"]["completions"]
    assert job["replicas"] * per_job == count
    (container,) = pods(plan, "jobset")[0]["containers"]
    for rack in range(job["replicas"]):
        for index in range(per_job):
            place = {"LOADMASTER_RACK": str(rack), "JOB_COMPLETION_INDEX": str(index)}
            cluster.run([*container["command"], *container["args"]], place)
    assert [call[3] for call in cluster.runs()] == [f"--node-rank={rank}" for rank in range(count)]
    name = jobset["metadata"]["name"]
    assert {call[4] for call in cluster.runs()} == {f"--master-addr={name}-node-0-0.{name}"}
    assert {call[6] for call in cluster.runs()} == {"REPLACE-WITH-TRAINING-PROGRAM"}


def test_each_rack_is_a_job_of_its_own() -> None:
    (racks,) = objects(racks_of_two(), "jobset")
    (exclusive,) = racks["metadata"]["annotations"].items()
    assert exclusive == (
        "alpha.jobset.sigs.k8s.io/exclusive-topology",
        "REPLACE-WITH-RACK-LABEL",
    )
    (plain,) = objects(pipeline(), "jobset")
    assert "annotations" not in plain["metadata"]


def test_a_pytorchjob_has_a_master_and_the_rest_as_workers() -> None:
    (job,) = objects(racks_of_two(), "pytorchjob")
    replicas = job["spec"]["pytorchReplicaSpecs"]
    assert {kind: each["replicas"] for kind, each in replicas.items()} == {"Master": 1, "Worker": 3}
    (alone,) = objects(part_of_a_node(), "pytorchjob")
    assert [*alone["spec"]["pytorchReplicaSpecs"]] == ["Master"]
    (container,) = pods(racks_of_two(), "pytorchjob")[0]["containers"]
    assert container["name"] == "pytorch"
    assert container["command"][:3] == ["torchrun", "--nnodes=4", "--nproc-per-node=4"]


def test_a_trainjob_comes_with_its_runtime() -> None:
    runtime, job = objects(pipeline(), "trainjob")
    assert job["spec"]["runtimeRef"] == {
        "kind": runtime["kind"],
        "name": runtime["metadata"]["name"],
    }
    trainer = job["spec"]["trainer"]
    assert (trainer["numNodes"], trainer["numProcPerNode"]) == (2, 4)
    (replicated,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    labels = replicated["template"]["metadata"]["labels"]
    assert labels == {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_to_be_replaced_is_said(name: str) -> None:
    text = export(pipeline(), name)[1]
    head = text.partition("apiVersion")[0]
    assert "begins with REPLACE" in head
    assert "create secret generic loadmaster" in head
    assert JOB in head


@pytest.mark.parametrize("name", NAMES)
def test_no_text_of_a_client_gets_in_but_the_address(name: str) -> None:
    text = export(hostile(), name)[1]
    for pod in pods(hostile(), name):
        (fetching,) = pod["initContainers"]
        address = values(fetching)["LOADMASTER_SERVER"]
        assert address == hostile().service
        assert "hostile" not in str({**fetching, "env": []})
    assert "hostile" not in text.partition("apiVersion")[0]


@pytest.mark.parametrize("name", NAMES)
def test_what_no_scheduler_can_start_is_refused(name: str) -> None:
    for source in (measured(), replace(pipeline(), service=None)):
        with pytest.raises(CannotExport):
            export(source, name)


OWN = ("http://127.0.0.1:8400", "http://localhost:8400", "http://[::1]:8400", "http://127.9.9.9")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("service", OWN)
def test_an_address_that_leads_a_pod_to_itself_has_to_be_replaced(name: str, service: str) -> None:
    source = replace(pipeline(), service=service)
    text = export(source, name)[1]
    for pod in pods(source, name):
        (fetching,) = pod["initContainers"]
        assert values(fetching)["LOADMASTER_SERVER"].startswith("REPLACE-")
    head = text.partition("apiVersion")[0].replace("\n#  ", "")
    assert "`--server ADDRESS`, the one by which pods reach the service" in head
    assert service not in text
    assert "loopback" not in export(pipeline(), name)[1]


@pytest.mark.parametrize("name", NAMES)
def test_kubernetes_changes_nothing_in_commands(name: str) -> None:
    """It makes one dollar sign of two, and puts a variable of the container for $(NAME)."""
    for pod in pods(pipeline(), name):
        for container in (*pod["initContainers"], *pod["containers"]):
            for text in (*container.get("command", ()), *container.get("args", ())):
                assert "$$" not in text
                assert not [each for each in values(container) if f"$({each})" in text]
