"""Plans that know which devices share a link to the host, against plans that do not."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.following.solves import Plan, Solver
from planner.pipeline.orders import Orders, orders_of
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule, Token
from planner.pipeline.simulation import Simulation
from planner.pipeline.timing import schedule_from_ops, time_orders
from planner.pipeline.verify import verify


@dataclass(frozen=True)
class Cost:
    """What a plan does where devices share links. `copying_ns` is what all copies take alone,
    `queueing_ns` how long they wait for a link, from when they are asked for; `exposed_ns` by how
    much the same orders would end earlier if copies took no time."""

    offloads: int
    copying_ns: int
    queueing_ns: int
    exposed_ns: int
    planned_ns: int
    makespan_ns: int

    @property
    def transfer_ns(self) -> int:
        """From when each copy is asked for to its end, all copies together."""
        return self.copying_ns + self.queueing_ns


@dataclass(frozen=True)
class Switched:
    """One problem planned both ways and run where devices share links."""

    name: str
    aware: Cost
    ignoring: Cost
    wrong: list[str]


class Asked(Simulation):
    """The planner's simulation, which also notes when each copy is asked for: an offload when its
    forward ends, a reload when its device comes to it and has room."""

    def __init__(self, problem: PipelineProblem, orders: Orders) -> None:
        super().__init__(problem, orders, enforce_memory=True)
        self.asked_ns: dict[Token, int] = {}

    def _request(self, token: Token, now: int) -> None:
        self.asked_ns[token] = now
        super()._request(token, now)


def switched(name: str, problem: PipelineProblem, search_iterations: int) -> Switched:
    """The problem's links are shared; the plan that ignores that has one of its own per device.

    It runs with its copies first come, first served on the shared link, or in the order of their
    planned starts, whichever is faster.
    """
    solver = Solver(search_iterations)
    alone = with_own_links(problem)
    aware, ignoring = _solved(solver, problem), _solved(solver, alone)
    orders = orders_of(problem, ignoring.schedule.ops)
    ways = [replace(orders, channels=None), orders]
    chosen = min(ways, key=lambda own: time_orders(problem, own).makespan_ns)
    wrong = [
        str(violation)
        for where, schedule in (
            (problem, schedule_from_ops(problem, aware.schedule.ops)),
            (alone, schedule_from_ops(alone, ignoring.schedule.ops)),
            (problem, time_orders(problem, chosen)),
        )
        for violation in verify(where, schedule)
    ]
    return Switched(
        name=name,
        aware=cost(problem, orders_of(problem, aware.schedule.ops), _end_ns(aware)),
        ignoring=cost(problem, chosen, _end_ns(ignoring)),
        wrong=wrong,
    )


def with_own_links(problem: PipelineProblem) -> PipelineProblem:
    """The same problem as if each device had a link to the host of its own."""
    devices = tuple(replace(device, host_link=None) for device in problem.devices)
    return replace(problem, devices=devices)


def cost(problem: PipelineProblem, orders: Orders, planned_ns: int) -> Cost:
    """What a plan does when the problem runs by these orders, as early as they allow."""
    simulation = Asked(problem, orders)
    timed: Schedule = schedule_from_ops(problem, simulation.run())
    copies = [op for op in timed.ops if op.op in "OR"]
    at_once = time_orders(_without_copying(problem), replace(orders, channels=None))
    return Cost(
        offloads=timed.offloads,
        copying_ns=sum(op.end_ns - op.start_ns for op in copies),
        queueing_ns=sum(op.start_ns - simulation.asked_ns[op.token] for op in copies),
        exposed_ns=timed.makespan_ns - at_once.makespan_ns,
        planned_ns=planned_ns,
        makespan_ns=timed.makespan_ns,
    )


def _end_ns(plan: Plan) -> int:
    """The makespan that the plan says it has."""
    return int(plan.document["makespan_ns"])


def _solved(solver: Solver, problem: PipelineProblem) -> Plan:
    plan = solver.solve(problem)
    assert plan is not None
    return plan


def _without_copying(problem: PipelineProblem) -> PipelineProblem:
    none = (0,) * problem.micro_batches
    stages = tuple(replace(own, offload_ns=none, reload_ns=none) for own in problem.stages)
    return replace(problem, stages=stages)
