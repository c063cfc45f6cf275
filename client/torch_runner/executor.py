"""A rank's offloads, reloads and waits while PyTorch runs its operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from client.torch_runner.copies import copies_for
from client.torch_runner.offloads import Offloads
from client.torch_runner.private_names import default_store
from client.torch_runner.schedule import Action, Schedule

LOSS = "L"


class Executor:
    """Does what the schedule has a rank do besides computing and sending.

    The rank's thread starts everything in the schedule's order. On CUDA that is the order in which
    memory is allocated; a copy begins after the computation that was started before it, and a wait
    holds up the computation, and with it whatever is started later.

    `timing`, if set, encloses each operation without what that waits for, and the loss of each
    micro-batch, as an operation of the kind `LOSS`.
    """

    timing: Callable[[Action], AbstractContextManager[None]] | None = None

    def __init__(
        self, schedule: Schedule, rank: int, device: torch.device, name: str = "pipeline"
    ) -> None:
        self._after = schedule.after
        self._rank_of_stage = schedule.rank_of_stage
        self._rank = rank
        self._stages = schedule.stages_of(rank)
        self._last_forward: Action | None = None
        self._offloads = Offloads(copies_for(device))
        self._signals = _Signals(schedule.awaited_elsewhere(rank), name)

    def begin_step(self, stage: int) -> None:
        """An iteration begins; called for each of the rank's stages."""
        if self._stages[0] == stage:
            self._offloads.begin_step()
            self._signals.begin_step()

    def saving(self, action: Action) -> AbstractContextManager[None]:
        """What autograd saves within is what this micro-batch's O may move."""
        self._last_forward = action
        return self._offloads.saving((action.stage, action.micro_batch))

    @contextmanager
    def computing_loss(self) -> Iterator[None]:
        """The same for the loss, which belongs to the forward that ran last."""
        if self._last_forward is None:
            # PyTorch infers the shapes of gradients by a trial run.
            yield
            return
        loss = self._last_forward._replace(kind=LOSS)
        with self._timed(loss), self.saving(self._last_forward):
            yield

    @contextmanager
    def running(self, action: Action) -> Iterator[None]:
        """Waits for what the action has to, and tells those that wait for it."""
        self._offloads.release_finished()
        for early in self._after.get(action, ()):
            self._wait_for(early)
        with self._timed(action):
            yield
        if action in self._signals.awaited:
            self._offloads.synchronize()
            self._signals.give(action)

    def offload(self, action: Action) -> None:
        """Run an O."""
        with self.running(action):
            self._offloads.offload((action.stage, action.micro_batch))

    def reload(self, action: Action) -> None:
        """Run an R."""
        with self.running(action):
            self._offloads.reload((action.stage, action.micro_batch))

    def _timed(self, action: Action) -> AbstractContextManager[None]:
        return nullcontext() if self.timing is None else self.timing(action)

    def _wait_for(self, early: Action) -> None:
        if self._rank_of_stage[early.stage] != self._rank:
            self._signals.wait_for(early)
        elif early.kind == "O":
            self._offloads.wait_for_offload((early.stage, early.micro_batch))
        elif early.kind == "R":
            self._offloads.wait_for_reload((early.stage, early.micro_batch))
        # The rank's own computations are over, or before it on its stream.


class _Signals:
    """Tells ranks what others have ended, through the store of the process group."""

    def __init__(self, awaited: frozenset[Action], name: str) -> None:
        self.awaited = awaited
        self._prefix = f"loadmaster/{name}"
        self._step = 0

    def begin_step(self) -> None:
        """A rank that has ended two iterations more than another one cannot be: those before the
        last are read by nobody any more."""
        self._step += 1
        if self._step > 2:
            for action in self.awaited:
                default_store().delete_key(self._key(action, self._step - 2))

    def give(self, action: Action) -> None:
        default_store().set(self._key(action, self._step), b"1")

    def wait_for(self, action: Action) -> None:
        default_store().wait([self._key(action, self._step)])

    def _key(self, action: Action, step: int) -> str:
        return f"{self._prefix}/{step}/{action}"
