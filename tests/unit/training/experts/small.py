"""Small problems, the time of a placement counted token by token, and the best of all of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from hypothesis import strategies as st

from planner.milp.engine import EngineName
from planner.training.experts.place import PlacementOptions
from planner.training.experts.problem import ExpertCosts, ExpertGroup, ExpertProblem
from planner.training.experts.routing import Routing

Held = tuple[tuple[int, ...], ...]

NODES = ((0, 0), (0, 1), (0, 0, 0), (0, 0, 1), (0, 1, 2), (0, 0, 1, 1), (0, 0, 0, 1))


@st.composite
def problems(draw: st.DrawFn, *, layers: int = 1) -> ExpertProblem:
    """Groups of two to four devices, of equal and of unequal nodes, slow and fast networks."""
    nodes = draw(st.sampled_from(NODES))
    equal = draw(st.booleans())
    most = 8 // len(nodes)
    count = len(nodes) * draw(st.integers(1, most)) if equal else draw(st.integers(2, 5))
    weight = st.integers(0, 12).map(float) | st.floats(0, 1).map(lambda x: round(x, 3))
    row = st.lists(weight, min_size=count, max_size=count).filter(any).map(tuple)
    weights = tuple(draw(row) for _ in range(layers))
    memory = None
    if draw(st.booleans()):
        least = count * layers // len(nodes) if equal else 0
        rooms = [draw(st.integers(least, count * layers)) for _ in nodes]
        rooms[0] += max(0, count * layers - sum(rooms))
        memory = tuple(1000 * room + draw(st.integers(0, 999)) for room in rooms)
    return ExpertProblem(
        Routing(weights, experts_per_token=1),
        ExpertGroup(nodes, 1e6, draw(st.sampled_from([1e5, 1e6, 4e6])), memory),
        ExpertCosts(
            state_bytes=1000,
            tokens=draw(st.integers(1, 100)),
            token_bytes=draw(st.integers(0, 50)),
            token_compute_s=draw(st.sampled_from([1e-6, 1e-5, 1e-4])),
        ),
        equal_counts=equal,
    )


def time_s(problem: ExpertProblem, held: Held, layer: int = 0) -> float:
    """Every device sends each expert its share of the device's tokens."""
    group, costs = problem.group, problem.costs
    links: dict[tuple[int, str, str], float] = {}
    computed = dict.fromkeys(range(group.devices), 0.0)
    frequencies = problem.routing.frequencies(layer)
    for source, (target, own) in itertools.product(range(group.devices), enumerate(held)):
        tokens = sum(costs.tokens * frequencies[expert] for expert in own)
        computed[target] += tokens
        if source == target:
            continue
        near = group.node_of_device[source] == group.node_of_device[target]
        for end in ((source, "out"), (target, "in")):
            key = (*end, "link" if near else "network")
            links[key] = links.get(key, 0.0) + tokens * costs.token_bytes
    rates = {"link": group.link_bytes_per_s, "network": group.network_bytes_per_s}
    slowest = max((size / rates[kind] for (_, _, kind), size in links.items()), default=0.0)
    return max(computed.values()) * costs.token_compute_s + costs.exchanges * slowest


def every_placement(problem: ExpertProblem) -> Iterator[Held]:
    """Of one layer, within counts and memory."""
    experts, devices = problem.routing.experts, problem.group.devices
    limits = problem.group.memory_bytes or (experts * problem.costs.state_bytes,) * devices
    most = [limit // problem.costs.state_bytes for limit in limits]
    if problem.equal_counts:
        most = [experts // devices] * devices

    def placed(held: Held, expert: int) -> Iterator[Held]:
        if expert == experts:
            yield held
            return
        for device, own in enumerate(held):
            if len(own) < most[device]:
                yield from placed((*held[:device], (*own, expert), *held[device + 1 :]), expert + 1)

    return placed(((),) * devices, 0)


def best_s(problem: ExpertProblem) -> float:
    """Time of the best placement of one layer."""
    return min(time_s(problem, held) for held in every_placement(problem))


def group_of(devices: int, per_node: int = 8, memory: int | None = None) -> ExpertGroup:
    """H100s with NVLink and 400 Gbit/s each."""
    return ExpertGroup(
        node_of_device=tuple(device // per_node for device in range(devices)),
        link_bytes_per_s=400e9,
        network_bytes_per_s=40e9,
        memory_bytes=None if memory is None else (memory,) * devices,
    )


COSTS = ExpertCosts(state_bytes=10**9, tokens=4096, token_bytes=8192, token_compute_s=1e-6)


def options(
    engine: EngineName = "highs", time_limit_s: float = 20.0, **changed: object
) -> PlacementOptions:
    """Options of a solve on one thread."""
    settings: dict[str, object] = {
        "engine": engine,
        "time_limit_s": time_limit_s,
        "mip_gap": 0.0,
        "threads": 1,
        "seed": 0,
        "should_stop": lambda: False,
        "on_log": lambda line: None,
    }
    return PlacementOptions(**(settings | changed))  # type: ignore[arg-type]
