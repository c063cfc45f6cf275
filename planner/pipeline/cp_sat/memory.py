"""Device and host memory in the CP-SAT model: a row at every allocation.

Memory in use only grows when F, R, or a B that allocates starts (on a host: when O starts), so it
suffices to keep it within the limit at these instants. At one instant frees come before
allocations: an operation that ends as the allocation starts has freed.
"""

from __future__ import annotations

from collections import defaultdict
from math import gcd

from planner.pipeline.cp_sat.formulation import Formulation, Truth, negated
from planner.pipeline.milp.allocations import compute_memory
from planner.pipeline.schedule import Token


def add_device_memory(build: Formulation) -> None:
    """Keep every device with a limit within it."""
    for d, device in enumerate(build.graph.problem.devices):
        if device.activation_memory_bytes is not None:
            build.check_time()
            _add_device(build, d, device.activation_memory_bytes)


def _add_device(build: Formulation, device: int, limit: int) -> None:
    graph, problem = build.graph, build.graph.problem
    allocations, frees = compute_memory(graph, device)
    transfers: list[tuple[int, int, int]] = []
    for i in graph.transfers_of_device[device]:
        op, s, m = graph.tokens[i]
        if op == "R" and build.scope.happens(i):
            offload = graph.index[Token("O", s, m)]
            transfers.append((offload, i, problem.stages[s].offload_bytes[m]))
    if sum(allocations.values()) <= limit:
        return
    frees = {i: size for i, size in frees.items() if size}
    unit = gcd(*allocations.values(), *frees.values(), *(size for _, _, size in transfers))
    for a in [*allocations, *(reload for _, reload, _ in transfers)]:
        if a not in build.starts:
            continue
        terms = [(size, build.begun(i, a)) for i, size in allocations.items()]
        terms += [(-size, build.ended(i, a)) for i, size in frees.items()]
        terms += [
            (-size, build.away(offload, reload, a))
            for offload, reload, size in transfers
            if reload != a
        ]
        _add_row(build, terms, limit, unit)


def add_host_memory(build: Formulation) -> None:
    """Keep every host with a limit within it, at the start of any offload into it."""
    graph, problem = build.graph, build.graph.problem
    transfers: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for i, (op, s, m) in enumerate(graph.tokens):
        host = problem.devices[graph.device[i]].host
        if op == "O" and host is not None and build.scope.happens(i):
            reload = graph.index[Token("R", s, m)]
            transfers[host].append((i, reload, problem.stages[s].offload_bytes[m]))
    for h, group in transfers.items():
        limit = problem.hosts[h].memory_bytes
        if limit is None or sum(size for _, _, size in group) <= limit:
            continue
        unit = gcd(*(size for _, _, size in group))
        for arriving, _, _ in group:
            if arriving not in build.starts:
                continue
            build.check_time()
            terms = [(size, _held(build, o, r, arriving)) for o, r, size in group]
            _add_row(build, terms, limit, unit)


def _held(build: Formulation, offload: int, reload: int, a: int) -> Truth:
    """A literal that may be false only if a micro-batch is not in host memory when a starts."""
    needed = [build.offload(offload), build.begun(offload, a), negated(build.ended(reload, a))]
    return build.all_of(needed, f"on host {offload} {a}")


def _add_row(build: Formulation, terms: list[tuple[int, Truth]], limit: int, unit: int) -> None:
    """Sum of the sizes whose literal holds <= limit."""
    room = limit // unit - sum(size // unit for size, literal in terms if literal is True)
    open_terms = [
        (size // unit, literal) for size, literal in terms if not isinstance(literal, bool)
    ]
    if sum(max(0, size) for size, _ in open_terms) > room:
        build.model.add(sum(size * literal for size, literal in open_terms) <= room)
