"""What links between GPUs, and to the host, reach."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.predictions.rows import Group, Row, with_why
from benchmarks.predictions.settings import nodes_of
from planner.cost.hardware import read_cluster
from planner.cost.routes import host_route, link_route
from planner.sizes import GIB, MIB

ALL_REDUCES = ((2, 5.443), (4, 7.259), (8, 8.193))
"""Ranks, milliseconds of 1 GiB."""
SMALL_BUS_BYTES_PER_S = 20e9
"""Of an all-reduce of 1 MiB on 8 ranks: its time follows from the bytes that a ring moves."""
BUS_GB_PER_S = {
    "H200-141GB, 2 ranks, measured": ("H200-141GB", 2, 396),
    "H100-80GB, 8 ranks, measured": ("H100-80GB", 8, 380),
    "A100-80GB, 8 ranks, constant of autoparallel": ("A100-80GB", 8, 87.7),
    "H100-80GB, 8 ranks, constant of autoparallel": ("H100-80GB", 8, 320),
    "B200-180GB, 8 ranks, constant of autoparallel": ("B200-180GB", 8, 640),
}
HOST_GB_PER_S = {"A100-80GB": 15, "H100-80GB": 21}
"""Rate of an offload in the code of the zero-bubble project."""


def groups() -> Iterator[Group]:
    """Collectives and copies."""
    yield Group(
        "All-reduces of 1 GiB on A100s", "vTrain, measured", list(_all_reduces()), fitted=True
    )
    yield Group("All-reduce of 1 MiB on A100s", "vTrain, measured", list(_small_all_reduce()))
    yield Group(
        "Bus bandwidth of large all-reduces",
        "Collected by ml-engineering and NCCL's issue 1264; constants of PyTorch's autoparallel. "
        "Ours is of 1 GiB",
        list(_bus_bandwidth()),
    )
    yield Group(
        "Copies between GPU and host",
        "Constants in the code of the zero-bubble project: one direction, one GPU at a time",
        list(_host_copies()),
    )


def _all_reduces() -> Iterator[Row]:
    for ranks, ms in ALL_REDUCES:
        yield Row(f"{ranks} ranks", "ms", ms, 1e3 * _all_reduce_s("A100-80GB", GIB, ranks))


def _small_all_reduce() -> Iterator[Row]:
    measured_s = _moved(MIB, 8) / SMALL_BUS_BYTES_PER_S
    ours_s = _all_reduce_s("A100-80GB", MIB, 8)
    yield from with_why(
        [Row("8 ranks", "ms", 1e3 * measured_s, 1e3 * ours_s)],
        "the latency of a step is one constant for all GPUs and sizes",
    )


def _bus_bandwidth() -> Iterator[Row]:
    for what, (gpu, ranks, reference) in BUS_GB_PER_S.items():
        ours = _moved(GIB, ranks) / _all_reduce_s(gpu, GIB, ranks) / 1e9
        yield from with_why(
            [Row(what, "GB/s", reference, ours)],
            "vTrain measured 229 GB/s on the same GPUs"
            if gpu.startswith("A100")
            else "the share of NVLink's rate that collectives reach was fitted to A100s only",
        )


def _host_copies() -> Iterator[Row]:
    for gpu, reference in HOST_GB_PER_S.items():
        ours = host_route(read_cluster(nodes_of(gpu, 8)), 1).bytes_per_s / 1e9
        yield from with_why(
            [Row(gpu, "GB/s", reference, ours)],
            "one share of the datasheet's rate holds for all GPUs; a cluster's `efficiency.pcie` "
            "says otherwise",
        )


def _all_reduce_s(gpu: str, size: int, ranks: int) -> float:
    return link_route(read_cluster(nodes_of(gpu, 8))).all_reduce_s(size, ranks)


def _moved(size: int, ranks: int) -> float:
    """Bytes that each rank of a ring sends in an all-reduce (nccl-tests)."""
    return 2 * (ranks - 1) / ranks * size
