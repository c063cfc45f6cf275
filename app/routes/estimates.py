"""POST /v1/{name}-estimates: closed formulas, answered at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from app.dependencies import ReadCaller, ServicesDep
from app.errors import (
    BodyTooLarge,
    DatabaseUnavailable,
    InvalidRequest,
    LimitExceeded,
    MalformedBody,
    UnsupportedMediaType,
)
from app.routes.submitting import body_of
from app.schemas.estimates import EstimateView
from app.schemas.problems import problem_responses
from planner.estimates.registry import REQUESTS

router = APIRouter(tags=["estimates"])

Answer = Callable[[Request, ReadCaller, ServicesDep], Awaitable[Response]]

# Per estimate: what it answers, in a sentence for the page and with the fields of its answer.
WORDS = {
    "memory": (
        "What each pipeline rank holds in device memory, and whether it fits.",
        "`parameters`, `per_rank` with the parts of each rank's memory, `fits`, `headroom_bytes` "
        "and what would make it fit",
    ),
    "step-time": (
        "How long a training step takes, and what it is made of.",
        "`step_time_ns` with its parts, `tokens_per_s` and `mfu`",
    ),
    "recomputation": (
        "How many layers to checkpoint together: the square-root rule beside the exact optimum.",
        "memory saved and time added of each interval, the rule's and the best one",
    ),
    "scaling": (
        "How throughput grows with the number of GPUs, and where more of them lower it.",
        "the source's number of devices beside a prediction per number of GPUs",
    ),
    "offload": (
        "In which pieces, how fast and to which tier activations are offloaded.",
        "chunk sizes, effective times and the memory tiers",
    ),
    "communication": (
        "Which ranks communicate over which links, and how NCCL should be set.",
        "the groups of each tier, the algorithm advised for each, and one environment",
    ),
    "checkpoints": (
        "How often to write checkpoints, what failures cost, and how to restart.",
        "plans of one level and of two (defaults, Young, Daly, best), what a preemption notice "
        "allows, and the order of a rolling restart",
    ),
}


def _answer_of(name: str) -> Answer:
    async def answer(request: Request, caller: ReadCaller, services: ServicesDep) -> Response:
        body = await services.bodies.json_object(request, services.settings.max_body_bytes)
        work = partial(services.estimates.answer, caller, name, body)
        return JSONResponse(await run_in_threadpool(work))

    return answer


for _name, (_summary, _fields) in WORDS.items():
    router.add_api_route(
        f"/v1/{_name}-estimates",
        _answer_of(_name),
        methods=["POST"],
        name=f"estimate_{_name.replace('-', '_')}",
        description=_summary,
        openapi_extra=body_of(REQUESTS[_name].__name__),
        responses={
            200: {
                "model": EstimateView,
                "description": f"{_fields[0].upper()}{_fields[1:]}; `assumptions`; `warnings`.",
            },
            **problem_responses(
                MalformedBody,
                BodyTooLarge,
                UnsupportedMediaType,
                InvalidRequest,
                LimitExceeded,
                DatabaseUnavailable,
            ),
        },
    )
