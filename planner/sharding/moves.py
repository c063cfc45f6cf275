"""What has to move between two layouts of a tensor, found from the blocks that devices hold."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from planner.sharding.layout import Layout
from planner.sharding.operators.rule import Split

Cells = NDArray[np.int64]
Blocks = tuple[Cells, Cells]
"""First cell of each device's block and the one behind its last: [dimension, layout, device]."""


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """What a device receives to get from each of some layouts to each of others, [source, target]:
    cells from devices of its own node and from other nodes, of `cells` in the whole tensor.

    The device that waits longest counts.
    """

    in_node: Cells
    between_nodes: Cells
    cells: int

    def bytes_of(self, size_bytes: int, network_factor: float) -> Cells:
        """Whole bytes of a tensor of this size, those between nodes counted `network_factor`
        times: as what the links within a node carry meanwhile."""
        near = self._bytes(self.in_node, size_bytes)
        if not self.between_nodes.any():
            return near
        far = self._bytes(self.between_nodes, size_bytes)
        return np.ceil(near + network_factor * far).astype(np.int64)

    def _bytes(self, part: Cells, size_bytes: int) -> Cells:
        """Exact: Python's integers have no largest one, and blocks end between elements."""
        return (part.astype(object) * size_bytes // self.cells).astype(np.int64)


def moves(
    sources: tuple[Layout, ...],
    targets: tuple[Layout, ...],
    devices_per_node: int,
    network_factor: float,
) -> tuple[Moves, Moves]:
    """What has to reach the devices that hold blocks of a source layout and need those of a target,
    and the other way round.

    All-gather, all-to-all and slicing are special cases: over n devices an all-gather brings
    (n-1)/n of the gathered array to each, an all-to-all (n-1)/n of a device's share, slicing
    nothing. What any device of its node has reaches a device from there.
    """
    # Only which dimensions are the same counts, not where they are: tensors share their tables.
    numbers: dict[int, int] = {}

    def renumbered(layout: Layout) -> Layout:
        parts = zip(layout.degrees, layout.split, strict=True)
        split = (
            None if degree == 1 or place is None else numbers.setdefault(place, len(numbers))
            for degree, place in parts
        )
        return Layout(layout.degrees, Split(*split), layout.spare)

    return _moves(
        tuple(map(renumbered, sources)),
        tuple(map(renumbered, targets)),
        len(numbers),
        devices_per_node,
        network_factor,
    )


@lru_cache(maxsize=4096)
def _moves(
    sources: tuple[Layout, ...],
    targets: tuple[Layout, ...],
    dimensions: int,
    devices_per_node: int,
    network_factor: float,
) -> tuple[Moves, Moves]:
    devices = sources[0].devices
    nothing = np.zeros((len(sources), len(targets)), dtype=np.int64)
    if not dimensions:
        return (Moves(nothing, nothing, 1),) * 2
    cells = devices**dimensions
    had, wanted = held_cells(sources, dimensions), held_cells(targets, dimensions)
    own = _overlaps(had, wanted)
    # The blocks of a layout are of one size.
    had_size, wanted_size = _volumes(had)[:, :1], _volumes(wanted)[:, 0]
    if devices <= devices_per_node:
        least = own.min(axis=2)
        return Moves(wanted_size - least, nothing, cells), Moves(had_size - least, nothing, cells)

    def slowest(near: Cells, size: Cells) -> Moves:
        in_node, between = near - own, size[..., np.newaxis] - near
        device = (in_node + network_factor * between).argmax(axis=2)[..., np.newaxis]
        near_it, far_from_it = (
            np.take_along_axis(each, device, 2)[..., 0] for each in (in_node, between)
        )
        return Moves(near_it, far_from_it, cells)

    back = _in_node(wanted, had, devices_per_node).transpose(1, 0, 2)
    return slowest(_in_node(had, wanted, devices_per_node), wanted_size), slowest(back, had_size)


def _in_node(have: Blocks, want: Blocks, devices_per_node: int) -> Cells:
    """Cells of a device's wanted block that any device of its node has: [layout a, layout b,
    device].

    The blocks of a node mostly make up one box. Where they do not, as where a node holds parts of
    groups, they are taken one by one.
    """
    first, end = have
    device = np.arange(first.shape[2])
    node = device // devices_per_node
    starts = np.flatnonzero(np.diff(node, prepend=-1))
    box = np.minimum.reduceat(first, starts, axis=2), np.maximum.reduceat(end, starts, axis=2)
    near = _overlaps((box[0][:, :, node], box[1][:, :, node]), want)
    is_new = np.ones(first.shape[1:], dtype=bool)
    for back in range(1, devices_per_node):
        same = (first[:, :, back:] == first[:, :, :-back]).all(axis=0)
        is_new[:, back:] &= ~(same & (node[back:] == node[:-back]))
    held = np.add.reduceat(is_new * _volumes(have), starts, axis=1)
    ragged = (held != _volumes(box)).any(axis=1)
    if ragged.any():
        near[ragged] = 0
        first, end, is_new = first[:, ragged], end[:, ragged], is_new[ragged]
        for place in range(devices_per_node):
            other = np.minimum(starts[node] + place, device[-1])
            counts = is_new[:, other] & (starts[node] + place <= device[-1])
            shared = _overlaps((first[:, :, other], end[:, :, other]), want)
            near[ragged] += counts[:, np.newaxis] * shared
    return near


def held_cells(layouts: tuple[Layout, ...], dimensions: int) -> Blocks:
    """The block of each device. A dimension is cut into as many cells as there are devices, which
    every degree divides."""
    count = layouts[0].devices
    first = np.zeros((dimensions, len(layouts), count), dtype=np.int64)
    cells = np.full((dimensions, len(layouts), 1), count, dtype=np.int64)
    device = np.arange(count)
    for number, layout in enumerate(layouts):
        data, row, column = layout.degrees
        place = (device // (row * column) % data, device // column % row, device % column)
        for degree, own, dimension in zip(layout.degrees, place, layout.split, strict=True):
            if dimension is not None and degree > 1:
                cells[dimension, number] //= degree
                first[dimension, number] += own * cells[dimension, number]
    return first, first + cells


def _volumes(blocks: Blocks) -> Cells:
    """Cells of each block: [layout, device]."""
    first, end = blocks
    volumes: Cells = (end - first).prod(axis=0)
    return volumes


def _overlaps(a: Blocks, b: Blocks) -> Cells:
    """Cells that the blocks of a device share: [layout a, layout b, device]."""
    common: Cells | None = None
    for first_a, end_a, first_b, end_b in zip(*a, *b, strict=True):
        ends = np.minimum(end_a[:, np.newaxis], end_b)
        ends -= np.maximum(first_a[:, np.newaxis], first_b)
        np.maximum(ends, 0, out=ends)
        common = ends if common is None else common * ends
    assert common is not None
    return common
