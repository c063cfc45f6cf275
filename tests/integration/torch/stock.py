"""Runs exported CSV files in PyTorch's runtime, with nothing but PyTorch."""

import time

import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

from tests.integration.torch import model


def stages_of_row(path, rank):
    """The stages that a rank's row names."""
    with open(path) as lines:
        row = lines.read().splitlines()[rank]
    return sorted({int(cell.rstrip("0123456789")[:-1]) for cell in row.split(",")})


def compare(layers, own, losses, micro_batches):
    """Largest differences from the un-pipelined model: of losses, and of own stages' gradients.

    A gradient that is missing counts as infinitely wrong.
    """
    expected_losses, expected = model.reference(tuple(layers), micro_batches)
    wrong = max(
        float("inf") if parameter.grad is None else (parameter.grad - gradient).abs().max().item()
        for index, module in own.items()
        for parameter, gradient in zip(module.parameters(), expected[index], strict=True)
    )
    pairs = zip(losses, expected_losses, strict=True) if losses else ()
    return {"loss": max((abs(a.item() - b) for a, b in pairs), default=0.0), "gradient": wrong}


def feed(runtime, own, last, micro_batches, losses):
    """One step: the tokens on the first stage's rank, the targets on the last one's."""
    tokens, targets = model.batch(micro_batches)
    args = (tokens,) if 0 in own else ()
    target = targets if last in own else None
    runtime.step(*args, target=target, losses=losses, return_outputs=False)


def run(case, rank):
    """Gradients and losses of one step from the file alone."""
    layers, micro_batches = case["layers"], case["micro_batches"]
    modules = model.build(layers)
    own = {index: modules[index] for index in stages_of_row(case["path"], rank)}
    stages = [PipelineStage(own[i], i, len(layers), "cpu") for i in own]
    runtime = _PipelineScheduleRuntime(stages, micro_batches, loss_fn=model.loss)
    runtime._load_csv(case["path"])
    losses = []
    feed(runtime, own, len(layers) - 1, micro_batches, losses if len(layers) - 1 in own else None)
    return compare(layers, own, losses, micro_batches)


class PaddedStage(PipelineStage):
    """Every operation takes the time that the problem has for it."""

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


def time_step(case, rank):
    """How long a step takes from its first operation to its last (s), until an attempt is good.

    Others may use the machine too; what it can do shows in its best attempt.
    """
    layers, micro_batches = case["layers"], case["micro_batches"]
    modules = model.build(layers)
    (index,) = stages_of_row(case["path"], rank)
    stage = PaddedStage(modules[index], index, len(layers), "cpu")
    runtime = _PipelineScheduleRuntime([stage], micro_batches, loss_fn=model.loss)
    runtime._load_csv(case["path"])
    spans = []
    for attempt in range(1 + case["attempts"]):
        stage.pads = case["pads"] if attempt else None
        stage.began = None
        dist.barrier()
        feed(runtime, {index}, len(layers) - 1, micro_batches, None)
        if attempt:
            spans.append(whole_span(stage.began, stage.ended))
            if spans[-1] <= case["good_s"]:
                break
    return spans


def whole_span(began, ended):
    """From the first begin of any rank to the last end; they share a clock."""
    spans = [None] * dist.get_world_size()
    dist.all_gather_object(spans, (began, ended))
    return max(end for _, end in spans) - min(begin for begin, _ in spans)
