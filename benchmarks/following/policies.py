"""Three ways to run a scenario: one plan throughout, plans that follow the run, and an oracle."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.following.scenarios import Scenario
from benchmarks.following.simulator import Ranks, true_problem
from benchmarks.following.solves import Plan, Solver, one_f_one_b
from planner.following.look import Event, Look, Solved, SolveWanted
from planner.following.settings import FollowSettings
from planner.following.state import RunState, changed, new_run
from planner.following.step import step
from planner.following.telemetry import Sample
from planner.following.versions import VersionState
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.robust.any_durations import graph_violations
from planner.pipeline.robust.precedence import precedence_graph

LOOK_EVERY = 5
"""Iterations between two looks of the run's keeper."""
SOLVE_LATENCY = 15
"""Iterations that go by while a plan is looked for."""
ACK_LATENCY = 2


@dataclass
class Outcome:
    """How a run went: its total time, its swaps, and what must not have happened."""

    total_ns: int = 0
    swaps: int = 0
    rollbacks: int = 0
    solves: int = 0
    broken_limits: int = 0
    events: list[Event] = field(default_factory=list)


def static(scenario: Scenario, plan: Plan) -> Outcome:
    """The same plan throughout; 1F1B in a shape that it is not for."""
    outcome = Outcome()
    ranks = Ranks(scenario, scenario.problem, plan.schedule)
    for i in range(scenario.iterations):
        loss = scenario.loss
        if loss is not None and i == loss.iteration:
            outcome.total_ns += loss.downtime_ns
            simple = one_f_one_b(loss.problem)
            assert simple is not None
            ranks = Ranks(scenario, loss.problem, simple.schedule)
        outcome.total_ns += ranks.run(i, 1).iteration_ns
    return outcome


def oracle(scenario: Scenario, plan: Plan, solver: Solver) -> Outcome:
    """Knows the true times at each moment and plans again at once, with the same budget."""
    outcome = Outcome()
    problem = scenario.problem
    ranks = Ranks(scenario, problem, plan.schedule)
    for i in range(scenario.iterations):
        loss = scenario.loss
        lost = loss is not None and i == loss.iteration
        if loss is not None and lost:
            outcome.total_ns += loss.downtime_ns
            problem = loss.problem
        if i in scenario.changes:
            truth = true_problem(problem, scenario.truth(i))
            better = solver.solve(truth, None if lost else plan)
            assert better is not None
            outcome.solves += 1
            if lost or (better.replacement or {}).get("gain", 0) > 0:
                plan = better
                outcome.swaps += 1
                ranks = Ranks(scenario, problem, plan.schedule)
        outcome.total_ns += ranks.run(i, 1).iteration_ns
    return outcome


class Following:
    """The run as its keeper and its ranks see it."""

    def __init__(
        self, scenario: Scenario, plan: Plan, solver: Solver, settings: FollowSettings
    ) -> None:
        self.scenario = scenario
        self.problem = scenario.problem
        self.solver = solver
        self.state: RunState = new_run(scenario.problem, settings, given_plan=True)
        self.plans: dict[int, Plan] = {1: plan}
        self.acks: dict[int, dict[int, int]] = {}
        self.window: deque[Sequence[Sample]] = deque(maxlen=settings.window)
        self.wanted: tuple[SolveWanted, int] | None = None
        self.outcome = Outcome()
        self._ranks: tuple[int, Ranks] | None = None
        self._found = plan

    def run(self) -> Outcome:
        """All iterations."""
        for i in range(self.scenario.iterations):
            loss = self.scenario.loss
            if loss is not None and i == loss.iteration:
                self._restart(loss.problem, i)
                self.outcome.total_ns += loss.downtime_ns
            self._acknowledge(i)
            iteration = self._ranks_at(i).run(i, self._version_at(i))
            self.outcome.total_ns += iteration.iteration_ns
            self.window.append(iteration.samples)
            if i % LOOK_EVERY == 0:
                self._look(i)
        return self.outcome

    def _version_at(self, i: int) -> int:
        """What every rank runs: the newest version whose iteration has come."""
        return max(
            version.number
            for version in self.state.versions
            if version.apply_at_iteration is not None
            and version.apply_at_iteration <= i
            and version.state is not VersionState.SUPERSEDED
        )

    def _ranks_at(self, i: int) -> Ranks:
        version = self._version_at(i)
        if self._ranks is None or self._ranks[0] != version:
            plan = self.plans[version]
            if graph_violations(precedence_graph(self.problem, plan.schedule)):
                self.outcome.broken_limits += 1
            self.outcome.swaps += self._ranks is not None
            self._ranks = version, Ranks(self.scenario, self.problem, plan.schedule)
        return self._ranks[1]

    def _acknowledge(self, i: int) -> None:
        waiting = self.state.pending
        if waiting is None or i < waiting.published_at_iteration + ACK_LATENCY:
            return
        self.acks.setdefault(waiting.number, dict.fromkeys(range(self.state.ranks), i))

    def _look(self, i: int) -> None:
        samples = [sample for own in self.window for sample in own]
        look = Look(i, samples, self.acks, self._solved(i))
        outcome = step(self.state, look)
        self.state = outcome.state
        self.outcome.events += outcome.events
        if outcome.publish is not None:
            new = outcome.publish
            if new.copy_of is not None:
                self.plans[new.number] = self.plans[new.copy_of]
                self.outcome.rollbacks += 1
            else:
                self.plans[new.number] = self._found
        if outcome.drop_solve or outcome.solve is not None:
            self.wanted = None
        if outcome.solve is not None:
            self.wanted = outcome.solve, i
            self.outcome.solves += 1

    def _solved(self, i: int) -> Solved | None:
        if self.wanted is None or i < self.wanted[1] + SOLVE_LATENCY:
            return None
        wanted = self.wanted[0]
        self.wanted = None
        running = None if wanted.start_version is None else self.plans[wanted.start_version]
        plan = self.solver.solve(wanted.problem, running, wanted.noise, wanted.solver)
        if plan is None:
            return Solved(wanted.number, "infeasible")
        self._found = plan
        return Solved(wanted.number, "succeeded", plan.replacement, plan.unsafe)

    def _restart(self, problem: PipelineProblem, i: int) -> None:
        """The run goes on in another shape, with the plan that was made during the downtime."""
        self.problem = problem
        self.state = changed(self.state, problem, self.state.settings, i - 1)
        self.window.clear()
        self._look(i - 1)
        assert self.wanted is not None
        self.wanted = self.wanted[0], i - 1 - SOLVE_LATENCY
        self._look(i - 1)
        newest = self.state.pending
        assert newest is not None
        assert newest.needs_restart
        self.acks[newest.number] = dict.fromkeys(range(self.state.ranks), i)
        self._look(i - 1)
