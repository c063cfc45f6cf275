"""What four ranks compute under a plan is what the unsharded layer computes."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.torch_plans.plans import (
    data_parallel,
    layer_graph,
    mixed,
    random_plan,
    tensor_parallel,
)
from tests.torch_plans.ranks import Case, in_double, largest_errors

pytestmark = pytest.mark.torch

DEVICES = 4
HIDDEN, FFN, HEADS, BATCH, SEQUENCE = 32, 64, 8, 4, 6
TOLERANCE = 1e-12


def cases() -> list[Case]:
    found = []
    for pre_norm, flash, kv_heads in ((True, False, 8), (False, False, 4), (True, True, 8)):
        graph = in_double(
            layer_graph(
                DEVICES,
                flash=flash,
                hidden_size=HIDDEN,
                ffn_hidden_size=FFN,
                heads=HEADS,
                kv_heads=kv_heads,
                batch=BATCH,
                sequence=SEQUENCE,
                gated=False,
                norm_placement="pre" if pre_norm else "post",
                architecture="encoder",
            )
        )
        data, tensor = data_parallel(graph, DEVICES), tensor_parallel(graph, 1, DEVICES)
        plans = {
            "data parallel": data,
            "tensor parallel": tensor,
            "2x2": tensor_parallel(graph, 2, 2),
            "attention by data, feed-forward by tensors": mixed(graph, data, tensor),
            **{f"random {seed}": random_plan(graph, DEVICES, seed) for seed in range(3)},
        }
        layer = {
            "hidden": HIDDEN,
            "ffn": FFN,
            "heads": HEADS,
            "kv_heads": kv_heads,
            "pre_norm": pre_norm,
            "flash": flash,
        }
        where = f"{'pre' if pre_norm else 'post'}-norm, {'flash' if flash else 'math'}"
        found += [Case(f"{where}, {name}", graph, plan, layer) for name, plan in plans.items()]
    return found


def test_outputs_and_gradients(tmp_path: Path) -> None:
    ours = cases()
    for case, errors in zip(ours, largest_errors(ours, DEVICES, tmp_path), strict=True):
        assert max(errors.values()) < TOLERANCE, (case.name, errors)
