"""A `PipelineStage` that runs under a schedule with offloads, and gives memory back in time."""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage

from client.torch_runner.deferred_weights import defer_weight_gradients
from client.torch_runner.errors import StageError
from client.torch_runner.executor import Executor
from client.torch_runner.schedule import Action, Schedule

Split = Literal["deferred", "native"]


def stage_for(
    schedule: Schedule,
    index: int,
    module: nn.Module,
    device: torch.device | str,
    *,
    group: dist.ProcessGroup | None = None,
    split: Split = "deferred",
) -> PlannedStage:
    """The stage of this index, ready for `build_runtime`.

    Where the schedule splits its backward, `split` says how: "deferred" queues the weight
    gradients of linear layers (which changes the layers in place), "native" leaves it to PyTorch,
    whose I keeps the whole graph until W.
    """
    defers = schedule.is_split[index] and split == "deferred"
    return PlannedStage(
        module,
        index,
        len(schedule.rank_of_stage),
        torch.device(device),
        group=group,
        dw_builder=defer_weight_gradients(module) if defers else None,
    )


class PlannedStage(PipelineStage):
    """A stage of a planned schedule.

    PyTorch keeps every sent tensor, and what a stage hands to the next one on its own rank, until
    the iteration ends, so memory grows with the micro-batches. Here a sent output is let go when
    its gradient has come, gradients are sent from buffers that are allocated once, and what passes
    within the rank is let go as soon as it was used: each operation changes memory by the same
    amount for every micro-batch.
    """

    executor: Executor | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._sent: dict[int, list[Tensor]] = {}
        self._gradients_to_send: dict[tuple[int, int], Tensor] = {}
        self._handed_over: dict[int, list[Any]] = {}
        self._handed_back: dict[int, list[Any]] = {}

    def clear_runtime_states(self) -> None:
        """PyTorch calls this at the beginning of every iteration."""
        super().clear_runtime_states()
        self._sent.clear()
        self.planned().begin_step(self.stage_index)

    def forward_one_chunk(self, fwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        """F."""
        action = Action(self.stage_index, "F", fwd_chunk_id)
        executor = self.planned()
        with executor.running(action), executor.saving(action):
            return super().forward_one_chunk(fwd_chunk_id, *args, **kwargs)

    def backward_one_chunk(
        self,
        bwd_chunk_id: int,
        loss: Tensor | None = None,
        full_backward: bool = True,
        last_backward: bool = False,
    ) -> None:
        """I, or B if it is full."""
        action = Action(self.stage_index, "B" if full_backward else "I", bwd_chunk_id)
        with self.planned().running(action):
            super().backward_one_chunk(bwd_chunk_id, loss, full_backward, last_backward)
            self._let_go_of_output(bwd_chunk_id, loss)
            if full_backward:
                self._let_go_of_handed(bwd_chunk_id)

    def backward_weight_one_chunk(self, bwd_chunk_id: int, last_backward: bool = False) -> None:
        """W."""
        with self.planned().running(Action(self.stage_index, "W", bwd_chunk_id)):
            super().backward_weight_one_chunk(bwd_chunk_id, last_backward)
            self._let_go_of_handed(bwd_chunk_id)

    def get_fwd_send_ops(self, fwd_chunk_id: int) -> list[dist.P2POp]:
        """The sends of an output, from tensors that can be let go without the output."""
        operations = super().get_fwd_send_ops(fwd_chunk_id)
        self._sent[fwd_chunk_id] = [operation.tensor for operation in operations]
        return operations

    def get_bwd_send_ops(self, bwd_chunk_id: int) -> list[dist.P2POp]:
        """The sends of an input's gradient, from buffers."""
        operations = super().get_bwd_send_ops(bwd_chunk_id)
        for number, operation in enumerate(operations):
            key = bwd_chunk_id, number
            buffer = self._gradients_to_send.get(key)
            if buffer is None:
                buffer = self._gradients_to_send[key] = torch.empty_like(operation.tensor)
            operation.tensor = buffer.copy_(operation.tensor)
        for received in self.args_recv_info[bwd_chunk_id]:
            if received.buffer is not None:
                received.buffer.grad = None
        return operations

    def set_local_fwd_input(self, prev_stage_outputs: Any, mb_index: int) -> None:
        """Take the output of the stage before, on the same rank."""
        super().set_local_fwd_input(prev_stage_outputs, mb_index)
        self._handed_over[mb_index] = list(self.args_recv_info[mb_index])

    def set_local_bwd_input(
        self, next_stage_bwd_outputs: tuple[Tensor | None, ...], mb_index: int
    ) -> None:
        """Take the gradient from the stage after, on the same rank."""
        super().set_local_bwd_input(next_stage_bwd_outputs, mb_index)
        self._handed_back[mb_index] = [
            info
            for info, gradient in zip(
                self.grad_recv_info[mb_index], next_stage_bwd_outputs, strict=True
            )
            if gradient is not None
        ]

    def planned(self) -> Executor:
        """What carries out the schedule. Raises `StageError` before there is one."""
        if self.executor is None:
            raise StageError("This stage has no schedule yet: call build_runtime first.")
        return self.executor

    def _let_go_of_output(self, micro_batch: int, loss: Tensor | None) -> None:
        # The gradient came from the next stage, so that has received the output.
        for tensor in self._sent.pop(micro_batch, ()):
            tensor.data = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        if loss is not None and not loss._is_view():
            # The list of losses would keep the graph, and with it the stage's input.
            loss.detach_()

    def _let_go_of_handed(self, micro_batch: int) -> None:
        for handed in (self._handed_over, self._handed_back):
            for info in handed.pop(micro_batch, ()):
                info.buffer = None
