"""What a plan keeps, as it is counted, beside its predicted peak."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.sharding.baselines.baseline import pick
from planner.sharding.build import Formulation
from planner.sharding.instance import totals
from planner.sharding.peak import predicted_peak_bytes
from tests.unit.sharding.posted import Body, bodies, formulation, repeated


def smaller_inputs(own: Formulation, choice: Sequence[int]) -> int:
    """How often an operator reads a smaller block than its device had."""
    chosen = [strategies[k] for strategies, k in zip(own.strategies, choice, strict=True)]
    found = 0
    for operator, strategy in zip(own.graph.operators, chosen, strict=True):
        for tensor, rule in zip(operator.inputs, strategy.rule.inputs, strict=True):
            maker = own.graph.producer_of[tensor]
            place = own.graph.operators[maker].outputs.index(tensor)
            had = chosen[maker].layout(chosen[maker].rule.outputs[place].split)
            found += strategy.layout(rule.split).blocks > had.blocks
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(bodies(), st.randoms(use_true_random=False))
def test_only_readers_of_smaller_blocks_keep_less_than_is_counted(
    body: Body, numbers: random.Random
) -> None:
    own = formulation(body)
    instance = own.instance(1.0, None)
    for _ in range(10):
        choice = [numbers.randrange(len(strategies)) for strategies in own.strategies]
        kept = totals(instance, choice).memory_bytes
        assert kept <= predicted_peak_bytes(own, choice) or smaller_inputs(own, choice)


def test_slices_that_are_kept_take_less_than_the_wholes_that_are_counted() -> None:
    """A row-split linear layer keeps a quarter of what row repeats before it."""
    own = formulation({"graph": repeated(4), "devices": 4})
    row = pick(own, ["d1-r4-c1"] * len(own.strategies))
    assert not isinstance(row, str)
    kept = totals(own.instance(1.0, None), row).memory_bytes
    assert smaller_inputs(own, row) > 0
    assert predicted_peak_bytes(own, row) < kept
