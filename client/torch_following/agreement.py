"""Which version all ranks run next: the newest that every one of them is able to.

Ranks on different schedules would wait for each other for ever, so no rank decides for itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

SLOTS = 8
"""More than a rank holds versions, so that those of a rank never share a slot."""


class Agreement:
    """Agrees on a version by one small all-reduce per iteration.

    Each rank writes the versions that it could run into slots, version v and -v into slot v modulo
    their number. Of a minimum over all ranks, slot and negated slot are of one version exactly
    where every rank wrote that version. What is proposed in one iteration is read in the next, so
    the reduction runs beside the computation, and the host waits for nothing that was started
    since; all ranks read the same. NCCL's part has not been run on a GPU yet.
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        """`group` has all ranks that switch together, the default group unless given. The tensor
        is on the CPU where the group can do that (gloo), else on the current CUDA device."""
        self._group = group
        on_cpu = "gloo" in dist.get_backend(group)
        self._device = torch.device("cpu" if on_cpu else "cuda")
        self._pending: tuple[Any, Tensor] | None = None
        # NCCL's answer is fetched beside the computation, not after it.
        self._stream: Any = None if on_cpu else torch.cuda.Stream()

    def propose(self, versions: Iterable[int]) -> None:
        """Say which versions this rank could run; every rank has to, before `agreed`."""
        # Pinned, for the copy to the device not to wait for what that computes.
        slots = torch.zeros(2 * SLOTS, dtype=torch.int64, pin_memory=self._stream is not None)
        for version in versions:
            slots[version % SLOTS] = version
            slots[SLOTS + version % SLOTS] = -version
        slots = slots.to(self._device, non_blocking=True)
        work = dist.all_reduce(slots, dist.ReduceOp.MIN, group=self._group, async_op=True)
        self._pending = work, slots

    def agreed(self) -> int | None:
        """The newest version that every rank proposed the last time; None if there is none, or
        nothing was proposed."""
        if self._pending is None:
            return None
        work, slots = self._pending
        self._pending = None
        values = self._fetched(work, slots)
        versions = (
            lowest
            for lowest, negated in zip(values[:SLOTS], values[SLOTS:], strict=True)
            if lowest > 0 and lowest == -negated
        )
        return max(versions, default=None)

    def _fetched(self, work: Any, slots: Tensor) -> list[int]:
        if self._stream is None:
            work.wait()
            return list(slots.tolist())
        with torch.cuda.stream(self._stream):
            work.wait()
            return list(slots.tolist())
