"""Predicted peaks and collectives of sharding plans beside those that PyTorch measures."""

from __future__ import annotations

import pytest

from benchmarks.sharding_torch import COLUMNS, Row, measured, record_of

GIB = 2**30


def test_the_record_shows_errors_and_counts_exact_collectives() -> None:
    right = Row("a", "tensor", GIB, GIB, {"all_reduce": 4}, {"all_reduce": 4})
    wrong = Row("a", "random", 98 * GIB // 100, GIB, {"all_gather": 1}, {"all_gather": 2})
    record = record_of([right, wrong], {})
    table = record.tables[0]
    assert table.columns == COLUMNS
    assert table.rows[0][2:] == ["1024.00", "1024.00", "+0.00%", "all_reduce 4", "all_reduce 4"]
    assert table.rows[1][4] == "-2.00%"
    figures = {figure.name: figure.value for figure in record.figures}
    assert figures["largest error of a peak"] == pytest.approx(2.0, abs=0.01)
    assert figures["plans with all collectives as predicted"] == 1


@pytest.mark.torch
def test_one_layer_is_measured_under_every_plan() -> None:
    pytest.importorskip("torch")
    small = {"dtype": "fp32", "flash": False, "hidden_size": 64, "ffn_hidden_size": 256}
    rows = list(measured({"small": {**small, "heads": 4, "sequence": 32}}))
    assert [row.plan for row in rows][:2] == ["tensor", "data"]
    for row in rows:
        assert row.predicted == row.measured
        assert abs(row.error) < 0.1
    tensor = next(row for row in rows if row.plan == "tensor")
    assert tensor.predicted == {"all_reduce": 4}
