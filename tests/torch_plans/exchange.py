"""Collectives under autograd: sums of partial results, and changes of layout."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import torch
import torch.distributed as dist

from planner.sharding.layout import Layout
from tests.torch_plans.blocks import Transfer, box_of, sizes, transfer, volume, within

Groups = Mapping[tuple[int, ...], Any]
"""A process group for each set of devices."""


def make_groups(devices: int) -> Groups:
    """Process groups of all sets of at least two devices. All ranks have to call it."""
    return {
        members: dist.new_group(list(members))
        for count in range(2, devices + 1)
        for members in combinations(range(devices), count)
    }


def cut(whole: torch.Tensor, layout: Layout, rank: int) -> torch.Tensor:
    """A device's block of a tensor, in memory of its own."""
    everything = tuple((0, size) for size in whole.shape)
    return whole[within(box_of(layout, whole.shape, rank), everything)].clone()


class SumForward(torch.autograd.Function):
    """Adds up partial results in place; the gradient is whole on every device already."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Any) -> torch.Tensor:
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient, None


class SumBackward(torch.autograd.Function):
    """Passes an input on; adds up the partial results that its gradient comes as, in place."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Any) -> torch.Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        gradient = gradient.contiguous()
        dist.all_reduce(gradient, group=ctx.group)
        return gradient, None


class ChangeLayout(torch.autograd.Function):
    """Takes a device's block of one layout to that of another, and the gradient back."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        source: Layout,
        target: Layout,
        shape: tuple[int, ...],
        rank: int,
        groups: Groups,
    ) -> torch.Tensor:
        ctx.back = (target, source, shape, rank)
        ctx.groups = groups
        return moved(x, transfer(source, target, shape, rank), rank, groups)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        there = transfer(*ctx.back)
        return moved(gradient, there, ctx.back[-1], ctx.groups), None, None, None, None, None


def moved(x: torch.Tensor, how: Transfer, rank: int, groups: Groups) -> torch.Tensor:
    """The block of the target layout, in memory of its own."""
    if how.kind == "slice":
        return x[within(how.target, how.source)].clone(memory_format=torch.contiguous_format)
    if how.kind == "all_gather":
        parts = [x.numel()] * len(how.group)
        received = x.new_empty([sum(parts)])
        dist.all_gather_single(received, x.contiguous().view(-1), group=groups[how.group])
    else:
        parts = _lengths(how, receiver=rank)
        packed = _packed(x, how, rank)
        received = x.new_empty([sum(parts)])
        dist.all_to_all_single(
            received, packed, parts, _lengths(how, sender=rank), group=groups[how.group]
        )
        del packed
    return _put_together(received, parts, how, rank)


def _packed(x: torch.Tensor, how: Transfer, rank: int) -> torch.Tensor:
    """What goes to the members of the group, one after another."""
    pieces = sorted(
        (piece for piece in how.pieces if piece.sender == rank),
        key=lambda piece: how.group.index(piece.receiver),
    )
    packed = x.new_empty([sum(volume(piece.box) for piece in pieces)])
    first = 0
    for piece in pieces:
        end = first + volume(piece.box)
        packed[first:end].view(sizes(piece.box)).copy_(x[within(piece.box, how.source)])
        first = end
    return packed


def _lengths(how: Transfer, sender: int | None = None, receiver: int | None = None) -> list[int]:
    """Elements to or from each member of the group."""
    return [
        sum(
            volume(piece.box)
            for piece in how.pieces
            if (piece.sender, piece.receiver) in ((sender, member), (member, receiver))
        )
        for member in how.group
    ]


def _put_together(
    received: torch.Tensor, parts: list[int], how: Transfer, rank: int
) -> torch.Tensor:
    """The target block, from what each member of the group sent; a view where that will do."""
    pieces = sorted(
        (piece for piece in how.pieces if piece.receiver == rank),
        key=lambda piece: how.group.index(piece.sender),
    )
    shape = sizes(how.target)
    places = [within(piece.box, how.target) for piece in pieces]
    if all(
        place[1:] == tuple(slice(0, size) for size in shape[1:]) for place in places
    ) and places == sorted(places, key=lambda place: place[0].start):
        return received.view(shape)
    whole = received.new_empty(shape)
    for part, piece, place in zip(
        received.split([length for length in parts if length]), pieces, places, strict=True
    ):
        whole[place] = part.view(sizes(piece.box))
    return whole
