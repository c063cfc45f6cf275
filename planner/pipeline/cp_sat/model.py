"""The whole CP-SAT model of a scope: precedences, exclusive resources, memory and objective."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from planner.pipeline.cp_sat.formulation import Formulation, Start
from planner.pipeline.cp_sat.graph import happening_precedences
from planner.pipeline.cp_sat.memory import add_device_memory, add_host_memory
from planner.pipeline.cp_sat.scope import Scope
from planner.pipeline.problem import MicroBatchOrder, Objective
from planner.pipeline.schedule import Token


@dataclass(frozen=True)
class CpSatModel:
    """A built model. `objective` is the variable whose bound counts: the span in units, to be
    minimised, or None where a window maximises its gain."""

    build: Formulation
    objective: Any | None

    @property
    def counts(self) -> tuple[int, int]:
        """Variables and constraints."""
        proto = self.build.model.proto
        return len(proto.variables), len(proto.constraints)

    @property
    def flaw(self) -> str:
        """Why the solver cannot take the model (numbers too large to add up); empty if it can."""
        message: str = self.build.model.validate()
        return message


def build_model(scope: Scope, should_end: Callable[[], bool] = lambda: False) -> CpSatModel:
    """The model of a scope. Raises `BuildStopped` once `should_end` says so."""
    build = Formulation(scope, should_end)
    _add_precedences(build)
    build.check_time()
    _add_devices(build)
    _add_channels(build)
    add_device_memory(build)
    add_host_memory(build)
    if scope.hint is not None:
        build.add_hint(scope.hint)
    if scope.around.most_gain is None:
        return CpSatModel(build, _add_span(build))
    _add_gain(build, scope.around.most_gain)
    return CpSatModel(build, None)


def _add_precedences(build: Formulation) -> None:
    graph, scope, model = build.graph, build.scope, build.model
    for a, b, lag in happening_precedences(graph, scope.happens):
        if b not in build.starts or (a not in build.starts and a not in scope.around.earlier):
            continue
        if graph.tokens[a].op in "OR":
            model.add(build.start(b) >= build.end(a))
        else:
            model.add(build.start(b) >= build.start(a) + scope.scale.units(lag))
    for a, b in scope.around.sequences:
        model.add(build.start(b) >= build.end(a))


def _add_devices(build: Formulation) -> None:
    """A device computes one operation at a time; those without length occupy nothing."""
    for compute in build.graph.compute_of_device:
        busy = [i for i in compute if i in build.starts and build.scope.duration(i)]
        build.model.add_no_overlap(
            build.model.new_fixed_size_interval_var(
                build.starts[i], build.scope.duration(i), f"busy {i}"
            )
            for i in busy
        )


def _add_channels(build: Formulation) -> None:
    """A link runs one transfer at a time in each direction, or one in all if half duplex."""
    graph, scope, model = build.graph, build.scope, build.model
    channels: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for i in build.decided:
        op, s, _ = graph.tokens[i]
        length = scope.duration(i)
        if op not in "OR" or not length:
            continue
        start, offload = build.starts[i], build.offload(i)
        name = f"transfer {i}"
        channels[graph.problem.channel(s, op)].append(
            model.new_fixed_size_interval_var(start, length, name)
            if offload is True
            else model.new_optional_fixed_size_interval_var(start, length, offload, name)
        )
    for transfers in channels.values():
        if len(transfers) > 1:
            model.add_no_overlap(transfers)


def _add_span(build: Formulation) -> Any:
    """The objective: makespan or steady span, between what is proven and what is wanted."""
    graph, scope, problem = build.graph, build.scope, build.graph.problem
    span = build.model.new_int_var(scope.least, scope.most, "span")
    for d, compute in enumerate(graph.compute_of_device):
        if not compute:
            continue
        epilogue = scope.scale.units(problem.devices[d].epilogue_ns)
        first: Start = 0
        if problem.objective is Objective.STEADY_SPAN:
            first = _first_start(build, d)
        for i in _last_of(build, compute):
            build.model.add(span >= build.end(i) + epilogue - first)
    build.model.minimize(span)
    return span


def _first_start(build: Formulation, device: int) -> Start:
    """A start that comes no later than anything on the device."""
    graph, problem = build.graph, build.graph.problem
    stage = problem.stages_of_device[device][0]
    if problem.micro_batch_order is MicroBatchOrder.FIXED:
        return build.start(graph.index[Token("F", stage, 0)])
    forwards = [graph.index[Token("F", stage, m)] for m in range(problem.micro_batches)]
    latest = min(build.scope.latest[i] for i in forwards)
    first = build.model.new_int_var(0, latest, f"first {device}")
    build.model.add_min_equality(first, [build.start(i) for i in forwards])
    return first


def _last_of(build: Formulation, compute: list[int]) -> list[int]:
    """The operations of a device after which no other one of it need come."""
    among = sum(1 << i for i in compute)
    return [i for i in compute if not build.graph.after_end[i] & among]


def _add_gain(build: Formulation, most_gain: int) -> None:
    """Maximise the gain; among equals, let every device end its part early.

    The second aim gives a slope where no single window shortens the whole.
    """
    scope, model = build.scope, build.model
    gain = model.new_int_var(0, most_gain, "gain")
    for i, by in scope.around.end_by.items():
        model.add(build.end(i) + gain <= by)
    for i, by in scope.around.start_by.items():
        model.add(build.start(i) + gain <= by)
    lasts = []
    for compute in build.graph.compute_of_device:
        decided = [i for i in compute if i in build.starts]
        if decided:
            horizon = max(scope.latest[i] + scope.duration(i) for i in decided)
            last = model.new_int_var(0, horizon, "last")
            for i in _last_of(build, decided):
                model.add(last >= build.end(i))
            lasts.append(last)
    model.maximize(4 * len(lasts) * gain - sum(lasts))
