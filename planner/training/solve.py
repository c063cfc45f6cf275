"""A search for a training plan from spec to answer."""

from __future__ import annotations

import time
from bisect import insort
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from planner.progress import Reporter, never
from planner.training.answer import (
    BOUND_NAME,
    Outcome,
    infeasible_answer,
    left_out,
    result_document,
    succeeded_answer,
)
from planner.training.evaluate import Evaluator, Plan
from planner.training.expert_placement import Kind, PlacedExperts, place_experts_of
from planner.training.finalists import LEAST_S, Solved, solve_finalist
from planner.training.infeasible import explain
from planner.training.request import read_spec
from planner.training.search import NOT_REACHED, Found, search
from planner.training.spec import TrainingSpec
from planner.training.tensor_group import solve_tensor_group
from planner.training.trainings import states_of
from planner.training.verify import Verified, verify_plan

CLOSING_S, CLOSING_SHARE = 0.5, 0.1
"""Kept back from the time limit for the answer, at most that share of it."""
SEARCH_SHARE, EXPERTS_SHARE, SHARDING_SHARE = 0.6, 0.1, 0.15
"""Of what is left: for the search itself, for placing experts, and for the sharding plan."""
ALTERNATIVE_SHARE = 0.2
"""Of the rest, for the fastest plan without offloads where those of the top need them."""
FOUND_BY = "search"


def run(
    document: Mapping[str, Any],
    reporter: Reporter,
    should_stop: Callable[[], bool],
    start: Mapping[str, Any] | None,
    time_left_s: float,
) -> dict[str, Any]:
    """Solve the spec of a request; see `planner.pipeline.solve.run` for what the answer holds.

    `start` is not used: the search itself takes seconds.
    """
    del start
    return _Solve(read_spec(document), reporter, should_stop, time_left_s).run()


class _Solve:
    """The steps of one solve, in their order."""

    def __init__(
        self,
        spec: TrainingSpec,
        reporter: Reporter,
        asked_to_stop: Callable[[], bool],
        limit_s: float,
    ) -> None:
        self.spec = spec
        self.reporter = reporter
        self.asked_to_stop = asked_to_stop
        self.started = time.monotonic()
        self.deadline = self.started + limit_s - min(CLOSING_S, CLOSING_SHARE * limit_s)
        self.evaluator = Evaluator(spec.model, spec.cluster, states_of(spec))
        self.experts: dict[Kind, PlacedExperts] = {}
        self.loads: dict[Kind, float] = {}

    def run(self) -> dict[str, Any]:
        """Place experts, search, verify, solve the finalists."""
        spec, reporter = self.spec, self.reporter
        if spec.model.has_router:
            reporter.phase("experts")
            until = self._share_s(EXPERTS_SHARE)
            self.experts = place_experts_of(spec, until, self.asked_to_stop, reporter.log)
            self.loads = {kind: placed.load for kind, placed in self.experts.items()}
        reporter.phase("configurations")
        ends = time.monotonic() + self._share_s(SEARCH_SHARE)
        found = search(
            spec,
            self.evaluator,
            self.loads,
            lambda: self.asked_to_stop() or time.monotonic() >= ends,
        )
        if not found.ranked:
            return self._nothing_found(found)
        if found.complete and found.least_ns is not None:
            reporter.bound(BOUND_NAME, found.least_ns)
        without_offloads = self._fastest_without_offloads(found)
        reporter.phase("verification")
        verified, refused = self._verified(found)
        verified += self._verified_alternative(without_offloads)
        if not verified:
            return _failed(f"No plan passed verification: {refused[0].violations[0]}.")
        best = min(verified, key=lambda own: own.best_known_ns)
        outcome = Outcome(spec, self.evaluator, found, verified, best, refused=refused)
        self._complete(outcome)
        self._report(outcome)
        if spec.finalists:
            self._solve_finalists(outcome)
            self._shard(outcome)
        outcome.seconds = self._seconds()
        return succeeded_answer(outcome)

    def _nothing_found(self, found: Found) -> dict[str, Any]:
        if not found.complete:
            return _failed(
                "None of the configurations reached before the search ended fits, and "
                f"{found.outcomes[NOT_REACHED]} of {found.enumerated} were not reached."
            )
        self.reporter.phase("explaining why nothing fits")
        why = explain(self.spec, self.evaluator, self.loads, self._is_over)
        return infeasible_answer(self.spec, self.evaluator, found, why, self._seconds())

    def _verified(self, found: Found) -> tuple[list[Verified], list[Verified]]:
        """The top plans that pass verification, the fastest first, and those before them that do
        not. A plan whose bounds turn out to be above its prediction makes room for the next."""
        passed: list[Verified] = []
        refused: list[Verified] = []
        top = self.spec.top
        for plan in found.ranked:
            if len(passed) >= top and plan.key >= passed[top - 1].plan.key:
                break
            # Of the first there is no choice: without it there would be no answer.
            own = verify_plan(self.spec, plan, self._is_over if passed else never)
            if own.violations:
                self.reporter.log(f"dropped a plan: {own.violations[0]}")
                refused.append(own)
            else:
                insort(passed, own, key=lambda one: one.plan.key)
            if passed and self._is_over():
                break
        return passed[:top], refused

    def _fastest_without_offloads(self, found: Found) -> Plan | None:
        """Where every plan of the top needs offloads: the fastest that needs none, which any
        training program can run. None if there is no such plan, or no time to look for it."""
        offload = self.spec.choices.offload
        top = found.ranked[: self.spec.top]
        if len(offload) == 1 or any(plan.offload is None for plan in top):
            return None
        choices = replace(self.spec.choices, offload=(False,))
        plain = replace(self.spec, choices=choices, top=1, pareto=False)
        ends = time.monotonic() + self._share_s(ALTERNATIVE_SHARE)
        others = search(
            plain,
            self.evaluator,
            self.loads,
            lambda: self.asked_to_stop() or time.monotonic() >= ends,
        )
        return others.ranked[0] if others.ranked else None

    def _verified_alternative(self, plan: Plan | None) -> list[Verified]:
        if plan is None or self._is_over():
            return []
        own = verify_plan(self.spec, plan, self._is_over)
        return [] if own.violations else [own]

    def _solve_finalists(self, outcome: Outcome) -> None:
        """The schedules of those that are fastest as carried out, and of the last if it is there
        because it needs no offloads, each in an equal part of the time; the shortest is the best.
        """
        by_time = sorted(outcome.verified, key=lambda own: own.best_known_ns)
        finalists = by_time[: self.spec.finalists]
        finalists += [own for own in outcome.verified[self.spec.top :] if own not in finalists]
        solved: list[Solved] = []
        outcome.solved = solved
        for number, verified in enumerate(finalists, start=1):
            label = f"schedule {number} of {len(finalists)}"
            self.reporter.phase(label)
            share_s = self._share_s((1 - SHARDING_SHARE) / (len(finalists) - number + 1))
            to_beat_ns = None if outcome.schedule is None else outcome.objective_ns
            own = solve_finalist(
                self.spec, verified, to_beat_ns, label, self.reporter, self.asked_to_stop, share_s
            )
            solved.append(own)
            if own.makespan_ns is None or own.answer is None:
                continue
            before_ns = outcome.objective_ns
            if to_beat_ns is None or own.makespan_ns < to_beat_ns:
                outcome.best, outcome.schedule = verified, own.answer["document"]
                self._complete(outcome)
                if outcome.objective_ns <= before_ns:
                    self._report(outcome)

    def _shard(self, outcome: Outcome) -> None:
        """The sharding plan of the best one's tensor group."""
        training = outcome.best.plan.training
        if training.degrees.tensor == 1:
            return
        self.reporter.phase("sharding")
        left_s = self._share_s(1.0)
        if self.asked_to_stop() or left_s < LEAST_S:
            outcome.left_out["sharding"] = "The solve was stopped before."
            return
        outcome.sharding, why_not = solve_tensor_group(
            self.spec, training, self.reporter, self.asked_to_stop, left_s
        )
        if why_not is None:
            outcome.left_out.pop("sharding", None)
        else:
            outcome.left_out["sharding"] = why_not

    def _complete(self, outcome: Outcome) -> None:
        """The placement of the best one's experts, and why it has no other part."""
        degrees = outcome.best.plan.training.degrees
        placed = self.experts.get((degrees.expert, degrees.tensor))
        outcome.experts = None if placed is None else placed.document
        outcome.left_out = left_out(self.spec, outcome)

    def _report(self, outcome: Outcome) -> None:
        outcome.seconds = self._seconds()
        found_by = FOUND_BY if outcome.schedule is None else "schedule solver"
        self.reporter.incumbent(result_document(outcome), outcome.objective_ns, found_by)

    def _is_over(self) -> bool:
        return self.asked_to_stop() or time.monotonic() >= self.deadline

    def _share_s(self, share: float) -> float:
        return share * max(0.0, self.deadline - time.monotonic())

    def _seconds(self) -> float:
        return time.monotonic() - self.started


def _failed(detail: str) -> dict[str, Any]:
    return {"state": "failed", "code": "no_plan_within_limit", "detail": detail}
