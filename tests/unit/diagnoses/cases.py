"""Bodies of diagnoses for tests: a problem of four even stages, its plan, telemetry that follows
it or does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from planner.diagnoses.diagnose import diagnose
from planner.diagnoses.names import Cause, State, Symptom
from planner.diagnoses.request import read_request
from planner.pipeline.adaoffload import adaoffload
from planner.pipeline.documents import read_problem

Body = dict[str, Any]
Row = Mapping[str, Any]

MS = 1_000_000


def problem(
    stages: int = 4, micro_batches: int = 8, limit: int | None = None, **fields: Any
) -> Body:
    """Even stages of 10 ms each way on a device of their own, activations of 100 bytes."""
    return {
        "micro_batches": micro_batches,
        "devices": [{} if limit is None else {"activation_memory_bytes": limit}] * stages,
        "stages": [
            {
                "device": device,
                "forward_ns": 10 * MS,
                "backward_input_ns": 10 * MS,
                "backward_weight_ns": 10 * MS,
                "activation_bytes": 100,
                **fields,
            }
            for device in range(stages)
        ],
    }


def offloading(stages: int = 4, limit: int = 250, **fields: Any) -> Body:
    """The same where everything can be offloaded, and has to be in part."""
    copies = {"offload_bytes": 100, "offload_ns": 12 * MS, "reload_ns": 12 * MS}
    return problem(stages, limit=limit, **{**copies, **fields})


def schedule_of(document: Body) -> Body:
    """A good plan of a problem, as answers have it."""
    return adaoffload(read_problem(document)).to_document(None)


def one_at_a_time(document: Body) -> Body:
    """The poorest plan: one operation after the other."""
    ops: list[Body] = []
    now = 0
    stages = document["stages"]
    for m in range(document["micro_batches"]):
        down = [("F", s) for s in range(len(stages))]
        up = [(op, s) for s in reversed(range(len(stages))) for op in ("B", "W")]
        for op, s in (*down, *up):
            name = {"F": "forward", "B": "backward_input", "W": "backward_weight"}[op]
            end = now + stages[s][f"{name}_ns"]
            ops.append({"op": op, "stage": s, "micro_batch": m, "start_ns": now, "end_ns": end})
            now = end
    return {"ops": ops}


def telemetry(
    document: Body,
    iterations: int = 12,
    first: int = 20,
    change: Callable[[int, int, Body], None] | None = None,
    **whole: Any,
) -> list[Body]:
    """What a run that takes exactly as long as planned reports; `change` gets the number of the
    iteration, that of the stage, and what the stage reports."""
    rows = []
    for iteration in range(first, first + iterations):
        stages = []
        for s, stage in enumerate(document["stages"]):
            times = ("forward_ns", "backward_input_ns", "backward_weight_ns")
            own = {"stage": s, **{name: stage[name] for name in times if name in stage}}
            if "offload_ns" in stage:
                own |= {"offload_ns": stage["offload_ns"], "reload_ns": stage["reload_ns"]}
            if change is not None:
                change(iteration, s, own)
            stages.append(own)
        rows.append({"iteration": iteration, "stages": stages, **whole})
    return rows


def slower(factor: float, stage: int) -> Callable[[int, int, Body], None]:
    """A stage whose computation takes longer."""

    def change(_: int, s: int, own: Body) -> None:
        if s == stage:
            for name in ("forward_ns", "backward_input_ns", "backward_weight_ns"):
                own[name] = round(own[name] * factor)

    return change


def setting(**values: Any) -> Callable[[int, int, Body], None]:
    """The same of every stage."""
    return lambda _, __, own: own.update(values)


def answer(symptoms: Sequence[Symptom] = (), **body: Any) -> Body:
    """The answer to a body."""
    return diagnose(read_request({"symptoms": list(symptoms), **body})).to_document()


def finding(cause: Cause, symptom: Symptom, **body: Any) -> Row:
    """What the answer says about a cause of a symptom."""
    causes = answer([symptom], **body)["causes"]
    return next(own for own in causes if own["cause"] == cause)


def state(cause: Cause, symptom: Symptom, **body: Any) -> State:
    """The state of a cause of a symptom."""
    return State(finding(cause, symptom, **body)["state"])


def remedy(found: Row, name: str) -> Row:
    """A remedy of a finding."""
    return next(own for own in found["remedies"] if own["remedy"] == name)


def for_of(found: Row) -> list[Row]:
    """The evidence that speaks for a finding."""
    return [own for own in found["evidence"] if own["speaks"] == "for"]
