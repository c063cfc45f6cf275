"""Lengths and memory of standard schedules of equal stages, as other programs time them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.predictions.rows import Group, Row
from planner.pipeline.classic.schedules import (
    gpipe_schedule,
    grouped_interleaved_schedule,
    interleaved_schedule,
    one_forward_one_backward_schedule,
    uniform_interleaved_schedule,
    v_half_schedule,
    v_min_schedule,
    zero_bubble_h1_schedule,
    zero_bubble_h2_schedule,
    zero_bubble_v_schedule,
)
from planner.pipeline.classic.timed import TimedClassic
from planner.pipeline.documents import read_problem
from planner.pipeline.problem import PipelineProblem


@dataclass(frozen=True)
class Equal:
    """Equal stages: nanoseconds of F, B, W and a hop, bytes that F adds and that B leaves to W, all
    of one device and one micro-batch."""

    forward_ns: int
    backward_input_ns: int
    backward_weight_ns: int
    hop_ns: int
    activation_bytes: int
    weight_grad_bytes: int

    def problem(
        self, devices: int, micro_batches: int, chunks: int = 1, *, is_v: bool = False
    ) -> PipelineProblem:
        """On so many devices, each of whose stages is cut into chunks."""
        ring = list(range(devices))
        order = [*ring, *reversed(ring)] if is_v else ring * chunks
        stage = {
            "forward_ns": self.forward_ns // chunks,
            "backward_input_ns": self.backward_input_ns // chunks,
            "backward_weight_ns": self.backward_weight_ns // chunks,
            "activation_bytes": self.activation_bytes // chunks,
            "weight_grad_bytes": self.weight_grad_bytes // chunks,
        }
        hops = [self.hop_ns * (left != right) for left, right in pairwise(order)]
        return read_problem(
            {
                "micro_batches": micro_batches,
                "devices": [{}] * devices,
                "stages": [{"device": device, **stage} for device in order],
                "transfers": [{"forward_ns": hop, "backward_ns": hop} for hop in hops],
            }
        )

    def schedules(self, devices: int, micro_batches: int) -> Mapping[str, TimedClassic]:
        """All that are compared."""
        one = self.problem(devices, micro_batches)
        two = self.problem(devices, micro_batches, 2)
        vee = self.problem(devices, micro_batches, 2, is_v=True)
        return {
            "GPipe": gpipe_schedule(one),
            "1F1B": one_forward_one_backward_schedule(one),
            "interleaved, 2 chunks": interleaved_schedule(two, 2),
            "interleaved, 4 chunks": interleaved_schedule(
                self.problem(devices, micro_batches, 4), 4
            ),
            "ZB-H1": zero_bubble_h1_schedule(one),
            "ZB-H2": zero_bubble_h2_schedule(one),
            "ZB-V": zero_bubble_v_schedule(vee),
            "V-Half": v_half_schedule(vee),
            "V-Min": v_min_schedule(vee),
            "GIS, 2 chunks": grouped_interleaved_schedule(two, 2),
            "GIS-H, 2 chunks": grouped_interleaved_schedule(two, 2, devices // 2),
            "uniform repeat, 2 chunks": uniform_interleaved_schedule(two, 2, 0),
        }


UNIT_NS = 1_000_000
EVEN = Equal(UNIT_NS, UNIT_NS, UNIT_NS, 0, 1000, 1000)
UNEVEN = Equal(UNIT_NS, 12 * UNIT_NS // 10, 8 * UNIT_NS // 10, UNIT_NS // 10, 1000, 1000)
PROFILED = Equal(29_718_000, 29_444_000, 19_927_000, 527_000, 303_104, 131_072)
"""6.2B (Qi et al. 2024); bytes per token of a layer, 34 h + 5 a s and 32 h."""

TORCH = {
    "GPipe": (33.0, 33.6, 8.0),
    "1F1B": (33.0, 34.6, 4.0),
    "interleaved, 2 chunks": (28.5, 29.9, 5.5),
    "ZB-H1": (27.0, 29.4, 4.0),
    "ZB-V": (25.5, 27.1, 4.0),
}
"""Length of each with even and uneven passes, and the most forwards of a device held."""
PEER: Mapping[tuple[int, int], Mapping[str, tuple[float, float | None]]] = {
    (8, 32): {
        "1F1B": (3120, 1.0),
        "interleaved, 2 chunks": (2823, 1.44),
        "interleaved, 4 chunks": (2702, 1.22),
        "ZB-H1": (2820, 1.0),
        "ZB-H2": (2743, 1.99),
        "ZB-V": (2653, 1.0),
        "V-Half": (2852, 0.625),
        "V-Min": (3342, 0.5),
        "GIS, 2 chunks": (2750, 1.0),
        "GIS-H, 2 chunks": (2832, 0.75),
        "uniform repeat, 2 chunks": (2915, 0.81),
    },
    (16, 64): {
        "1F1B": (6326, None),
        "ZB-H1": (5682, None),
        "ZB-H2": (5515, None),
        "ZB-V": (5324, None),
        "V-Half": (5809, 0.56),
        "V-Min": (6785, 0.375),
    },
    (4, 8): {
        "1F1B": (878, None),
        "ZB-H1": (757, None),
        "ZB-H2": (723, None),
        "ZB-V": (685, None),
    },
}
"""Milliseconds, and the peak over that of 1F1B."""


def groups() -> Iterator[Group]:
    """PyTorch's orders and those of the zero-bubble project."""
    yield Group(
        "Schedules built into PyTorch",
        "Orders of PyTorch 2.13 replayed, 4 stages, 8 micro-batches; uneven: F 1, B 1.2, W 0.8, "
        "hop 0.1",
        list(_torch()),
    )
    yield Group(
        "Schedules of the zero-bubble project",
        "Its programs run on the 6.2B profile; the length is of the whole step, all stages' starts "
        "included",
        list(_peer()),
    )


def _torch() -> Iterator[Row]:
    even, uneven = EVEN.schedules(4, 8), UNEVEN.schedules(4, 8)
    for name, (length, uneven_length, held) in TORCH.items():
        yield Row(f"{name}, even", "passes", length, even[name].makespan_ns / UNIT_NS)
        yield Row(f"{name}, uneven", "passes", uneven_length, uneven[name].makespan_ns / UNIT_NS)
        yield Row(f"{name}, held", "forwards", held, max(even[name].peak_memory_bytes) / 1000)


def _peer() -> Iterator[Row]:
    for (devices, micro_batches), published in PEER.items():
        ours = PROFILED.schedules(devices, micro_batches)
        of_1f1b = devices * PROFILED.activation_bytes
        for name, (length_ms, peak) in published.items():
            what = f"{devices} stages, {micro_batches} micro-batches, {name}"
            rows = [Row(what, "ms", length_ms, ours[name].makespan_ns / 1e6)]
            if peak is not None:
                held = max(ours[name].peak_memory_bytes) / of_1f1b
                rows.append(Row(f"{what}: peak", "of 1F1B's", peak, held))
            yield from rows
