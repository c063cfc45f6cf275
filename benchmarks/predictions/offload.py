"""What PipeOffload reports: transfers against computation, utilisation and activations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from benchmarks.predictions.pipe_offload import (
    SCHEDULES,
    SIZES,
    Open,
    costs_of,
    model_of,
    scheduled,
)
from benchmarks.predictions.rows import Group, Row, median_error, with_why
from benchmarks.predictions.settings import A100_FLOP_PER_S
from benchmarks.recording import Table
from planner.cost.build import CostModel
from planner.cost.hardware import read_cluster
from planner.cost.step import flops_utilization, hardware_flops, model_flops

SEQUENCES = (4096, 8192, 16_384, 32_768)
ROUND_TRIPS = {
    4096: (1.70, 1.46, 1.15, 0.80),
    5120: (1.40, 1.23, 1.00, 0.72),
    6144: (1.19, 1.07, 0.88, 0.66),
    7168: (1.03, 0.94, 0.80, 0.61),
    8192: (0.92, 0.84, 0.72, 0.56),
    10_240: (0.74, 0.69, 0.61, 0.49),
}
"""By hidden size, one for each of `SEQUENCES`: the time to offload and reload a layer's activation,
over that of its forward and backward."""
PUBLISHED_GB_PER_S = 15.0
RATES = (None, PUBLISHED_GB_PER_S)
UNCERTAIN = ("PO-H", "PO-F")
"""What they offload is not published."""
Cells = tuple[int | None, ...]
NO = None
REPORTED: Mapping[tuple[str, int], tuple[Cells, Cells]] = {
    ("10.5B", 4096): ((65, 65, 63, 59, NO, 57), (15, 13, 8, 3, NO, 12)),
    ("10.5B", 8192): ((68, 68, 65, 61, NO, 59), (30, 27, 16, 6, NO, 24)),
    ("10.5B", 16_384): ((NO, NO, 68, 63, 59, 62), (NO, NO, 32, 12, 9, 48)),
    ("10.5B", 32_768): ((NO, NO, NO, 65, 64, NO), (NO, NO, NO, 24, 14, NO)),
    ("18.1B", 4096): ((64, 65, 63, 59, NO, 56), (24, 19, 13, 4, NO, 18)),
    ("18.1B", 8192): ((66, 67, 66, 62, NO, 58), (49, 38, 25, 8, NO, 37)),
    ("18.1B", 16_384): ((NO, NO, 59, 64, 61, NO), (NO, NO, 51, 15, 9, NO)),
    ("18.1B", 32_768): ((NO, NO, NO, 65, 65, NO), (NO, NO, NO, 27, 15, NO)),
    ("42.9B", 4096): ((63, 65, 64, 62, 58, 55), (49, 34, 25, 10, 5, 33)),
    ("42.9B", 8192): ((NO, NO, 62, 63, 60, NO), (NO, NO, 51, 20, 8, NO)),
    ("42.9B", 16_384): ((NO, NO, NO, 63, 65, NO), (NO, NO, NO, 41, 12, NO)),
    ("42.9B", 32_768): ((NO, NO, NO, NO, NO, NO), (NO, NO, NO, NO, NO, NO)),
}
"""MFU in % and GB of activations, in the order of `SCHEDULES`; None where the paper has none: it
ran out of memory, or was not tried."""
NOT_TRIED = (("10.5B", 4096), ("10.5B", 8192), ("18.1B", 4096), ("18.1B", 8192))
"""Of PO-F."""
WHY_ROUND_TRIP = (
    "copies take 80 % of the datasheet's rate here, 25 GB/s, and 15 GB/s in the paper: the next "
    "table has that rate"
)
WHY_AT_PUBLISHED_RATE = (
    "the paper's k counts the whole square of attention scores, of which flash attention computes "
    "half"
)
WHY_MFU = (
    "the paper's is measured, with what its program waits for copies and neighbours; ours is the "
    "schedule's"
)
WHY_ACTIVATIONS = (
    "which chunks the paper's program offloads is not published: see how the answer depends on it"
)


def groups() -> Iterator[Group]:
    """The tables of the paper."""
    source = "PipeOffload (arXiv 2503.01328)"
    kept = (
        "layers keep what is left without the outputs of norms and of GeLU (20 s b h bytes, less "
        "with grouped queries), as the paper's do"
    )
    yield Group(
        "Offload round trips",
        f"{source}: the time to offload and reload a layer's activation over its F + B + W, A100s "
        f"in pairs behind a switch; {kept}",
        list(_round_trips(Open(), WHY_ROUND_TRIP)),
    )
    yield Group(
        f"Offload round trips at {PUBLISHED_GB_PER_S:g} GB/s",
        "The same, with the rate of copies that the paper measured given as the cluster's",
        list(_round_trips(Open(PUBLISHED_GB_PER_S), WHY_AT_PUBLISHED_RATE)),
    )
    models = (
        f"{source}, A100-80GB. Its chunks per device follow from the layers, its vocabulary "
        f"of 32,000 from the numbers of parameters; {kept}. Schedules as this planner makes those "
        "of these names"
    )
    whole = [row.error for row in _utilisation(_whole_square_flops)]
    yield Group(
        "PipeOffload's models, MFU",
        f"{models}. MFU in %, counted as Megatron-LM does, half of the square of scores; the paper "
        f"does not say, and with all of it ours would be {min(whole):.0f} to {max(whole):.0f} "
        "points above the paper's",
        list(_utilisation(hardware_flops)),
    )
    yield Group("PipeOffload's models, activations", models, list(_activations(Open())))


def tables() -> Iterator[Table]:
    """What the answer depends on, and which runs do not fit."""
    rows = []
    for asked in (Open(half_up=up, host_gb_per_s=rate) for rate in RATES for up in (False, True)):
        errors = list(_activations(asked, UNCERTAIN))
        rows.append(
            [
                "80 % of the datasheet's" if asked.host_gb_per_s is None else "as the paper's",
                "the larger" if asked.half_up else "the smaller",
                *(_error_of(name, errors) for name in UNCERTAIN),
            ]
        )
    yield Table(
        "Activations of PipeOffload's models, by what is left open",
        ("rate of copies", "half of 5 or 3 chunks", *UNCERTAIN),
        rows,
        "Median absolute error and range. An activation is offloaded where that costs no time.",
    )
    yield Table(
        "PipeOffload's models, out of memory",
        ("model", "tokens", "reported", "ours"),
        [_out_of_memory(name, sequence) for name, sequence in REPORTED],
        "On 80 GB, states at 18 bytes per parameter and 2 GiB beside. Not tried in the paper: PO-F "
        "where offloading everything takes longer than computing. That of 42.9B at 32,768 tokens "
        "failed for want of host memory, which has no limit here.",
    )


def _error_of(schedule: str, rows: list[Row]) -> str:
    errors = [row.error for row in rows if row.what.endswith(f", {schedule}")]
    return f"{median_error(errors):.0%} ({min(errors):+.0%} to {max(errors):+.0%})"


def _out_of_memory(name: str, sequence: int) -> list[str]:
    shares, _sizes = REPORTED[name, sequence]
    tried = {
        schedule: share is None
        for schedule, share in zip(SCHEDULES, shares, strict=True)
        if schedule != "PO-F" or (name, sequence) not in NOT_TRIED
    }
    reported = [schedule for schedule, is_out in tried.items() if is_out]
    ours = [schedule for schedule in tried if not _fits(name, sequence, schedule)]
    return [name, f"{sequence:,}", ", ".join(reported) or "none", ", ".join(ours) or "none"]


def _fits(name: str, sequence: int, schedule: str) -> bool:
    run = scheduled(name, sequence, schedule, Open())
    cluster = read_cluster("8xA100-80GB")
    room = cluster.memory_bytes - cluster.reserved_bytes
    held = zip(run.candidate.static_bytes, run.timed.peak_memory_bytes, strict=True)
    return max(map(sum, held)) <= room


def _round_trips(asked: Open, why: str) -> Iterator[Row]:
    for hidden, published in ROUND_TRIPS.items():
        heads = hidden // 128
        for sequence, reference in zip(SEQUENCES, published, strict=True):
            model = model_of(8, hidden, heads, heads, sequence)
            layer = costs_of(model, 8, 8, asked).blocks.layer
            ours = (layer.offload_ns + layer.reload_ns) / layer.compute_ns
            row = Row(f"h {hidden}, {sequence} tokens", "of F + B + W", reference, ours)
            yield from with_why([row], why)


def _whole_square_flops(costs: CostModel) -> int:
    training = costs.training
    return model_flops(costs.model, training.sequence, training.global_batch_size)


def _utilisation(flops_of: Callable[[CostModel], int]) -> Iterator[Row]:
    for name, sequence, schedule, mfu, _gb in _reported():
        run = scheduled(name, sequence, schedule, Open())
        flops, gpus = flops_of(run.costs), SIZES[name].gpus
        ours = flops_utilization(flops, run.timed.makespan_ns, gpus, A100_FLOP_PER_S)
        row = Row(f"{name}, {sequence} tokens, {schedule}", "%", mfu, 100 * ours)
        yield from with_why([row], WHY_MFU)


def _activations(asked: Open, schedules: Sequence[str] = SCHEDULES) -> Iterator[Row]:
    for name, sequence, schedule, _mfu, gigabytes in _reported():
        if schedule not in schedules:
            continue
        run = scheduled(name, sequence, schedule, asked)
        ours = max(run.timed.peak_memory_bytes) / 1e9
        row = Row(f"{name}, {sequence} tokens, {schedule}", "GB", gigabytes, ours)
        yield from with_why([row], WHY_ACTIVATIONS)


def _reported() -> Iterator[tuple[str, int, str, int, int]]:
    for (name, sequence), (shares, sizes) in REPORTED.items():
        for schedule, mfu, gigabytes in zip(SCHEDULES, shares, sizes, strict=True):
            if mfu is not None and gigabytes is not None:
                yield name, sequence, schedule, mfu, gigabytes
