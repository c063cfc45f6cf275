"""A plan as a JobSet: a Job per rack with an indexed pod per node."""

from __future__ import annotations

from planner.export.format import Document, Format, Source
from planner.export.frameworks.common import plan_of
from planner.export.kubernetes.pods import (
    MASTER_PORT,
    PROGRAM,
    RACK_LABEL,
    ZONE_LABEL,
    Object,
    document,
    metadata,
    pod_template,
    rack_or_zone,
    training_container,
)
from planner.export.launch import LEFT_OUT, Launch, hindrance, launch_of

API_VERSION = "jobset.x-k8s.io/v1alpha2"
OWN = f"a JobSet ({API_VERSION}). Use: kubectl create -f FILE"
JOB = "node"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
RACK_OF_POD = {
    "name": "LOADMASTER_RACK",
    "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['jobset.sigs.k8s.io/job-index']"}},
}
UNEVEN = (
    "Racks: {nodes} nodes do not fill racks of {per_rack} evenly, so that pods are only asked to "
    "be near each other, and ranks follow the order of pods."
)
START = (
    "exec torchrun --nnodes={nodes} --nproc-per-node={gpus} --rdzv-backend=static "
    "--node-rank=$((LOADMASTER_RACK * {per_job} + JOB_COMPLETION_INDEX)) "
    '--master-addr={name}-{job}-0-0.{name} --master-port={port} "$@"'
)


def write(_: Document, source: Source) -> str:
    """The manifest."""
    launch = launch_of(source)
    jobs = _jobs(launch)
    unsaid = []
    if jobs < launch.racks:
        unsaid.append(UNEVEN.format(nodes=launch.run.nodes, per_rack=launch.nodes_per_rack))
    # Every Job gets a rack of its own.
    annotations = {EXCLUSIVE: RACK_LABEL} if jobs > 1 else None
    return document(
        launch,
        OWN,
        unsaid,
        {
            "apiVersion": API_VERSION,
            "kind": "JobSet",
            "metadata": metadata(launch, annotations),
            "spec": {
                "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
                "replicatedJobs": [_replicated_job(launch, jobs)],
            },
        },
    )


def _jobs(launch: Launch) -> int:
    """One per rack, where all racks get equally many nodes."""
    return launch.racks if launch.run.nodes % launch.nodes_per_rack == 0 else 1


def _replicated_job(launch: Launch, jobs: int) -> Object:
    per_job = launch.run.nodes // jobs
    container = training_container(launch, "train", more=[RACK_OF_POD])
    start = START.format(
        nodes=launch.run.nodes,
        gpus=launch.run.gpus_per_node,
        per_job=per_job,
        name=launch.name,
        job=JOB,
        port=MASTER_PORT,
    )
    container |= {"command": ["sh", "-c", start, "torchrun"], "args": [PROGRAM]}
    return {
        "name": JOB,
        "replicas": jobs,
        "template": {
            "spec": {
                "completionMode": "Indexed",
                "completions": per_job,
                "parallelism": per_job,
                "backoffLimit": 0,
                # A rack that belongs to another Job of the set is closed.
                "template": pod_template(
                    launch, container, ZONE_LABEL if jobs > 1 else rack_or_zone(launch)
                ),
            }
        },
    }


JOBSET = Format(
    name="jobset",
    title="JobSet for Kubernetes (YAML)",
    media_type="application/yaml",
    extension="jobset.yaml",
    carries="Nodes, GPUs, racks, the order of ranks, the environment for NCCL; fetches the plan "
    "into a volume before the training program starts.",
    leaves_out=LEFT_OUT,
    written_for="JobSet, API v1alpha2 (as of Kubeflow Trainer 2.3)",
    has_address=True,
    part=plan_of,
    hindrance=hindrance,
    write=write,
)
