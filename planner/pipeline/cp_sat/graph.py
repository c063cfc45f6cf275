"""What must precede what, for either micro-batch order."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator

from planner.pipeline.milp.graph import PrecedenceGraph
from planner.pipeline.problem import MicroBatchOrder, PipelineProblem
from planner.pipeline.schedule import Token


class FreeOrderGraph(PrecedenceGraph):
    """The precedences of a problem whose micro-batches may run in any order."""

    def _add_micro_batch_order(self) -> None:
        """No order of micro-batches holds in every schedule."""


def precedence_graph(problem: PipelineProblem) -> PrecedenceGraph:
    """The precedences that hold in every schedule of the problem.

    Under fixed order, transfers of a stage that are alike run in micro-batch order, as they may
    without loss (see `milp.fifo`).
    """
    if problem.micro_batch_order is MicroBatchOrder.FREE:
        return FreeOrderGraph(problem)
    return PrecedenceGraph(problem)


def alike_micro_batches(problem: PipelineProblem) -> list[list[int]]:
    """Groups of at least two micro-batches with the same times and sizes everywhere."""
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for m in range(problem.micro_batches):
        shape: list[int] = []
        for stage in problem.stages:
            shape += [stage.forward_ns[m], stage.backward_input_ns[m], stage.backward_weight_ns[m]]
            shape += [stage.activation_bytes[m], stage.weight_grad_bytes[m]]
            shape += [stage.backward_workspace_bytes[m], stage.offload_bytes[m]]
            shape += [stage.offload_ns[m], stage.reload_ns[m]]
        for transfer in problem.transfers:
            shape += [transfer.forward_ns[m], transfer.backward_ns[m]]
        groups[tuple(shape)].append(m)
    return [group for group in groups.values() if len(group) > 1]


def break_symmetry(graph: PrecedenceGraph) -> None:
    """Let micro-batches that are alike enter the first stage in the order of their numbers.

    Their numbers can be exchanged in any schedule, so nothing is lost.
    """
    for group in alike_micro_batches(graph.problem):
        for earlier, later in itertools.pairwise(group):
            graph.add_sequence(
                graph.index[Token("F", 0, earlier)], graph.index[Token("F", 0, later)]
            )
    graph.close()


def happening_precedences(
    graph: PrecedenceGraph, happens: Callable[[int], bool]
) -> Iterator[tuple[int, int, int]]:
    """The graph's edges (a, b, lag) between operations that can happen.

    A chain of transfers in micro-batch order goes on past those that do not happen.
    """
    for a, edges in enumerate(graph.successors):
        if not happens(a):
            continue
        for b, lag in edges.items():
            following: int | None = b
            while following is not None and not happens(following):
                following = _next_transfer(graph, a, following)
            if following is not None:
                yield a, following, lag


def _next_transfer(graph: PrecedenceGraph, a: int, b: int) -> int | None:
    """What follows b in a chain of transfers that a belongs to; None if a belongs to none."""
    kind = graph.tokens[a][:2]
    if graph.tokens[b][:2] != kind:
        return None
    return next((c for c in graph.successors[b] if graph.tokens[c][:2] == kind), None)
