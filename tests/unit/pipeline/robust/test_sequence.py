"""Operations that share an instant are listed so that they fit one by one, if that can be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from random import Random

from hypothesis import event, given, settings
from hypothesis import strategies as st

from planner.pipeline.documents import read_problem
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.robust.sequence import in_sequence
from planner.pipeline.schedule import TimedOp, Token
from tests.brute_force import operations, predecessors
from tests.unit.pipeline.robust.executor import allocates, frees, limits


@st.composite
def instants(draw: st.DrawFn) -> PipelineProblem:
    """Problems whose operations all take no time."""
    stages = draw(st.integers(1, 2))
    count = draw(st.integers(1, 3 if stages == 1 else 2))
    device = {"activation_memory_bytes": draw(st.integers(3, 8)), "host": 0}
    sizes = [[draw(st.integers(1, 4)) for _ in range(count)] for _ in range(stages)]
    return read_problem(
        {
            "micro_batches": count,
            "micro_batch_order": draw(st.sampled_from(["fixed", "free"])),
            "devices": [device],
            "hosts": [{"memory_bytes": draw(st.integers(1, 8))}],
            "stages": [
                {
                    "device": 0,
                    "forward_ns": 0,
                    "backward_input_ns": 0,
                    "activation_bytes": own,
                    "backward_workspace_bytes": draw(st.integers(0, 2)),
                    "offload_bytes": own,
                    "offload_ns": 0,
                    "reload_ns": 0,
                }
                for own in sizes
            ],
        }
    )


def runs(problem: PipelineProblem, sequence: Sequence[Token]) -> bool:
    """Whether the operations fit and depend on nothing later when run one after the other."""
    used: dict[tuple[str, int], int] = defaultdict(int)
    limit = limits(problem)
    left = set(sequence)
    for token in sequence:
        left.discard(token)
        if any(earlier in left for earlier in predecessors(problem, token, set(sequence))):
            return False
        for memory, size in allocates(problem, token).items():
            used[memory] += size
            if size and used[memory] > limit[memory]:
                return False
        for memory, size in frees(problem, token).items():
            used[memory] -= size
    return True


def some_order_runs(problem: PipelineProblem, tokens: Sequence[Token]) -> bool:
    """Try every order; what is done decides what is in use, so each set of done counts once."""
    seen: set[frozenset[Token]] = set()

    def search(path: tuple[Token, ...]) -> bool:
        if len(path) == len(tokens):
            return True
        if frozenset(path) in seen:
            return False
        seen.add(frozenset(path))
        return any(
            search((*path, token))
            for token in tokens
            if token not in path
            and not any(p not in path for p in predecessors(problem, token, set(tokens)))
            and runs_after(path, token)
        )

    def runs_after(path: tuple[Token, ...], token: Token) -> bool:
        used: dict[tuple[str, int], int] = defaultdict(int)
        for done in path:
            for memory, size in allocates(problem, done).items():
                used[memory] += size
            for memory, size in frees(problem, done).items():
                used[memory] -= size
        limit = limits(problem)
        return all(
            not size or used[memory] + size <= limit[memory]
            for memory, size in allocates(problem, token).items()
        )

    return search(())


@settings(max_examples=100, deadline=None)
@given(instants(), st.integers(0, 2**32))
def test_an_order_that_fits_is_found_if_there_is_one(problem: PipelineProblem, seed: int) -> None:
    random = Random(seed)
    pairs = [(s, m) for s in range(len(problem.stages)) for m in range(problem.micro_batches)]
    tokens = operations(problem, frozenset(pair for pair in pairs if random.random() < 0.6))
    random.shuffle(tokens)
    found = [op.token for op in in_sequence(problem, [TimedOp(*t, 0, 0) for t in tokens])]
    assert sorted(found) == sorted(tokens)
    fits = runs(problem, found)
    event("fits" if fits else "does not fit")
    assert fits == some_order_runs(problem, tokens)
