"""The sharding plan of one layer on the tensor group of a plan."""

from __future__ import annotations

from typing import Any

from planner.cost.training import Training
from planner.errors import SolverCrash, SpecError
from planner.progress import Reporter, SilentReporter, StopCheck
from planner.training.spec import TrainingSpec


def solve_tensor_group(
    spec: TrainingSpec,
    training: Training,
    reporter: Reporter,
    should_stop: StopCheck,
    time_limit_s: float,
) -> tuple[dict[str, Any] | None, str | None]:
    """The result of the sharding solver, or None and why there is none."""
    # Only solver processes load the engines.
    from planner.sharding.request import resolve_request
    from planner.sharding.solve import run

    try:
        resolved = resolve_request(sharding_request(spec, training, time_limit_s))
        answer = run(resolved.spec, _Quiet(reporter), should_stop, None, time_limit_s)
    except (SpecError, SolverCrash) as error:
        return None, str(error)
    if answer["state"] == "failed":
        return None, str(answer["detail"])
    document: dict[str, Any] = answer["document"]
    return document, None


def sharding_request(spec: TrainingSpec, training: Training, time_limit_s: float) -> dict[str, Any]:
    """The group's request with what the solver may take."""
    engine = spec.options.engine
    solver = {
        "engine": engine if engine in ("cbc", "highs") else None,
        "time_limit_s": time_limit_s,
        "threads": spec.options.threads,
    }
    return {**group_request(spec, training), "solver": solver}


def group_request(spec: TrainingSpec, training: Training) -> dict[str, Any]:
    """What is planned: one layer of the model for one micro-batch, on the tensor group's GPUs,
    which are neighbours in a node."""
    model = spec.request["model"]
    transformer = {"preset": model} if isinstance(model, str) else dict(model)
    transformer |= {
        "layers": 1,
        "batch": training.micro_batch_size,
        "sequence": training.sequence // training.degrees.context,
    }
    cluster = spec.cluster_fields
    # Which GPUs share a path to the host does not matter inside the group.
    group = {name: value for name, value in cluster.items() if name not in _OF_WHOLE_NODES}
    return {
        "transformer": transformer,
        "devices": {**group, "nodes": 1, "gpus_per_node": training.degrees.tensor},
        "training": {
            "precision": training.precision,
            "gradient_precision": training.gradient_precision,
            "optimizer": training.optimizer,
            "micro_batches": training.micro_batches,
            "flash_attention": training.flash_attention,
            "sequence_parallel": training.sequence_parallel,
            "dropout": spec.model.dropout,
        },
    }


_OF_WHOLE_NODES = (
    "pcie_switches",
    "numa",
    "host_memory_numa",
    "numa_remote_factor",
    "nodes_per_rack",
)


class _Quiet(SilentReporter):
    """Only the log goes on."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def log(self, line: str) -> None:
        self._reporter.log(f"sharding: {line}")
