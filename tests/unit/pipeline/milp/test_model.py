"""The model: schedules satisfy it, bounds are converted safely, numbers survive being written."""

from __future__ import annotations

import random
from pathlib import Path

import mip
import pytest

from planner.errors import OrderError, Refuted
from planner.pipeline.milp.fifo import with_transfers_in_order
from planner.pipeline.milp.model import PipelineModel, build_model, common_divisor_ns
from planner.pipeline.milp.readback import read_schedule
from planner.pipeline.milp.relabel import (
    common_order,
    inverse,
    renumber_problem,
    renumber_schedule,
)
from planner.pipeline.milp.start import start_values
from planner.pipeline.milp.window import Window
from planner.pipeline.objective import objective_ns
from planner.pipeline.problem import Objective, PipelineProblem
from planner.pipeline.schedule import COMPUTE_KINDS, OpKind, Schedule, Token
from planner.pipeline.timing import Orders, time_orders
from planner.pipeline.verify import verify
from tests.unit.pipeline.milp.problems import GIB, MS, balanced
from tests.unit.pipeline.milp.random_problems import random_problem


def random_schedule(problem: PipelineProblem, seed: int) -> Schedule | None:
    """A schedule of random orders; None if thirty draws give none that fits."""
    draw = random.Random(seed)
    for _ in range(30):
        offloaded = {
            (s, m)
            for s, stage in enumerate(problem.stages)
            for m in range(problem.micro_batches)
            if stage.offload_bytes[m] and draw.random() < 0.5
        }
        compute = []
        for stages in problem.stages_of_device:
            chains: list[list[Token]] = []
            for s in stages:
                chains += [_chain(problem, op, s) for op in COMPUTE_KINDS]
                chains.append(
                    [Token("R", s, m) for m in range(problem.micro_batches) if (s, m) in offloaded]
                )
            compute.append(tuple(_merge(chains, draw)))
        try:
            return time_orders(problem, Orders(tuple(compute)))
        except OrderError:
            continue
    return None


def _chain(problem: PipelineProblem, op: OpKind, s: int) -> list[Token]:
    return [
        Token(op, s, m)
        for m in range(problem.micro_batches)
        if op != "W" or problem.stages[s].has_weight_op(m)
    ]


def _merge(chains: list[list[Token]], draw: random.Random) -> list[Token]:
    """The chains shuffled into one, each F before its R and B, each B before its W."""
    left = [list(chain) for chain in chains]
    done: list[Token] = []
    rank = {"F": 0, "R": 1, "B": 2, "W": 3}
    everything = {token for chain in chains for token in chain}
    while any(left):
        ready = [
            chain
            for chain in left
            if chain
            and all(
                other in done
                for other in everything
                if other[1:] == chain[0][1:] and rank[other.op] < rank[chain[0].op]
            )
        ]
        done.append(draw.choice(ready).pop(0))
    return done


def violations(model: PipelineModel, values: list[float]) -> list[str]:
    """Rows and column bounds that the values break."""
    found = []
    for number, variable in enumerate(model.build.model.vars):
        if not variable.lb - 1e-6 <= values[number] <= variable.ub + 1e-6:
            found.append(f"{model.build.columns[number]} = {values[number]}")
    for row in model.build.model.constrs:
        total = sum(c * values[v.idx] for v, c in row.expr.expr.items())
        if total > row.rhs + 1e-6:
            found.append(str(row))
    return found


def test_every_schedule_gives_a_feasible_start() -> None:
    """So the model cuts off no schedule, and a start is never thrown away by the solver."""
    tried = 0
    for seed in range(300):
        problem = random_problem(seed)
        schedule = random_schedule(problem, seed)
        if schedule is None:
            continue
        tried += 1
        schedule = with_transfers_in_order(problem, schedule)
        assert not verify(problem, schedule), seed
        best = objective_ns(problem, schedule)
        model = build_model(problem, best_ns=best, lower_bound_ns=0)
        values = start_values(model, schedule)
        assert len(values) == len(model.build.columns)
        assert not violations(model, values), seed
        again = read_schedule(problem, model, values)
        assert again is not None
        assert objective_ns(problem, again) <= best
    assert tried > 150


@pytest.mark.parametrize("first", [0, 1, 2])
def test_every_schedule_is_a_start_of_its_own_windows(first: int) -> None:
    tried = 0
    for seed in range(120):
        problem = random_problem(seed)
        schedule = random_schedule(problem, seed)
        if schedule is None or problem.micro_batches < 3:
            continue
        window = Window(schedule, first, first + 1 + seed % 2)
        try:
            model = build_model(
                problem,
                best_ns=objective_ns(problem, schedule),
                lower_bound_ns=0,
                offload=window.settled_offloads(problem),
                add_window=window.add_order,
            )
        except Refuted:
            continue
        tried += 1
        start = with_transfers_in_order(problem, schedule)
        assert not violations(model, start_values(model, start)), seed
    assert tried > 20


def test_bounds_round_up_to_the_divisor_but_never_above_the_truth() -> None:
    model = build_model(balanced(), best_ns=474 * MS, lower_bound_ns=0)
    assert model.divisor_ns == MS
    assert model.bound_ns(453.0, 6) == 453 * MS
    assert model.bound_ns(452.9999, 6) == 453 * MS
    assert model.bound_ns(453.001, 6) == 453 * MS
    assert model.bound_ns(452.2, 6) == 453 * MS
    assert model.bound_ns(0.0, 6) == 0


def test_times_without_a_divisor_are_scaled_down() -> None:
    problem = balanced(forward_ns=18 * MS + 1, reload_ns=0)
    assert common_divisor_ns(problem) == 1
    model = build_model(problem, best_ns=480 * MS, lower_bound_ns=0)
    assert model.build.units(model.build.windows.horizon_ns) <= 1_000_000
    truth = 453_000_004
    bound = model.bound_ns(model.build.units(truth), 12)
    assert truth * (1 - 1e-5) < bound <= truth


def test_a_written_model_keeps_its_numbers(tmp_path: Path) -> None:
    problem = balanced(weight_grad_bytes=123_456_789, forward_ns=18 * MS + 7)
    model = build_model(problem, best_ns=480 * MS, lower_bound_ns=0)
    path = tmp_path / "model.lp"
    model.build.model.write(str(path))
    again = mip.Model(solver_name=mip.CBC)
    again.verbose = 0
    again.read(str(path))
    for mine, read in zip(model.build.model.constrs, again.constrs, strict=True):
        coefficients = {v.name: c for v, c in read.expr.expr.items()}
        expected = {v.name: c for v, c in mine.expr.expr.items()}
        assert coefficients == pytest.approx(expected, abs=6e-6)
        assert read.rhs == pytest.approx(mine.rhs, abs=6e-6)


def test_transfers_trade_places_within_a_stage() -> None:
    problem = balanced(2, 3, offload_bytes=GIB // 8, offload_ns=MS, reload_ns=MS)
    swapped = Orders(
        (
            (
                *(Token("F", 0, m) for m in range(3)),
                Token("R", 0, 2),
                Token("R", 0, 1),
                *(Token(op, 0, m) for m in range(3) for op in COMPUTE_KINDS[1:]),
            ),
            tuple(Token(op, 1, m) for m in range(3) for op in COMPUTE_KINDS),
        )
    )
    schedule = time_orders(problem, swapped)
    ordered = with_transfers_in_order(problem, schedule)
    assert not verify(problem, ordered)
    assert ordered.makespan_ns == schedule.makespan_ns
    reloads = sorted((op.start_ns, op.micro_batch) for op in ordered.ops if op.op == "R")
    assert [m for _, m in reloads] == [1, 2]


def test_renumbering_and_back_changes_nothing() -> None:
    problem = random_problem(0)
    order = tuple(reversed(range(problem.micro_batches)))
    assert renumber_problem(renumber_problem(problem, order), inverse(order)) == problem
    schedule = random_schedule(problem, 0)
    assert schedule is not None
    renumbered = renumber_schedule(schedule, order)
    assert renumber_schedule(renumbered, inverse(order)) == schedule
    assert common_order(problem, schedule) == tuple(range(problem.micro_batches))
    assert common_order(problem, renumbered) == order


def test_the_objective_of_the_problem_decides() -> None:
    spans = [s for s in range(40) if random_problem(s).objective is Objective.STEADY_SPAN]
    assert spans
    for seed in spans:
        problem = random_problem(seed)
        schedule = random_schedule(problem, seed)
        if schedule is not None:
            assert objective_ns(problem, schedule) == schedule.steady_span_ns
