"""Plans run by processes that send each other what they have to, against an unsharded layer."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from planner.sharding.graph import Graph
from tests.torch_plans.exchange import cut
from tests.torch_plans.executor import Devices, ShardedGraph, process_group
from tests.torch_plans.layer import PlainLayer, as_in_graph
from tests.torch_plans.plans import Plan


@dataclass(frozen=True)
class Case:
    """A plan of a layer's graph, and the sizes of the layer."""

    name: str
    graph: Graph
    plan: Plan
    layer: dict[str, Any]


def in_double(graph: Graph) -> Graph:
    """The same graph with tensors in double precision."""
    tensors = {name: replace(tensor, dtype="fp64") for name, tensor in graph.tensors.items()}
    return replace(graph, tensors=tensors)


def largest_errors(cases: Sequence[Case], devices: int, folder: Path) -> list[dict[str, float]]:
    """For each case and what the ranks computed (output, gradients), the largest deviation."""
    # A server that has imported PyTorch once forks the ranks.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    queue = context.SimpleQueue()
    store = str(folder / "store")
    ranks = [
        context.Process(target=_rank, args=(rank, devices, store, list(cases), queue))
        for rank in range(devices)
    ]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    assert [rank.exitcode for rank in ranks] == [0] * devices
    by_rank = [queue.get() for _ in ranks]
    return [
        {what: max(errors[number][what] for errors in by_rank) for what in by_rank[0][number]}
        for number in range(len(cases))
    ]


def _rank(rank: int, devices: int, store: str, cases: Sequence[Case], queue: Any) -> None:
    torch.set_num_threads(1)
    with process_group("gloo", rank, devices, dist.FileStore(store, devices)) as found:
        queue.put([errors(case, found) for case in cases])


def errors(case: Case, devices: Devices) -> dict[str, float]:
    """The largest deviation of this rank's blocks from the unsharded layer's."""
    torch.manual_seed(1)
    layer = PlainLayer(**case.layer).double()
    whole = layer.whole_parameters(case.graph)
    for parameter in whole.values():
        torch.nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
    x = torch.randn(case.graph.tensors["x"].shape, dtype=torch.float64)
    gradient = torch.randn_like(x)
    x.requires_grad_()
    y = layer(x)
    y.backward(gradient)

    module = ShardedGraph(case.graph, case.plan, devices, as_in_graph(whole))
    own_x = module.block_of(module.input, x.detach()).requires_grad_()
    own_y = module(own_x)
    own_y.backward(module.block_of(module.output, gradient))
    module.sum_gradients()
    found = {
        "output": _error(own_y, module.block_of(module.output, y)),
        "input": _error(own_x.grad, module.block_of(module.input, x.grad)),
    }
    wanted = as_in_graph({key: parameter.grad for key, parameter in whole.items()})
    for key, (block, layout) in module.gradient_blocks().items():
        found[key] = _error(block, cut(wanted[key], layout, devices.rank))
    return found


def _error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found - wanted).detach().abs().max())
