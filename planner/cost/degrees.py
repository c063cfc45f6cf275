"""Degrees of parallelism: what the cluster and the model allow, and where the ranks lie."""

from __future__ import annotations

from dataclasses import dataclass

from planner.cost.hardware import Cluster
from planner.cost.model import Model
from planner.errors import SpecError

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Degrees:
    """Sizes of the parallel groups.

    GPUs are numbered as Megatron-LM does: tensor ranks next to each other, then context ranks,
    then data ranks, then pipeline ranks. One pipeline rank is therefore `gpus_per_rank`
    neighbouring GPUs. Experts are split over `expert` of a pipeline rank's replicas.
    """

    pipeline: int
    tensor: int
    data: int
    context: int = 1
    expert: int = 1

    @property
    def gpus(self) -> int:
        """GPUs in use."""
        return self.pipeline * self.gpus_per_rank

    @property
    def gpus_per_rank(self) -> int:
        """GPUs of one pipeline rank, over all replicas."""
        return self.tensor * self.replicas

    @property
    def replicas(self) -> int:
        """Ranks that hold the same parameters outside the experts, and add up their gradients:
        context ranks see other tokens, as data ranks do."""
        return self.data * self.context

    @property
    def expert_replicas(self) -> int:
        """Ranks that hold the same experts."""
        return self.replicas // self.expert

    def gpus_of_rank(self, rank: int) -> range:
        """Numbers in the cluster of a pipeline rank's GPUs."""
        return range(rank * self.gpus_per_rank, (rank + 1) * self.gpus_per_rank)


@dataclass(frozen=True, slots=True)
class AskedDegrees:
    """The degrees that a training document gives; None = what the GPUs allow."""

    pipeline: int | None
    tensor: int
    data: int | None
    context: int
    expert: int


def find_degrees(asked: AskedDegrees, model: Model, cluster: Cluster, path: Path) -> Degrees:
    """Fill in what is not given and check it against the cluster and the model.

    Without `pipeline` and `data` all GPUs become pipeline stages; without one of them it takes
    the GPUs that the others leave. Raises `SpecError`.
    """
    _check_tensor(asked.tensor, model, cluster, path)
    gpus, pipeline, data = cluster.gpus, asked.pipeline, asked.data
    inner = asked.tensor * asked.context
    words = "tensor_parallel"
    if asked.context > 1:
        words += " x context_parallel"
    if pipeline is None:
        data = data or 1
        pipeline = _rest(gpus, inner * data, f"{words} x data_parallel", path)
        if pipeline > model.layers:
            raise SpecError(
                (*path, "pipeline_parallel"),
                f"{gpus} GPUs would give {pipeline} stages for {model.layers} layers.",
                f"Give pipeline_parallel (at most {model.layers}) or data_parallel.",
            )
    elif data is None:
        data = _rest(gpus, inner * pipeline, f"{words} x pipeline_parallel", path)
    degrees = Degrees(pipeline, asked.tensor, data, asked.context, asked.expert)
    if degrees.gpus > gpus:
        raise SpecError(
            (*path, "pipeline_parallel"),
            f"the cluster has {gpus} GPUs, the degrees ask for {degrees.gpus} "
            f"({in_words(degrees)}).",
            "Lower a degree or add nodes.",
        )
    if pipeline > model.layers:
        raise SpecError(
            (*path, "pipeline_parallel"),
            f"{pipeline} stages need at least as many layers; the model has {model.layers}.",
            f"Give at most {model.layers}.",
        )
    _check_expert(degrees, model, path)
    return degrees


def in_words(degrees: Degrees) -> str:
    """The degrees in a row; context and expert parallelism only where there is any."""
    words = f"pipeline {degrees.pipeline} x tensor {degrees.tensor} x data {degrees.data}"
    if degrees.context > 1:
        words += f" x context {degrees.context}"
    if degrees.expert > 1:
        words += f", experts over {degrees.expert}"
    return words


def _rest(gpus: int, used: int, what: str, path: Path) -> int:
    if used > gpus:
        raise SpecError(
            (*path, "tensor_parallel"),
            f"the cluster has {gpus} GPUs, the degrees ask for {used} ({what}).",
            "Lower a degree or add nodes.",
        )
    if gpus % used:
        raise SpecError(
            (*path, "tensor_parallel"),
            f"{what} is {used}, which does not divide the {gpus} GPUs of the cluster.",
            "Give all degrees to leave GPUs idle.",
        )
    return gpus // used


def _check_expert(degrees: Degrees, model: Model, path: Path) -> None:
    where = (*path, "expert_parallel")
    fitting = expert_degrees(model, degrees.replicas)
    if degrees.expert not in fitting:
        raise SpecError(
            where,
            f"{degrees.expert} must divide the model's experts ({model.experts}) and the "
            f"data_parallel x context_parallel ranks ({degrees.replicas}) that share them.",
            f"Degrees that fit: {_listed(fitting)}.",
        )


def expert_degrees(model: Model, replicas: int) -> list[int]:
    """Every number of ranks that the experts can be split over evenly, ascending."""
    return [
        degree
        for degree in range(1, min(model.experts, replicas) + 1)
        if model.experts % degree == 0 and replicas % degree == 0
    ]


def _check_tensor(tensor: int, model: Model, cluster: Cluster, path: Path) -> None:
    where = (*path, "tensor_parallel")
    for value, what in (
        (model.heads, "attention heads"),
        (model.kv_heads, "key/value heads"),
        (model.hidden_size, "hidden size"),
        (model.ffn_hidden_size, "feed-forward size"),
    ):
        if value % tensor:
            raise SpecError(
                where,
                f"{tensor} does not divide the model's {what} ({value}).",
                f"Degrees that fit this model: {_listed(tensor_degrees(model, cluster))}.",
            )
    if cluster.gpus_per_node % tensor:
        raise SpecError(
            where,
            f"{tensor} does not divide the {cluster.gpus_per_node} GPUs of a node: a tensor "
            "group must lie inside one node.",
            f"Degrees that fit: {_listed(tensor_degrees(model, cluster))}.",
        )


def tensor_degrees(model: Model, cluster: Cluster) -> list[int]:
    """Every tensor degree that the model's sizes and the node allow, ascending."""
    sizes = (
        model.heads,
        model.kv_heads,
        model.hidden_size,
        model.ffn_hidden_size,
        cluster.gpus_per_node,
    )
    return [
        degree
        for degree in range(1, min(cluster.gpus_per_node, model.heads) + 1)
        if all(size % degree == 0 for size in sizes)
    ]


def _listed(degrees: list[int]) -> str:
    return ", ".join(str(degree) for degree in degrees)
