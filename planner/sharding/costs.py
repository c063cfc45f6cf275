"""What a strategy costs: redundant bytes, bytes on one device, bytes that one device sends.

Formulas: ring collectives send 2 (n-1)/n B per device for an all-reduce of an array of B bytes,
(n-1)/n B for all-gather and reduce-scatter, (n-1)/n of a device's share for all-to-all
(nccl-tests); redundancy as in Shi et al. 2025, summed over all that an operator holds; model
states as in `planner.cost.memory`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from planner.cost.memory import StateBytes, ceil_div
from planner.sharding.devices import DeviceGroup
from planner.sharding.graph import DTYPE_BYTES, Operator, Parameter, Tensor
from planner.sharding.instance import StrategyCost
from planner.sharding.operators.rule import ParameterRule, Roles, Rule, Split
from planner.sharding.operators.ways import roles_that_split
from planner.sharding.strategies import Strategy

Role = Literal["data", "row", "column"]
ROLES: tuple[Role, ...] = ("data", "row", "column")
Redundancy = Literal["source", "mesh"]
Communication = Literal["volume", "time"]


@dataclass(frozen=True, slots=True)
class Terms:
    """Further terms of the objective, as bytes of redundancy: per FLOP that a device does beyond
    an even share of the work, and per joule that one device spends in a step."""

    computation_imbalance: float = 0.0
    energy: float = 0.0


@dataclass(frozen=True, slots=True)
class CostSettings:
    """What costs depend on beside the operator and its strategy.

    Activations are sent in each of `micro_batches`, gradients once per step; a device holds the
    activations of `micro_batches_in_flight`.
    """

    devices: DeviceGroup
    states: StateBytes
    joules_per_flop: float
    zero_stage: int = 0
    micro_batches: int = 1
    micro_batches_in_flight: int = 1
    terms: Terms = Terms()
    redundancy: Redundancy = "source"
    communication: Communication = "volume"


@dataclass(frozen=True, slots=True)
class Holding:
    """Something that lies on the devices: bytes on one of them, how many hold the same, and the
    bytes of all of it."""

    resident_bytes: int
    copies: int
    whole_bytes: int

    def redundant_bytes(self, redundancy: Redundancy) -> int:
        """(copies - 1) times the bytes on one device (the source's M), or times the whole."""
        size = self.resident_bytes if redundancy == "source" else self.whole_bytes
        return (self.copies - 1) * size


class _Sending(NamedTuple):
    """An array of `size_bytes` in all that goes round the ring of a role's devices once; `splits`
    says which roles divide it into those of separate rings."""

    role: Role
    size_bytes: int
    splits: Roles


class OperatorCosts:
    """The costs of the strategies of one operator.

    `saved` are the outputs that this operator or any reader keeps for its backward.
    """

    def __init__(
        self,
        operator: Operator,
        tensors: Mapping[str, Tensor],
        saved: frozenset[str],
        settings: CostSettings,
    ) -> None:
        self.operator = operator
        self._inputs = [tensors[name] for name in operator.inputs]
        self._outputs = [tensors[name] for name in operator.outputs]
        self._saved = saved
        self._settings = settings
        self._known_sendings: dict[str, tuple[list[_Sending], list[_Sending]]] = {}

    @property
    def sizes(self) -> Hashable:
        """What the costs depend on beside rule and settings: two operators with the same sizes have
        the same."""
        return (
            tuple((tensor.size_bytes, tensor.has_gradient) for tensor in self._inputs),
            tuple((tensor.size_bytes, tensor.name in self._saved) for tensor in self._outputs),
            tuple((own.elements, own.tied_to is None) for own in self.operator.parameters),
        )

    def of(self, strategy: Strategy) -> StrategyCost:
        """All three costs in whole bytes, rounded up."""
        held = self.states(strategy)
        kept = self.kept_activations(strategy)
        return StrategyCost(
            name=strategy.name,
            redundant_bytes=self._redundant(strategy, held) + self._further_terms(strategy),
            communication_bytes=self.communication(strategy),
            memory_bytes=sum(holding.resident_bytes for holding in held)
            + self._settings.micro_batches_in_flight
            * (sum(kept.values()) + self.extra_bytes(strategy)),
        )

    def flops(self, strategy: Strategy) -> float:
        """Of one device in one step, forward and backward."""
        rule = strategy.rule
        whole = self._settings.micro_batches * (rule.flops + rule.backward_flops)
        return whole / _product(strategy, rule.divides_work)

    def states(self, strategy: Strategy) -> list[Holding]:
        """Parameters, gradients and optimizer states that lie on a device.

        ZeRO splits the states of its stage over the devices of the data role as well. A tied
        parameter lies where its holder has it.
        """
        found = []
        states, zero = self._settings.states, self._settings.zero_stage
        parts = ((states.parameter, 3), (states.gradient, 2), (states.optimizer, 1))
        rules = strategy.rule.parameters
        for parameter, rule in zip(self.operator.parameters, rules, strict=True):
            if parameter.tied_to is not None:
                continue
            whole, blocks = parameter.elements, strategy.blocks(rule.split)
            elements = ceil_div(whole, blocks)
            copies = self._settings.devices.count // blocks
            for size, splits_from in parts:
                ways = strategy.degrees.data if zero >= splits_from else 1
                if rule.split.data is not None:
                    ways = 1
                resident = ceil_div(elements * size, ways)
                found.append(Holding(resident, copies // ways, whole * size))
        return found

    def kept_activations(self, strategy: Strategy) -> dict[str, int]:
        """Bytes on a device of each output that is kept for the backward."""
        return {
            tensor.name: ceil_div(tensor.size_bytes, strategy.blocks(rule.split))
            for tensor, rule in zip(self._outputs, strategy.rule.outputs, strict=True)
            if tensor.name in self._saved and not rule.is_view
        }

    def extra_bytes(self, strategy: Strategy) -> int:
        """Masks and statistics on a device."""
        return sum(
            ceil_div(extra.elements * DTYPE_BYTES[extra.dtype], _product(strategy, extra.splits))
            for extra in strategy.rule.extras
        )

    def _redundant(self, strategy: Strategy, held: Sequence[Holding]) -> int:
        rule = strategy.rule
        holdings = list(held)
        activations = [
            (tensor, output.split)
            for tensor, output in zip(self._outputs, rule.outputs, strict=True)
            if not output.is_view
        ]
        if rule.counts_input_copies:
            activations += [
                (tensor, own.split) for tensor, own in zip(self._inputs, rule.inputs, strict=True)
            ]
        for tensor, split in activations:
            blocks, size = strategy.blocks(split), tensor.size_bytes
            copies = self._settings.devices.count // blocks
            holdings.append(Holding(ceil_div(size, blocks), copies, size))
        return sum(holding.redundant_bytes(self._settings.redundancy) for holding in holdings)

    def _further_terms(self, strategy: Strategy) -> int:
        """What the objective's further terms add, in bytes of redundancy.

        The energy of communication is no part of it: it is in the weight of communication.
        """
        settings = self._settings
        if settings.terms == Terms():
            return 0
        own, terms, rule = self.flops(strategy), settings.terms, strategy.rule
        even = settings.micro_batches * (rule.flops + rule.backward_flops) / settings.devices.count
        joules = own * settings.joules_per_flop
        return math.ceil(terms.computation_imbalance * (own - even) + terms.energy * joules)

    def communication(self, strategy: Strategy) -> int:
        """Bytes that a device sends in the strategy's own collectives in one optimizer step."""
        per_micro_batch, per_step = self._sendings(strategy.rule)
        return self._settings.micro_batches * sum(
            self._ring(strategy, each) for each in per_micro_batch
        ) + sum(self._ring(strategy, each) for each in per_step)

    def borrowed_gradient(self, strategy: Strategy, place: int) -> int:
        """Bytes sent to add up the gradient of a tied parameter before its holder has it."""
        rule = strategy.rule.parameters[place]
        size = self.operator.parameters[place].elements * self._settings.states.gradient
        reduced = _all_reduces(rule.partial_gradient, size, rule.split)
        return sum(self._ring(strategy, each) for each in reduced)

    def _sendings(self, rule: Rule) -> tuple[list[_Sending], list[_Sending]]:
        """Those of a micro-batch and those of a step; the operator's rules differ in suffix."""
        if rule.suffix not in self._known_sendings:
            gradients = [
                sending
                for parameter, own in zip(self.operator.parameters, rule.parameters, strict=True)
                if parameter.tied_to is None
                for sending in self._gradient(parameter, own)
            ]
            self._known_sendings[rule.suffix] = list(self._activations(rule)), gradients
        return self._known_sendings[rule.suffix]

    def _activations(self, rule: Rule) -> Iterator[_Sending]:
        """What partial sums call for, and the rule's own collectives."""
        for each in rule.collectives:
            rounds, splits = 2 if each.kind == "all_reduce" else 1, each.splits
            if each.kind == "all_to_all":
                # What goes round is a device's own share.
                splits = splits._replace(**{each.role: True})
            yield _Sending(each.role, rounds * each.size_bytes, splits)
        for tensor, output in zip(self._outputs, rule.outputs, strict=True):
            yield from _all_reduces(output.partial, tensor.size_bytes, output.split)
        for tensor, own in zip(self._inputs, rule.inputs, strict=True):
            if tensor.has_gradient:
                yield from _all_reduces(own.partial_gradient, tensor.size_bytes, own.split)

    def _gradient(self, parameter: Parameter, rule: ParameterRule) -> Iterator[_Sending]:
        """Adding up the gradients of a parameter, and what ZeRO moves (ZeRO, section 7)."""
        settings = self._settings
        gradient = parameter.elements * settings.states.gradient
        weight = parameter.elements * settings.states.parameter
        yield from _all_reduces(rule.partial_gradient._replace(data=False), gradient, rule.split)
        if rule.partial_gradient.data:
            per_step = settings.micro_batches
            in_all = (
                2 * gradient,
                gradient + weight,
                per_step * gradient + weight,
                per_step * (gradient + 2 * weight),
            )[settings.zero_stage]
            yield _Sending("data", in_all, roles_that_split(rule.split))

    def _ring(self, strategy: Strategy, sending: _Sending) -> int:
        """(n-1)/n of one of the blocks of an array, rounded up; in time, as bytes that the fastest
        link carries meanwhile."""
        degree: int = getattr(strategy.degrees, sending.role)
        if degree == 1:
            return 0
        blocks = _product(strategy, sending.splits)
        sent = ceil_div(sending.size_bytes * (degree - 1), blocks * degree)
        if self._settings.communication == "volume":
            return sent
        return math.ceil(sent * self.slowdown(strategy, sending.role))

    def slowdown(self, strategy: Strategy, role: str) -> float:
        """1 where the role's devices share a node, else the network's factor."""
        settings = self._settings
        _, row, column = strategy.degrees
        stride = {"data": row * column, "row": column, "column": 1}[role]
        degree: int = getattr(strategy.degrees, role)
        inside = settings.devices.is_in_node(stride, degree)
        return 1.0 if inside else settings.devices.network_factor


def _all_reduces(partial: Roles, size_bytes: int, split: Split) -> Iterator[_Sending]:
    for role, is_partial in zip(ROLES, partial, strict=True):
        if is_partial:
            yield _Sending(role, 2 * size_bytes, roles_that_split(split))


def _product(strategy: Strategy, splits: Roles) -> int:
    """How many different blocks the roles make of something that they split."""
    count = 1
    for degree, own in zip(strategy.degrees, splits, strict=True):
        count *= degree if own else 1
    return count
