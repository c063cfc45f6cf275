"""Whether a schedule with offloads can be carried out by ranks that follow its sequence.

Computations are checked like those of PyTorch's tables (`planner.export.torch_csv.check`); here it
is what moves activations, and what is waited for. All of it leads forward in the sequence, so that
nothing waits in a circle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from planner.errors import WrongSchedule
from planner.export.torch_csv.cells import Cell
from planner.export.torch_csv.orders import RankOrders
from planner.pipeline.effects import data_dependencies
from planner.pipeline.schedule import OpKind, Token

PARTNER: Mapping[OpKind, OpKind] = {"O": "R", "R": "O"}
LACKS = {
    "R": "is offloaded and never reloaded, and its backward would find nothing.",
    "O": "is reloaded and never offloaded.",
}
"""By what is lacking."""


def check_sequence(whole: RankOrders, waits: Mapping[Cell, Iterable[Cell]]) -> None:
    """Raise `WrongSchedule` at the first fault, which names the rank, the operation and the remedy:
    an offload or a reload without the other or twice, or an operation before what it needs."""
    place: dict[Token, int] = {}
    for position, op in enumerate(whole.ops):
        if op.token in place:
            raise _wrong(whole, op.token, "is there twice.", "Move each activation once.")
        place[op.token] = position
    for token in place:
        _check_partner(whole, token, place)
        for need, _ in data_dependencies(whole.problem, token):
            if place.get(need, -1) > place[token]:
                raise _too_early(whole, token, whole.cell(need))
    _check_waits(whole, waits)


def _check_partner(whole: RankOrders, token: Token, place: Mapping[Token, int]) -> None:
    partner = PARTNER.get(token.op)
    if partner is not None and token._replace(op=partner) not in place:
        words = f"micro-batch {whole.number_of[token.micro_batch]} {LACKS[partner]}"
        missing = whole.cell(token._replace(op=partner))
        raise _wrong(whole, token, words, f"Add {missing}, or leave out {whole.cell(token)}.")


def _check_waits(whole: RankOrders, waits: Mapping[Cell, Iterable[Cell]]) -> None:
    place = {whole.cell(op.token): position for position, op in enumerate(whole.ops)}
    for op in whole.ops:
        cell = whole.cell(op.token)
        for early in waits.get(cell, ()):
            if place[early] >= place[cell]:
                raise _too_early(whole, op.token, early)


def _too_early(whole: RankOrders, token: Token, need: Cell) -> WrongSchedule:
    return _wrong(whole, token, f"comes before {need}, which it waits for.", "Put it after that.")


def _wrong(whole: RankOrders, token: Token, message: str, remedy: str) -> WrongSchedule:
    rank = whole.problem.stages[token.stage].device
    return WrongSchedule(rank, str(whole.cell(token)), message, remedy)
