"""What holds for every run, whatever is reported, answered and acknowledged in whatever order."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.following.look import Look, Outcome, Solved
from planner.following.state import RunState, changed, new_run
from planner.following.step import step
from planner.following.versions import VersionState, may_become
from planner.pipeline.problem import PipelineProblem
from tests.unit.following.runs import SETTINGS, STAGES, problem, samples

STEPS, STRIDE = 25, 7


@dataclass
class Story:
    """A run with everything left to chance."""

    random: Random
    state: RunState
    level: list[float] = field(default_factory=lambda: [1.0] * STAGES)
    newest: int = 0
    shown: list[object] = field(default_factory=list)
    acks: dict[int, dict[int, int]] = field(default_factory=dict)

    def look(self) -> Look:
        """What a step is shown next."""
        random = self.random
        first, self.newest = self.newest, self.newest + STRIDE
        if random.random() < 0.15:
            self.level[random.randrange(STAGES)] = random.choice([0.8, 1.0, 1.3, 1.7])
        level = list(self.level)
        pace = random.choice([0.9, 1.0, 1.0, 1.1]) * 15_000_000
        self.shown += samples(
            range(first, self.newest),
            lambda i, s: level[s],
            iteration_ns=lambda i: pace,
            seed=random.randrange(5),
            memory_limit_bytes=random.choice([5_000] * 9 + [4_500]),
        )
        self.shown = self.shown[-SETTINGS.window * STAGES :]
        pending = self.state.pending
        if pending is not None and random.random() < 0.4:
            rank = random.randrange(STAGES)
            self.acks.setdefault(pending.number, {})[rank] = self.newest
            if random.random() < 0.6:
                self.acks[pending.number] = dict.fromkeys(range(STAGES), self.newest)
        return Look(self.newest - 1, tuple(self.shown), self.acks, self._solved())  # type: ignore[arg-type]

    def _solved(self) -> Solved | None:
        solving = self.state.solving
        if solving is None or self.random.random() < 0.3:
            return None
        number = solving.number if self.random.random() < 0.9 else solving.number - 1
        state = self.random.choice(["succeeded"] * 6 + ["failed", "infeasible"])
        gain = self.random.uniform(-0.1, 0.3)
        fits = self.random.random() < 0.8
        figures = {
            "running_ns": 1_000, "gain": gain, "gain_low": gain - 0.02, "running_fits": fits,
        }  # fmt: skip
        bound_ns = self.random.choice([None, 700, 1_000])
        return Solved(number, state, figures, lower_bound_ns=bound_ns)  # type: ignore[arg-type]


def smaller() -> PipelineProblem:
    return replace(problem(), micro_batches=2)


def check_transitions(before: RunState, after: RunState) -> None:
    """Every version has passed from state to state as it may, and none has vanished."""
    assert [v.number for v in after.versions] == list(range(1, len(after.versions) + 1))
    assert len(after.versions) - len(before.versions) in (0, 1)
    for one, other in zip(before.versions, after.versions, strict=False):
        assert one.state == other.state or any(
            may_become(one.state, between)
            and (between == other.state or may_become(between, other.state))
            for between in VersionState
        )
    assert sum(v.state in ("published", "scheduled") for v in after.versions) <= 1
    assert sum(v.state == "running" for v in after.versions) <= 1


def check_solves(before: RunState, look: Look, outcome: Outcome) -> None:
    """Never two solves in flight, and every one that is was asked for."""
    solving, asked = outcome.state.solving, outcome.solve
    if asked is not None:
        over = look.solved is not None and before.solving is not None
        over = over and look.solved is not None and look.solved.number == before.solving.number  # type: ignore[union-attr]
        assert before.solving is None or outcome.drop_solve or over
        assert solving is not None
        assert solving.number == asked.number == before.solves + 1
    elif solving is not None:
        assert solving == before.solving
        assert not outcome.drop_solve
    if outcome.publish is not None and outcome.publish.solve is not None:
        assert before.solving is not None
        assert outcome.publish.solve == before.solving.number


def check_swaps(before: RunState, look: Look, outcome: Outcome) -> None:
    """A version applies only with every acknowledgement, and later than anything known."""
    for version in outcome.state.versions[: len(before.versions)]:
        if version.state == "scheduled" and before.version(version.number).state == "published":
            acked = look.acks.get(version.number, {})
            assert len(acked) >= STAGES or not any(look.acks.values())
            assert version.apply_at_iteration is not None
            if not version.needs_restart:
                known = max([look.newest_iteration or 0, *acked.values()])
                assert version.apply_at_iteration >= known + SETTINGS.swap_lead
        if version.state == "running":
            assert version.apply_at_iteration is not None
            assert version.apply_at_iteration <= (look.newest_iteration or 0)


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=15)
def test_every_run(seed: int, given_plan: bool) -> None:
    random = Random(seed)
    story = Story(random, new_run(problem(), SETTINGS, given_plan=given_plan))
    for _ in range(STEPS):
        before = story.state
        if random.random() < 0.03:
            shape = smaller() if before.base.micro_batches == 4 else problem()
            before = changed(before, shape, SETTINGS, story.newest)
        look = story.look()
        outcome = step(before, look)
        check_transitions(before, outcome.state)
        check_solves(before, look, outcome)
        check_swaps(before, look, outcome)
        shuffled = random.sample(look.samples, len(look.samples))
        again = replace(look, samples=(*shuffled, *shuffled[: len(shuffled) // 3]))
        if len({(s.iteration, s.stage) for s in look.samples}) == len(look.samples):
            assert step(before, again) == outcome
        second = step(outcome.state, look)
        assert second == Outcome(outcome.state)
        text = json.dumps(outcome.state.to_document(), allow_nan=False)
        assert RunState.from_document(json.loads(text), outcome.state.base) == outcome.state
        story.state = outcome.state
