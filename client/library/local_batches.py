"""How the answers of a local batch compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from client.library.local_job import LocalJob
from client.library.requests import Document


def batch_view(batch_id: str, name: str | None, jobs: Sequence[LocalJob]) -> Document:
    """The batch as a service shows it."""
    best: dict[str, LocalJob] = {}
    for job in jobs:
        known = best.get(job.order.kind)
        if job.best is not None and (known is None or job.best < (known.best or 0)):
            best[job.order.kind] = job
    comparison = [
        {
            "position": position,
            "job_id": job.id,
            "name": job.order.name,
            "kind": job.order.kind,
            "state": job.state,
            "cache": "miss",
            "engine": job.order.engine,
            "objective": job.best,
            "bound": job.bound,
            "gap": job.gap,
            "ratio": _ratio(job, best.get(job.order.kind)),
        }
        for position, job in enumerate(jobs)
    ]
    fields = ("position", "job_id", "name", "objective", "bound", "gap")
    rows = {row["job_id"]: row for row in comparison}
    return {
        "id": batch_id,
        "name": name,
        "over": all(job.is_over for job in jobs),
        "jobs": len(jobs),
        "states": dict(Counter(job.state for job in jobs)),
        "best": {
            kind: {field: rows[job.id][field] for field in fields} for kind, job in best.items()
        },
        "comparison": comparison,
    }


def _ratio(job: LocalJob, best: LocalJob | None) -> float | None:
    if job.best is None or best is None or not best.best:
        return None
    return round(job.best / best.best, 6)
