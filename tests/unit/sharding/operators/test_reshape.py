"""Which dimensions of a reshape or transpose roles may split."""

from __future__ import annotations

import pytest

from planner.errors import SpecError
from planner.sharding.operators.rule import Split
from tests.unit.sharding.operators.operators import rule, rules

Shape = tuple[int, ...]


@pytest.mark.parametrize(
    ("source", "target", "units", "column"),
    [
        # Features become heads and their sizes: whole heads stay together.
        ((8, 512, 1024), (8, 512, 16, 64), (8, None, 16), (2, 2)),
        ((8, 512, 16, 64), (8, 512, 1024), (8, None, 16), (2, 2)),
        # Samples stay together where batch and sequence become one.
        ((8, 512, 1024), (4096, 1024), (8, None, 1024), (2, 1)),
        ((4096, 1024), (8, 512, 1024), (8, None, 1024), (1, 2)),
        # What is common to 6 and 4 parts is 2.
        ((6, 4), (4, 6), (2, None, None), (None, None)),
        ((8, 3, 32, 32), (8, 3072), (8, None, 3), (1, 1)),
        ((1, 8, 4), (8, 4), (None, None, 4), (2, 1)),
    ],
)
def test_reshape(
    source: Shape,
    target: Shape,
    units: tuple[int | None, ...],
    column: tuple[int | None, int | None],
) -> None:
    own = rule("reshape", [source], [target])
    assert own.units == units
    assert (own.inputs[0].split.column, own.outputs[0].split.column) == column
    assert own.outputs[0].is_view


def test_transpose_is_found_where_all_sizes_differ() -> None:
    own = rule("transpose", [(8, 512, 16, 64)], [(8, 16, 512, 64)])
    assert own.inputs[0].split == Split(data=0, column=2)
    assert own.outputs[0].split == Split(data=0, column=1)
    assert not own.outputs[0].is_view


def test_transpose_of_equal_sizes_has_to_be_said() -> None:
    shapes = [(8, 16, 16, 64)], [(8, 16, 16, 64)]
    with pytest.raises(SpecError, match="cannot be found"):
        rule("transpose", *shapes)
    own = rule("transpose", *shapes, dimension_map="0:0, 1:2, 2:1, 3:3")
    assert own.inputs[0].split == Split(data=0, column=2)


def test_batch_and_sequence_may_change_places() -> None:
    first, second = rules("transpose", [(8, 512, 64)], [(512, 8, 64)], sequence_parallel=True)
    assert first.outputs[0].split == Split(data=1, column=2)
    assert second.inputs[0].split == Split(data=0, row=1, column=2)
    assert second.outputs[0].split == Split(data=1, row=0, column=2)


def test_a_reshape_that_also_swaps_can_be_said() -> None:
    own = rule("reshape", [(8, 512, 1024)], [(8, 16, 512, 64)], dimension_map="0:0,1:2,2:1")
    assert own.units == (8, None, 16)
    assert own.outputs[0].split == Split(data=0, column=1)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("0-0", "is no map"),
        ("0:0,1:2", "does not say where all"),
        ("0:0,1:1,2:1", "does not lead"),
        ("0:0,1:1,2:3", "does not lead"),
        ("0:1,1:0,2:2", "cannot become"),
    ],
)
def test_maps_that_make_no_sense(text: str, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint) as caught:
        rule("transpose", [(2, 4, 6)], [(2, 6, 4)], dimension_map=text)
    assert caught.value.path == ("graph", "operators", "v", "attributes", "dimension_map")


def test_elements_do_not_get_lost() -> None:
    with pytest.raises(SpecError, match="as many elements"):
        rule("reshape", [(2, 3)], [(2, 4)])
