"""What the memory limit of a device lets wait: the residents of one stage as prefix sums.

The k-th F, B and W of a stage are meant by their rank: under fixed order the rank is the
micro-batch; under free order with micro-batches alike the k-th to run. In both, the B's that have
ended when an F starts are the first x of their kind, and whoever has not run its B by then holds
its activation.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from planner.pipeline.problem import Stage

MOST_STEPS = 4096
"""About how many steps the pending work of one stage may take to count."""


@dataclass(frozen=True)
class StageMemory:
    """Least bytes that a stage's micro-batches hold while their B or W is pending.

    A pending B holds the activation, at least the part that can't be offloaded (`resident`). A
    pending W holds its late bytes. W follow one another only if each micro-batch has one; a stage
    on which some have none counts as if its late bytes were 0.
    """

    stage: Stage
    micro_batches: int

    @cached_property
    def resident(self) -> list[int]:
        pairs = zip(self.stage.activation_bytes, self.stage.offload_bytes, strict=True)
        return [activation - away for activation, away in pairs]

    @cached_property
    def late(self) -> list[int]:
        if 0 in self.stage.backward_weight_ns:
            return [0] * self.micro_batches
        return list(self.stage.weight_grad_bytes)

    @cached_property
    def resident_sum(self) -> list[int]:
        """Resident bytes of the ranks before k, k from 0 to M."""
        return list(accumulate(self.resident, initial=0))

    @cached_property
    def late_sum(self) -> list[int]:
        """Late bytes of the ranks before k."""
        return list(accumulate(self.late, initial=0))

    @cached_property
    def least_sum(self) -> list[int]:
        """Bytes that those before k hold at least until their W has ended."""
        least = map(min, self.resident, self.late)
        return list(accumulate(least, initial=0))

    @cached_property
    def backward_sum(self) -> list[int]:
        """Time of the B's before k."""
        return list(accumulate(self.stage.backward_input_ns, initial=0))

    @cached_property
    def weight_sum(self) -> list[int]:
        """Time of the W's before k."""
        return list(accumulate(self.stage.backward_weight_ns, initial=0))

    @cached_property
    def forward_held(self) -> list[int]:
        """What is in use of a micro-batch's own bytes at the instant its F starts, at least.

        If neither F nor B takes time, both may happen at that instant, and what B frees counts
        before what F allocates.
        """
        stage = self.stage
        return [
            stage.activation_bytes[k]
            if stage.forward_ns[k] + stage.backward_input_ns[k]
            else min(stage.activation_bytes[k], stage.late_bytes(k))
            for k in range(self.micro_batches)
        ]

    @cached_property
    def backward_held(self) -> list[int]:
        """What is in use of a micro-batch's own bytes when its B starts, at least."""
        stage = self.stage
        return [
            max(stage.activation_bytes[k], stage.late_bytes(k)) + stage.backward_workspace_bytes[k]
            if stage.backward_input_ns[k]
            else stage.late_bytes(k)
            for k in range(self.micro_batches)
        ]

    @cached_property
    def _is_alike(self) -> bool:
        rows = (
            self.forward_held,
            self.stage.backward_input_ns,
            self.stage.backward_weight_ns,
            self.resident,
            self.late,
        )
        return all(len(set(values)) == 1 for values in rows)

    def backwards_before_forward(self, k: int, room: int) -> int:
        """How many B must have ended when the k-th F starts, if `room` bytes are left beside it."""
        return bisect_left(self.resident_sum, self.resident_sum[k] - room, 0, k)

    def weights_before_forward(self, k: int, room: int) -> int:
        """How many W must have ended when the k-th F starts."""
        return bisect_left(self.least_sum, self.least_sum[k] - room, 0, k)

    def weights_before_backward(self, limit: int) -> list[int]:
        """Per k: how many W must have ended when the k-th B starts: others hold late bytes."""
        sums = self.late_sum
        return [
            bisect_left(sums, sums[k] + held - limit, 0, k)
            for k, held in enumerate(self.backward_held)
        ]

    def most_pending_ns(self, limit: int, k: int) -> int:
        """The most time of B and W of ranks before k that may run after the k-th F.

        B pending from rank x on and W from rank y <= x on hold resident bytes x..k-1 and late
        bytes y..x-1, which must fit beside what the k-th F takes.
        """
        resident, late = self.resident_sum, self.late_sum
        backward, weight = self.backward_sum, self.weight_sum
        room = limit - self.forward_held[k]
        total = backward[k] + weight[k]
        if resident[k] <= room:
            return total
        most = 0
        for x in range(k, -1, -1):
            left = room - (resident[k] - resident[x])
            if left < 0:
                break
            y = bisect_left(late, late[x] - left, 0, x)
            most = max(most, total - backward[x] - weight[y])
        return most

    def pending_ns(self, limit: int) -> list[int]:
        """At least `most_pending_ns` of every k.

        In equal micro-batches the last k's is the largest. Otherwise some k are passed over if
        many micro-batches fit.
        """
        last = self.micro_batches - 1
        total = [b + w for b, w in zip(self.backward_sum, self.weight_sum, strict=True)]
        if self._is_alike:
            most = self.most_pending_ns(limit, last)
            return [min(all_before, most) for all_before in total[:-1]]
        fit = bisect_left(self.resident_sum, limit)
        step = 1 + self.micro_batches * fit // MOST_STEPS
        return [
            total[k] if (last - k) % step else self.most_pending_ns(limit, k)
            for k in range(self.micro_batches)
        ]
