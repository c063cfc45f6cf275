"""Answers as Python objects: thin views over the JSON documents, which stay at `document`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from client.errors import Infeasible
from client.library.requests import TERMINAL_STATES
from client.library.showing import plans_html, schedule_html, schedule_svg, sharding_html

Row = Mapping[str, Any]


class View:
    """A document of the API; what it has no property for is at `document`."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._in_short()}>".replace(" >", ">")

    def _in_short(self) -> str:
        return ""


class Status(View):
    """How far a job is. Objective and bound are ns, or of a sharding plan bytes."""

    @property
    def id(self) -> str:
        """Of the job."""
        return str(self.document["id"])

    @property
    def state(self) -> str:
        """`queued`, `running`, `succeeded`, `infeasible`, `failed` or `cancelled`."""
        return str(self.document["state"])

    @property
    def is_over(self) -> bool:
        """Whether it will not change any more."""
        return self.state in TERMINAL_STATES

    @property
    def phase(self) -> str | None:
        """Which step of the solve is running."""
        phase: str | None = _first(self.document, "phase")
        return phase

    @property
    def best(self) -> int | None:
        """The objective of the best plan so far."""
        best: int | None = _first(
            self.document, "best_makespan_ns", "best_step_time_ns", "best_objective_bytes"
        )
        return best

    @property
    def bound(self) -> int | None:
        """What no plan can beat."""
        bound: int | None = _first(self.document, "lower_bound_ns", "lower_bound_bytes")
        return bound

    @property
    def gap(self) -> float | None:
        """(best - bound) / best."""
        gap: float | None = _first(self.document, "gap")
        return gap

    def _in_short(self) -> str:
        return f"{self.id} {self.state}"


class Result(View):
    """The answer of a job that has a plan."""

    @property
    def certificate(self) -> Row:
        """What is proven about the plan, and by what."""
        certificate: Row = self.document["certificate"]
        return certificate

    @property
    def gap(self) -> float | None:
        """(objective - bound) / objective; None where nothing is proven."""
        gap: float | None = self.certificate.get("gap")
        return 0.0 if gap is None and self.proven else gap

    @property
    def proven(self) -> bool:
        """Whether no plan is better."""
        return bool(self.certificate["proven_optimal"])

    @property
    def verified(self) -> bool:
        """Whether the plan was checked independently of what made it."""
        return bool(self.certificate["verified"])

    @property
    def provenance(self) -> Row:
        """How the answer came about."""
        provenance: Row = self.document["provenance"]
        return provenance


class PipelineSchedule(Result):
    """When each device runs what, in ns from the start of the iteration."""

    @property
    def makespan_ns(self) -> int:
        """How long the iteration takes."""
        return int(self.document["schedule"]["makespan_ns"])

    @property
    def steady_span_ns(self) -> int:
        """How long an iteration takes among many that follow each other."""
        return int(self.document["schedule"]["steady_span_ns"])

    @property
    def lower_bound_ns(self) -> int | None:
        """What no schedule beats."""
        bound: int | None = self.certificate.get("lower_bound_ns")
        return bound

    @property
    def ops(self) -> Sequence[Row]:
        """`op` (F, B, W, O, R), `stage`, `micro_batch`, `start_ns`, `end_ns` of each operation."""
        return list(self.document["schedule"]["ops"])

    @property
    def peak_memory_bytes(self) -> Sequence[int]:
        """What the activations take at most, per device."""
        return list(self.document["schedule"]["peak_memory_bytes"])

    @property
    def comparison(self) -> Sequence[Row]:
        """The classic schedules under the same costs."""
        return list(self.document["comparison"])

    def _in_short(self) -> str:
        return f"{self.makespan_ns / 1e6:.3f} ms, {_quality(self)}"

    def svg(self) -> str:
        """Its Gantt chart as a picture without scripts, as notebooks show it."""
        return schedule_svg(self.document)

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        return schedule_html(self.document, self._in_short())


class ShardingPlan(Result):
    """How each operator is split over the devices."""

    @property
    def objective_bytes(self) -> float:
        """Redundant bytes and, weighed, those sent."""
        return float(self.certificate["objective"])

    @property
    def stages(self) -> Sequence[Row]:
        """The plan of each pipeline stage; the whole answer where there is but one."""
        return list(self.document.get("stages") or [self.document])

    @property
    def strategies(self) -> Sequence[Mapping[str, str]]:
        """Per stage the strategy of each operator (`d2-r1-c2`)."""
        return [
            {own["name"]: own["strategy"] for own in stage["plan"]["operators"]}
            for stage in self.stages
        ]

    def _in_short(self) -> str:
        return f"{self.objective_bytes:.0f} bytes, {_quality(self)}"

    def _repr_html_(self) -> str:
        return sharding_html(self.stages, self._in_short())


class TrainingPlan(Result):
    """How to train a model on a cluster, the fastest ways first."""

    @property
    def step_time_ns(self) -> int:
        """How long a step takes with the best plan."""
        return int(self.document["best"]["step_time_ns"])

    @property
    def training(self) -> Row:
        """The best plan as the `training` of further requests."""
        training: Row = self.document["best"]["training"]
        return training

    @property
    def plans(self) -> Sequence[Row]:
        """Ranked by predicted step."""
        return list(self.document["plans"])

    @property
    def schedule(self) -> PipelineSchedule | None:
        """The pipeline schedule of the best plan; None where none was solved."""
        answer = self.document["best"].get("schedule")
        return PipelineSchedule(answer) if answer else None

    @property
    def sharding(self) -> ShardingPlan | None:
        """The sharding plan of one layer of the best plan, where there is one."""
        answer = self.document["best"].get("sharding")
        return ShardingPlan(answer) if answer else None

    def _in_short(self) -> str:
        return f"{self.step_time_ns / 1e6:.3f} ms a step, {_quality(self)}"

    def _repr_html_(self) -> str:
        schedule = self.schedule
        return plans_html(self.plans, self._in_short()) + (
            "" if schedule is None else schedule._repr_html_()
        )


class Timeline(View):
    """A schedule with memory over time and what each operation waited for."""

    def _in_short(self) -> str:
        return f"{self.document['schedule']} {self.document['makespan_ns'] / 1e6:.3f} ms"

    def svg(self) -> str:
        """Its Gantt chart as a picture without scripts, as notebooks show it."""
        return schedule_svg(self.document)

    def _repr_svg_(self) -> str:
        return self.svg()


class Estimate(View):
    """The answer of an estimate: `estimate["peak_bytes"]`."""

    def __getitem__(self, name: str) -> Any:
        return self.document[name]

    @property
    def assumptions(self) -> Sequence[Row]:
        """What the figures rest on: `what`, `value`, `basis`."""
        return list(self.document["assumptions"])

    @property
    def warnings(self) -> Sequence[str]:
        """What not to overlook."""
        return list(self.document["warnings"])


RESULTS: Mapping[str, Callable[[Mapping[str, Any]], Result]] = {
    "pipeline": PipelineSchedule,
    "sharding": ShardingPlan,
    "training": TrainingPlan,
}


def result_of(kind: str, document: Mapping[str, Any]) -> Result:
    """The view of a job's answer. Raises `Infeasible` where it says that nothing fits."""
    if "infeasibility" in document:
        raise Infeasible(document)
    return RESULTS[kind](document)


def _first(document: Mapping[str, Any], *names: str) -> Any:
    return next((document[name] for name in names if document.get(name) is not None), None)


def _quality(result: Result) -> str:
    if result.proven:
        return "proven optimal"
    return "nothing proven" if result.gap is None else f"gap {100 * result.gap:.2f} %"
