"""Runs exported CSV files in PyTorch's runtime, with nothing but PyTorch."""

from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

from tests.integration.torch import model
from tests.integration.torch.metering import Watch


class WatchedStage(PipelineStage):
    """A stage of PyTorch's whose operations a watch sees, if it has one."""

    watch = None

    def watched(self, kind, micro_batch, run):
        if self.watch is None:
            return run()
        with self.watch.operation(kind, f"{self.stage_index}{kind}{micro_batch}"):
            return run()

    def forward_one_chunk(self, micro_batch, *args, **kwargs):
        run = super().forward_one_chunk
        output = self.watched("F", micro_batch, lambda: run(micro_batch, *args, **kwargs))
        if self.watch is not None and not self.is_last:
            self.watch.send(output)
        return output

    def backward_one_chunk(self, micro_batch, *args, **kwargs):
        run = super().backward_one_chunk
        kind = "B" if kwargs["full_backward"] else "I"
        result = self.watched(kind, micro_batch, lambda: run(micro_batch, *args, **kwargs))
        if self.watch is not None:
            self.watch.send(self.bwd_cache.get(micro_batch, ()))
        return result

    def backward_weight_one_chunk(self, micro_batch, *args, **kwargs):
        run = super().backward_weight_one_chunk
        return self.watched("W", micro_batch, lambda: run(micro_batch, *args, **kwargs))


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
    """Two steps from the file alone: gradients and losses of the first, and the bytes of the
    second."""
    layers, micro_batches = case["layers"], case["micro_batches"]
    modules = model.build(layers)
    own = {index: modules[index] for index in stages_of_row(case["path"], rank)}
    stages = [WatchedStage(own[i], i, len(layers), "cpu") for i in own]
    runtime = _PipelineScheduleRuntime(stages, micro_batches, loss_fn=model.loss)
    runtime._load_csv(case["path"])
    last = len(layers) - 1
    losses = []
    feed(runtime, own, last, micro_batches, losses if last in own else None)
    result = compare(layers, own, losses, micro_batches)
    # By now gradients of parameters and buffers are there.
    watch = Watch(stages)
    for stage in stages:
        stage.watch = watch
    with watch.meter:
        feed(runtime, own, last, micro_batches, None)
        watch.end_of_operation()
    return {**result, "levels": watch.levels, "peaks": watch.peaks}
