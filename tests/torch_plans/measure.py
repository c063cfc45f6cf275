"""What a plan takes on one rank, according to PyTorch: no memory is allocated, nothing is sent."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import get_gradient_edge
from torch.distributed._tools.fake_collectives import CollectiveOp
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode

from planner.sharding.graph import Graph
from tests.torch_plans.executor import DTYPES, Devices, ShardedGraph, process_group
from tests.torch_plans.plans import Plan

KINDS = {
    "all_reduce": "all_reduce",
    "allreduce_": "all_reduce",
    "all_gather_into_tensor": "all_gather",
    "_allgather_base_": "all_gather",
    "all_to_all_single": "all_to_all",
    "alltoall_base_": "all_to_all",
}


@dataclass(frozen=True)
class Measured:
    """Of one forward and backward pass of one rank, gradients summed, no optimizer.

    `peak_bytes`: the most that parameters, gradients, activations, input and the output's gradient
    together ever take; the output goes once it is computed. `collectives`: number by kind.
    `received_bytes`: by kind, what ring algorithms bring to the rank.
    """

    peak_bytes: int
    collectives: dict[str, int]
    received_bytes: dict[str, Fraction]


@contextmanager
def fake_devices(devices: int, rank: int = 0) -> Iterator[Devices]:
    """One rank whose collectives do nothing.

    The same rank in all of a process: DTensor keeps what it found out about a mesh's groups.
    """
    with process_group("fake", rank, devices, FakeStore()) as found:
        yield found


def measure(graph: Graph, plan: Plan, devices: Devices) -> Measured:
    """Peak memory and collectives of a plan, each in a run of its own: modes in one another count
    each other's work."""
    with FakeTensorMode():
        volumes, counts = Volumes(), CommDebugMode()
        for mode in (volumes, counts):
            step, _ = _prepared(graph, plan, devices)
            with mode:
                step()
        # Not the first pass, in which DTensor finds out about operators with tensors of whole size.
        peak = peak_bytes(*_prepared(graph, plan, devices))
    found: Counter[str] = Counter()
    for name, count in counts.get_comm_counts().items():
        found[KINDS[str(name).split(".")[-1]]] += count
    return Measured(peak, dict(found), dict(volumes.received))


def peak_bytes(step: Callable[[], None], there_before: Sequence[Any]) -> int:
    """The most that modules and tensors take during a step, those from before it included."""
    tracker = MemTracker()
    tracker.track_external(*there_before)
    with tracker:
        step()
    return int(tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"])


def _prepared(
    graph: Graph, plan: Plan, devices: Devices
) -> tuple[Callable[[], None], tuple[Any, ...]]:
    """One training step, and all that is there before it."""
    module = ShardedGraph(graph, plan, devices)
    dtype = DTYPES[graph.tensors[module.input].dtype]
    x = torch.empty(module.block_shape(module.input), dtype=dtype, requires_grad=True)
    gradient = torch.empty(module.block_shape(module.output), dtype=dtype)

    def step() -> None:
        # The next layer, not the caller, would hold the output.
        torch.autograd.backward(get_gradient_edge(module(x)), gradient)
        module.sum_gradients()

    return step, (module, x, gradient)


class Volumes(TorchDispatchMode):
    """Adds up what ring algorithms would bring to the rank, from the sizes of the arrays."""

    def __init__(self) -> None:
        super().__init__()
        self.received: dict[str, Fraction] = defaultdict(Fraction)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(each, DTensor) for each in types):
            return NotImplemented
        result = func(*args, **(kwargs or {}))
        kind = KINDS.get(str(func).split(".")[1])
        if kind is None:
            return result
        group = CollectiveOp.get_process_group(func, args)
        if kind == "all_to_all":
            received, _, _, parts, *_ = args
            size = (received.numel() - parts[group.rank()]) * received.element_size()
            self.received[kind] += size
        else:
            size = CollectiveOp.get_comm_tensor_size(func, result, args, kwargs or {})
            rounds = 2 if kind == "all_reduce" else 1
            self.received[kind] += Fraction(rounds * size * (group.size() - 1), group.size())
        return result
