"""Peak memory of sharding plans of one layer on four devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.predictions.rows import Group, Row, with_why
from planner.cost.memory import StateBytes
from planner.cost.model import read_model
from planner.cost.parameters import count_parameters
from planner.sharding.build import Formulation, formulate
from planner.sharding.costs import CostSettings
from planner.sharding.devices import read_devices
from planner.sharding.graph import DTYPE_BYTES, Graph
from planner.sharding.operators.rule import RuleOptions
from planner.sharding.peak import predicted_peak_bytes
from planner.sizes import MIB
from tests.torch_plans.plans import Plan, data_parallel, layer_graph, mixed, tensor_parallel

BERT = {"hidden_size": 1024, "ffn_hidden_size": 4096, "heads": 16, "batch": 8, "sequence": 512}
WIDE = {"hidden_size": 2304, "ffn_hidden_size": 9216, "heads": 24, "batch": 8, "sequence": 512}
LONG = {"hidden_size": 2048, "ffn_hidden_size": 8192, "heads": 16, "batch": 8, "sequence": 2048}
PLANS = (
    "one device",
    "tensor 4",
    "data 4",
    "data 2, tensor 2",
    "attention data 4, feed-forward tensor 4",
    "attention tensor 4, feed-forward data 4",
)
MEASURED: Mapping[str, tuple[dict[str, Any], tuple[float, ...]]] = {
    "BERT-Large, math": (
        {**BERT, "dtype": "fp32", "flash": False},
        (580.1, 208.1, 208.1, 182.1, 176.1, 241.1),
    ),
    "BERT-Large, fused attention": (
        {**BERT, "dtype": "fp32", "flash": True},
        (416.3, 176.1, 152.1, 144.1, 144.1, 188.1),
    ),
    "h 2304, fused attention": (
        {**WIDE, "dtype": "fp32", "flash": True},
        (1116.5, 441.2, 540.3, 414.2, 403.0, 587.5),
    ),
    "h 2304, math": (
        {**WIDE, "dtype": "fp32", "flash": False},
        (1308.2, 489.1, 632.5, 462.1, 450.9, 664.5),
    ),
    "h 2048, 2048 tokens, bf16, fused attention": (
        {**LONG, "dtype": "bf16", "flash": True},
        (1537.1, 672.4, 480.3, 512.3, 520.3, 648.3),
    ),
}
"""MiB of each of `PLANS`."""

SENT_MIB = {
    "tensor 4": (
        144.0,
        "measured, the gradients of the inputs of queries, keys and values are summed one by one: "
        "six all-reduces, where the plan has four",
    ),
    "data 4": (72.08, ""),
    "data 2, tensor 2": (72.0, "six all-reduces of activations, where the plan has four"),
    "attention data 4, feed-forward tensor 4": (
        72.0,
        "measured, sums of the feed-forward are scattered to where the batch lies; the plan adds "
        "them up everywhere",
    ),
}
"""By a device in a forward and a backward of BERT-Large, math; 2 (n - 1)/n of what is all-reduced
and (n - 1)/n of what is gathered or scattered."""


def groups() -> Iterator[Group]:
    """Peaks of plans, what devices send, and what one layer keeps."""
    yield Group(
        "Peak memory of sharding plans of one layer",
        "Measured by PyTorch's MemTracker, batch 8: parameters, gradients, activations, input and "
        "its gradient. The program is another than that of the sharding plans above; sequence "
        "parallelism and FSDP are no plans of the planner",
        list(_peaks()),
    )
    yield Group(
        "What a device sends under sharding plans of one layer",
        "Payloads of PyTorch's collectives, BERT-Large, fp32, batch 8, 512 tokens, times what a "
        "ring sends of each",
        list(_sent()),
    )
    yield Group(
        "What one BERT-Large layer keeps",
        "Measured by PyTorch's MemTracker, fp32, batch 8, 512 tokens, attention scores stored",
        list(_kept()),
    )


def _peaks() -> Iterator[Row]:
    for name, (sizes, measured) in MEASURED.items():
        for plan, mib in zip(PLANS, measured, strict=True):
            yield Row(f"{name}: {plan}", "MiB", mib, peak_bytes(plan, sizes) / MIB)


def peak_bytes(name: str, sizes: Mapping[str, Any]) -> int:
    """The predicted peak on a device of one of `PLANS`."""
    formulation, choice = _chosen(name, sizes)
    return predicted_peak_bytes(formulation, choice, resident_gradients=False)


def sent_bytes(name: str, sizes: Mapping[str, Any]) -> int:
    """What a device sends under one of `PLANS`, in operators and on the way between them."""
    formulation, choice = _chosen(name, sizes)
    own = zip(formulation.costs, choice, strict=True)
    between = (
        passage.times * passage.table[choice[passage.source]][choice[passage.target]]
        for passage in formulation.passages
    )
    return sum(costs[number].communication_bytes for costs, number in own) + int(sum(between))


def _sent() -> Iterator[Row]:
    sizes, _ = MEASURED["BERT-Large, math"]
    for name, (reference, why) in SENT_MIB.items():
        row = Row(name, "MiB", reference, sent_bytes(name, sizes) / MIB)
        yield from with_why([row], why)


def _chosen(name: str, sizes: Mapping[str, Any]) -> tuple[Formulation, list[int]]:
    """The formulation, and which strategy of each operator the plan takes."""
    devices = 1 if name == "one device" else 4
    graph = layer_graph(devices, gated=False, **sizes)
    plan = _plan(name, graph)
    formulation = _formulation(graph, devices, sizes["dtype"])
    operators = zip(graph.operators, formulation.strategies, strict=True)
    return formulation, [
        [strategy.name for strategy in strategies].index(plan[operator.name].name)
        for operator, strategies in operators
    ]


def _plan(name: str, graph: Graph) -> Plan:
    if name == "one device":
        return data_parallel(graph, 1)
    if name == "data 2, tensor 2":
        return tensor_parallel(graph, 2, 2)
    data, tensor = data_parallel(graph, 4), tensor_parallel(graph, 1, 4)
    plans = {
        "tensor 4": tensor,
        "data 4": data,
        "attention data 4, feed-forward tensor 4": mixed(graph, data, tensor),
        "attention tensor 4, feed-forward data 4": mixed(graph, tensor, data),
    }
    return plans[name]


def _formulation(graph: Graph, devices: int, dtype: str) -> Formulation:
    """Gradients as the parameters, and no optimizer."""
    size = DTYPE_BYTES[dtype]
    settings = CostSettings(
        devices=read_devices(devices),
        states=StateBytes(parameter=size, gradient=size, optimizer=0),
        joules_per_flop=0.0,
    )
    return formulate(graph, settings, RuleOptions())


def _kept() -> Iterator[Row]:
    sizes = {**BERT, "dtype": "fp32", "flash": False}
    graph = layer_graph(1, gated=False, **sizes)
    formulation = _formulation(graph, 1, "fp32")
    kept = sum(graph.tensors[name].size_bytes for name in formulation.saved)
    parameters = count_parameters(read_model("BERT-Large")).layer * DTYPE_BYTES["fp32"]
    yield Row("parameters", "MiB", 48.05, parameters / MIB)
    yield Row("activations", "MiB", 384.06, kept / MIB)
