"""When the backward of an activation could start at the earliest, judged from what has started."""

from __future__ import annotations

from itertools import accumulate

from planner.pipeline.problem import PipelineProblem


class Outlook:
    """Earliest starts of B by longest path from the furthest operation started of a micro-batch.

    `turn_ns[m]` is when the last stage's backward of micro-batch m could start.
    """

    def __init__(self, problem: PipelineProblem) -> None:
        stages, hops = problem.stages, problem.transfers
        last = len(stages) - 1
        variants = range(1 if problem.alike else problem.micro_batches)
        down = [
            list(
                accumulate(
                    [0] + [hops[s].forward_ns[m] + stages[s + 1].forward_ns[m] for s in range(last)]
                )
            )
            for m in variants
        ]
        up = [
            list(
                accumulate(
                    [0]
                    + [
                        stages[s + 1].backward_input_ns[m] + hops[s].backward_ns[m]
                        for s in range(last - 1, -1, -1)
                    ]
                )
            )[::-1]
            for m in variants
        ]
        repeat = problem.micro_batches if problem.alike else 1
        self.down, self.up = down * repeat, up * repeat
        self.backward = [stage.backward_input_ns for stage in stages]
        self.turn_ns = [0] * problem.micro_batches

    def forward_started(self, s: int, m: int, end_ns: int) -> None:
        """F of this stage ends then."""
        self.turn_ns[m] = end_ns + self.down[m][-1] - self.down[m][s]

    def backward_started(self, s: int, m: int, end_ns: int) -> None:
        """B of this stage ends then."""
        self.turn_ns[m] = end_ns - self.backward[s][m] - self.up[m][s]

    def path_ns(self, s: int, m: int) -> int:
        """Earliest start of B by the path of its micro-batch alone."""
        return self.turn_ns[m] + self.up[m][s]

    def backward_ns(self, s: int, m: int, next_backward: int, now: int) -> int:
        """Earliest start of B; the stage's older backwards, from `next_backward`, come first."""
        return max(now + (m - next_backward) * self.backward[s][m], self.path_ns(s, m))
