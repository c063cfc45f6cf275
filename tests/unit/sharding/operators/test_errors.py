"""Operators that make no sense: the field at fault is named and the remedy said."""

from __future__ import annotations

from typing import Any

import pytest

from planner.errors import SpecError
from planner.sharding.operators.registry import KINDS
from tests.unit.sharding.operators.operators import operator, rule

INT = {"x0": "int64", "x1": "int64", "x2": "int64"}
PATH = ("graph", "operators", "v")

WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[str | int, ...], str]] = [
    ("linear", ([(4, 6)], [(4, 8)]), {}, ("parameters",), "are 0"),
    ("linear", ([(4, 6)], [(4, 8)], [(8, 6)]), {}, ("parameters", 0), r"\[8, 6\] does not lead"),
    ("linear", ([(4, 6)], [(5, 8)], [(6, 8)]), {}, ("parameters", 0), "does not lead"),
    ("linear", ([(4, 6)], [(4, 8)], [(6, 8), (6,)]), {}, ("parameters", 1), r"\[8\] would"),
    ("linear", ([(6,)], [(8,)], [(6, 8)]), {}, ("inputs", 0), "at least 2"),
    (
        "linear",
        ([(4, 6)], [(4, 8)], [(6, 8)]),
        {"column_units": 3},
        ("attributes", "column_units"),
        "number of heads",
    ),
    (
        "linear",
        ([(4, 6)], [(4, 8)], [(6, 8)]),
        {"row_units": 0},
        ("attributes", "row_units"),
        "at least 1",
    ),
    (
        "linear",
        ([(4, 6)], [(4, 8)], [(6, 8)]),
        {"colum_units": 2},
        ("attributes", "colum_units"),
        "Did you mean 'column_units'",
    ),
    (
        "merge_heads",
        ([(2, 4, 3, 2)], [(2, 3, 8)]),
        {"heads": 4},
        ("attributes", "heads"),
        "Known: fixed_sizes, is_view",
    ),
    (
        "glu",
        ([(4, 8)], [(4, 4)]),
        {"packing": "halves"},
        ("attributes", "packing"),
        'Give "blocks"',
    ),
    (
        "reshape",
        ([(4, 8)], [(4, 2, 4)]),
        {"fixed_sizes": 8},
        ("attributes", "fixed_sizes"),
        "must be true or false",
    ),
    (
        "layer_norm",
        ([(4, 8)], [(4, 8)], [(8,), (8,)]),
        {"rows": 4},
        ("attributes", "rows"),
        "It has none",
    ),
    ("matmul", ([(2, 3, 4), (2, 5, 4)], [(2, 3, 5)]), {}, ("inputs", 1), "not a batched product"),
    ("matmul", ([(2, 4, 3, 4), (2, 3, 4, 5)], [(2, 4, 3, 5)]), {}, ("inputs", 1), "heads may"),
    ("matmul", ([(2, 3, 4), (2, 4, 5)], [(2, 3, 4)]), {}, ("outputs", 0), r"\[2, 3, 5\] would"),
    ("matmul", ([(2, 3, 4)], [(2, 3, 4)]), {}, ("inputs",), "has 2"),
    (
        "matmul",
        ([(2, 3, 4), (2, 4, 5)], [(2, 3, 5)]),
        {"transpose_b": 1},
        ("attributes", "transpose_b"),
        "true or false",
    ),
    ("attention", ([(2, 4, 3, 2)] * 2 + [(2, 4, 3)], [(2, 4, 3, 2)]), {}, ("inputs", 2), "heads"),
    (
        "attention",
        ([(2, 4, 3, 2), (2, 3, 3, 2), (2, 3, 3, 2)], [(2, 4, 3, 2)]),
        {},
        ("inputs", 1),
        "shared evenly",
    ),
    ("attention", ([(2, 4, 3, 2)] * 3, [(2, 4, 3, 4)]), {}, ("outputs", 0), "would"),
    ("softmax", ([(2, 3)], [(3, 2)]), {}, ("outputs", 0), "would"),
    (
        "softmax",
        ([(2, 4, 3)], [(2, 4, 3)]),
        {"column_dimension": 2},
        ("attributes", "column_dimension"),
        "runs over",
    ),
    ("layer_norm", ([(2, 3)], [(2, 3)], [(2,)]), {}, ("parameters", 0), r"\[3\] would"),
    ("rms_norm", ([(2, 3)], [(2, 3)], [(3,), (3,)]), {}, ("parameters",), "has 0 to 1"),
    ("gelu", ([(2, 3)], [(2, 4)]), {}, ("outputs", 0), "would"),
    (
        "gelu",
        ([(2, 3)], [(2, 3)]),
        {"column_dimension": 2},
        ("attributes", "column_dimension"),
        "no dimension 2",
    ),
    ("add", ([(2, 3), (2,)], [(2, 3)]), {}, ("inputs", 1), "broadcast"),
    ("add", ([(2, 1), (1, 1)], [(2, 3)]), {}, ("outputs", 0), "no input has the 3"),
    ("add", ([(2, 3)], [(2, 3)]), {}, ("inputs",), "2 or more"),
    ("embedding", ([(4,)], [(4, 8)], [(10, 8)]), {}, ("inputs", 0), "int64"),
    ("embedding", ([(4,)], [(4, 8)], [(10,)]), {"dtypes": INT}, ("parameters", 0), "rows, hidden"),
    (
        "embedding",
        ([(4,)], [(4, 8)], [(10, 8), (3, 8)]),
        {"dtypes": INT},
        ("parameters", 1),
        r"\[4, 8\] would",
    ),
    ("embedding", ([(4,)], [(4, 7)], [(10, 8)]), {"dtypes": INT}, ("outputs", 0), "would"),
    ("cross_entropy", ([(4, 9), (4,)], [()]), {}, ("inputs", 1), "int64"),
    (
        "cross_entropy",
        ([(4, 9), (3,)], [()]),
        {"dtypes": {"x1": "int64"}},
        ("inputs", 1),
        r"\[4\] would",
    ),
    (
        "cross_entropy",
        ([(4, 5, 9), (4, 5)], [(5,)]),
        {"dtypes": {"x1": "int64"}},
        ("outputs", 0),
        "no mean",
    ),
    ("conv1d", ([(2, 4, 5, 5)], [(2, 4, 3, 3)], [(4, 4, 3, 3)]), {}, ("inputs", 0), "3 dimensions"),
    ("conv", ([(2, 4, 5)], [(2, 4, 3)], [(4, 3, 3)]), {}, ("parameters", 0), "does not lead"),
    ("conv", ([(2, 4, 5)], [(2, 4, 3)], [(4, 4)]), {}, ("parameters", 0), "does not lead"),
    ("conv", ([(2, 4, 5)], [(3, 4, 3)], [(4, 4, 3)]), {}, ("outputs", 0), "batch"),
    (
        "conv",
        ([(2, 4, 5)], [(2, 4, 3)], [(4, 4, 3)]),
        {"groups": 3},
        ("attributes", "groups"),
        "do not divide",
    ),
    ("split_heads", ([(2, 3, 8)], [(2, 4, 3, 2)] * 2), {}, ("outputs",), "are two"),
    ("split_heads", ([(2, 8)], [(2, 4, 3, 2)]), {}, ("inputs", 0), "sequence, features"),
    ("split_heads", ([(2, 3, 8)], [(2, 3, 4, 2)]), {}, ("outputs", 0), "does not fit"),
    ("split_heads", ([(2, 3, 9)], [(2, 4, 3, 2)]), {}, ("outputs", 0), "8 features"),
    (
        "split_heads",
        ([(2, 3, 20)], [(2, 4, 3, 2), (2, 3, 3, 2), (2, 3, 3, 2)]),
        {},
        ("outputs", 1),
        "make up groups",
    ),
    ("merge_heads", ([(2, 4, 3, 2)], [(2, 4, 6)]), {}, ("outputs", 0), r"\[2, 3, 8\] would"),
    ("merge_heads", ([(2, 4, 6)], [(2, 4, 6)]), {}, ("inputs", 0), "head size"),
    ("glu", ([(2, 8)], [(2, 8)]), {}, ("inputs", 0), r"\[2, 16\] would"),
    ("glu", ([(2, 8), (2, 16)], [(2, 8)]), {}, ("inputs", 1), r"\[2, 8\] would"),
    ("router", ([(2, 8)], [(2, 4)], [(8, 4)]), {}, ("attributes", "experts_per_token"), "required"),
    ("router", ([(2, 8)], [(2, 4)], [(4, 8)]), {}, ("parameters", 0), "does not score"),
    (
        "router",
        ([(2, 8)], [(2, 4)], [(8, 4)]),
        {"experts_per_token": 5},
        ("attributes", "experts_per_token"),
        "more than the 4",
    ),
    (
        "router",
        ([(2, 8)], [(2, 4)], [(8, 4)]),
        {"experts_per_token": 1, "experts": 3},
        ("attributes", "experts"),
        "are of 4",
    ),
    ("router", ([(2, 8)], [(2, 1), (2, 1)], [(8, 4)]), {}, ("outputs", 1), "int64"),
    (
        "experts",
        ([(2, 8), (2, 4)], [(2, 8)], [(4, 8, 6), (4, 8, 6)]),
        {"experts_per_token": 1},
        ("parameters", 1),
        "which does not fit",
    ),
    (
        "experts",
        ([(2, 8), (2, 4)], [(2, 8)], [(4, 8, 7), (4, 6, 8)]),
        {"experts_per_token": 1},
        ("parameters", 0),
        r"\[4, 8, 6\] would",
    ),
    (
        "experts",
        ([(2, 8), (2, 4)], [(2, 8)], [(4, 6), (4, 8, 6), (4, 6, 8)]),
        {"experts_per_token": 1},
        ("parameters",),
        "or three times",
    ),
    (
        "experts",
        ([(2, 8), (2, 4)], [(2, 8)], [(4, 8, 6), (4, 6), (4, 6), (4, 6, 8)]),
        {"experts_per_token": 1},
        ("parameters", 2),
        "behind a weight",
    ),
    (
        "experts",
        ([(2, 8), (2, 3)], [(2, 8)], [(4, 8, 6), (4, 6, 8)]),
        {"experts_per_token": 1},
        ("inputs", 1),
        r"\[2, 4\] would",
    ),
    (
        "experts",
        ([(2, 8), (2, 4)], [(2, 8)], [(4, 8, 6), (4, 6, 8)]),
        {"experts_per_token": 1, "gated": True},
        ("parameters", 0),
        r"\[4, 8, 12\] would",
    ),
    (
        "experts",
        ([(2, 8), (2, 4)], [(2, 8)], [(4, 8, 3), (4, 8, 3), (4, 6, 8)]),
        {"experts_per_token": 1, "gated": False},
        ("attributes", "gated"),
        "2 weights lead into",
    ),
]


@pytest.mark.parametrize(("kind", "tensors", "fields", "field", "complaint"), WRONG)
def test_the_field_at_fault_is_named(
    kind: str,
    tensors: tuple[Any, ...],
    fields: dict[str, Any],
    field: tuple[str | int, ...],
    complaint: str,
) -> None:
    with pytest.raises(SpecError, match=complaint) as caught:
        rule(kind, *tensors, **fields)
    assert caught.value.path == (*PATH, *field)
    assert caught.value.remedy


def test_kinds_go_by_their_names() -> None:
    assert all(kind.name == name for name, kind in KINDS.items())


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "input"])
def test_no_kind_takes_nothing(kind: str) -> None:
    found, _ = operator(kind, [], [(2, 3)])
    with pytest.raises(SpecError) as caught:
        rule(kind, [], [(2, 3)])
    assert caught.value.path == (*PATH, "inputs")
    assert caught.value.remedy
    assert found.kind == kind
