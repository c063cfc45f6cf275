"""The front of step time, memory headroom and number of GPUs."""

from __future__ import annotations

from planner.sizes import GIB
from planner.training.evaluate import Plan

SLOWEST = 2
"""Plans that take more than this many times as long as the fastest on as many GPUs are none that
anybody would choose for their headroom."""

Figures = tuple[int, int, int]
"""GPUs, step time in ns, and memory of the fullest GPU in GiB."""


class Front:
    """Plans of which none is dominated: no other is as fast, as small and on as few GPUs, and
    better in one of the three. Memory counts in whole GiB, rounded up, so that points differ enough
    to choose between. Of equal ones the first in their order is kept."""

    def __init__(self) -> None:
        self._plans: dict[Figures, Plan] = {}
        self._fastest_ns: dict[int, int] = {}
        self._not_dominated: list[Figures] = []

    def add(self, plan: Plan) -> None:
        """Take a plan into account."""
        gpus, step_ns = plan.gpus, plan.total_ns
        mine = (gpus, step_ns, -(-plan.peak_bytes // GIB))
        self._fastest_ns[gpus] = min(step_ns, self._fastest_ns.get(gpus, step_ns))
        same = self._plans.get(mine)
        if same is None or plan.key < same.key:
            self._plans[mine] = plan
        if not any(_is_as_good(known, mine) for known in self._not_dominated):
            rest = [known for known in self._not_dominated if not _is_as_good(mine, known)]
            self._not_dominated = [*rest, mine]

    def limit_bytes(self, gpus: int, step_ns: int) -> int | None:
        """The most memory of a GPU with which a plan on so many GPUs that is no faster may still
        be on the front; None where there is no limit.

        It holds if every plan that may be faster has been added.
        """
        if not self._is_fast_enough(gpus, step_ns):
            return 0
        smaller = [
            peak_gib
            for its_gpus, its_ns, peak_gib in self._not_dominated
            if its_gpus <= gpus and its_ns <= step_ns and self._is_fast_enough(its_gpus, its_ns)
        ]
        return (min(smaller) - 1) * GIB if smaller else None

    def plans(self) -> list[Plan]:
        """Most GPUs first, of as many the fastest first."""
        kept: list[Figures] = []
        # Whatever dominates another one comes before it.
        for mine in sorted(self._plans):
            fast = self._is_fast_enough(*mine[:2])
            if fast and not any(_is_as_good(known, mine) for known in kept):
                kept.append(mine)
        return [self._plans[own] for own in sorted(kept, key=lambda own: (-own[0], *own[1:]))]

    def _is_fast_enough(self, gpus: int, step_ns: int) -> bool:
        fastest_ns = self._fastest_ns.get(gpus)
        return fastest_ns is None or step_ns <= SLOWEST * fastest_ns


def _is_as_good(mine: Figures, other: Figures) -> bool:
    return all(own <= its for own, its in zip(mine, other, strict=True))
