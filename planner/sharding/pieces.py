"""Pieces of a device's memory with counted holders, and the most that was held at any moment."""

from __future__ import annotations

from dataclasses import dataclass, field

from planner.sharding.layout import Layout

Key = tuple[str, int]
"""A tensor and the layer that it belongs to; -1 and the number of layers played for what is
outside."""


class Piece:
    """Bytes that lie on the device as long as anybody holds them."""

    __slots__ = ("holders", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.holders = 1


class Memory:
    """What is held now, and the most so far."""

    def __init__(self, held: int) -> None:
        self.now = self.most = held

    def new(self, size: int) -> Piece:
        """A new piece, held by whoever asked for it."""
        self.now += size
        self.most = max(self.most, self.now)
        return Piece(size)

    def for_a_moment(self, size: int) -> None:
        """Something that goes at once."""
        self.most = max(self.most, self.now + size)

    @staticmethod
    def hold(piece: Piece) -> Piece:
        """One more holder."""
        piece.holders += 1
        return piece

    def drop(self, piece: Piece) -> None:
        """One holder less; without any it goes."""
        piece.holders -= 1
        if not piece.holders:
            self.now -= piece.size


@dataclass(slots=True)
class Arrival:
    """An input that came in another layout: its bytes in both, and the change of its gradient."""

    key: Key
    had: Layout
    wanted: Layout
    had_bytes: int
    wanted_bytes: int


@dataclass(slots=True)
class Record:
    """What the backward of an operator needs to know."""

    number: int
    layer: int
    inputs: list[Key]
    outputs: list[Key]
    kept: list[Piece]
    arrivals: list[Arrival] = field(default_factory=list)
