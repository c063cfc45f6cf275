"""What ranks wait for when each runs its operations in its own order, without a clock."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from planner.export.torch_csv.cells import Cell
from planner.pipeline.orders import orders_of
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import TimedOp

RankOrders = Sequence[Sequence[Cell]]
"""Per rank its computations, in the order in which it runs them."""


def rank_orders(problem: PipelineProblem, ops: Sequence[TimedOp]) -> list[list[Cell]]:
    """The computations of a schedule by device, in PyTorch's notation."""

    def cell(op: str, s: int, m: int) -> Cell:
        split = problem.stages[s].has_weight_op(m)
        return Cell(s, ("I" if split else "B") if op == "B" else op, m)

    orders = orders_of(problem, ops).compute
    return [[cell(*token) for token in order if token.op != "R"] for order in orders]


def wait_cycle(orders: RankOrders) -> list[tuple[int, Cell]]:
    """Ranks that wait for each other, each with the operation that it cannot start; the last waits
    for the first. Empty where every rank gets to its end, and where one waits for something that
    nobody runs."""
    stuck = _stuck(orders)
    rank_of = {cell: rank for rank, order in enumerate(orders) for cell in order}
    seen: dict[int, int] = {}
    path: list[tuple[int, Cell]] = []
    rank = next(iter(stuck), None)
    while rank is not None and rank not in seen:
        seen[rank] = len(path)
        cell, unmet = stuck[rank]
        path.append((rank, cell))
        rank = next((rank_of[need] for need in unmet if need in rank_of), None)
    return [] if rank is None else path[seen[rank] :]


def _stuck(orders: RankOrders) -> dict[int, tuple[Cell, list[Cell]]]:
    """Run all ranks as far as they get: the operation at which each stands still, and what it
    waits for."""
    last_stage = max((cell.stage for order in orders for cell in order), default=0)
    done: set[Cell] = set()
    position = [0] * len(orders)
    waiting: dict[Cell, set[int]] = defaultdict(set)
    stuck: dict[int, tuple[Cell, list[Cell]]] = {}
    ready = deque(range(len(orders)))
    while ready:
        rank = ready.popleft()
        stuck.pop(rank, None)
        while position[rank] < len(orders[rank]):
            cell = orders[rank][position[rank]]
            unmet = _unmet(cell, done, last_stage)
            if unmet:
                stuck[rank] = cell, unmet
                for need in unmet:
                    waiting[need].add(rank)
                break
            done.add(cell)
            position[rank] += 1
            ready.extend(waiting.pop(cell, ()))
    return stuck


def _unmet(cell: Cell, done: set[Cell], last_stage: int) -> list[Cell]:
    """What an operation still waits for; where either of two would do, both of them."""
    before = {"B": "F", "I": "F", "W": "I"}.get(cell.kind)
    if before is not None and cell._replace(kind=before) not in done:
        return [cell._replace(kind=before)]
    needs: list[Cell] = []
    if cell.kind == "F" and cell.stage:
        needs = [cell._replace(stage=cell.stage - 1)]
    elif cell.kind in "BI" and cell.stage < last_stage:
        needs = [Cell(cell.stage + 1, kind, cell.micro_batch) for kind in "IB"]
    return needs if done.isdisjoint(needs) else []


Messages = Mapping[tuple[int, int], list[Cell]]
"""By sending and receiving rank, the operations whose results are sent, in order."""


def first_mismatch(orders: RankOrders) -> tuple[int, int, Cell | None, Cell | None] | None:
    """The first message that one rank sends and another expects at another place: the ranks, what
    is sent and what is received there. None where all pairs agree."""
    sent, received = _messages(orders)
    for pair in sorted(set(sent) | set(received)):
        for out, into in zip_longest(sent.get(pair, ()), received.get(pair, ())):
            if out != into:
                return (*pair, out, into)
    return None


def _messages(orders: RankOrders) -> tuple[Messages, Messages]:
    rank_of = {cell.stage: rank for rank, order in enumerate(orders) for cell in order}
    sent: dict[tuple[int, int], list[Cell]] = defaultdict(list)
    received: dict[tuple[int, int], list[Cell]] = defaultdict(list)
    for rank, order in enumerate(orders):
        for cell in order:
            for target in _targets(cell):
                if rank_of.get(target, rank) != rank:
                    sent[rank, rank_of[target]].append(_message(cell))
            for origin in _origins(cell):
                if rank_of.get(origin.stage, rank) != rank:
                    received[rank_of[origin.stage], rank].append(_message(origin))
    return sent, received


def _targets(cell: Cell) -> Iterator[int]:
    if cell.kind == "F":
        yield cell.stage + 1
    elif cell.kind in "BI":
        yield cell.stage - 1


def _origins(cell: Cell) -> Iterator[Cell]:
    if cell.kind == "F" and cell.stage:
        yield cell._replace(stage=cell.stage - 1)
    elif cell.kind in "BI":
        yield Cell(cell.stage + 1, "B", cell.micro_batch)


def _message(cell: Cell) -> Cell:
    """An activation or a gradient: I and B send the same."""
    return cell._replace(kind="B") if cell.kind == "I" else cell
