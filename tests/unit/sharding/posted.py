"""Requests for sharding plans as clients post them: small graphs, random ones, and solving them."""

from __future__ import annotations

import math
import random
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st

from planner.progress import Reporter, SilentReporter, StopCheck, never
from planner.sharding.build import Formulation, formulate
from planner.sharding.instance import Instance, read_instance
from planner.sharding.request import resolve_request
from planner.sharding.settings import cost_settings, rule_options
from planner.sharding.solve import run
from planner.sharding.spec import ShardingSpec

Body = dict[str, Any]


def tensor(name: str, *shape: int, dtype: str = "bf16") -> Body:
    """A tensor of a posted graph."""
    return {"name": name, "shape": list(shape), "dtype": dtype}


def operator(name: str, kind: str, inputs: list[str], *shape: int, **fields: Any) -> Body:
    """An operator of a posted graph with one output of its name."""
    dtype = fields.pop("dtype", "bf16")
    outputs = [tensor(name, *shape, dtype=dtype)]
    return {"name": name, "kind": kind, "inputs": inputs, "outputs": outputs, **fields}


def linear(name: str, source: str, batch: int, width: int, out: int) -> Body:
    """A linear layer of a posted graph."""
    weight = {"name": "weight", "shape": [width, out]}
    return operator(name, "linear", [source], batch, out, parameters=[weight])


def two_layers(batch: int = 8, width: int = 16) -> Body:
    """A feed-forward with an activation in between: three operators and an input."""
    return {
        "inputs": [tensor("x", batch, width)],
        "operators": [
            linear("up", "x", batch, width, 4 * width),
            operator("act", "gelu", ["up"], batch, 4 * width),
            linear("down", "act", batch, 4 * width, width),
        ],
    }


def repeated(count: int, batch: int = 8, width: int = 16) -> Body:
    """Identical layers, a feed-forward each with a residual addition, between two linear ones."""
    graph = two_layers(batch, width)
    graph["inputs"] = [tensor("image", batch, width)]
    graph["operators"] = [
        linear("x", "image", batch, width, width),
        *graph["operators"],
        operator("out", "add", ["x", "down"], batch, width),
        linear("classes", "out", batch, width, width // 2),
    ]
    graph["repeat"] = {"count": count, "input": "x", "output": "out"}
    return graph


def resolved(body: Body) -> ShardingSpec:
    """The spec of a request."""
    return resolve_request(body).resolved


def formulation(body: Body) -> Formulation:
    """Strategies and costs of a request for one stage, whose pins and prohibitions are left out."""
    spec = resolved(body)
    return formulate(spec.graph, cost_settings(spec), rule_options(spec))


class StopAfter:
    """Asks for a stop once it has been looked at so many times; never if not told how many."""

    def __init__(self, looks: float = math.inf) -> None:
        self._most = looks
        self.looks = 0

    def __call__(self) -> bool:
        self.looks += 1
        return self.looks > self._most


def solve(
    body: Body,
    *,
    reporter: Reporter | None = None,
    should_stop: StopCheck = never,
    time_left_s: float | None = None,
    baselines: bool = True,
) -> dict[str, Any]:
    """Resolve a request and solve it in this process; without baselines in half of the time."""
    request = resolve_request(body)
    left_s = request.time_limit_s if time_left_s is None else time_left_s
    own = SilentReporter() if reporter is None else reporter
    if baselines:
        return run(request.spec, own, should_stop, None, left_s)
    with patch("planner.sharding.stage_solve.comparison", lambda setting: []):
        return run(request.spec, own, should_stop, None, left_s)


def document(body: Body, **options: Any) -> dict[str, Any]:
    """The document of a request that has a plan."""
    answer = solve(body, **options)
    assert answer["state"] == "succeeded", answer
    found: dict[str, Any] = answer["document"]
    return found


def instance_of(result: Body) -> Instance:
    """The instance of a document."""
    return read_instance(result["instance"])


def strategies(result: Body) -> dict[str, str]:
    """The strategy of each operator of a document."""
    return {row["name"]: row["strategy"] for row in result["plan"]["operators"]}


@st.composite
def graphs(draw: st.DrawFn, most_operators: int = 5) -> Body:
    """Chains with residual additions of linear layers, norms, activations and unknown operators;
    sizes that few or many degrees divide."""
    numbers = random.Random(draw(st.integers(0, 2**32)))
    batch = draw(st.sampled_from([1, 2, 4, 6, 8, 12]))
    sequence = draw(st.sampled_from([None, 3, 4]))
    lead = (batch,) if sequence is None else (batch, sequence)
    widths = draw(st.sampled_from([(4, 8), (6, 12), (5, 7), (8, 64)]))
    width = numbers.choice(widths)
    operators: list[Body] = []
    made = [("x", width)]
    for number in range(draw(st.integers(1, most_operators))):
        name = f"v{number}"
        source, own = made[-1]
        kind = numbers.choice(["linear", "linear", "gelu", "layer_norm", "dropout", "add", "odd"])
        fields: Body = {}
        inputs = [source]
        if kind == "linear":
            out = numbers.choice(widths)
            fields["parameters"] = [{"name": "weight", "shape": [own, out]}]
            if numbers.random() < 0.5:
                fields["parameters"].append({"name": "bias", "shape": [out]})
            own = out
        elif kind == "layer_norm":
            fields["parameters"] = [{"name": "weight", "shape": [own]}]
        elif kind == "add":
            inputs.append(numbers.choice([t for t, size in made if size == own]))
            kind = "add" if inputs[0] != inputs[1] else "relu"
            inputs = list(dict.fromkeys(inputs))
        operators.append(operator(name, kind, inputs, *lead, own, **fields))
        made.append((name, own))
    return {"inputs": [tensor("x", *lead, width)], "operators": operators}


@st.composite
def bodies(draw: st.DrawFn, most_operators: int = 5) -> Body:
    """Requests with random graphs and settings; a memory limit may bind or not."""
    body: Body = {
        "graph": draw(graphs(most_operators)),
        "devices": draw(st.sampled_from([1, 2, 3, 4, 6, {"count": 4}, "2x2xA100-40GB", "4xL40S"])),
        "alpha": draw(st.sampled_from([0, 0.01, 0.5, 1, 10, 1e9])),
        "training": {
            "zero_stage": draw(st.integers(0, 3)),
            "micro_batches": draw(st.sampled_from([1, 4])),
            "sequence_parallel": draw(st.booleans()),
            "optimizer": draw(st.sampled_from(["adam", "sgd"])),
        },
        "communication": draw(st.sampled_from(["volume", "time"])),
        "redundancy": draw(st.sampled_from(["source", "mesh"])),
        "objective": draw(st.sampled_from([{}, {"computation_imbalance": 0.5}, {"energy": 1e9}])),
        "solver": {
            "engine": draw(st.sampled_from(["cbc", "highs"])),
            "reductions": draw(st.booleans()),
            "threads": 1,
        },
    }
    share = draw(st.sampled_from([None, None, 0.0, 0.1, 0.4, 1.0]))
    if share is not None:
        least, most = extremes(body)
        body["device_memory_bytes"] = max(1, least + int(share * (most - least)))
    return body


def extremes(body: Body) -> tuple[int, int]:
    """The least and the most that a plan keeps on a device."""
    sizes = [
        [times * cost.memory_bytes for cost in own]
        for times, own in zip(formulation(body).times, formulation(body).costs, strict=True)
    ]
    return sum(map(min, sizes)), sum(map(max, sizes))
