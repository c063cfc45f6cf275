"""PyTorch's private names that the runner uses, in one place.

They are the same in PyTorch 2.12 to 2.14. Where one is missing, importing this says which.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch

from client.torch_runner.errors import UnsupportedTorch

CHECKED = "2.12 to 2.14"


def _name(module: str, *path: str) -> Any:
    try:
        found = import_module(module)
        for part in path:
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise UnsupportedTorch(
            f"PyTorch {torch.__version__} has no {module}.{'.'.join(path)}. The runner knows "
            f"PyTorch {CHECKED}: install one of these, or run a schedule without offloads from "
            "its torch-csv."
        ) from error
    return found


_SCHEDULES = "torch.distributed.pipelining.schedules"
ScheduleRuntime = _name(_SCHEDULES, "_PipelineScheduleRuntime")
"""Takes any order of operations."""
RuntimeAction = _name(_SCHEDULES, "_Action")
ComputationType = _name(_SCHEDULES, "_ComputationType")
storage_use_count = _name("torch._C", "_storage_Use_Count")
default_store = _name("torch.distributed.distributed_c10d", "_get_default_store")

OFFLOAD = _name(_SCHEDULES, "_ComputationType", "RESHARD")
RELOAD = _name(_SCHEDULES, "_ComputationType", "UNSHARD")
"""The only actions with a micro-batch that can have functions of our own and compute nothing."""
SENDS = (
    _name(_SCHEDULES, "_ComputationType", "SEND_F"),
    _name(_SCHEDULES, "_ComputationType", "SEND_B"),
)

for _method in (
    *("clear_runtime_states", "forward_one_chunk", "backward_one_chunk"),
    *("backward_weight_one_chunk", "get_fwd_send_ops", "get_bwd_send_ops"),
    *("set_local_fwd_input", "set_local_bwd_input"),
):
    # `PlannedStage` overrides them: under another name they would not be called.
    _name("torch.distributed.pipelining", "PipelineStage", _method)
for _method in ("_prepare_schedule_with_comms", "register_custom_function", "step"):
    _name(_SCHEDULES, "_PipelineScheduleRuntime", _method)
