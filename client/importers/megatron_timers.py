"""From a log of Megatron-LM with `--timing-log-level 2` to a measured profile.

Read are the timers `forward-compute` and `backward-compute`, which `megatron/core/timers.py`
writes once per logging interval as milliseconds per iteration, over all micro-batches and chunks
of a rank, in three forms: `--timing-log-option all` per rank, `minmax` (the default) and `max`.
Sizes of the run are taken from the list of arguments at the log's beginning.
"""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from client.errors import InputError
from client.importers.imported import Imported
from client.importers.measured_stage import OpFigures, StageFigures, problem_document

TIMERS = ("forward-compute", "backward-compute")
NS_PER_MS = 1e6
ARGUMENT = re.compile(r"^\s*(?:\[[^\]]*\]:?\s*)?(\w+) \.{2,} (\S+)\s*$")
RANGE = re.compile(r"([\w/-]+) \.+: \(([\d.]+), ([\d.]+)\)")
LARGEST = re.compile(r"([\w/-]+) \.+: ([\d.]+)\s*$")
TIMER_OF_RANKS = re.compile(r"^\s*([\w/-]+):\s*$")
OF_RANK = re.compile(r"^\s*rank\s+(\d+): ([\d.]+)\s*$")

Samples = Mapping[str, Sequence[tuple[float, float]]]


@dataclass(frozen=True)
class _Sizes:
    """Of the run, from its list of arguments."""

    micro_batches: int
    pipeline: int
    layers: int
    chunks: int
    world: int


def from_megatron_timers(log: str) -> Imported:
    """A measured problem where each rank's times are in the log, otherwise `training.profile`.

    Megatron-LM has one backward, so it is fused, and memory is not in its timers. The first
    interval is left out where there are more: it has warming up in it. Raises `InputError` where
    timers or sizes are missing.
    """
    lines = log.splitlines()
    sizes = _sizes(lines)
    notes = ["Timers have no memory: it is computed, or add it (`activation_bytes`)."]
    by_rank = _by_rank(lines)
    if by_rank:
        return _problem(by_rank, sizes, notes)
    return _profile(_over_ranks(lines), sizes, notes)


def _problem(
    by_rank: Mapping[str, Mapping[int, Sequence[float]]], sizes: _Sizes, notes: list[str]
) -> Imported:
    if sizes.chunks > 1:
        raise InputError(
            "virtual_pipeline_model_parallel_size",
            f"is {sizes.chunks}: timers add up all chunks of a rank.",
            "Log a run without interleaving.",
        )
    if sizes.world % sizes.pipeline:
        raise InputError("world_size", f"{sizes.world} is no multiple of the stages.", "Check it.")
    ranks_per_stage = sizes.world // sizes.pipeline

    def op(timer: str, stage: int) -> OpFigures:
        # Pipeline ranks are the outermost: those of a stage are numbered one after the other.
        ranks = range(stage * ranks_per_stage, (stage + 1) * ranks_per_stage)
        of_ranks = [by_rank[timer][rank] for rank in ranks if rank in by_rank[timer]]
        if not of_ranks:
            raise InputError(
                timer, f"has no times of the ranks of stage {stage}.", "Check the log."
            )
        # What waits for the slowest of a stage's ranks takes as long.
        slowest_ms = max(_typical(samples) for samples in of_ranks)
        return OpFigures(_per_micro_batch_ns(slowest_ms, sizes))

    stages = [
        StageFigures(stage, op(TIMERS[0], stage), op(TIMERS[1], stage), None)
        for stage in range(sizes.pipeline)
    ]
    notes.append("Transfers between stages take no time: add `transfers` if they do.")
    return Imported({"problem": problem_document(stages, sizes.micro_batches)}, notes)


def _profile(over_ranks: Samples, sizes: _Sizes, notes: list[str]) -> Imported:
    """Of a layer what the fastest stage takes, of the head what the slowest takes beyond it."""
    if any(not over_ranks.get(timer) for timer in TIMERS):
        raise InputError(
            "forward-compute",
            "or backward-compute is not in the log.",
            "Run Megatron-LM with --timing-log-level 2 (and --timing-log-option all to have the "
            "times of each rank).",
        )
    layers, rest = divmod(sizes.layers, sizes.pipeline)
    if rest:
        raise InputError(
            "num_layers",
            f"{sizes.layers} is no multiple of {sizes.pipeline} stages, so that a layer's time "
            "does not follow.",
            "Log with --timing-log-option all.",
        )
    layer: dict[str, int] = {}
    head: dict[str, int] = {}
    for timer, field in zip(TIMERS, ("forward_ns", "backward_input_ns"), strict=True):
        fastest = _typical([low for low, _ in over_ranks[timer]])
        slowest = _typical([high for _, high in over_ranks[timer]])
        layer[field] = _per_micro_batch_ns(fastest, sizes) // layers
        head[field] = _per_micro_batch_ns(slowest - fastest, sizes)
    layer["backward_weight_ns"] = 0
    profile: dict[str, dict[str, int]] = {"layer": layer}
    if sizes.pipeline > 1 and any(head.values()):
        profile["head"] = head | {"backward_weight_ns": 0}
        notes.append(
            "The fastest rank's time counts as that of its layers, and what the slowest takes "
            "beyond it as the head's."
        )
    notes.append(
        "Add `model` and `cluster`; the profile is of one GPU under the run's own degrees."
    )
    training = {
        "pipeline_parallel": sizes.pipeline,
        "micro_batches": sizes.micro_batches,
        "split_backward": False,
        "profile": profile,
    }
    return Imported({"training": training}, notes)


def _typical(samples: Sequence[float]) -> float:
    return statistics.median(samples[1:] or samples)


def _per_micro_batch_ns(milliseconds: float, sizes: _Sizes) -> int:
    return round(milliseconds * NS_PER_MS / sizes.micro_batches)


def _sizes(lines: Sequence[str]) -> _Sizes:
    given: dict[str, str] = {}
    for line in lines:
        found = ARGUMENT.match(line)
        if found:
            given.setdefault(found[1], found[2])

    def number(name: str, default: int | None = None) -> int:
        value = given.get(name, "None")
        if value.isdecimal() and int(value) > 0:
            return int(value)
        if default is None:
            raise InputError(
                name,
                "is not in the log.",
                "Give the whole log, with the list of arguments at its beginning.",
            )
        return default

    pipeline = number("pipeline_model_parallel_size")
    micro_batch, batch = number("micro_batch_size"), number("global_batch_size")
    world = number("world_size")
    other = pipeline * number("tensor_model_parallel_size", 1) * number("context_parallel_size", 1)
    replicas = number("data_parallel_size", max(1, world // other))
    return _Sizes(
        micro_batches=max(1, batch // (micro_batch * replicas)),
        pipeline=pipeline,
        layers=number("num_layers"),
        chunks=number("virtual_pipeline_model_parallel_size", 1),
        world=world,
    )


def _over_ranks(lines: Sequence[str]) -> Samples:
    """Least and largest time over ranks, per interval; both the largest where only it is there."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for line in lines:
        both, largest = RANGE.search(line), LARGEST.search(line)
        if both:
            found[both[1]].append((float(both[2]), float(both[3])))
        elif largest:
            found[largest[1]].append((float(largest[2]), float(largest[2])))
    return found


def _by_rank(lines: Sequence[str]) -> Mapping[str, Mapping[int, Sequence[float]]]:
    """Times of each rank, per interval; nothing unless both timers have some."""
    found: dict[str, dict[int, list[float]]] = {}
    timer: str | None = None
    for line in lines:
        name, of_rank = TIMER_OF_RANKS.match(line), OF_RANK.match(line)
        if name:
            timer = name[1]
        elif of_rank and timer is not None:
            ranks = found.setdefault(timer, {})
            ranks.setdefault(int(of_rank[1]), []).append(float(of_rank[2]))
        else:
            timer = None
    return found if all(timer in found for timer in TIMERS) else {}
