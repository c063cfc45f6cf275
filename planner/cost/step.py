"""Closed-form time of one training step, before any schedule is solved.

The pipeline runs one forward, one backward (1F1B; Narayanan et al. 2021, arXiv 2104.04473, section
2.2): the busiest device works through its micro-batches and waits once for every other device's
forward and backward of one, with v chunks per device for one v-th of them.

That leaves out what no schedule can avoid where stages are unequal, hops long, or memory short: a
device that may not hold more forwards, nor send them to the host any faster, idles until the first
backward arrives. A step is therefore never taken to be shorter than the bounds of its pipeline
problem (`planner.pipeline.bounds.alike`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.cost import times
from planner.cost.blocks import activation_shape
from planner.cost.build import CostModel
from planner.cost.model import Model
from planner.cost.times import Flops
from planner.cost.training import Recomputation
from planner.pipeline.bounds.alike import alike_bound_ns
from planner.pipeline.problem import LARGEST_VALUE, PipelineProblem


@dataclass(frozen=True, slots=True)
class StepTime:
    """One step, in ns. `compute_ns` is what the busiest device computes, the collectives of its
    layers included; `bubble_ns` what it waits for others; `transfer_ns` the hops of the first and
    the last micro-batch; `epilogue_ns` gradient reduction and optimizer.

    `bound_ns` is a lower bound for every schedule of this placement within the problem's memory;
    `forced_idle_ns`, part of the bubble, is by how much it exceeds the rest.
    """

    compute_ns: int
    bubble_ns: int
    transfer_ns: int
    epilogue_ns: int
    bound_ns: int
    forced_idle_ns: int

    @property
    def total_ns(self) -> int:
        """The whole step."""
        return self.compute_ns + self.bubble_ns + self.transfer_ns + self.epilogue_ns


@dataclass(frozen=True, slots=True)
class Step:
    """A training's step with `chunks` chunks of layers per device. `problem` is that of one
    micro-batch without a memory limit: its stages, transfers and epilogues."""

    chunks: int
    layers_per_stage: tuple[int, ...]
    problem: PipelineProblem
    time: StepTime

    @property
    def work_ns(self) -> tuple[int, ...]:
        """Computation of each device per micro-batch."""
        return _work_ns(self.problem)


def step_of(costs: CostModel, chunks: int, layers_per_stage: tuple[int, ...]) -> Step:
    """With `chunks` chunks of layers per device, whether or not it fits into memory. Costs as
    little with many micro-batches as with one."""
    one = replace(
        costs.training, micro_batches=1, interleaving=chunks, layers_per_stage=layers_per_stage
    )
    unlimited = replace(costs.cluster, memory_bytes=LARGEST_VALUE)
    problem = replace(costs, training=one, cluster=unlimited).candidates()[0].problem
    time = step_time(problem, chunks, costs.training.micro_batches)
    return Step(chunks, layers_per_stage, problem, time)


def step_time(problem: PipelineProblem, chunks: int, micro_batches: int) -> StepTime:
    """Of a problem with `chunks` chunks per device and `micro_batches` micro-batches, each of them
    like its first. Costs the least where the problem has no other."""
    work = _work_ns(problem)
    busiest = max(work)
    hops = sum(t.forward_ns[0] + t.backward_ns[0] for t in problem.transfers)
    compute_ns, transfer_ns = micro_batches * busiest, hops // chunks
    bubble_ns = (sum(work) - busiest) // chunks
    epilogue_ns = max(device.epilogue_ns for device in problem.devices)
    bound_ns = alike_bound_ns(problem, micro_batches)
    idle_ns = max(0, bound_ns - compute_ns - bubble_ns - transfer_ns - epilogue_ns)
    return StepTime(
        compute_ns=compute_ns,
        bubble_ns=bubble_ns + idle_ns,
        transfer_ns=transfer_ns,
        epilogue_ns=epilogue_ns,
        bound_ns=bound_ns,
        forced_idle_ns=idle_ns,
    )


def _work_ns(problem: PipelineProblem) -> tuple[int, ...]:
    work = [0] * len(problem.devices)
    for stage in problem.stages:
        work[stage.device] += (
            stage.forward_ns[0] + stage.backward_input_ns[0] + stage.backward_weight_ns[0]
        )
    return tuple(work)


def model_flops(model: Model, sequence: int, samples: int) -> int:
    """FLOPs of one step that train the model, whatever is computed again: forward and backward of
    the linear layers, attention over the whole square of scores, and the output layer.

    For GPT 72 B L s h^2 (1 + s / 6h + V / 12hL) (Narayanan et al. 2021, section 5.1), with the
    number of weights instead of 12 h^2 for other shapes; the router and norms are left out.
    """
    matrices = 3 if model.gated else 2
    weights = model.hidden_size * (2 * model.query_size + 2 * model.key_value_size)
    weights += model.experts_per_token * matrices * model.hidden_size * model.ffn_hidden_size
    layer = 6 * weights + 12 * sequence * model.query_size
    head = 6 * model.hidden_size * model.vocabulary
    return samples * sequence * (model.layers * layer + head)


def hardware_flops(costs: CostModel) -> int:
    """FLOPs that all GPUs execute in one step: with the padded vocabulary and what recomputation
    repeats, and of a causal model's scores only the half that flash attention computes.

    Korthikanti et al.'s hardware FLOPs count twice as much for the scores that selective
    recomputation repeats (s/3h instead of s/6h + s/18h).
    """
    training, model = costs.training, costs.model
    shape = replace(activation_shape(training), expert_load=1.0)
    layer, head = times.layer_flops(model, shape), times.head_flops(model, shape)
    repeated = 0
    if training.recomputation is Recomputation.FULL:
        repeated = layer.forward
    elif training.recomputation is Recomputation.SELECTIVE and not training.flash_attention:
        repeated = layer.scores
    per_gpu = model.layers * (_total(layer) + repeated) + _total(head)
    return training.micro_batches * training.degrees.gpus_per_rank * per_gpu


def _total(flops: Flops) -> int:
    return flops.forward + flops.backward_input + flops.backward_weight


def flops_utilization(flops: int, step_ns: int, gpus: int, peak_flop_per_s: float) -> float:
    """MFU: model FLOPs per second over the peak of all GPUs (Chowdhery et al. 2022, PaLM,
    arXiv 2204.02311, appendix B); HFU with `hardware_flops`."""
    return flops / (step_ns / 1e9) / gpus / peak_flop_per_s
