"""A pipeline schedule: when every operation starts and ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal, NamedTuple

OpKind = Literal["F", "B", "W", "O", "R"]
COMPUTE_KINDS: tuple[OpKind, ...] = ("F", "B", "W")


class Token(NamedTuple):
    """One operation without its time: forward (F), backward for the input (B) or for the
    weights (W), offload to the host (O) or reload (R) of one stage and micro-batch."""

    op: OpKind
    stage: int
    micro_batch: int


class TimedOp(NamedTuple):
    """One operation with its start and end in nanoseconds from the schedule's zero."""

    op: OpKind
    stage: int
    micro_batch: int
    start_ns: int
    end_ns: int

    @property
    def token(self) -> Token:
        return Token(self.op, self.stage, self.micro_batch)


class Wait(NamedTuple):
    """An operation that may start only after the ends of others, whatever their durations."""

    token: Token
    after: tuple[Token, ...]


@dataclass(frozen=True)
class Schedule:
    """Timed operations with the figures that follow from them.

    `peak_memory_bytes` has one entry per device, `host_peak_memory_bytes` one per host. `waits`
    are what ranks that follow the order of `ops` instead of a clock have to wait for so that
    memory suffices however long operations take (`planner.pipeline.robust`); None if not derived.
    """

    ops: tuple[TimedOp, ...]
    makespan_ns: int
    steady_span_ns: int
    peak_memory_bytes: tuple[int, ...]
    host_peak_memory_bytes: tuple[int, ...] = ()
    waits: tuple[Wait, ...] | None = None

    @property
    def offloads(self) -> int:
        """How many activations are offloaded and reloaded."""
        return sum(op.op == "O" for op in self.ops)

    def to_document(self, lower_bound_ns: int | None) -> dict[str, Any]:
        """The schedule as the JSON document that the API answers with.

        `lower_bound_ns` is a proven bound on the problem's objective, or None. `waits` are there
        if they were derived.
        """
        document: dict[str, Any] = {
            "ops": [
                {
                    "op": op.op,
                    "stage": op.stage,
                    "micro_batch": op.micro_batch,
                    "start_ns": op.start_ns,
                    "end_ns": op.end_ns,
                }
                for op in self.ops
            ],
            "makespan_ns": self.makespan_ns,
            "steady_span_ns": self.steady_span_ns,
            "peak_memory_bytes": list(self.peak_memory_bytes),
            "lower_bound_ns": lower_bound_ns,
        }
        if self.waits is not None:
            document["waits"] = [
                {**wait.token._asdict(), "after": [token._asdict() for token in wait.after]}
                for wait in self.waits
            ]
        return document


_fields_of = itemgetter(*TimedOp._fields)


def ops_of_document(documents: Iterable[Mapping[str, Any]]) -> tuple[TimedOp, ...]:
    """The `ops` of a schedule document. Raises `KeyError` where one lacks a field."""
    return tuple(map(TimedOp._make, map(_fields_of, documents)))


def waits_of_document(documents: Iterable[Mapping[str, Any]]) -> tuple[Wait, ...]:
    """The `waits` of a schedule document. Raises `KeyError` where one lacks a field."""
    return tuple(
        Wait(_token(wait), tuple(_token(token) for token in wait["after"])) for wait in documents
    )


def _token(document: Mapping[str, Any]) -> Token:
    return Token(document["op"], document["stage"], document["micro_batch"])
