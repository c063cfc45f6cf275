"""How one micro-batch alone gets through the devices' and hosts' memory, with which offloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planner.pipeline.feasibility.host_search import HostSearch, SearchBudget
from planner.pipeline.feasibility.memory_chunks import Chunk, Moves
from planner.pipeline.schedule import Token


def fewest_offloads(chunks: Sequence[Chunk], limit_bytes: int | None) -> frozenset[int] | None:
    """The fewest stages whose offload lets a device's limit do; None if none do.

    Going up the stages and taking the largest part there is whenever it does not fit is optimal:
    a part taken for one stage counts for all later ones, and no other choice of as many parts
    frees more.
    """
    out: set[int] = set()
    if limit_bytes is None:
        return frozenset()
    held = 0
    available: list[Chunk] = []
    for chunk in chunks:
        needed = chunk.activation + chunk.backward_allocation
        while held + needed > limit_bytes:
            if not available:
                return None
            largest = max(available, key=lambda c: c.offload)
            available.remove(largest)
            out.add(largest.stage)
            held -= largest.offload
        held += chunk.activation
        if chunk.offload:
            available.append(chunk)
    return frozenset(out)


def find_moves(
    device_chunks: Mapping[int, tuple[Chunk, ...]],
    micro_batch: int,
    limits: Mapping[int, int | None],
    host_limit: int | None,
    budget: SearchBudget,
) -> Moves | None:
    """Offloads and reloads with which one micro-batch alone fits; None if there are none.

    The devices are those of one host (or a single device without one); `host_limit` is the
    host's, `limits` are the devices'. Tries the fewest offloads first, all of them out together
    when the micro-batch turns round, and only if the host has no room for them the exact search.
    """
    out: set[int] = set()
    for device, chunks in device_chunks.items():
        own = fewest_offloads(chunks, limits[device])
        if own is None:
            return None
        out |= own
    every = [chunk for chunks in device_chunks.values() for chunk in chunks]
    if host_limit is None or sum(c.offload for c in every if c.stage in out) <= host_limit:
        return _together(every, micro_batch, out)
    return HostSearch(every, micro_batch, limits, host_limit, budget).run()


def _together(chunks: Sequence[Chunk], micro_batch: int, out: set[int]) -> Moves:
    """Each offload before the device's next F, each reload before its own B."""
    moves: Moves = {}
    for chunk in chunks:
        if chunk.stage not in out:
            continue
        following = min(
            c.stage for c in chunks if c.device == chunk.device and c.stage > chunk.stage
        )
        before = Token("F", following, micro_batch)
        moves[before] = (*moves.get(before, ()), Token("O", chunk.stage, micro_batch))
        moves[Token("B", chunk.stage, micro_batch)] = (Token("R", chunk.stage, micro_batch),)
    return moves
