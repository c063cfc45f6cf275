"""The cost settings of a spec, for all its devices or for those of one stage."""

from __future__ import annotations

from planner.cost.times import compute_s
from planner.sharding.costs import Communication, CostSettings
from planner.sharding.operators.rule import RuleOptions
from planner.sharding.spec import ShardingSpec
from planner.sharding.stages import stage_group


def cost_settings(
    spec: ShardingSpec,
    *,
    micro_batches_in_flight: int = 1,
    zero_stage: int | None = None,
    communication: Communication | None = None,
) -> CostSettings:
    """What costs depend on; the devices are those of one stage."""
    training = spec.training
    return CostSettings(
        devices=stage_group(spec.devices, spec.stages),
        states=training.state_bytes,
        joules_per_flop=joules_per_flop(spec),
        zero_stage=training.zero_stage if zero_stage is None else zero_stage,
        micro_batches=training.micro_batches,
        micro_batches_in_flight=micro_batches_in_flight,
        redundancy=spec.redundancy,
        communication=communication or spec.communication,
        terms=spec.terms,
    )


def rule_options(spec: ShardingSpec) -> RuleOptions:
    """What the rules of operators depend on."""
    return RuleOptions(sequence_parallel=spec.training.sequence_parallel)


def joules_per_flop(spec: ShardingSpec) -> float:
    """The GPU's power over the FLOP/s that programs reach."""
    cluster = spec.devices.cluster
    return (cluster.gpu.watts or 0.0) * compute_s(1, cluster, spec.training.precision)


def joules_per_byte(spec: ShardingSpec) -> float:
    """The GPU's power over the rate of its fastest link."""
    cluster = spec.devices.cluster
    return (cluster.gpu.watts or 0.0) / cluster.link_bytes_per_s


def effective_alpha(spec: ShardingSpec, alpha: float) -> float:
    """The weight of a communicated byte, the energy that it takes included."""
    if not spec.terms.energy:
        return alpha
    return alpha + spec.terms.energy * joules_per_byte(spec)
