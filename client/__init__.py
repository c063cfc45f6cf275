"""The `loadmaster` command and the Python client: `from client import Planner, Run`.

Importing this package loads nothing; each name loads what it needs when it is first used, which for
`Planner`, `AsyncPlanner` and `Run` is an HTTP client and for `Planner.local()` the planner itself.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from client.errors import (
        ApiError,
        ClientError,
        IncompatibleServer,
        Infeasible,
        InputError,
        NoPlan,
        ServiceUnreachable,
        WaitTimeout,
    )
    from client.library.async_job import AsyncBatch, AsyncJob
    from client.library.async_planner import AsyncPlanner
    from client.library.job import Batch, Job
    from client.library.planner import Planner
    from client.library.retries import Retries
    from client.library.run import Run
    from client.library.run_views import RunPlan, RunView
    from client.library.views import (
        Estimate,
        PipelineSchedule,
        Result,
        ShardingPlan,
        Status,
        Timeline,
        TrainingPlan,
    )

__all__ = [
    "ApiError",
    "AsyncBatch",
    "AsyncJob",
    "AsyncPlanner",
    "Batch",
    "ClientError",
    "Estimate",
    "IncompatibleServer",
    "Infeasible",
    "InputError",
    "Job",
    "NoPlan",
    "PipelineSchedule",
    "Planner",
    "Result",
    "Retries",
    "Run",
    "RunPlan",
    "RunView",
    "ServiceUnreachable",
    "ShardingPlan",
    "Status",
    "Timeline",
    "TrainingPlan",
    "WaitTimeout",
]
_NAMES_OF = {
    "client.library.async_job": ("AsyncBatch", "AsyncJob"),
    "client.library.async_planner": ("AsyncPlanner",),
    "client.library.job": ("Batch", "Job"),
    "client.library.planner": ("Planner",),
    "client.library.retries": ("Retries",),
    "client.library.run": ("Run",),
    "client.library.run_views": ("RunPlan", "RunView"),
    "client.library.views": (
        *("Estimate", "PipelineSchedule", "Result", "ShardingPlan", "Status", "Timeline"),
        "TrainingPlan",
    ),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE_OF.get(name, "client.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
