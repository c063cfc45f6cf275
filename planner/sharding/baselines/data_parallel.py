"""Pure data parallelism, and the same with everything sharded (ZeRO stage 3, FSDP)."""

from __future__ import annotations

from planner.sharding.baselines.baseline import Baseline, pick
from planner.sharding.build import Formulation

REPLICATED, SHARDED = "data parallel", "fully sharded data parallel"


def data_parallel(formulation: Formulation) -> Baseline:
    """Every operator splits the batch over all devices."""
    return _everywhere(
        formulation,
        REPLICATED,
        "Every operator split over the batch; gradients added up once per step.",
        "Overlap of the gradients' all-reduce with the backward; buckets.",
    )


def fully_sharded(formulation: Formulation) -> Baseline:
    """`formulation` has ZeRO stage 3."""
    return _everywhere(
        formulation,
        SHARDED,
        "Every operator split over the batch; parameters, gradients and optimizer states split "
        "over all devices, gathered for each forward and backward (ZeRO stage 3, FSDP). Where the "
        "plan has a lower stage this row shows what a higher one would save.",
        "Overlap by prefetching; the gathered parameters of the unit at work.",
    )


def _everywhere(formulation: Formulation, name: str, modelled: str, not_modelled: str) -> Baseline:
    devices = formulation.settings.devices.count
    wanted = [f"d{devices}-r1-c1"] * len(formulation.strategies)
    found = pick(formulation, wanted)
    if isinstance(found, str):
        return Baseline(name, modelled, not_modelled, formulation, None, found)
    return Baseline(name, modelled, not_modelled, formulation, found)
