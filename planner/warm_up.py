"""Compiles everything once, so that no worker has to: `python -m planner.warm_up`.

Solves tiny problems that between them call every compiled function.
"""

from __future__ import annotations

import shutil
from typing import Any

from planner.compiled_cache import cache_folder
from planner.pipeline.replan import running_start
from planner.pipeline.request import resolve_request
from planner.pipeline.solve import run
from planner.progress import SilentReporter, never

COMPLETE = "complete"
MOVES = 64


def main() -> None:
    """Fill the cache of this environment and remove what older code left there."""
    folder = cache_folder()
    if folder is None:
        return
    if folder.parent.is_dir():
        for other in folder.parent.iterdir():
            if other != folder:
                shutil.rmtree(other, ignore_errors=True)
    solver = {"search_iterations": MOVES}
    specs = [resolve_request({"problem": own, "solver": solver}).spec for own in problems()]
    answers = [run(spec, SilentReporter(), never) for spec in specs]
    # Where a run is followed, the answer is compared with the plan that runs.
    running = answers[0]["document"]["schedule"]
    run(specs[0], SilentReporter(), never, running_start(running))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / COMPLETE).touch()


def problems() -> list[dict[str, Any]]:
    """Short of memory; with offloads on shared links; V-shaped; long; for the steady span."""
    stage = {
        "forward_ns": 10,
        "backward_input_ns": 11,
        "backward_weight_ns": 7,
        "activation_bytes": 4,
        "weight_grad_bytes": 2,
    }
    moved = {"offload_bytes": 3, "offload_ns": 9, "reload_ns": 9}

    def problem(
        devices: list[int], micro_batches: int, memory: int, own: dict[str, int], **fields: Any
    ) -> dict[str, Any]:
        return {
            "micro_batches": micro_batches,
            "devices": [
                {"activation_memory_bytes": memory, "host_link": "switch"} for _ in set(devices)
            ],
            "stages": [{"device": d, **stage, **own} for d in devices],
            **fields,
        }

    return [
        problem([0, 1, 2], 6, 9, {}),
        problem([0, 1, 2], 6, 9, moved),
        problem([0, 1, 1, 0], 6, 16, {}),
        problem([0, 1, 0, 1], 6, 16, moved),
        problem([0, 1, 2], 6, 9, {}, objective="steady_span"),
        problem([0, 1, 2, 3], 360, 10, {}),
    ]


if __name__ == "__main__":
    main()
