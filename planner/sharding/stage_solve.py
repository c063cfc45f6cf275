"""Everything that is found out about one stage: plan, other weights, front, baselines, answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

from planner.errors import Interrupted
from planner.progress import Reporter
from planner.sharding.answer import stage_document
from planner.sharding.build import Formulation, formulate
from planner.sharding.certificate import proven_of
from planner.sharding.choices import Allowed, everything
from planner.sharding.comparison import Setting, comparison
from planner.sharding.explain import explain, unanswered
from planner.sharding.graph import Graph
from planner.sharding.graphs_by_devices import GraphsByDevices
from planner.sharding.infeasible import explain_shortage
from planner.sharding.layers_apart import best_of_layers_apart
from planner.sharding.least_memory import least_memory
from planner.sharding.pareto import front
from planner.sharding.planning import Budget, Found, find_plan
from planner.sharding.proof import second_opinion
from planner.sharding.provenance import provenance_of
from planner.sharding.restrictions import Restrictions
from planner.sharding.settings import cost_settings, effective_alpha, rule_options
from planner.sharding.smallest_devices import Wanted, smallest_devices
from planner.sharding.spec import Question, ShardingSpec
from planner.sharding.stage_answer import StageAnswer
from planner.sharding.stages import StageGraph

LONGEST_BASELINES_S = 10.0
"""For the ILPs of baselines, which nobody waits for longer than for the plan."""
LATE_BASELINES_S = 1.0
"""For preparing and comparing baselines after their time is up; later there are none."""


class StageSolve:
    """One stage of a spec. `graph` is the stage's graph, written out if the spec asks for that."""

    def __init__(
        self,
        spec: ShardingSpec,
        graph: Graph,
        stage: StageGraph,
        limit_bytes: int | None,
        budget: Budget,
    ) -> None:
        self._spec = spec
        self._graph = graph
        self._stage = stage
        self._limit = limit_bytes
        self._budget = budget
        self._began = time.monotonic()
        self._restrictions = Restrictions(spec)
        in_flight = stage.micro_batches_in_flight
        self._settings = cost_settings(spec, micro_batches_in_flight=in_flight)

    def run(self, reporter: Reporter) -> StageAnswer:
        """The plan first, then what was asked beside it, as far as there is time.

        Raises `Interrupted` if told to stop before there is a plan.
        """
        spec = self._spec
        formulation = self._formulation
        alpha = effective_alpha(spec, spec.alphas[0])
        # With several stages another division of the layers may do, which needs time as well.
        is_only_chance = spec.stages == 1
        found = find_plan(
            formulation, alpha, self._limit, spec.options, self._budget, persist=is_only_chance
        )
        answer = StageAnswer(
            stage=self._stage,
            formulation=formulation,
            limit_bytes=self._limit,
            found=found,
            solve_seconds=time.monotonic() - self._began,
        )
        if found.plan is None:
            if found.status == "infeasible":
                return replace(answer, infeasibility=self._shortage(formulation))
            if found.peak_bytes is not None:
                return replace(answer, ways_out=self._shortage(formulation))
            return answer
        found, proof = second_opinion(formulation, found, self._limit, self._budget.should_stop)
        answer = replace(answer, found=found, proof=proof)
        self._report(reporter, answer)
        return self._with_what_was_asked(reporter, answer, alpha)

    def _with_what_was_asked(
        self, reporter: Reporter, answer: StageAnswer, alpha: float
    ) -> StageAnswer:
        spec, budget = self._spec, self._budget
        formulation, found = answer.formulation, answer.found
        assert found.plan is not None
        if len(spec.alphas) > 1:
            reporter.phase("other weights of communication")
            answer = replace(answer, sweep=self._sweep(formulation, found))
        if spec.pareto:
            reporter.phase("front")
            answer = replace(answer, pareto=())
            with suppress(Interrupted):
                kept = found.instance.device_memory_bytes
                points, is_complete = front(
                    formulation, kept, spec.options, budget, is_lowered=kept != self._limit
                )
                answer = replace(answer, pareto=points, pareto_is_complete=is_complete)
        if spec.questions:
            reporter.phase("questions")
            answer = replace(answer, explanations=self._explanations(found, alpha))
        repeat = formulation.graph.repeat
        if repeat is not None and repeat.count > 1:
            reporter.phase("layers apart")
            apart = best_of_layers_apart(formulation, alpha, budget.is_over)
            answer = replace(answer, layers_apart=apart)
        reporter.phase("baselines")
        with suppress(Interrupted):
            own, choice = self._unrestricted(formulation, found.plan.choice)
            setting = self._setting(alpha, choice, found.plan.memory_bytes)
            step = setting.step_time(own, choice)
            answer = replace(answer, step=step)
            answer = replace(answer, baselines=comparison(setting))
        return answer

    def _report(self, reporter: Reporter, answer: StageAnswer) -> None:
        """A plan of all there is can be kept if the solve is cut short; one stage's cannot."""
        plan = answer.found.plan
        assert plan is not None
        if self._spec.stages > 1:
            return
        bound = proven_of(answer.found, self._limit).lower_bound
        if bound is not None:
            reporter.bound(answer.found.ilp.method, bound)
        document = {
            **stage_document(self._spec, answer),
            "provenance": provenance_of(self._spec, [answer], time.monotonic() - self._began),
        }
        reporter.incumbent(document, plan.objective, answer.found.found_by)

    def _formulate(self, allowed: Allowed, **changes: Any) -> Formulation:
        return formulate(
            self._graph,
            replace(self._settings, **changes),
            rule_options(self._spec),
            allowed,
            should_stop=self._budget.should_stop,
        )

    @cached_property
    def _formulation(self) -> Formulation:
        return self._formulate(self._restrictions.allows)

    @cached_property
    def _free(self) -> Formulation:
        """The same without pins and prohibitions."""
        if not self._restrictions.is_any:
            return self._formulation
        return self._formulate(everything)

    @cached_property
    def _timed(self) -> Formulation:
        return self._formulate(everything, communication="time")

    def _setting(self, alpha: float, plan: Sequence[int], plan_memory_bytes: int) -> Setting:
        deadline = min(self._budget.deadline, time.monotonic() + LONGEST_BASELINES_S)

        def is_late() -> bool:
            late = time.monotonic() >= deadline + LATE_BASELINES_S
            return late or self._budget.should_stop()

        return Setting(
            formulation=self._free,
            timed=self._timed,
            rule_options=rule_options(self._spec),
            alpha=alpha,
            limit_bytes=self._limit,
            precision=self._spec.training.precision,
            options=self._spec.options,
            budget=replace(self._budget, deadline=deadline, should_stop=is_late),
            plan=plan,
            plan_memory_bytes=plan_memory_bytes,
        )

    def _unrestricted(
        self, formulation: Formulation, choice: Sequence[int]
    ) -> tuple[Formulation, tuple[int, ...]]:
        """A plan in the numbers of all strategies, not only of those that pins left."""
        if not self._restrictions.is_any:
            return formulation, tuple(choice)
        return self._free, tuple(
            [strategy.name for strategy in everything].index(allowed[chosen].name)
            for everything, allowed, chosen in zip(
                self._free.strategies, formulation.strategies, choice, strict=True
            )
        )

    def _sweep(
        self, formulation: Formulation, first: Found
    ) -> tuple[tuple[float, Found | None], ...]:
        """The plan of each weight, in the order asked for; None where no time was left."""
        spec = self._spec
        found: list[tuple[float, Found | None]] = [(spec.alphas[0], first)]
        for alpha in spec.alphas[1:]:
            plan = None
            if not self._budget.is_over():
                weight = effective_alpha(spec, alpha)
                with suppress(Interrupted):
                    plan = find_plan(formulation, weight, self._limit, spec.options, self._budget)
            found.append((alpha, plan))
        return tuple(found)

    def _explanations(self, found: Found, alpha: float) -> list[dict[str, Any]]:
        """Of the questions about this stage's operators."""
        explanations = []
        for question in self._spec.questions:
            asked = [
                number
                for number, operator in enumerate(self._graph.operators)
                if self._restrictions.asks_for(question, operator)
            ]
            if not asked:
                continue
            explanation = unanswered(question)
            if not self._budget.is_over():
                with suppress(Interrupted):
                    explanation = self._explanation(question, asked, found, alpha)
            explanations.append(explanation)
        return explanations

    def _explanation(
        self, question: Question, asked: Sequence[int], found: Found, alpha: float
    ) -> dict[str, Any]:
        other = self._formulate(self._restrictions.with_answer(question))
        return explain(
            question,
            self._had(found, asked),
            found,
            find_plan(other, alpha, self._limit, self._spec.options, self._budget),
            other,
            self._limit,
            is_restricted=self._restrictions.is_any,
        )

    def _had(self, found: Found, numbers: Sequence[int]) -> list[str]:
        """The strategies that these operators have in the plan."""
        assert found.plan is not None
        strategies, choice = self._formulation.strategies, found.plan.choice
        return [strategies[number][choice[number]].name for number in numbers]

    def _shortage(self, formulation: Formulation) -> dict[str, Any]:
        assert self._limit is not None
        spec, options = self._spec, rule_options(self._spec)
        layered = self._free
        if self._graph is not self._stage.graph:
            layered = formulate(self._stage.graph, self._settings, options, with_passages=False)
        fewest = smallest_devices(self._wanted(self._limit, layered.graph))
        shortage = explain_shortage(
            self._free, layered, self._limit, options, spec.training, fewest
        )
        if not self._restrictions.is_any:
            return shortage
        with_pins = least_memory(formulation).total_bytes
        return {
            **shortage,
            "least_memory_with_pins_bytes": with_pins,
            "pins_are_the_reason": shortage["least_memory_bytes"] <= self._limit < with_pins,
        }

    def _wanted(self, limit_bytes: int, layered: Graph) -> Wanted:
        """What more devices would have to hold: the stage's graph with its layers folded."""
        spec, repeat = self._spec, layered.repeat
        graphs = GraphsByDevices(spec, self._stage)
        uncounted_bytes = 0
        if self._graph is not self._stage.graph and repeat is not None:
            # Written out, nobody may keep what the last layer hands on.
            size_bytes = layered.tensors[repeat.output].size_bytes
            uncounted_bytes = self._settings.micro_batches_in_flight * size_bytes
        return Wanted(
            graph_on=lru_cache(maxsize=1)(graphs.on),
            settings=self._settings,
            rule_options=rule_options(spec),
            limit_bytes=limit_bytes,
            alpha=effective_alpha(spec, spec.alphas[0]),
            options=spec.options,
            budget=self._budget,
            uncounted_bytes=uncounted_bytes,
        )
