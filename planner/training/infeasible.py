"""Why no configuration fits, and what would: each way out is computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from planner.cost.hardware import LARGEST_GPUS, read_cluster
from planner.cost.hardware_presets import GPU_PRESETS
from planner.cost.training import Recomputation
from planner.progress import StopCheck
from planner.sizes import gib
from planner.training.evaluate import Evaluator, Plan, Shortage
from planner.training.least_memory import least_memory
from planner.training.search import search
from planner.training.space import count_configurations
from planner.training.spec import TrainingSpec
from planner.training.trainings import document_of, states_of
from planner.training.words import configuration, memory_parts, shortage

COMPUTED = "computed: the changed request was searched for a configuration that fits"
DEGREES = (
    "tensor_parallel",
    "pipeline_parallel",
    "data_parallel",
    "context_parallel",
    "expert_parallel",
)
LADDERS: dict[str, tuple[str, ...]] = {
    "offload": ("offload",),
    "zero_stage": ("zero_stage",),
    "recomputation": ("recomputation",),
    "micro_batch_size": ("micro_batch_size",),
    "degrees": DEGREES,
}
"""Kinds of restrictions that a request may lift, in the order in which it is tried."""
EVERYTHING: dict[str, tuple[Any, ...]] = {
    "offload": (False, True),
    "zero_stage": (0, 1, 2, 3),
    "recomputation": tuple(Recomputation),
}
"""All that a field may be; of the others None stands for that."""


def explain(
    spec: TrainingSpec,
    evaluator: Evaluator,
    expert_loads: Mapping[tuple[int, int], float],
    should_stop: StopCheck,
) -> dict[str, Any]:
    """The `infeasibility` part of an answer: the least that any configuration needs, what of, the
    fewest GPUs of this kind that would do, and the ways out."""
    least = least_memory(spec, evaluator, expert_loads, should_stop)
    assert isinstance(least, Shortage)
    rank, needed = least.fullest, least.peak_bytes
    parts = memory_parts(rank, max(0, rank.total_bytes - needed))
    fewest, searched = _fewest_gpus(spec, expert_loads, should_stop)
    return {
        "summary": f"Of all configurations {configuration(least.training)} needs the least memory, "
        f"and {shortage(rank, needed)}.",
        "rank": rank.rank,
        "bytes": needed,
        "limit_bytes": rank.limit_bytes,
        "smallest_limit_bytes": needed,
        "limited_by": next(iter(parts)),
        "parts": [{"what": what, "bytes": size} for what, size in parts.items()],
        "offload": _offload_words(least),
        "training": document_of(spec, least.training),
        "smallest_gpus": fewest,
        "gpus_searched": searched,
        "remedies": [*_remedies(spec, expert_loads, should_stop)],
    }


def _offload_words(least: Shortage) -> str | None:
    short = least.offload
    if short is None:
        return None
    if short.where == "host":
        return (
            f"The host memory of node {short.number} would need {gib(short.needed_bytes)} per GPU "
            f"and has {gib(short.limit_bytes)}."
        )
    return f"With all offloads rank {short.number} still needs {gib(short.needed_bytes)}."


def _fewest_gpus(
    spec: TrainingSpec, expert_loads: Mapping[tuple[int, int], float], should_stop: StopCheck
) -> tuple[int | None, int]:
    """The first of twice, four times, … the nodes on which something fits, and up to how many
    GPUs was looked."""
    cluster, searched = spec.cluster, spec.devices[0]
    nodes = max(1, searched // cluster.gpus_per_node)
    while 2 * nodes * cluster.gpus_per_node <= LARGEST_GPUS and not should_stop():
        nodes *= 2
        larger = replace(cluster, nodes=nodes)
        changed = replace(spec, cluster=larger, devices=(larger.gpus,))
        if not count_configurations(changed).configurations:
            # The degrees that are fixed do not make use of more GPUs, or the batch is too small.
            break
        searched = larger.gpus
        if _fits(changed, expert_loads, should_stop):
            return searched, searched
    return None, searched


def _remedies(
    spec: TrainingSpec, expert_loads: Mapping[tuple[int, int], float], should_stop: StopCheck
) -> Iterator[dict[str, Any]]:
    """Each kind of restriction lifted on its own, all together, and GPUs with more memory."""
    restricted = {
        kind: [name for name in names if _restricts(spec, name)] for kind, names in LADDERS.items()
    }
    changes = [(kind, names) for kind, names in restricted.items() if names]
    if len(changes) > 1:
        changes.append(("together", [name for _, names in changes for name in names]))
    for kind, names in changes:
        opened: dict[str, Any] = {name: EVERYTHING.get(name) for name in names}
        changed = replace(spec, choices=replace(spec.choices, **opened))
        words = f"{', '.join(names)} left open"
        left_out = _left_out(spec, names)
        yield _remedy(kind, words, left_out, changed, expert_loads, should_stop)
    for kind, names in restricted.items():
        if not names and kind != "degrees":
            yield {
                "remedy": kind,
                "fits": False,
                "detail": "Nothing fits with any of its values.",
                "basis": "computed: the request leaves it open, so all of them were searched",
            }
    yield from _larger_gpus(spec, expert_loads, should_stop)


def _left_out(spec: TrainingSpec, names: Sequence[str]) -> dict[str, None]:
    """The paths of a request that restrict these fields, each with what leaves it out."""
    return {
        f"{part}.{name}": None
        for name in names
        for part in ("training", "search")
        if name in (spec.request.get(part) or {})
    }


def _restricts(spec: TrainingSpec, name: str) -> bool:
    mine = getattr(spec.choices, name)
    return mine is not None and tuple(mine) != EVERYTHING.get(name)


def _larger_gpus(
    spec: TrainingSpec, expert_loads: Mapping[tuple[int, int], float], should_stop: StopCheck
) -> Iterator[dict[str, Any]]:
    """The first preset with more memory on which something fits, the smallest first."""
    posted = spec.cluster_fields
    # A calibration is of one kind of GPU.
    is_calibrated = posted.pop("calibration", None) is not None
    own = spec.cluster.memory_bytes
    larger = sorted(
        (p for p in GPU_PRESETS.values() if p.fields["memory_bytes"] > own),
        key=lambda preset: preset.fields["memory_bytes"],
    )
    tried = []
    for preset in larger:
        fields = {**posted, "gpu": preset.name}
        fields.pop("gpu_memory_bytes", None)
        cluster = read_cluster(fields)
        if cluster.gpu.peak_flop_per_s(spec.fixed["precision"]) is None:
            continue
        memory = int(cluster.memory_bytes * (1 - spec.memory_headroom))
        changed = replace(spec, cluster=replace(cluster, memory_bytes=memory))
        changes: dict[str, Any] = {"cluster.gpu": preset.name, "cluster.gpu_memory_bytes": None}
        if is_calibrated:
            changes["cluster.calibration"] = None
        words = f"{preset.name} instead"
        remedy = _remedy("gpu", words, changes, changed, expert_loads, should_stop)
        if remedy["fits"]:
            yield remedy | {"gpu": preset.name}
            return
        tried.append(preset.name)
    if tried:
        yield {
            "remedy": "gpu",
            "fits": False,
            "detail": f"Does not fit with {' or '.join(tried)} either.",
            "basis": COMPUTED,
        }


def _fits(
    spec: TrainingSpec, expert_loads: Mapping[tuple[int, int], float], should_stop: StopCheck
) -> bool:
    evaluator = Evaluator(spec.model, spec.cluster, states_of(spec))
    return isinstance(least_memory(spec, evaluator, expert_loads, should_stop), Plan)


def _remedy(
    kind: str,
    words: str,
    request_changes: Mapping[str, Any],
    spec: TrainingSpec,
    expert_loads: Mapping[tuple[int, int], float],
    should_stop: StopCheck,
) -> dict[str, Any]:
    """Whether anything fits in a changed search, and if so the fastest that does.

    `request_changes` are what makes the request one for that search: values by path, None where a
    field is to be left out.
    """
    remedy: dict[str, Any] = {"remedy": kind, "basis": COMPUTED}
    if not _fits(spec, expert_loads, should_stop):
        return {**remedy, "fits": False, "detail": f"Does not fit with {words} either."}
    remedy["request_changes"] = dict(request_changes)
    fastest = replace(spec, top=1, pareto=False)
    evaluator = Evaluator(spec.model, spec.cluster, states_of(spec))
    found = search(fastest, evaluator, expert_loads, should_stop).ranked
    if not found:
        return {**remedy, "fits": True, "detail": f"With {words} something fits."}
    plan = found[0]
    return {
        **remedy,
        "fits": True,
        "detail": f"With {words} {configuration(plan.training)} fits: predicted step "
        f"{plan.total_ns / 1e6:.1f} ms.",
        "step_time_ns": plan.total_ns,
        "training": document_of(spec, plan.training),
    }
