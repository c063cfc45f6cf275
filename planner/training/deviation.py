"""Why a plan's schedule takes longer, or less long, than its predicted step."""

from __future__ import annotations

from collections.abc import Iterator

from planner.training.finalists import Solved
from planner.training.verify import LARGE_DEVIATION, Verified
from planner.training.words import percent


def deviation_reasons(own: Verified, solved: Solved | None) -> Iterator[str]:
    """One sentence for each schedule, verified or solved, that is far from the prediction."""
    if own.carried_out is not None and abs(own.deviation) > LARGE_DEVIATION:
        name = own.carried_out.name
        yield f"{_compared(own, f'The schedule it was verified with ({name})', own.best_known_ns)}."
    makespan_ns = None if solved is None else solved.makespan_ns
    if makespan_ns is not None and abs(makespan_ns / own.plan.total_ns - 1) > LARGE_DEVIATION:
        yield f"{_compared(own, 'The best schedule that its solver found', makespan_ns)}."


def _compared(own: Verified, what: str, taken_ns: int) -> str:
    predicted_ns = own.plan.total_ns
    share = abs(taken_ns / predicted_ns - 1)
    than = "longer" if taken_ns > predicted_ns else "shorter"
    return (
        f"{what} takes {_ms(taken_ns)}, {percent(share)} {than} than the predicted "
        f"{_ms(predicted_ns)}: {_why(own, taken_ns)}"
    )


def _why(own: Verified, taken_ns: int) -> str:
    """The largest of what lengthens it, beyond what the prediction has of that; or what makes up
    for more than that."""
    plan = own.plan
    if taken_ns < plan.total_ns:
        return (
            f"it overlaps {_ms(plan.total_ns - taken_ns)} of the waiting, transfers and epilogues "
            "that the closed formula adds up"
        )
    if own.causes is None:
        return "it waits where the closed formula has 1F1B without memory limits"
    memory_ns = own.causes.memory_ns - plan.step.forced_idle_ns - plan.offload_wait_ns
    transfers_ns = own.causes.transfers_ns - plan.step.transfer_ns
    order_ns = taken_ns - plan.total_ns - memory_ns - transfers_ns
    most_ns = max(memory_ns, transfers_ns, order_ns)
    if most_ns == memory_ns:
        return (
            f"{_ms(own.causes.memory_ns)} of waiting for room in memory, for offloads and for "
            "reloads, of which the closed formula only has what no schedule can avoid"
        )
    if most_ns == transfers_ns:
        return (
            f"ranks wait {_ms(own.causes.transfers_ns)} for transfers all along, of which the "
            "closed formula only has those of the first and the last micro-batch"
        )
    return (
        f"{_ms(order_ns)} of waiting of ranks for one another in stages that take unequal times, "
        "of which the closed formula only has the first and the last micro-batch"
    )


def _ms(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e6:.1f} ms"
