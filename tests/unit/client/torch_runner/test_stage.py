"""A stage that cannot run yet says so."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")

from client.torch_runner.errors import StageError  # noqa: E402
from client.torch_runner.stage import PlannedStage  # noqa: E402


def test_a_stage_without_a_schedule_is_refused() -> None:
    stage = PlannedStage.__new__(PlannedStage)
    with pytest.raises(StageError, match="call build_runtime first"):
        stage.planned()
