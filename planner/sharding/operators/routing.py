"""Which experts each token goes to, as the router makes it and the experts read it.

Either one tensor [..., experts] of combination weights, zero for the experts not chosen, or two,
weights and numbers of the k chosen ones, [..., k] each.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.errors import SpecError
from planner.sharding.graph import Operator, Tensor
from planner.sharding.operators.checks import (
    path_of,
    require,
    require_shape,
    whole_attribute,
)


def experts_per_token(
    operator: Operator,
    field: str,
    first: int,
    routing: Sequence[Tensor],
    tokens: tuple[int, ...],
    experts: int,
) -> int:
    """How many experts a token goes to, from the routing or the attribute `experts_per_token`.

    `field` and `first` say where the routing tensors stand among the operator's. Raises
    `SpecError` where their shapes do not fit `tokens` and the number of experts.
    """
    given = operator.attributes.get("experts_per_token")
    path = path_of(operator, "attributes", "experts_per_token")
    shown = routing[0].shape[-1] if len(routing) == 2 and routing[0].shape else None
    if given is None and shown is None:
        raise SpecError(
            path,
            "is required where one tensor holds the weights of all experts.",
            "Give how many experts a token goes to.",
        )
    chosen = whole_attribute(operator, "experts_per_token", shown or 1)
    require(
        chosen <= experts,
        path,
        f"{chosen} are more than the {experts} experts.",
        f"Give {experts} or less.",
    )
    width = chosen if len(routing) == 2 else experts
    for number, tensor in enumerate(routing, start=first):
        why = f"tokens {list(tokens)}, {experts} experts and {chosen} per token"
        require_shape(operator, field, number, tensor.shape, (*tokens, width), why)
    require(
        all(not tensor.has_gradient for tensor in routing[1:]),
        path_of(operator, field, first + 1),
        "does not hold whole numbers.",
        "Give the numbers of the chosen experts the dtype int64 or int32.",
    )
    return chosen


def require_experts(operator: Operator, experts: int) -> None:
    """Raise `SpecError` where the attribute `experts` contradicts the parameters."""
    given = whole_attribute(operator, "experts", experts)
    require(
        given == experts,
        path_of(operator, "attributes", "experts"),
        f"are {given}, but the parameters are of {experts}.",
        f"Give {experts}, or leave it out.",
    )
