"""Which block of a tensor each device holds, and what brings blocks of one layout to another.

Written from the meaning of a strategy alone: device = ((spare * data + i_d) * row + i_r) * column
+ i_c, and each role in turn cuts the dimension that it splits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from planner.sharding.layout import Layout

Box = tuple[tuple[int, int], ...]
"""First and end per dimension."""

Kind = Literal["same", "slice", "all_gather", "all_to_all"]


def coordinates(layout: Layout, device: int) -> tuple[int, int, int, int]:
    """The device's place along spare, data, row and column."""
    data, row, column = layout.degrees
    return (
        device // (data * row * column),
        device // (row * column) % data,
        device // column % row,
        device % column,
    )


def box_of(layout: Layout, shape: Sequence[int], device: int) -> Box:
    """The block that a device holds."""
    box = [(0, size) for size in shape]
    places = coordinates(layout, device)[1:]
    for degree, dimension, place in zip(layout.degrees, layout.split, places, strict=True):
        if dimension is not None:
            first, end = box[dimension]
            part, rest = divmod(end - first, degree)
            assert rest == 0, "the shape does not allow these degrees"
            box[dimension] = (first + place * part, first + (place + 1) * part)
    return tuple(box)


def sizes(box: Box) -> list[int]:
    """The block's shape."""
    return [end - first for first, end in box]


def volume(box: Box) -> int:
    """The block's elements."""
    return math.prod(max(end - first, 0) for first, end in box)


def common(a: Box, b: Box) -> Box:
    """What two blocks share; empty where any dimension is."""
    return tuple(
        (max(first_a, first_b), min(end_a, end_b))
        for (first_a, end_a), (first_b, end_b) in zip(a, b, strict=True)
    )


def within(inner: Box, outer: Box) -> tuple[slice, ...]:
    """Where a block lies in one that contains it."""
    return tuple(
        slice(first - start, end - start)
        for (first, end), (start, _) in zip(inner, outer, strict=True)
    )


def role_group(layout: Layout, role: int, device: int) -> tuple[int, ...]:
    """The devices that differ from this one in the role (0 data, 1 row, 2 column) alone."""
    _, row, column = layout.degrees
    stride = (row * column, column, 1)[role]
    degree = layout.degrees[role]
    first = device - coordinates(layout, device)[1 + role] * stride
    return tuple(first + place * stride for place in range(degree))


@dataclass(frozen=True)
class Piece:
    """A part of a tensor that goes from one device to another, or stays on it."""

    sender: int
    receiver: int
    box: Box


@dataclass(frozen=True)
class Transfer:
    """How one device gets from its block of the source layout to that of the target. ``same`` holds
    for all devices or none.

    `group`: the devices of its collective, in the order of the pieces. `pieces`: of an
    all-to-all, all between devices of the group; of an all-gather, the blocks of the group's
    members.
    """

    kind: Kind
    source: Box
    target: Box
    group: tuple[int, ...] = ()
    pieces: tuple[Piece, ...] = ()


@lru_cache(maxsize=4096)
def transfer(source: Layout, target: Layout, shape: tuple[int, ...], device: int) -> Transfer:
    """The collective that one device takes part in when a tensor changes its layout."""
    devices = range(source.devices)
    have = [box_of(source, shape, each) for each in devices]
    want = [box_of(target, shape, each) for each in devices]
    if have == want:
        return Transfer("same", have[device], want[device])
    if all(common(have[each], want[each]) == want[each] for each in devices):
        return Transfer("slice", have[device], want[device])
    groups = _gather_groups(have, want)
    if groups is not None:
        group = next(each for each in groups if device in each)
        pieces = tuple(Piece(each, device, have[each]) for each in group)
        return Transfer("all_gather", have[device], want[device], group, pieces)
    pieces = _all_pieces(have, want)
    group = _component(pieces, device)
    if group == (device,):
        return Transfer("slice", have[device], want[device])
    mine = tuple(piece for piece in pieces if piece.sender in group)
    return Transfer("all_to_all", have[device], want[device], group, mine)


def _gather_groups(have: list[Box], want: list[Box]) -> list[tuple[int, ...]] | None:
    """Groups whose blocks together are what each member wants; None if there are none."""
    groups = []
    for wanted in dict.fromkeys(want):
        members = [device for device, box in enumerate(want) if box == wanted]
        holders: dict[Box, list[int]] = {}
        for device in members:
            holders.setdefault(have[device], []).append(device)
        tiles = all(common(box, wanted) == box for box in holders)
        if not tiles or sum(map(volume, holders)) != volume(wanted):
            return None
        if len({len(each) for each in holders.values()}) > 1:
            return None
        in_order = [holders[box] for box in sorted(holders)]
        groups += [tuple(sorted(group)) for group in zip(*in_order, strict=True)]
    return groups


def _all_pieces(have: list[Box], want: list[Box]) -> tuple[Piece, ...]:
    """Every piece of every wanted block, from the device itself or the nearest that holds it."""
    pieces = []
    for receiver, wanted in enumerate(want):
        for block in dict.fromkeys(have):
            part = common(block, wanted)
            if volume(part):
                holders = [device for device, box in enumerate(have) if box == block]
                sender = min(holders, key=lambda device: abs(device - receiver))
                pieces.append(Piece(sender, receiver, part))
    return tuple(pieces)


def _component(pieces: Sequence[Piece], device: int) -> tuple[int, ...]:
    """The devices with which one exchanges pieces, directly or through others."""
    found = {device}
    while True:
        more = {
            end
            for piece in pieces
            for end in (piece.sender, piece.receiver)
            if piece.sender in found or piece.receiver in found
        }
        if more <= found:
            return tuple(sorted(found))
        found |= more
