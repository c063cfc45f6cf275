"""Times steps of an exported CSV file in PyTorch's runtime, with operations that take as long as
the problem says."""

import time

import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

from tests.integration.torch import model, stock


class PaddedStage(PipelineStage):
    """Every operation ends when the time that the problem has for it is over, counted from its
    begin: what it computes is part of that, what PyTorch does between operations is not."""

    pads = None
    """Seconds of F, B, I and W; none at first, for the step that sets everything up."""
    began, ended = None, None

    def padded(self, kind, run):
        begin = time.monotonic()
        result = run()
        if self.pads is not None:
            time.sleep(max(0.0, begin + self.pads[kind] - time.monotonic()))
            self.began = begin if self.began is None else self.began
            self.ended = time.monotonic()
        return result

    def forward_one_chunk(self, *args, **kwargs):
        return self.padded("F", lambda: super(PaddedStage, self).forward_one_chunk(*args, **kwargs))

    def backward_one_chunk(self, *args, **kwargs):
        run = super().backward_one_chunk
        kind = "B" if kwargs["full_backward"] else "I"
        return self.padded(kind, lambda: run(*args, **kwargs))

    def backward_weight_one_chunk(self, *args, **kwargs):
        run = super().backward_weight_one_chunk
        return self.padded("W", lambda: run(*args, **kwargs))


def time_steps(case, rank):
    """How long each of `attempts` steps takes, from its first operation to its last (s)."""
    layers, micro_batches = case["layers"], case["micro_batches"]
    modules = model.build(layers)
    (index,) = stock.stages_of_row(case["path"], rank)
    stage = PaddedStage(modules[index], index, len(layers), "cpu")
    runtime = _PipelineScheduleRuntime([stage], micro_batches, loss_fn=model.loss)
    runtime._load_csv(case["path"])

    def step():
        dist.barrier()
        stock.feed(runtime, {index}, len(layers) - 1, micro_batches, None)

    step()
    stage.pads = case["pads"][index]
    spans_s = []
    for _ in range(case["attempts"]):
        stage.began = None
        step()
        spans_s.append(whole_span(stage.began, stage.ended))
    return spans_s


def whole_span(began, ended):
    """From the first begin of any rank to the last end; they share a clock."""
    spans = [None] * dist.get_world_size()
    dist.all_gather_object(spans, (began, ended))
    return max(end for _, end in spans) - min(begin for begin, _ in spans)
