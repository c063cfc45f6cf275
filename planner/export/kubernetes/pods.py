"""The pods of a run: an init container fetches the plan into a volume, the training program's
container finds it there.

What the plan does not know is a value that begins with REPLACE, which no cluster accepts or has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from planner.export.frameworks.common import comment
from planner.export.launch import OWN_ADDRESS, Launch
from planner.export.plan_files import fetch_function, plan_files, why_no_schedule

Object = dict[str, Any]
Environment = list[Object]

CURL_IMAGE = "curlimages/curl:8.11.1"
FOLDER = "/loadmaster"
SECRET, SECRET_KEY = "loadmaster", "api-key"
IMAGE = "REPLACE-WITH-IMAGE"
PROGRAM = "REPLACE-WITH-TRAINING-PROGRAM"
GPU_PRODUCT = "REPLACE-WITH-GPU-PRODUCT"
SERVICE = "REPLACE-WITH-ADDRESS-OF-SERVICE"
RACK_LABEL = "REPLACE-WITH-RACK-LABEL"
ZONE_LABEL = "topology.kubernetes.io/zone"
PLAN_LABEL = "loadmaster-plan"
MASTER_PORT = 29500
FETCH_ALL = """\
set -eu
{fetch}
for format in $LOADMASTER_FORMATS; do
  fetch "$format"
done
"""


def metadata(launch: Launch, annotations: Mapping[str, str] | None = None) -> Object:
    """Name and labels of an object that belongs to the run."""
    own: Object = {"name": launch.name, "labels": labels(launch)}
    return own | ({"annotations": dict(annotations)} if annotations else {})


def labels(launch: Launch) -> dict[str, str]:
    """By which the objects of a run are found."""
    return {PLAN_LABEL: launch.job_id}


def pod_template(launch: Launch, container: Object, near: str) -> Object:
    """A pod that takes its part of a node: init container, volumes, and where it may run. Pods of
    the run go where others of it are, by the label `near` of nodes, if they can."""
    return {
        "metadata": {"labels": labels(launch)},
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {"nvidia.com/gpu.product": GPU_PRODUCT},
            "affinity": {"podAffinity": _near_each_other(launch, near)},
            "initContainers": [_fetching(launch)],
            "containers": [container],
            "volumes": [
                {"name": "plan", "emptyDir": {}},
                {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
            ],
        },
    }


def rack_or_zone(launch: Launch) -> str:
    """The label of the smallest part of the cluster that the run should lie in."""
    return RACK_LABEL if launch.knows_racks else ZONE_LABEL


def training_container(launch: Launch, name: str, *, more: Environment | None = None) -> Object:
    """The container of the training program, without what starts it."""
    gpus = {"nvidia.com/gpu": launch.run.gpus_per_node}
    return {
        "name": name,
        "image": IMAGE,
        "env": [*environment(launch), *(more or [])],
        "resources": {"limits": gpus},
        "volumeMounts": [
            {"name": "plan", "mountPath": FOLDER, "readOnly": True},
            {"name": "shared-memory", "mountPath": "/dev/shm"},
        ],
    }


def environment(launch: Launch) -> Environment:
    """Where the plan is, and what NCCL is to be told."""
    variables = {
        "LOADMASTER_PLAN_DIR": FOLDER,
        "LOADMASTER_PLAN": f"{FOLDER}/{plan_files(launch.source)[0].file_name}",
        **launch.environment,
    }
    return [{"name": name, "value": value} for name, value in variables.items()]


def document(launch: Launch, own: str, unsaid: Iterable[str], *objects: Object) -> str:
    """Objects as a file of YAML, below what it leaves to others."""
    files = [each.format for each in plan_files(launch.source)]
    common = [
        f"Every value that begins with REPLACE. {GPU_PRODUCT}: as the nodes' label says.",
        f"The service's key, if it wants one: kubectl create secret generic {SECRET} "
        f"--from-file={SECRET_KEY}=FILE",
        OWN_ADDRESS.format(whose="pods", where="LOADMASTER_SERVER")
        if launch.is_own_address
        else "The service as pods reach it, if that is not the value of LOADMASTER_SERVER.",
        f"Which files of the plan to fetch: LOADMASTER_FORMATS, some of {', '.join(files)}; and "
        "LOADMASTER_PLAN, the one that the program is to read.",
        "Requests of memory and processors, and of the network's devices (RDMA).",
        *filter(None, [why_no_schedule(launch.source)]),
        *(f"{each['name']}: {each['reason']}" for each in launch.adapters),
    ]
    head = comment(launch.comments(own, [*common, *unsaid]))
    return head + yaml.dump_all(objects, Dumper=_Readable, sort_keys=False, width=1000)


class _Readable(yaml.SafeDumper):
    """Texts of several lines stay so."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Readable.add_representer(str, _text)


def _fetching(launch: Launch) -> Object:
    files = plan_files(launch.source)
    secret = {"name": SECRET, "key": SECRET_KEY, "optional": True}
    return {
        "name": "fetch-plan",
        "image": CURL_IMAGE,
        "command": [
            "sh",
            "-c",
            FETCH_ALL.format(fetch=fetch_function(launch.source, files)),
        ],
        "env": [
            {
                "name": "LOADMASTER_SERVER",
                "value": SERVICE if launch.is_own_address else launch.service,
            },
            {"name": "LOADMASTER_FORMATS", "value": files[0].format},
            {"name": "LOADMASTER_PLAN_DIR", "value": FOLDER},
            {"name": "LOADMASTER_API_KEY", "valueFrom": {"secretKeyRef": secret}},
        ],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "runAsNonRoot": True,
            "runAsUser": 100,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "plan", "mountPath": FOLDER}],
    }


def _near_each_other(launch: Launch, label: str) -> Object:
    term = {"labelSelector": {"matchLabels": labels(launch)}, "topologyKey": label}
    preference = {"weight": 100, "podAffinityTerm": term}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}
