"""What has to move between two layouts, as shares of the whole tensor."""

from __future__ import annotations

from fractions import Fraction

import pytest

from planner.sharding.layout import Layout
from planner.sharding.moves import moves
from planner.sharding.operators.rule import Degrees, Split

WHOLE = Split()
Share = tuple[Fraction, Fraction]


def one(source: Layout, target: Layout, per_node: int = 64, factor: float = 1.0) -> list[Share]:
    """There and back: what comes from the device's own node, and from others."""
    return [
        (
            Fraction(int(found.in_node[0, 0]), found.cells),
            Fraction(int(found.between_nodes[0, 0]), found.cells),
        )
        for found in moves((source,), (target,), per_node, factor)
    ]


def column(devices: int, dimension: int) -> Layout:
    """Split along one dimension over all devices."""
    return Layout(Degrees(1, 1, devices), Split(column=dimension))


@pytest.mark.parametrize("devices", [2, 3, 4, 6, 8])
def test_all_gather_and_slice(devices: int) -> None:
    """(n-1)/n of the whole to each, and nothing on the way back."""
    whole = Layout(Degrees(1, devices, 1), WHOLE)
    share = Fraction(devices - 1, devices)
    assert one(column(devices, 0), whole) == [(share, 0), (0, 0)]


@pytest.mark.parametrize("devices", [2, 3, 4, 6])
def test_all_to_all(devices: int) -> None:
    """(n-1)/n of a device's n-th, either way."""
    share = Fraction(devices - 1, devices**2)
    assert one(column(devices, 0), column(devices, 1)) == [(share, 0), (share, 0)]


def test_the_same_blocks_need_not_move() -> None:
    """Whatever the roles are called, and whatever a role of one device splits."""
    rows = Layout(Degrees(2, 4, 1), Split(data=0, row=1, column=2))
    columns = Layout(Degrees(2, 1, 4), Split(data=0, column=1))
    assert one(rows, columns) == [(0, 0), (0, 0)]
    assert rows.effective == Layout(Degrees(2, 4, 1), Split(data=0, row=1))


def test_a_part_of_the_devices_gathers() -> None:
    """From quarters on 2 x 2 devices to halves: each lacks a quarter."""
    quarters = Layout(Degrees(2, 1, 2), Split(data=0, column=1))
    halves = Layout(Degrees(2, 2, 1), Split(data=0))
    assert one(quarters, halves) == [(Fraction(1, 4), 0), (0, 0)]


def test_two_roles_may_split_one_dimension() -> None:
    """Data makes the larger blocks: device 1 of 4 has the second quarter, device 2 the third."""
    nested = Layout(Degrees(2, 2, 1), Split(data=0, row=0))
    assert one(nested, column(4, 0)) == [(0, 0), (0, 0)]
    # The other way round device 1 has the third and wants the second.
    rows_first = Layout(Degrees(2, 1, 2), Split(data=0))
    assert one(nested, rows_first) == [(Fraction(1, 4), 0), (0, 0)]


def test_spare_devices_hold_what_others_hold() -> None:
    """Devices 0 and 2 have the first half. Device 1 wants the second quarter and has a half that
    it is not in."""
    repeated = Layout(Degrees(1, 1, 2), Split(column=0), spare=2)
    assert (repeated.devices, repeated.blocks) == (4, 2)
    assert one(repeated, column(4, 0)) == [(Fraction(1, 4), 0), (Fraction(1, 2), 0)]


def test_a_node_shares_what_its_devices_have() -> None:
    """Quarters on two nodes of two: a quarter is near, two are far."""
    whole = Layout(Degrees(1, 4, 1), WHOLE)
    assert one(column(4, 0), whole, per_node=2) == [(Fraction(1, 4), Fraction(1, 2)), (0, 0)]
    # Each node has a copy of both halves.
    halves = Layout(Degrees(1, 2, 2), Split(column=0))
    assert one(halves, whole, per_node=2)[0] == (Fraction(1, 2), 0)


def test_a_node_may_hold_parts_of_groups() -> None:
    """3 x 2 blocks on two nodes of three devices: a node has three, in the shape of an L."""
    blocks = Layout(Degrees(3, 1, 2), Split(data=0, column=1))
    whole = Layout(Degrees(1, 6, 1), WHOLE)
    assert one(blocks, whole, per_node=3)[0] == (Fraction(1, 3), Fraction(1, 2))


def test_the_device_that_waits_longest_counts() -> None:
    """Thirds on a node of two and a node of one, which has to get all from the other."""
    thirds, whole = column(3, 0), Layout(Degrees(1, 3, 1), WHOLE)
    assert one(thirds, whole, per_node=2, factor=10.0)[0] == (0, Fraction(2, 3))
    there, _ = moves((thirds,), (whole,), 2, 10.0)
    assert there.bytes_of(300, 10.0).tolist() == [[2000]]
    # In volume all lack as much.
    there, _ = moves((thirds,), (whole,), 3, 1.0)
    assert there.bytes_of(300, 1.0).tolist() == [[200]]


def test_bytes_are_exact_however_large() -> None:
    """Where floating-point numbers of shares would be wrong by several bytes."""
    size = 3 * (2**52 + 1)
    there, _ = moves((column(3, 0),), (Layout(Degrees(1, 3, 1), WHOLE),), 3, 1.0)
    assert there.bytes_of(size, 1.0).tolist() == [[2 * (2**52 + 1)]]


def test_all_pairs_at_once() -> None:
    """Each source with each target, the other way round as well."""
    sources = (column(4, 0), column(4, 1), Layout(Degrees(1, 4, 1), WHOLE))
    targets = (column(4, 1), column(4, 0))
    there, back = moves(sources, targets, 4, 1.0)
    assert there.bytes_of(16, 1.0).tolist() == [[3, 0], [0, 3], [0, 0]]
    assert back.bytes_of(16, 1.0).tolist() == [[3, 0], [0, 3], [12, 12]]
