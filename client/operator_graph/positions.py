"""Learned positions, which are a second table of the embedding that they are added to."""

from __future__ import annotations

from client.operator_graph.trace import Step, Trace, Value


def fold_positions(trace: Trace) -> None:
    """An embedding of fixed numbers that is added along the sequence becomes part of another."""
    for step in list(trace.steps):
        if step.operation != "add" or step not in trace.steps or len(step.inputs) != 2:
            continue
        for words, positions in (step.inputs, step.inputs[::-1]):
            table = _position_table(trace, positions, words)
            first = _first_embedding(trace, words)
            if table is not None and first is not None:
                trace.replace(
                    [first],
                    Step(
                        "embedding", (*first.inputs, table), first.outputs, first.settings,
                        first.module, first.module_kind, first.unit, first.call,
                    ),
                )  # fmt: skip
                trace.substitute(step, words)
                break


def _position_table(trace: Trace, positions: Value, words: Value) -> Value | None:
    embedding = trace.made_by(positions, "embedding")
    if embedding is None or len(embedding.inputs) != 2 or len(words.shape) != 3:
        return None
    table = embedding.inputs[1]
    along = words.shape[1:]
    fits = positions.shape[-2:] == along and positions.shape[:-2] in ((), (1,))
    return table if fits and table.shape[0] >= along[0] else None


def _first_embedding(trace: Trace, value: Value) -> Step | None:
    """The word embedding in a sum of embeddings."""
    step = trace.made_by(value, "embedding", "add")
    while step is not None and step.operation == "add":
        step = trace.made_by(step.inputs[0], "embedding", "add")
    return step if step is not None and len(step.inputs) == 2 else None
