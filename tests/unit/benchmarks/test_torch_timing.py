"""What is kept of measured steps; the steps themselves are in tests/integration/torch."""

from __future__ import annotations

import pytest

from benchmarks.torch_timing import record_of
from tests.integration.torch.timed import CLASSIC, OURS, Timing


def test_errors_and_gains_are_of_medians() -> None:
    timings = {CLASSIC: Timing(6.0, (6.6, 6.3, 6.0)), OURS: Timing(5.0, (5.0, 5.25, 5.5))}
    record = record_of(timings, {"machine": "one"})
    assert [[*row] for row in record.tables[0].rows] == [
        ["1F1B", "6.000", "6.300", "+5.00%", "+0.00%", "+10.00%", "3"],
        ["Loadmaster", "5.000", "5.250", "+5.00%", "+0.00%", "+10.00%", "3"],
    ]
    assert "16.7 % as planned" in record.note
    assert [figure.value for figure in record.figures] == pytest.approx([5.0, 5.0])
