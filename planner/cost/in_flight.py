"""How many micro-batches each chunk of a pipeline rank keeps activations of."""

from __future__ import annotations

from collections.abc import Sequence


def chunks_held(
    pipeline: int, rank: int, micro_batches: int, layers: Sequence[int]
) -> tuple[int, ...]:
    """Micro-batches in flight of each chunk of a rank (`layers` has a chunk's layers each) at the
    moment when most layers' activations are held.

    One chunk: p - r forwards run before the first backward ends (1F1B, Narayanan et al. 2021).
    Interleaved: 2 (p - r - 1) + (v - 1) p forwards warm up and one more precedes the first backward
    (Megatron-LM), each chunk for p micro-batches in turn; on the first rank p v + p - 1 chunks, the
    1 + (p - 1)/(p v) of Korthikanti et al., section 4.2.3. From then on each forward is followed by
    a backward, in a pattern that repeats after p v of them; where chunks differ in layers, the
    moments are looked at when the chunk changes that runs forward or backward. That is exact for
    multiples of p micro-batches, which Megatron-LM asks for.
    """
    chunks = len(layers)
    if chunks == 1:
        return (min(micro_batches, pipeline - rank),)
    total = micro_batches * chunks
    before = min(total, 2 * (pipeline - rank - 1) + (chunks - 1) * pipeline)

    def passed(operations: int) -> list[int]:
        """Micro-batches that have passed each chunk after so many forwards."""
        rounds, rest = divmod(operations, pipeline * chunks)
        group = min(pipeline, micro_batches - rounds * pipeline)
        return [
            rounds * pipeline + min(max(rest - chunk * group, 0), group) for chunk in range(chunks)
        ]

    def held(forwards: int) -> tuple[int, ...]:
        backwards = reversed(passed(max(0, forwards - before - 1)))
        return tuple(f - b for f, b in zip(passed(forwards), backwards, strict=True))

    fullest = min(total, before + 1)
    if len(set(layers)) == 1:
        return held(fullest)
    steps = range(0, pipeline * chunks + 1, pipeline)
    first_change = fullest + -fullest % pipeline
    moments = {
        fullest,
        *(fullest + step for step in steps),
        *(first_change + step for step in steps),
    }
    return max(
        (held(forwards) for forwards in sorted(moments) if forwards <= total),
        key=lambda counts: sum(c * own for c, own in zip(counts, layers, strict=True)),
    )
