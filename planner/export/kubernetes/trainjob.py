"""A plan as a TrainJob of Kubeflow Trainer, with the runtime that it refers to.

A TrainJob cannot add an init container to its runtime, so that the runtime comes with it.
"""

from __future__ import annotations

from planner.export.format import Document, Format, Source
from planner.export.frameworks.common import plan_of
from planner.export.kubernetes.pods import (
    IMAGE,
    PROGRAM,
    Object,
    document,
    metadata,
    pod_template,
    rack_or_zone,
    training_container,
)
from planner.export.launch import LEFT_OUT, Launch, hindrance, launch_of

API_VERSION = "trainer.kubeflow.org/v1alpha1"
OWN = f"a TrainJob with its TrainingRuntime ({API_VERSION}). Use: kubectl create -f FILE"
STEP_LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"
RANKS = (
    "Which node gets which rank: Kubernetes places pods as it likes, near each other if it can. "
    "Ranks follow the order of pods, which Trainer tells torchrun with the master's address."
)


def write(_: Document, source: Source) -> str:
    """The two manifests."""
    launch = launch_of(source)
    return document(launch, OWN, [RANKS], _runtime(launch), _job(launch))


def _runtime(launch: Launch) -> Object:
    # Trainer gives torchrun's settings to the container of this name in the job of this step.
    pods = pod_template(launch, training_container(launch, "node"), rack_or_zone(launch))
    return {
        "apiVersion": API_VERSION,
        "kind": "TrainingRuntime",
        "metadata": metadata(launch),
        "spec": {
            "mlPolicy": {"numNodes": launch.run.nodes, "torch": {}},
            "template": {
                "spec": {
                    "replicatedJobs": [
                        {
                            "name": "node",
                            "template": {
                                "metadata": {"labels": {STEP_LABEL: "trainer"}},
                                "spec": {"backoffLimit": 0, "template": pods},
                            },
                        }
                    ]
                }
            },
        },
    }


def _job(launch: Launch) -> Object:
    run = launch.run
    return {
        "apiVersion": API_VERSION,
        "kind": "TrainJob",
        "metadata": metadata(launch),
        "spec": {
            "runtimeRef": {"kind": "TrainingRuntime", "name": launch.name},
            "trainer": {
                "image": IMAGE,
                "command": ["torchrun", "--rdzv-backend=static"],
                "args": [PROGRAM],
                "numNodes": run.nodes,
                "numProcPerNode": run.gpus_per_node,
                "resourcesPerNode": {"limits": {"nvidia.com/gpu": run.gpus_per_node}},
            },
        },
    }


TRAINJOB = Format(
    name="trainjob",
    title="TrainJob for Kubeflow Trainer (YAML)",
    media_type="application/yaml",
    extension="trainjob.yaml",
    carries="Nodes, GPUs, the environment for NCCL; fetches the plan into a volume before the "
    "training program starts.",
    leaves_out=f"{LEFT_OUT} Which node gets which rank.",
    written_for="Kubeflow Trainer 2.3, API v1alpha1",
    has_address=True,
    part=plan_of,
    hindrance=hindrance,
    write=write,
)
