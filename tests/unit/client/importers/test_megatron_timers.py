"""Logs of Megatron-LM with timers of level 2 give a measured problem or profile."""

from __future__ import annotations

import pytest

from client.errors import InputError
from client.importers.megatron_timers import from_megatron_timers
from planner.cost.spec import read_cost_model
from planner.pipeline.documents import read_problem

ARGUMENTS = """using world size: 8, data-parallel size: 1, tensor-model-parallel size: 2
------------------------ arguments ------------------------
  context_parallel_size ........................... 1
  data_parallel_size .............................. 1
  global_batch_size ............................... 16
  micro_batch_size ................................ 2
  num_layers ...................................... 24
  pipeline_model_parallel_size .................... 4
  tensor_model_parallel_size ...................... 2
  virtual_pipeline_model_parallel_size ............ None
  world_size ...................................... 8
-------------------- end of arguments ---------------------
"""
MILLISECONDS = {"warm-up": 9000.0, "second": 80.0, "third": 82.0, "fourth": 84.0}


def _min_max(forward: tuple[float, float], backward: tuple[float, float]) -> str:
    return f"""[2026-01-01 00:00:00] iteration       10/     100 | consumed samples:  160 |
(min, max) time across ranks (ms):
    forward-backward ...............................: (1000.00, 1001.00)
    forward-compute ................................: ({forward[0]:.2f}, {forward[1]:.2f})
    backward-compute ...............................: ({backward[0]:.2f}, {backward[1]:.2f})
    optimizer ......................................: (30.00, 31.00)
"""


def _all_ranks(base_ms: float) -> str:
    """Stage s has ranks 2 s and 2 s + 1; the odd one is slower by 0.8 ms."""
    lines = ["times across ranks (ms):"]
    for timer, factor in (("forward-compute", 1), ("backward-compute", 2)):
        lines.append(f"  {timer}:")
        lines += [
            f"     rank {rank:2d}: {factor * (base_ms + 8 * (rank // 2)) + 0.8 * (rank % 2):.2f}"
            for rank in range(8)
        ]
    return "\n".join([*lines, "  optimizer:", "     rank  0: 30.00", "next line", ""])


def test_times_of_each_rank_give_a_problem() -> None:
    log = ARGUMENTS + "".join(map(_all_ranks, MILLISECONDS.values()))
    problem = read_problem(from_megatron_timers(log).document["problem"])
    assert problem.micro_batches == 8
    # The median of 80, 82 and 84, the slower of a stage's ranks, over 8 micro-batches.
    forward = [stage.forward_ns[0] for stage in problem.stages]
    assert forward == [10_350_000, 11_350_000, 12_350_000, 13_350_000]
    assert problem.stages[0].backward_input_ns[0] == 20_600_000
    assert not any(stage.has_weight_op(0) for stage in problem.stages)
    assert [stage.device for stage in problem.stages] == [0, 1, 2, 3]


def test_least_and_largest_times_give_a_profile() -> None:
    intervals = (((8000, 9000), (8000, 9000)), ((96, 112), (192, 208)), ((96, 112), (192, 208)))
    log = ARGUMENTS + "".join(_min_max(*interval) for interval in intervals)
    training = from_megatron_timers(log).document["training"]
    # 96 ms over 8 micro-batches and 6 layers of a stage.
    assert training["profile"]["layer"] == {
        "forward_ns": 2_000_000,
        "backward_input_ns": 4_000_000,
        "backward_weight_ns": 0,
    }
    assert training["profile"]["head"]["forward_ns"] == 2_000_000
    model = {"preset": "GPT-2", "layers": 24}
    costs = read_cost_model(model, "8xA100-80GB", training | {"tensor_parallel": 2})
    assert costs.blocks.layer.forward_ns == 2_000_000


def test_the_largest_time_alone_is_a_layers() -> None:
    log = (
        ARGUMENTS
        + "max time across ranks (ms):\n"
        + "".join(
            f"    {timer} ................................: 96.00\n"
            for timer in ("forward-compute", "backward-compute")
        )
    )
    training = from_megatron_timers(log).document["training"]
    assert training["profile"]["layer"]["forward_ns"] == 2_000_000
    assert "head" not in training["profile"]


@pytest.mark.parametrize(
    ("log", "path", "words"),
    [
        (ARGUMENTS, "forward-compute", "timing-log-level 2"),
        (_all_ranks(80), "pipeline_model_parallel_size", "whole log"),
        (ARGUMENTS.replace("_size ............ None", "_size ............ 2") + _all_ranks(80),
         "virtual_pipeline_model_parallel_size", "interleaving"),
        (ARGUMENTS.replace(" 24\n", " 23\n") + _min_max((1, 1), (1, 1)), "num_layers", "multiple"),
        (ARGUMENTS.replace("world_size ...................................... 8",
                           "world_size ...................................... 12")
         + _all_ranks(80), "forward-compute", "stage 3"),
    ],
)  # fmt: skip
def test_logs_that_do_not_say_enough_are_refused(log: str, path: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as refused:
        from_megatron_timers(log)
    assert refused.value.path == path
