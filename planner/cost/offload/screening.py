"""Which ways to offload are worth a problem of their own, before any schedule is solved.

The portfolio looks at every candidate. With two dozen of them on 8 devices its classic schedules
alone take most of a minute, and nothing is left for the search; with `MOST_CANDIDATES` each step
still gets its share.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from math import inf

from planner.cost.offload.variants import OffloadVariant
from planner.pipeline.problem import PipelineProblem

MOST_CANDIDATES = 8
STEPS = 20
"""Of the share of what could be away that the estimate tries."""

Problems = Mapping[OffloadVariant, PipelineProblem]


def most_promising(problems: Problems, placements: int) -> tuple[OffloadVariant, ...]:
    """As many variants as keep the candidates of all placements few, by their estimated slowdown
    in one placement; the best lossless one always, and of equals the first. In their order."""
    ranked = sorted(problems, key=lambda variant: estimated_slowdown(problems[variant]))
    kept = ranked[: max(2, MOST_CANDIDATES // placements)]
    lossless = [variant for variant in ranked if not variant.lossiness]
    if lossless and lossless[0] not in kept:
        kept[-1] = lossless[0]
    return tuple(variant for variant in problems if variant in kept)


def worth_trying(problems: Problems) -> tuple[OffloadVariant, ...]:
    """Those of one placement that may give the best schedule, in their order.

    Where no device can run out of memory nothing is ever offloaded, and the first is enough. Else
    one is left out if another is never worse: of no longer transfers, on links that no other ranks
    share, into stores that are no smaller, and not lossier. Of equals the first is kept.
    """
    variants = tuple(problems)
    if len(variants) <= 1 or always_fits(problems[variants[0]]):
        return variants[:1]
    kept: list[OffloadVariant] = []
    for variant in variants:
        if any(_replaces(other, variant, problems) for other in kept):
            continue
        kept = [other for other in kept if not _replaces(variant, other, problems)]
        kept.append(variant)
    return tuple(kept)


def _replaces(variant: OffloadVariant, other: OffloadVariant, problems: Problems) -> bool:
    is_as_exact = variant.lossiness <= other.lossiness
    return is_as_exact and is_never_worse(problems[variant], problems[other])


def is_never_worse(problem: PipelineProblem, other: PipelineProblem) -> bool:
    """Whether every schedule of `other`, a problem of the same stages that offload the same bytes,
    is one of `problem`."""
    stages = range(len(problem.stages))
    faster = all(
        mine <= theirs
        for stage, its in zip(problem.stages, other.stages, strict=True)
        for row, its_row in ((stage.offload_ns, its.offload_ns), (stage.reload_ns, its.reload_ns))
        for mine, theirs in zip(row, its_row, strict=True)
    )
    links, others = problem.link_of_stage, other.link_of_stage
    freer = all(
        others[s] == others[t] for s in stages for t in stages if links[s] == links[t]
    ) and all(not problem.is_half_duplex(s) or other.is_half_duplex(s) for s in stages)
    return faster and freer and _stores_no_smaller(problem, other)


def _stores_no_smaller(problem: PipelineProblem, other: PipelineProblem) -> bool:
    """Whether each store of `problem` holds what its devices can put into those of `other`."""
    for number, store in enumerate(problem.hosts):
        if store.memory_bytes is None:
            continue
        devices = [d for d, device in enumerate(problem.devices) if device.host == number]
        in_all = sum(_offloadable_bytes(problem, device) for device in devices)
        if store.memory_bytes >= in_all:
            continue
        theirs = {other.devices[device].host for device in devices}
        if None in theirs:
            return False
        limits = [other.hosts[host].memory_bytes for host in theirs if host is not None]
        if any(limit is None for limit in limits):
            return False
        if store.memory_bytes < sum(limit for limit in limits if limit is not None):
            return False
    return True


def _offloadable_bytes(problem: PipelineProblem, device: int) -> int:
    return sum(sum(problem.stages[s].offload_bytes) for s in problem.stages_of_device[device])


def always_fits(problem: PipelineProblem) -> bool:
    """Whether every device holds all micro-batches at once."""

    def most_bytes(device: int) -> int:
        stages = [problem.stages[s] for s in problem.stages_of_device[device]]
        kept = sum(
            max(stage.activation_bytes[m], stage.late_bytes(m))
            for stage in stages
            for m in range(problem.micro_batches)
        )
        return kept + max(max(stage.backward_workspace_bytes) for stage in stages)

    return all(
        limit is None or most_bytes(number) <= limit
        for number, limit in enumerate(d.activation_memory_bytes for d in problem.devices)
    )


def estimated_slowdown(problem: PipelineProblem) -> float:
    """How much longer than its slowest device's work a micro-batch takes where memory holds fewer
    of them than 1F1B keeps, or links are busy for longer; 1 where neither is so.

    The more is away, the more fits and the busier are the links: the best share of what could be
    away is tried for. Only good enough to compare ways to offload of one problem.
    """
    return min(_slowdown_with(problem, step / STEPS) for step in range(STEPS + 1))


def _slowdown_with(problem: PipelineProblem, share: float) -> float:
    pace_ns = max(
        sum(problem.stages[s].compute_ns(0) for s in own) for own in problem.stages_of_device
    )
    away = [share * size for size in _useful_bytes_away(problem)]
    slowest = 1.0
    busy_ns: dict[tuple[str, str], float] = defaultdict(float)
    for device, own in enumerate(problem.stages_of_device):
        held = _micro_batches_held(problem, device, away[device])
        slowest = max(slowest, _wanted(problem, device) / held if held > 0 else inf)
        offloadable = sum(problem.stages[s].offload_bytes[0] for s in own)
        if held <= 0 or not offloadable:
            continue
        offloads = min(1.0, away[device] / (held * offloadable))
        for stage in own:
            busy_ns[problem.channel(stage, "O")] += offloads * problem.stages[stage].offload_ns[0]
            busy_ns[problem.channel(stage, "R")] += offloads * problem.stages[stage].reload_ns[0]
    return max(slowest, max(busy_ns.values(), default=0.0) / pace_ns if pace_ns else 1.0)


def _useful_bytes_away(problem: PipelineProblem) -> list[float]:
    """What each device would have to have away to keep as many micro-batches as it wants, as far
    as its store holds that of all its devices."""
    devices = range(len(problem.devices))
    wanted = []
    for device in devices:
        own = [problem.stages[s] for s in problem.stages_of_device[device]]
        need = _wanted(problem, device) * sum(stage.activation_bytes[0] for stage in own)
        most = _wanted(problem, device) * sum(stage.offload_bytes[0] for stage in own)
        wanted.append(min(most, max(0.0, need - _room_bytes(problem, device))))

    def share_stored(device: int) -> float:
        host = problem.devices[device].host
        limit = None if host is None else problem.hosts[host].memory_bytes
        in_all = sum(wanted[d] for d in devices if problem.devices[d].host == host)
        return 1.0 if limit is None or in_all <= limit else limit / in_all

    return [wanted[device] * share_stored(device) for device in devices]


def _micro_batches_held(problem: PipelineProblem, device: int, away_bytes: float) -> float:
    own = [problem.stages[s] for s in problem.stages_of_device[device]]
    each = sum(stage.activation_bytes[0] for stage in own)
    wanted = _wanted(problem, device)
    return min(wanted, (_room_bytes(problem, device) + away_bytes) / each) if each else wanted


def _room_bytes(problem: PipelineProblem, device: int) -> float:
    limit = problem.devices[device].activation_memory_bytes
    own = [problem.stages[s] for s in problem.stages_of_device[device]]
    added = max(stage.backward_allocation_bytes(0) for stage in own)
    return inf if limit is None else limit - added


def _wanted(problem: PipelineProblem, device: int) -> float:
    """Micro-batches that a device keeps at once under 1F1B."""
    return float(min(problem.micro_batches, len(problem.devices) - device))
