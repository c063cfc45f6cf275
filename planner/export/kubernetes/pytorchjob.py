"""A plan as a PyTorchJob of Kubeflow's training operator."""

from __future__ import annotations

from planner.export.format import Document, Format, Source
from planner.export.frameworks.common import plan_of
from planner.export.kubernetes.pods import (
    PROGRAM,
    Object,
    document,
    metadata,
    pod_template,
    rack_or_zone,
    training_container,
)
from planner.export.launch import LEFT_OUT, Launch, hindrance, launch_of

API_VERSION = "kubeflow.org/v1"
OWN = f"a PyTorchJob ({API_VERSION}). Use: kubectl create -f FILE"
RANKS = (
    "Which node gets which rank: Kubernetes places pods as it likes, near each other if it can. "
    "The master is node rank 0, worker i is node rank i + 1."
)


def write(_: Document, source: Source) -> str:
    """The manifest."""
    launch = launch_of(source)
    replicas = {"Master": _replica(launch, 1)}
    if launch.run.nodes > 1:
        replicas["Worker"] = _replica(launch, launch.run.nodes - 1)
    return document(
        launch,
        OWN,
        [RANKS],
        {
            "apiVersion": API_VERSION,
            "kind": "PyTorchJob",
            "metadata": metadata(launch),
            "spec": {
                "nprocPerNode": str(launch.run.gpus_per_node),
                "runPolicy": {"backoffLimit": 0, "cleanPodPolicy": "Running"},
                "pytorchReplicaSpecs": replicas,
            },
        },
    )


def _replica(launch: Launch, count: int) -> Object:
    # The operator looks for a container of this name, and sets RANK to the number of the node.
    container = training_container(launch, "pytorch") | {
        "command": [
            "torchrun",
            f"--nnodes={launch.run.nodes}",
            f"--nproc-per-node={launch.run.gpus_per_node}",
            "--rdzv-backend=static",
            "--node-rank=$(RANK)",
            "--master-addr=$(MASTER_ADDR)",
            "--master-port=$(MASTER_PORT)",
        ],
        "args": [PROGRAM],
    }
    return {
        "replicas": count,
        "restartPolicy": "Never",
        "template": pod_template(launch, container, rack_or_zone(launch)),
    }


PYTORCHJOB = Format(
    name="pytorchjob",
    title="PyTorchJob for Kubeflow (YAML)",
    media_type="application/yaml",
    extension="pytorchjob.yaml",
    carries="Nodes, GPUs, the environment for NCCL; fetches the plan into a volume before the "
    "training program starts.",
    leaves_out=f"{LEFT_OUT} Which node gets which rank.",
    written_for="Kubeflow training operator 1.9, API kubeflow.org/v1",
    has_address=True,
    part=plan_of,
    hindrance=hindrance,
    write=write,
)
