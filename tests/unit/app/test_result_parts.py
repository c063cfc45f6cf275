"""Parts of a result, and its columnar form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidRequest
from app.services.result_parts import Form, Parts, columnar
from client.columnar import rows

DOCUMENT = {
    "schedule": {
        "ops": [{"op": "F", "stage": 0}, {"op": "B", "stage": 1}],
        "makespan_ns": 7,
        "waits": [],
    },
    "certificate": {"gap": 0.0, "bounds": [{"name": "a", "value_ns": 1}, {"name": "b"}]},
    "comparison": [],
    "robustness": None,
}


def parts(fields: str | None, form: Form = Form.ROWS) -> Any:
    return json.loads(Parts.read(fields, form).of(json.dumps(DOCUMENT)))


def complaint(fields: str) -> str:
    with pytest.raises(InvalidRequest) as found:
        parts(fields)
    assert found.value.errors[0].path == "fields"
    return found.value.detail


def test_without_fields_it_is_whole() -> None:
    assert parts(None) == DOCUMENT
    assert Parts.read(None, Form.ROWS).is_whole
    assert Parts.read(" , ", Form.ROWS).is_whole
    assert not Parts.read(None, Form.COLUMNAR).is_whole
    assert not Parts.read("certificate", Form.ROWS).is_whole


def test_named_fields_are_kept_in_the_order_of_the_document() -> None:
    kept = parts("certificate.gap, schedule.makespan_ns")
    assert kept == {"schedule": {"makespan_ns": 7}, "certificate": {"gap": 0.0}}
    assert list(kept) == ["schedule", "certificate"]


def test_a_field_within_a_kept_one_changes_nothing() -> None:
    assert parts("certificate,certificate.gap") == {"certificate": DOCUMENT["certificate"]}
    assert parts("certificate.gap,certificate") == {"certificate": DOCUMENT["certificate"]}


def test_named_fields_are_left_out() -> None:
    left = parts("-schedule.ops,-certificate")
    assert left == {
        "schedule": {"makespan_ns": 7, "waits": []},
        "comparison": [],
        "robustness": None,
    }


def test_what_is_left_out_counts_within_what_is_kept() -> None:
    assert parts("schedule,-schedule.ops") == {"schedule": {"makespan_ns": 7, "waits": []}}


def test_paths_lead_into_each_entry_of_a_list() -> None:
    kept = parts("schedule.ops.stage,certificate.bounds.value_ns")
    assert kept["schedule"] == {"ops": [{"stage": 0}, {"stage": 1}]}
    assert kept["certificate"] == {"bounds": [{"value_ns": 1}, {}]}
    assert parts("-schedule.ops.op")["schedule"]["ops"] == [{"stage": 0}, {"stage": 1}]


def test_below_null_and_empty_lists_nothing_is_known() -> None:
    assert parts("robustness.p50_ns") == {"robustness": None}
    assert parts("comparison.name,schedule.waits.after") == {
        "schedule": {"waits": []},
        "comparison": [],
    }


def test_unknown_fields_are_refused_with_those_there_are() -> None:
    assert "The result has: certificate, comparison, robustness, schedule." in complaint("plan")
    assert "`schedule` has: makespan_ns, ops, waits." in complaint("schedule.span")
    assert "`schedule.ops` has: op, stage." in complaint("-schedule.ops.start_ns")
    assert "`schedule.makespan_ns` has: no fields." in complaint("schedule.makespan_ns.x")
    assert "names with dots" in complaint("schedule..ops")
    assert "names with dots" in complaint("-")
    assert "more than 50" in complaint(",".join(["certificate"] * 51))


def test_lists_of_like_objects_become_columns() -> None:
    document = parts("schedule,certificate", Form.COLUMNAR)
    assert document["schedule"] == {
        "ops": {"columns": {"op": ["F", "B"], "stage": [0, 1]}, "length": 2},
        "makespan_ns": 7,
        "waits": [],
    }
    # These differ in their fields, so that they stay a list.
    assert document["certificate"]["bounds"] == DOCUMENT["certificate"]["bounds"]  # type: ignore[index]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
        | st.lists(st.fixed_dictionaries({"x": inner, "y": inner}), min_size=1, max_size=3)
    ),
    max_leaves=20,
)


@given(VALUES)
def test_columns_can_be_turned_back(value: Any) -> None:
    assert rows(columnar(value)) == value
    assert rows(json.loads(json.dumps(columnar(value)))) == json.loads(json.dumps(value))
