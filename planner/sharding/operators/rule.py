"""How one operator can be split: what each mesh role does to its tensors, and what that costs.

A strategy splits the devices into data x row x column. What a role does to an operator is a rule
of the operator's kind: the role splits a dimension of a tensor, or leaves the tensor whole on all
devices of the role.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from planner.sharding.graph import Graph, Operator


class Degrees(NamedTuple):
    """Devices per role; their product is the number of devices."""

    data: int
    row: int
    column: int


class Split(NamedTuple):
    """Which dimension of a tensor each role splits; None = the role leaves the tensor whole.

    Two roles may split one dimension; the earlier role then makes the larger blocks.
    """

    data: int | None = None
    row: int | None = None
    column: int | None = None


class Roles(NamedTuple):
    """Something that holds for some of the roles."""

    data: bool = False
    row: bool = False
    column: bool = False


WHOLE = Split()
NO_ROLE = Roles()
ALL_ROLES = Roles(data=True, row=True, column=True)
DATA_ROLE = Roles(data=True)


@dataclass(frozen=True, slots=True)
class InputRule:
    """One tensor that the operator reads.

    `partial_gradient`: roles over whose devices the gradient comes out as partial sums, which the
    operator's backward adds up with an all-reduce. `saved`: kept from forward to backward.
    """

    split: Split
    partial_gradient: Roles = NO_ROLE
    saved: bool = False


@dataclass(frozen=True, slots=True)
class OutputRule:
    """One tensor that the operator makes.

    `partial`: roles over whose devices it comes out as partial sums, which the operator's forward
    adds up with an all-reduce, so that it is whole on them afterwards (`split` says None for
    them). `saved`: kept from forward to backward by this operator. `is_view`: the same memory as
    the operator's first input, so that it takes none of its own.
    """

    split: Split
    partial: Roles = NO_ROLE
    saved: bool = False
    is_view: bool = False


@dataclass(frozen=True, slots=True)
class ParameterRule:
    """One parameter. `partial_gradient`: roles over which its gradient has to be added up."""

    split: Split
    partial_gradient: Roles = DATA_ROLE


@dataclass(frozen=True, slots=True)
class Extra:
    """Something of `elements` elements of `dtype` in all that the operator keeps for its backward
    beside inputs and outputs: dropout masks, norm statistics. `splits` says which roles divide
    it."""

    elements: int
    dtype: str
    splits: Roles


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective beside those that the partial sums call for, over the devices of one role.

    `size_bytes` is the whole array, before anything is split; `splits` says which roles divide it
    into arrays of separate groups. For all-gather and reduce-scatter the array is that of the
    whole group, for all-to-all that of all its devices together (nccl-tests' convention).
    """

    kind: Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]
    phase: Literal["forward", "backward"]
    role: Literal["data", "row", "column"]
    size_bytes: int
    splits: Roles


@dataclass(frozen=True, slots=True)
class JointUnits:
    """Several roles split one dimension of a tensor: their degrees' product has to divide `units`
    pieces, called `what` in messages."""

    roles: Roles
    units: int
    what: str


@dataclass(frozen=True, slots=True)
class Rule:
    """How an operator can be split.

    `units`: each role's degree has to divide this number of indivisible pieces (samples, channels,
    heads); None = any degree, since the role only replicates. `limited_by` names, per role, what
    the pieces are ("batch", "kv heads"), for messages. `flops`: whole forward, 2 per multiply-add;
    `backward_flops`: of the gradient for the inputs and for the parameters together.
    `divides_work`: roles that divide the FLOPs; the others repeat them. `suffix` distinguishes the
    strategies of a second rule of the same operator.
    """

    units: tuple[int | None, int | None, int | None]
    limited_by: tuple[str, str, str]
    inputs: tuple[InputRule, ...]
    outputs: tuple[OutputRule, ...]
    parameters: tuple[ParameterRule, ...] = ()
    extras: tuple[Extra, ...] = ()
    collectives: tuple[Collective, ...] = ()
    counts_input_copies: bool = False
    flops: int = 0
    backward_flops: int = 0
    divides_work: Roles = ALL_ROLES
    suffix: str = ""
    warnings: tuple[str, ...] = ()
    joint_units: tuple[JointUnits, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """What a rule may depend on beside the operator: whether tensors outside tensor-parallel
    regions may be split along the sequence, which adds a second rule to most kinds."""

    sequence_parallel: bool = False


RuleMaker = Callable[[Operator, Graph, RuleOptions], tuple[Rule, ...]]
"""The rules of one operator, at least one. Raises `SpecError` where its shapes make no sense."""


Count = tuple[int, int | None]
"""The fewest and the most of something; None = any number."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of operator: its name, its rules, the attributes that it understands, and how many
    inputs, outputs and parameters it has."""

    name: str
    make_rules: RuleMaker
    attributes: frozenset[str] = frozenset()
    inputs: Count = (1, 1)
    outputs: Count = (1, 1)
    parameters: Count = (0, 0)
